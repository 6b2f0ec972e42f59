"""Studies that were never run: results of known numbers, in the store's own format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from durm.study.config import Study
from durm.study.reading import make_study
from durm.study.store import Store
from durm.training.result import Result
from durm.training.trial import Trial

CLASSES = ["<script>alert(1)</script>", "a & b", "c"]


def result(trial: Trial, accuracy: float, **changes: Any) -> Result:
    """A result with that test accuracy; its other numbers are made up, and differ from arm to arm and seed to seed."""
    small = 0.001 * (trial.seed + 1) + 0.01 * trial.dummies
    metrics = {
        "accuracy": accuracy, "balanced_accuracy": accuracy - 0.5, "nll": 0.3 + small,
        "ece": 2.0 + small, "ece_all": 2.5 + small,
        "dummy_mass": 0.1 * trial.dummies, "dummy_hits": 0.0,
    }  # fmt: skip
    values: dict[str, Any] = {
        "trial": trial.id,
        "metrics": metrics,
        "val": {**metrics, "accuracy": accuracy - 1 + small},
        "train": {**metrics, "accuracy": 99.0 + small},
        "reliability": {
            "count": [0.0] * 10 + [20.0, 30.0, 50.0, 100.0, 800.0],
            "confidence": [0.0] * 10 + [14.0, 23.0, 41.0, 90.0, 790.0],
            "correct": [0.0] * 10 + [12.0, 25.0, 40.0, 91.0, 780.0],
        },
        "samples": {"train": 3000, "val": 500, "test": 1000},
        "class_names": CLASSES,
        "selected_epoch": 5,
        "curves": [
            {"epoch": e, "lr": 0.1, "train_loss": 2 / e, "val_accuracy": accuracy - 10 / e, "val_nll": 1 / e + small}
            for e in range(1, 6)
        ],
        "cost": {
            "seconds": 10.0 + trial.seed, "seconds_per_step": 0.01 * (1 + small), "steps": 1000,
            "peak_memory": 300 * 2**20, "parameters": 5000 + 65 * trial.dummies,
        },
        "provenance": {
            "durm": "0.1", "torch": "2.13.0", "python": "3.11.2", "system": "Linux", "device": "cpu",
            "device_name": "a processor", "threads": 1, "commit": None, "data": "0123456789abcdef",
            "data_notes": ["validation is split off by seed"],
        },
        "weights_sha256": "0" * 64,
    }  # fmt: skip
    values |= changes
    return Result.model_validate(values)


def store(folder: Path, accuracy: Callable[[Trial], float | None], **study: Any) -> Store:
    """A study whose trials have those accuracies; a trial without one is not done."""
    made: Study = make_study(study, "a synthetic study")
    kept = Store.create(folder, made)
    for trial in made.trials():
        value = accuracy(trial)
        if value is not None:
            kept.begin(trial)
            kept.keep(trial, result(trial, value))
    return kept
