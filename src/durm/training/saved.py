"""Models that a trial has saved, to use again."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from durm.data.bundle import DataBundle, Samples
from durm.data.scene_files import SceneImages
from durm.errors import InputError
from durm.evaluation.robustness import robustness, transfer
from durm.training import checkpoint
from durm.training.loop import build_model, load_bundle
from durm.training.tasks import Scores, make_task
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
    return score_checkpoint(path, data=data, data_root=data_root)[0].metrics


def score_checkpoint(
    path: Path, *, data: str | None = None, data_root: Path | None = None
) -> tuple[Scores, DataBundle]:
    """All that is measured on those samples, and the data that the model was trained on."""
    model, trial, bundle = load_model(path, data_root)
    samples = _test_samples(trial, bundle, data, data_root)
    return make_task(trial, bundle, torch.device("cpu")).scores(model, samples), bundle


def predict_checkpoint(
    path: Path,
    folder: Path,
    *,
    images: Path | None = None,
    data: str | None = None,
    data_root: Path | None = None,
    follow: Callable[[range], Iterable[int]] = iter,
) -> tuple[list[Path], str | None]:
    """Writes what a segmentation model sees, as `durm.evaluation.segmentation.write_predictions` does.

    Args:
        path: the checkpoint.
        folder: where the predictions are written.
        images: a folder of images, which are read at full resolution, also those in folders below; None is the test
            part.
        data: other data than the model was trained on, of which to take the test part.
        data_root: the folder of downloaded data sets.
        follow: goes through the numbers of the images, and may show how far it has come.

    Returns:
        The files, and a sentence that the user should read, if there is one.
    """
    from durm.evaluation.segmentation import write_predictions

    model, trial, bundle = load_model(path, data_root)
    if bundle.task != "segmentation":
        raise InputError(
            f"--predictions are of models with a class for each pixel, and {trial.model!r} is a classifier"
        )
    files: Any = _images_in(images) if images is not None else _test_samples(trial, bundle, data, data_root).inputs
    each = ((files.key(index).decode(), files[index]) for index in follow(range(len(files))))
    written = write_predictions(
        model, each, bundle, folder, torch.device("cpu"), window=trial.window, stride=trial.window_stride
    )
    return written, _note_on_size(trial, images)


def _images_in(folder: Path) -> SceneImages:
    """The files in the folder and below."""
    if not folder.is_dir():
        raise InputError(f"--images {folder}: there is no such folder")
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    shown = [name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts)]
    if not shown:
        raise InputError(f"--images {folder} has no images in it")
    return SceneImages(folder, shown)


def _note_on_size(trial: Trial, images: Path | None) -> str | None:
    if trial.image_size is None:
        return None
    trained = f"the model was trained on images whose shorter side was scaled to {trial.image_size} pixels"
    if images is None:
        return f"{trained}, and the predictions are of that size; --images takes them as they are"
    return f"{trained}, and these were left as they are"


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
    if bundle.task == "segmentation":
        raise InputError(f"--attack is for classifiers, and {trial.model!r} in {path} gives a class to each pixel")
    test = _test_samples(trial, bundle, data, data_root)
    transferred = {}
    if transfer_from is not None:
        other, _, theirs = load_model(transfer_from, data_root)
        if (theirs.num_classes, theirs.input.shape) != (bundle.num_classes, bundle.input.shape):
            raise InputError(f"--transfer-from {transfer_from} is of a model for other classes or inputs")
        transferred = {
            attack.label: transfer(other, model, test, bundle.input, attack, limit=samples, source_format=theirs.input)
            for attack in attacks
        }
    found = robustness(model, test, bundle.input, attacks, limit=samples, seed=trial.seed)
    return {"robustness": found, "transfer": transferred}


def _test_samples(trial: Trial, bundle: DataBundle, data: str | None, data_root: Path | None) -> Samples:
    if data is None:
        return bundle.test
    other = load_bundle(trial.model_copy(update={"data": data}), data_root)
    if other.task != bundle.task:
        raise InputError(f"--data {data!r} is for {other.task}; the model was trained for {bundle.task}")
    if bundle.task == "segmentation":  # of any size
        if other.num_classes != bundle.num_classes:
            raise InputError(
                f"--data {data!r} has {other.num_classes} classes; the model was trained on {bundle.num_classes}"
            )
        return other.test
    if (other.num_classes, other.input.shape) != (bundle.num_classes, bundle.input.shape):
        raise InputError(
            f"--data {data!r} has {other.num_classes} classes and samples of shape {other.input.shape}; the model was "
            f"trained on {bundle.num_classes} classes and samples of shape {bundle.input.shape}"
        )
    return other.test
