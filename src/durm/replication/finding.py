"""A claim's criterion, and what was found about it: the verdict with all its numbers.

A verdict is one of two questions about a mean effect: is it above a threshold, is it within a margin? Yes, no, or
these runs cannot tell (`Known`). A claim of *more* is judged twice where the paper has a mean gain g in its table:

- against the margin m: it holds if the effect is above m, and does not if it is below m;
- against the paper: it does not hold if the effect is below g, holds if it is above m and not below g.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from durm.replication.learned import Refusal
from durm.statistics.intervals import Interval
from durm.statistics.scale import PERCENT_ROPE

Verdict = Literal["holds", "does not hold", "undecided", "not tested"]
Wanted = Literal["more", "less", "same", "at most"]

PRIOR_ROPE = 0.1
"""The margin for which the priors of `durm.statistics.hierarchical` are stated."""


class Known(Protocol):
    """What is known about an effect. True and False are decided, None is not."""

    def above(self, threshold: float) -> bool | None: ...

    def within(self, limit: float) -> bool | None: ...


@dataclass(frozen=True)
class Criterion:
    """What a claim says about the mean effect.

    Attributes:
        wanted: more than the margin, less than minus the margin, within it, or at most the margin.
        rope: the margin.
        unit: of effects and margin.
        relative: the values are logarithms of ratios; effects and margin are shown in percent of change.
        counted: what the values are of: a mean over seeds, or over settings.
        paper_gain: the paper's own mean gain in that table.
        factor: multiplies the margin, to see how much hangs on it.
        varied: whether a verdict at other margins means anything.
    """

    wanted: Wanted = "more"
    rope: float = PERCENT_ROPE
    unit: str = "points"
    relative: bool = False
    counted: str = "seed"
    paper_gain: float | None = None
    factor: float = 1.0
    varied: bool = True

    @property
    def margin(self) -> float:
        return self.rope * self.factor

    @property
    def limit(self) -> float:
        """The margin, on the scale of the values."""
        return self.scaled(self.margin)

    @property
    def prior_unit(self) -> float:
        """What multiplies the priors; the margin is the paper's kind of unit, whatever `factor` is."""
        return self.scaled(self.rope) / PRIOR_ROPE

    def scaled(self, value: float) -> float:
        return math.log1p(value / 100) if self.relative else value

    def shown(self, value: float) -> float:
        return 100 * math.expm1(value) if self.relative else value

    def shown_interval(self, found: Interval | None) -> Interval | None:
        return None if found is None else (self.shown(found[0]), self.shown(found[1]))

    def verdict(self, known: Known) -> Verdict:
        """Against the margin."""
        if self.wanted == "same":
            answer = known.within(self.limit)
        elif self.wanted == "more":
            answer = known.above(self.limit)
        else:
            above = known.above(self.limit if self.wanted == "at most" else -self.limit)
            answer = None if above is None else not above
        return "undecided" if answer is None else "holds" if answer else "does not hold"

    def verdict_of_paper(self, known: Known) -> Verdict:
        """Against the paper's mean gain; the verdict against the margin where it has none."""
        at_margin = self.verdict(known)
        if self.paper_gain is None:
            return at_margin
        if known.above(self.scaled(self.paper_gain)) is False:
            return "does not hold"
        return "holds" if at_margin == "holds" else "undecided"


@dataclass(frozen=True)
class Part:
    """One setting by itself; its interval is at level 1 − α/m for m settings unless the claim says otherwise."""

    what: str
    studies: tuple[str, ...]
    n: int
    effect: float
    interval: Interval | None
    word: str


@dataclass(frozen=True)
class Finding:
    """The verdict on a claim, with its numbers. What is not defined is None.

    Attributes:
        verdict: holds, does not hold, undecided, not tested; against the paper's mean gain where it has one.
        reading: sentences with the numbers.
        effect: the mean, or what else the claim is about.
        interval: its 95 % interval.
        n: over how many seeds (or of what `counted` says).
        unit: of effect and interval.
        studies: the folders that speak to it.
        p: of the sign-flip test that the mean of a single setting is 0.
        parts: the settings one by one.
        verdict_margin: the verdict against the margin.
        margin, paper_gain: what it is judged against.
        sensitivity: the verdict against the margin at half and at double the margin.
        settings: how many the mean is over.
        probability: of the claim at the margin, from several settings; with the standard deviations of the priors of
            μ and τ, and the same probability under other priors.
        to_decide: which study would decide it.
        refused: what would speak to it, if its training had learned.
    """

    verdict: Verdict
    reading: str
    effect: float | None = None
    interval: Interval | None = None
    n: int = 0
    counted: str = "seed"
    unit: str = ""
    studies: tuple[str, ...] = ()
    p: float | None = None
    parts: tuple[Part, ...] = ()
    verdict_margin: Verdict | None = None
    margin: float | None = None
    paper_gain: float | None = None
    sensitivity: Mapping[str, Verdict] | None = None
    settings: int = 0
    probability: float | None = None
    prior: tuple[float, float] | None = None
    prior_sensitivity: Mapping[str, float] = field(default_factory=dict)
    to_decide: str = ""
    refused: tuple[Refusal, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict_margin": self.at_margin}

    @property
    def at_margin(self) -> Verdict:
        """The verdict against the margin, which for claims without another is the only one."""
        return self.verdict_margin or self.verdict
