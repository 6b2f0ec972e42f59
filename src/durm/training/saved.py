"""Models that a trial has saved, to use again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from durm.data.bundle import DataBundle, Samples
from durm.errors import InputError
from durm.evaluation.robustness import robustness, transfer
from durm.training import checkpoint
from durm.training.loop import build_model, load_bundle
from durm.training.tasks import make_task
from durm.training.trial import AttackSpec, Trial


def load_model(path: Path, data_root: Path | None = None) -> tuple[nn.Module, Trial, DataBundle]:
    """The model in a checkpoint, widened and in eval mode, with its trial and its data."""
    state = checkpoint.load(path)
    try:
        trial = Trial.model_validate_json(state["trial"])
    except ValidationError:
        raise InputError(f"checkpoint {path} is not one of durm's: it describes no trial") from None
    bundle = load_bundle(trial, data_root)
    with torch.random.fork_rng():
        model = build_model(trial.model_copy(update={"pretrained": False}), bundle)
    try:
        model.load_state_dict(state["model"])
    except (RuntimeError, TypeError, AttributeError):
        raise InputError(f"checkpoint {path} does not hold the weights of a {trial.model!r}") from None
    return model.eval(), trial, bundle


def evaluate_checkpoint(path: Path, *, data: str | None = None, data_root: Path | None = None) -> dict[str, float]:
    """The metrics on the test part of the data that the model was trained on, or of other data of the same format."""
    model, trial, bundle = load_model(path, data_root)
    samples = _test_samples(trial, bundle, data, data_root)
    return make_task(trial, bundle, torch.device("cpu")).scores(model, samples).metrics


def attack_checkpoint(
    path: Path,
    attacks: Sequence[AttackSpec],
    *,
    samples: int,
    transfer_from: Path | None = None,
    data: str | None = None,
    data_root: Path | None = None,
) -> dict[str, Any]:
    """What attacks leave of a model's accuracy, on so many test samples.

    Returns:
        `robustness` as `durm.evaluation.robustness` gives it; `transfer`, for each attack, the accuracy on what it made
        through the real logits of the model in `transfer_from`.
    """
    model, trial, bundle = load_model(path, data_root)
    test = _test_samples(trial, bundle, data, data_root)
    transferred = {}
    if transfer_from is not None:
        other, _, theirs = load_model(transfer_from, data_root)
        if (theirs.num_classes, theirs.input.shape) != (bundle.num_classes, bundle.input.shape):
            raise InputError(f"--transfer-from {transfer_from} is of a model for other classes or inputs")
        transferred = {
            attack.label: transfer(other, model, test, bundle.input, attack, limit=samples) for attack in attacks
        }
    found = robustness(model, test, bundle.input, attacks, limit=samples, seed=trial.seed)
    return {"robustness": found, "transfer": transferred}


def _test_samples(trial: Trial, bundle: DataBundle, data: str | None, data_root: Path | None) -> Samples:
    if data is None:
        return bundle.test
    other = load_bundle(trial.model_copy(update={"data": data}), data_root)
    if (other.num_classes, other.input.shape) != (bundle.num_classes, bundle.input.shape):
        raise InputError(
            f"--data {data!r} has {other.num_classes} classes and samples of shape {other.input.shape}; the model was "
            f"trained on {bundle.num_classes} classes and samples of shape {bundle.input.shape}"
        )
    return other.test
