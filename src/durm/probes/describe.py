"""What a probe says to a reader: single numbers made of what it saw, and figures, described and not drawn.

A probe describes both in its own file; the study computes the numbers, the report draws the figures.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

Seen = Mapping[str, Any]
"""The result of a probe."""


@dataclass(frozen=True)
class WatchedRun:
    """A run, as a description may want to know it.

    Attributes:
        seen: the result of the probe.
        steps: the step of each validation.
        marked: the place of the best validation.
        num_classes: C.
        class_accuracy: of the test set, in percent; None for a class without samples.
    """

    seen: Seen
    steps: Sequence[float]
    marked: int
    num_classes: int
    class_accuracy: Sequence[float | None] = ()


@dataclass(frozen=True)
class Quantity:
    """A single number of a run; `take` gives None where it is not defined."""

    name: str
    label: str
    take: Callable[[WatchedRun], float | None]


@dataclass(frozen=True)
class ProbeFigure:
    """A figure.

    Attributes:
        name: of the file.
        label: of its upright axis.
        caption: what a newcomer needs to read it.
        take: what is drawn of a run: a value for each validation (`epochs`), for each class (`classes`), or a list of
            values for each validation, one for each dummy (`dummies`, one figure for each arm that has several).
        kind: which of these.
        corner: where the names of the arms stand.
        marks: whether the epoch with the best validation is marked.
        whole: whether a steep beginning is shown too.
        needs_dummies: whether runs without dummies are left out.
    """

    name: str
    label: str
    caption: str
    take: Callable[[WatchedRun], Sequence[Any]]
    kind: Literal["epochs", "classes", "dummies"] = "epochs"
    corner: str = "upper right"
    marks: bool = False
    whole: bool = True
    needs_dummies: bool = False


@dataclass(frozen=True)
class Description:
    """All that a probe says; `dummies` counts those that it saw in a run, lower `rank` stands first on the page."""

    rank: int = 100
    quantities: tuple[Quantity, ...] = ()
    figures: tuple[ProbeFigure, ...] = ()
    dummies: Callable[[Seen], int] | None = None


def known(values: Sequence[float | None]) -> bool:
    """Whether there are any, and none of them was undefined: see `durm.probes._running.numbers`."""
    return len(values) > 0 and None not in values


def mean(values: Sequence[float]) -> float | None:
    return fmean(values) if known(values) else None
