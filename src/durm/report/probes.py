"""What the probes of a study saw, as figures over the epochs: Figs. 2, 3, 4 and 8 to 10 of the paper, with all seeds.

Each is drawn as SVG, for the page and on disk, and as PNG on disk.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from durm.report.figures import by_class, over_epochs, runs_over_epochs
from durm.study.probes import marked_epoch

Runs = Mapping[str, Sequence[Mapping[str, Any]]]
"""The results of each arm."""


def probe_figures(runs: Runs, metric: str, name: str) -> dict[str, tuple[str, bytes]]:
    """Name → SVG and PNG, of all that the probes of these results saw. Draw within `figures.drawing`.

    `metric` is the one whose best validation marks an epoch; `name` keeps the figures of several settings apart.
    """
    drawn = {}
    for figure, panel in _panels(runs, metric):
        png = panel.png()
        drawn[figure] = (panel.svg(f"{figure}{name}"), png)
    return drawn


def _panels(runs: Runs, metric: str) -> Iterator[tuple[str, Any]]:
    """One at a time, because they share a sheet."""
    seen = {probe for found in runs.values() for run in found for probe in run.get("probes", {})}
    if "gradient_variance" in seen:
        marks = {arm: fmean(_marked(run, metric)["epoch"] for run in found) for arm, found in runs.items() if found}
        variance = _series(
            runs, lambda run: np.array(run["probes"]["gradient_variance"]["variance"], dtype=float).mean(1)
        )
        label = "variance of ∂L/∂z, mean over classes"
        yield "gradient_variance", over_epochs(variance, label, "upper right", marks=marks, whole=True)
        yield from _class_panels(runs, metric)
    if "gradient_norm" in seen:
        norms = _series(runs, lambda run: run["probes"]["gradient_norm"]["cumulative_shared"])
        yield "gradient_norm", over_epochs(norms, "gradient norm, added up", "lower right", whole=True)
    if "distance" in seen:
        distance = _series(runs, _distances)
        yield "distance", over_epochs(distance, "squared distance from the start", "lower right", whole=True)
    if "flatness" in seen:
        top = _series(runs, lambda run: run["probes"]["flatness"]["top_eigenvalue"])
        yield "top_eigenvalue", over_epochs(top, "largest eigenvalue of the Hessian", "upper right", whole=True)
    with_dummies = {arm: [run for run in found if _dummies(run)] for arm, found in runs.items()}
    if "dummy_mass" in seen:
        mass = _series(with_dummies, lambda run: [100 * mass for mass in run["probes"]["dummy_mass"]["mass"]])
        yield "training_dummy_mass", over_epochs(mass, "probability on dummies in training, %", "upper right")
    if "dummy_gradient" in seen:
        for arm, found in with_dummies.items():
            if found and _dummies(found[0]) > 1:
                yield f"dummy_fraction-{arm}", _fractions(arm, found)
    if "push_pull" in seen:
        pushes = _series(runs, _pushes)
        yield "push", over_epochs(pushes, "push on the real logits, mean over samples", "upper right", whole=True)


def _series(runs: Runs, take: Callable[[Mapping[str, Any]], Sequence[float]]) -> dict[str, Any]:
    return {arm: runs_over_epochs(found, take) for arm, found in runs.items()}


def _class_panels(runs: Runs, metric: str) -> Iterator[tuple[str, Any]]:
    """Variance at the marked epoch, and test accuracy of the selected weights, class by class."""
    (names, *_) = [run["class_names"] for found in runs.values() for run in found]
    variance = {
        arm: np.array(
            [run["probes"]["gradient_variance"]["variance"][marked_epoch(run, metric)] for run in found], dtype=float
        )
        for arm, found in runs.items()
        if found
    }
    yield "class_variance", by_class(variance, names, "variance of ∂L/∂z at the marked epoch", "upper right")
    accuracy = {
        arm: np.array([run["classes"]["accuracy"] for run in found], dtype=float)
        for arm, found in runs.items()
        if found
    }
    yield "class_accuracy", by_class(accuracy, names, "test accuracy, %", "lower right")


def _fractions(arm: str, runs: Sequence[Mapping[str, Any]]) -> Any:
    """Dummies are interchangeable, so in each run they are ordered by the last epoch before the mean is taken."""
    ordered = []
    for run in runs:
        fractions = np.array(run["probes"]["dummy_gradient"]["fraction"], dtype=float)
        ordered.append({"curves": run["curves"], "fractions": fractions[:, np.argsort(-fractions[-1])]})
    names = ["largest", *(f"{place}." for place in range(2, ordered[0]["fractions"].shape[1] + 1))]
    series = {
        name: runs_over_epochs(ordered, lambda run, place=place: run["fractions"][:, place])  # type: ignore[misc]
        for place, name in enumerate(names)
    }
    return over_epochs(series, f"fraction of the dummies' gradient, {arm}", "upper right", whole=True)


def _marked(run: Mapping[str, Any], metric: str) -> Mapping[str, Any]:
    marked: Mapping[str, Any] = run["curves"][marked_epoch(run, metric)]
    return marked


def _distances(run: Mapping[str, Any]) -> list[float]:
    """At the end of each epoch."""
    seen = run["probes"]["distance"]
    at = dict(zip(seen["steps"], seen["shared"], strict=True))
    return [at[entry["step"]] for entry in run["curves"]]


def _pushes(run: Mapping[str, Any]) -> list[float]:
    """Added up over the real classes."""
    return [sum(classes[: len(run["class_names"])]) for classes in run["probes"]["push_pull"]["push"]]


def _dummies(run: Mapping[str, Any]) -> int:
    """How many of them the probes saw."""
    probes = run.get("probes", {})
    if "dummy_gradient" in probes:
        return len(probes["dummy_gradient"]["fraction"][0])
    return 1 if any(probes.get("dummy_mass", {}).get("mass", ())) else 0
