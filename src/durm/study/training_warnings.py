"""Trainings that went wrong without an error: methods that collapsed, settings that never took effect."""

import math
from collections.abc import Collection, Iterator, Mapping

from durm._text import pluralize, some
from durm.methods import OBJECTIVES
from durm.study.arm import BY_ARM
from durm.study.base import Key
from durm.study.config import Study
from durm.training.result import Result
from durm.training.trial import Trial

COLLAPSE = 10
"""Points of validation accuracy that a sound training does not lose, if there are samples enough to tell."""
STANDARD_ERRORS = 3
"""So many a loss must have, of an accuracy of 50 %: with 100 validation samples it is 15 points."""


def collapsed(study: Study, results: Mapping[Key, Result], judged: Collection[Key] | None = None) -> Iterator[str]:
    """Runs whose validation ended far below its own best, or far below that of ERM with the same seed and training.

    Those that are not `judged`, by default none, are only what others are compared with. Adversarial training is not
    compared with ERM: it gives up clean accuracy on purpose.
    """
    trials = {key: trial for key, trial in study.cells() if key in results}
    erm = {
        _place(trial): _selected(results[key])
        for key, trial in trials.items()
        if trial.method_name == "erm" and not trial.dummies
    }
    found: dict[tuple[str, ...], list[tuple[float, str]]] = {}
    for key, trial in trials.items():
        if judged is not None and key not in judged:
            continue
        result, own = results[key], _curve(results[key])
        value = _selected(result)
        other = value if OBJECTIVES[trial.method.name].is_adversarial else erm.get(_place(trial), value)
        limit = max(COLLAPSE, STANDARD_ERRORS * 100 * math.sqrt(0.25 / max(1, result.samples.val)))
        fallen, below = max(own) - own[-1], other - value
        if max(fallen, below) > limit:
            words = f"{own[-1]:.1f} at the end, {max(own):.1f} at its best" if fallen > below else ""
            words = words or f"{value:.1f}, erm's {other:.1f}"
            found.setdefault(key[:4], []).append((max(fallen, below), f"seed {trial.seed}: {words}"))
    for (data, model, method, arm), runs in found.items():
        where = ", ".join(name for name in (data, model, method) if name != BY_ARM)
        metric = "accuracy" if study.task == "classification" else "mean IoU"
        yield (
            f"{arm} ({where}): {pluralize(len(runs), 'run')} collapsed. Validation {metric} ended far below its own "
            f"best, or below erm's of the same seed ({max(runs)[1]}): what is compared there is a failed training."
        )


def _place(trial: Trial) -> tuple[object, ...]:
    """What ERM must have in common with a run to be its standard."""
    return trial.data, trial.model, trial.seed, trial.train.model_dump_json()


def _selected(result: Result) -> float:
    """The validation accuracy, or mean IoU, of the weights that count."""
    return result.val.get("miou", result.val.get("accuracy", 0.0))


def _curve(result: Result) -> list[float]:
    """The same at each validation of the training, whichever weights count."""
    name = "val_miou" if "miou" in result.val else "val_accuracy"
    return [entry[name] for entry in result.curves if name in entry] or [_selected(result)]


def without_effect(results: Mapping[Key, Result]) -> Iterator[str]:
    """What the runs say themselves of settings that changed nothing, and of averages of nothing or everything."""
    found: dict[str, dict[str, int]] = {}
    for (_, _, method, arm, _), result in results.items():
        for sentence in result.warnings:
            runs = found.setdefault(sentence, {})
            name = arm if method in (BY_ARM, arm) else f"{arm} under {method}"
            runs[name] = runs.get(name, 0) + 1
    for sentence, runs in found.items():
        yield f"{sentence[0].upper()}{sentence[1:]} ({pluralize(sum(runs.values()), 'run')} of {some([*runs])})."
