"""Folders of results whose answers are known: studies that were never run, with effects that were put there."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from durm.study.reading import make_study
from durm.study.records import Summary
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from durm.training.trial import Trial
from tests.study import synthetic

Effect = Callable[[Trial], float]
MANY = {"samples": {"train": 3000, "val": 500, "test": 10**6}}


def wobble(*names: object) -> float:
    """A number from −1 to 1 that looks random and is always the same for the same names."""
    return int.from_bytes(hashlib.sha256(repr(names).encode()).digest()[:4], "big") / 2**31 - 1


def gain(size: float, noise: float = 0.01) -> Effect:
    """So much with dummies, and noise that differs from run to run."""
    return lambda trial: (
        size * (trial.dummies > 0) + noise * wobble(trial.data, trial.method_name, trial.arm, trial.seed)
    )


def study(
    results: Path,
    folder: str,
    accuracy: Effect = lambda trial: 0.0,
    metrics: Callable[[Trial], Mapping[str, float]] = lambda trial: {},
    change: Callable[[Trial], Mapping[str, Any]] = lambda trial: {},
    **spec: Any,
) -> Summary:
    """Writes study.yaml, summary.json and results.csv by the real code; the summary.

    Accuracies are about 80 and differ from seed to seed; `accuracy` is added, `metrics` and `change` replace. There are
    so many test samples that the steps of an accuracy do not matter.
    """
    usual = {"seeds": 6} if "arms" in spec else {"seeds": 6, "dummies": [0, 1, 2]}
    store = Store.create(results / folder, make_study({**usual, **spec}, "a planted study"))
    for trial in store.study.trials():
        level = 80 + 3 * wobble("level", trial.seed) + accuracy(trial)
        weights = hashlib.sha256(trial.model_dump_json().encode()).hexdigest()
        result = synthetic.result(trial, level, **{"weights_sha256": weights, **MANY, **change(trial)})
        changed: dict[str, Any] = {"metrics": {**result.metrics, **metrics(trial)}}
        if "miou" in changed["metrics"]:
            classes = {name[4:]: value for name, value in changed["metrics"].items() if name.startswith("iou_")}
            changed |= {"class_names": [*classes], "classes": {"iou": [*classes.values()]}}
        store.begin(trial)
        store.keep(trial, result.model_copy(update=changed))
    return write_summary(store, read_results(store))


def domains(results: Path, name: str, accuracy: Effect, **spec: Any) -> Summary:
    """A study that holds out two domains in turn."""

    def held_out(trial: Trial) -> dict[str, Any]:
        return {"held_out": trial.data.rpartition(":")[2], "selections": {"last": 1.0}}

    data = ["pacs:photo", "pacs:sketch"]
    return study(results, name, accuracy, change=held_out, **{"data": data, "dummies": [0, 1], **spec})


ATTACKS = [
    {"kind": "fgsm", "through": ["real", "full", "dummy"]},
    {"kind": "pgd", "through": ["real", "full", "dummy"]},
    {"kind": "square"},
]


def attacked(
    results: Path,
    name: str,
    robust: Effect,
    accuracy: Effect = lambda trial: 0.0,
    full: float = 0.0,
    into: float = 0.0,
    **spec: Any,
) -> Summary:
    """A study with attacks. Those through all logits leave `full` more, those into a dummy bring `into` % there."""

    def left(trial: Trial) -> dict[str, float]:
        level = 40 + wobble("robust", trial.seed) + robust(trial)
        keys = ["fgsm_real", "pgd_real", "square_real"]
        return (
            dict.fromkeys([f"robust_{key}" for key in keys], level)
            | dict.fromkeys(
                ["robust_fgsm_full", "robust_pgd_full"],
                level + full * (trial.dummies > 0) + 0.01 * wobble("f", trial.seed),
            )
            | (dict.fromkeys(["robust_fgsm_dummy", "robust_pgd_dummy"], level) if trial.dummies else {})
        )

    def attacks(trial: Trial) -> dict[str, Any]:
        keys = ["clean", "fgsm_real", "fgsm_full", "fgsm_dummy", "pgd_real", "pgd_full", "pgd_dummy", "square_real"]
        found = {key: {"accuracy": 0.0, "into_dummies": into, "samples": 1000} for key in keys}
        return {"robustness": {key: one for key, one in found.items() if trial.dummies or "dummy" not in key}}

    return study(results, name, accuracy, metrics=left, change=attacks, attacks=ATTACKS, **spec)


def add_probes(results: Path, name: str, values: Mapping[str, Callable[[int, int], float]]) -> None:
    """Writes into summary.json what probes would have seen: for each quantity a function of C_d and seed."""
    path = results / name / "summary.json"
    summary = json.loads(path.read_text())
    for setting in summary["settings"]:
        setting["probes"] = [
            {
                "quantity": quantity,
                "label": quantity,
                "arms": [
                    {
                        "arm": arm["arm"],
                        "n": len(arm["values"]),
                        "values": {seed: value(arm["dummies"], int(seed)) for seed in arm["values"]},
                    }
                    for arm in setting["arms"]
                ],
                "comparisons": [],
            }
            for quantity, value in values.items()
        ]
    path.write_text(json.dumps(summary))


def ratio(size: float, noise: float = 0.001) -> Callable[[int, int], float]:
    """A quantity that dummies multiply by `size`."""
    return lambda dummies, seed: math.exp(
        0.3 * wobble("level", seed) + math.log(size) * (dummies > 0) + noise * wobble("probe", dummies, seed)
    )
