"""What the probes of a study saw, as figures over the epochs: Figs. 2, 3, 4 and 8 to 10 of the paper, with all seeds.

Each probe describes its figures; here they are drawn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from durm.probes.describe import ProbeFigure
from durm.report.figures import Drawing, by_class, over_epochs, runs_over_epochs
from durm.study.probes import descriptions, watched
from durm.training.result import Result

Runs = Mapping[str, Sequence[Result]]
"""The results of each arm."""


def probe_figures(runs: Runs, metric: str, name: str) -> Iterator[tuple[str, Drawing]]:
    """Name and figure of all that the probes of these results saw, one at a time. Draw within `figures.drawing`.

    `metric` is the one whose best validation marks an epoch; `name` keeps the figures of several settings apart.
    """
    for probe, description in descriptions().items():
        seen = {arm: [run for run in found if probe in run.probes] for arm, found in runs.items()}
        for described in description.figures if any(seen.values()) else ():
            chosen = seen
            if described.needs_dummies:
                chosen = {arm: [run for run in found if _dummies(run)] for arm, found in seen.items()}
            for title, figure in _drawn(described, chosen, probe, metric):
                yield title, Drawing(figure, f"{title}{name}")


def _drawn(figure: ProbeFigure, runs: Runs, probe: str, metric: str) -> Iterator[tuple[str, Figure]]:
    def take(run: Result) -> Any:
        return figure.take(watched(run, probe, metric))

    if figure.kind == "epochs":
        marks = {
            arm: fmean(run.curves[run.best_validation(metric)]["epoch"] for run in found)
            for arm, found in runs.items()
            if found and figure.marks
        }
        series = {arm: runs_over_epochs(found, take) for arm, found in runs.items()}
        yield figure.name, over_epochs(series, figure.label, figure.corner, marks=marks, whole=figure.whole)
    elif figure.kind == "classes":
        values = {arm: np.array([take(run) for run in found], dtype=float) for arm, found in runs.items() if found}
        (names, *_) = [run.class_names for found in runs.values() for run in found]
        yield figure.name, by_class(values, names, figure.label, figure.corner)
    else:
        for index, (arm, found) in enumerate(runs.items()):
            if found and _dummies(found[0]) > 1:
                yield f"{figure.name}-{arm}", _of_dummies(figure, arm, index, take, found)


def _of_dummies(
    figure: ProbeFigure, arm: str, index: int, take: Callable[[Result], Any], runs: Sequence[Result]
) -> Figure:
    """Dummies are interchangeable, so in each run they are ordered by the last epoch before the mean is taken."""

    def of_place(place: int, run: Result) -> Any:
        fractions = np.array(take(run), dtype=float)
        return fractions[:, np.argsort(-fractions[-1])[place]]

    count = len(take(runs[0])[0])
    names = ["largest", *(f"{place}." for place in range(2, count + 1))]
    series = {name: runs_over_epochs(runs, partial(of_place, place)) for place, name in enumerate(names)}
    return over_epochs(series, f"{figure.label}, {arm}", figure.corner, whole=figure.whole, arm=index)


def caption_of(figure: str) -> str | None:
    """Of a probe's figure of that name; None if no probe has one."""
    every = [one for description in descriptions().values() for one in description.figures]
    return next((one.caption for one in every if one.name == figure), None)


def _dummies(run: Result) -> int:
    """How many of them the probes saw."""
    counts = {probe: described.dummies for probe, described in descriptions().items() if described.dummies}
    return max((count(run.probes[probe]) for probe, count in counts.items() if probe in run.probes), default=0)
