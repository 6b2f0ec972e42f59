"""Probes in the loop: they see what the loss sees, and change nothing."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from durm._random import derived_seed
from durm.training.building import build_model, load_bundle
from durm.training.tasks import make_task
from durm.training.trainer import Interrupted, RunContext, run
from durm.training.trial import Trial

ALL = ("gradient_variance", "gradient_norm", "distance", "dummy_gradient", "dummy_mass", "push_pull")
PLAIN = {"epochs": 2, "lr": 0.05, "weight_decay": 0.0, "momentum": 0.0, "schedule": "constant"}


def trial(probes: tuple[str, ...] = ALL, **changes: object) -> Trial:
    train = {**PLAIN, **dict(changes.pop("train", {}))}  # type: ignore[call-overload]
    values = {"data": "digits", "model": "cnn", "dummies": 2, "probes": probes, "train": train, **changes}
    return Trial.model_validate(values)


def test_one_step_is_what_autograd_says() -> None:
    described = trial(train={"epochs": None, "iterations": 1})
    bundle = load_bundle(described)
    model = build_model(described, bundle).train()
    batch = next(make_task(described, bundle, torch.device("cpu")).loader().epoch(0))
    torch.manual_seed(derived_seed(0, "dropout", 0))
    logits = model(batch.inputs)
    logits.retain_grad()
    torch.nn.functional.cross_entropy(logits, batch.targets).backward()
    gradient = logits.grad * len(batch.targets)
    head = list(model.parameters())[-2:]
    every = sum(p.grad.square().sum() for p in model.parameters())
    own = sum(p.grad[10:].square().sum() for p in head)

    seen = run(described).probes

    assert seen["gradient_variance"]["variance"][0] == pytest.approx(gradient[:, :10].var(0).tolist(), rel=1e-5)
    assert seen["gradient_norm"]["norm"] == pytest.approx([every.sqrt().item()], rel=1e-5)
    assert seen["gradient_norm"]["shared"] == pytest.approx([(every - own).sqrt().item()], rel=1e-5)
    assert seen["distance"]["shared"][-1] == pytest.approx(0.05**2 * (every - own).item(), rel=1e-4)
    assert seen["dummy_mass"]["mass"] == pytest.approx([logits.softmax(1)[:, 10:].sum(1).mean().item()], rel=1e-5)
    assert sum(seen["dummy_gradient"]["fraction"][0]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("method", "train", "rows"),
    [
        ("erm", {"label_smoothing": 0.1}, 1),
        ("mixup", {}, 1),
        ("logit-adjustment", {}, 1),
        ("rsc", {}, 1),
        ("fgsm-at", {"at_clean": 0.5}, 2),
    ],
)
def test_watched_training_is_the_same_training(method: str, train: dict[str, float], rows: int) -> None:
    """`rows`: how many cross-entropies a sample has in a step."""
    watched, alone = (run(trial(probes, method=method, train=train)) for probes in (ALL, ()))
    assert watched.weights_sha256 == alone.weights_sha256
    assert alone.probes == {}
    steps = watched.cost.steps / 2
    assert watched.probes["dummy_mass"]["samples"] == [rows * steps * 64] * 2
    assert len(watched.probes["gradient_norm"]["norm"]) == watched.cost.steps


def test_domains_are_seen_together() -> None:
    described = trial(("gradient_variance",), data="digits-domains:rotated", method="vrex", train={"batch_size": 8})
    domains = len(load_bundle(described).domain_names)
    seen = run(described)
    assert seen.probes["gradient_variance"]["samples"] == [8 * domains * seen.cost.steps / 2] * 2


@pytest.mark.parametrize("steps", [7, 14])
def test_a_run_that_is_cut_off_sees_the_same(tmp_path: Path, steps: int) -> None:
    described = trial()
    whole = run(described)
    asked = iter(range(steps))
    with pytest.raises(Interrupted):
        run(described, RunContext(folder=tmp_path, stop=lambda: next(asked, None) is None))
    resumed = run(described, RunContext(folder=tmp_path))
    assert resumed.probes == whole.probes
    finished = run(described, RunContext(folder=tmp_path))
    assert finished.probes == whole.probes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probes": ["gradient_nrom"]}, "did you mean 'gradient_norm'"),
        ({"probes": ["distance", "distance"]}, "twice"),
        ({"probes": ["distance"], "precision": "16-mixed"}, "probes and precision 16-mixed exclude each other"),
    ],
)
def test_what_cannot_be_watched_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        trial(**changes)  # type: ignore[arg-type]
