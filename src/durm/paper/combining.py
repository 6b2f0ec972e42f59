"""From the numbers of several settings to one verdict on a claim, by the rules of `durm.study.verdict`.

The paper's claims are about DuRM, not about one data set, so a verdict is about the *mean over the settings*:

- every setting has the same weight, however noisy it is. Weights by precision would assume that DuRM does the same
  everywhere, and three seeds say little about precision;
- settings that have the same seeds are averaged seed by seed first, so that nothing they share counts twice. The mean
  over the seeds then has Student's interval. Groups of other seeds are taken to be independent, and the interval of the
  mean over the groups has the degrees of freedom of the smallest one;
- a run that stands in two studies, by the hash of its weights, counts once; a setting with one pair only if none has
  two;
- a study that was looked at k times gets the level of its k-th look, 1 − 6α/(π²k²).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from durm._words import counted
from durm.report.words import bounds, decimals, plain, signed
from durm.study.rules import ALPHA, ROPE, look_alpha
from durm.study.verdict import Interval, Word, decide, interval, seeds_needed, sign_flip, smallest_p

Verdict = Literal["holds", "does not hold", "undecided", "not tested"]
Wanted = Literal["more", "less", "same", "at most"]


@dataclass(frozen=True)
class Measurement:
    """What one setting says about a claim: a number for each seed.

    `runs` tells from which runs each number is; `looks` how often their study was looked at.
    """

    studies: tuple[str, ...]
    what: str
    values: Mapping[str, float]
    looks: int = 0
    runs: Mapping[str, frozenset[object]] = field(default_factory=dict)

    @property
    def array(self) -> np.ndarray:
        return np.array(list(self.values.values()), float)


@dataclass(frozen=True)
class Yardstick:
    """What a claim says about the mean, and which differences count as none.

    With `relative` the values are logarithms of ratios; effects, intervals and `rope` are told in percent of change.
    `counted` names what the values are of: a mean over seeds, or over settings.
    """

    wanted: Wanted
    rope: float = ROPE
    unit: str = "points"
    relative: bool = False
    counted: str = "seed"

    @property
    def limit(self) -> float:
        """The rope, on the scale of the values."""
        return math.log1p(self.rope / 100) if self.relative else self.rope

    def trusted(self, found: Interval | None, n: int) -> Interval | None:
        """The interval, unless n differences are all equal and so few that they may agree by chance.

        Shares are over many samples each: that there is none in any of a few runs is no chance.
        """
        alike = found is not None and found[0] == found[1]
        return None if alike and self.wanted != "at most" and smallest_p(n) > ALPHA else found

    def shown(self, value: float) -> float:
        return 100 * math.expm1(value) if self.relative else value

    def shown_interval(self, found: Interval | None) -> Interval | None:
        return None if found is None else (self.shown(found[0]), self.shown(found[1]))

    def verdict(self, found: Interval | None) -> Verdict:
        """What an interval of the mean, on the scale of the values, makes of the claim."""
        if self.wanted == "at most":
            if found is None or found[0] <= self.limit < found[1]:
                return "undecided"
            return "holds" if found[1] <= self.limit else "does not hold"
        word = self.word(found)
        if word == "undecided":
            return "undecided"
        return "holds" if word == ("equal" if self.wanted == "same" else "better") else "does not hold"

    def word(self, found: Interval | None) -> Word:
        """Better, worse, equal or undecided."""
        return decide(found, self.limit, higher_is_better=self.wanted != "less")

    def word_of_part(self, found: Interval | None) -> str:
        """What is said about one setting by itself: the word, or whether it stays below the limit."""
        return self.verdict(found) if self.wanted == "at most" else self.word(found)


@dataclass(frozen=True)
class Part:
    """One setting by itself; its interval is at level 1 − α/m for m settings."""

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
        verdict: holds, does not hold, undecided, not tested.
        effect: the mean, or what else the claim is about.
        interval: its 95 % interval.
        n: over how many seeds (or of what `counted` says).
        unit: of effect and interval.
        reading: one sentence with the numbers.
        studies: the folders that speak to it.
        p: of the sign-flip test that the mean is 0.
        parts: the settings one by one.
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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def combine(measurements: Sequence[Measurement], yardstick: Yardstick, note: str = "") -> Finding | None:
    """The verdict from the mean over all measurements; None without any. `note` is added to the reading."""
    distinct = _distinct([one for one in measurements if one.values])
    chosen = [one for one in distinct if len(one.values) > 1] or distinct
    if not chosen:
        return None
    alpha = min(look_alpha(one.looks) if one.looks else ALPHA for one in chosen)
    groups = _by_seeds(chosen)
    effect = sum(weight * float(values.mean()) for weight, values in groups)
    n = sum(len(values) for _, values in groups)
    found = yardstick.trusted(mean_interval(groups, alpha), n)
    parts = tuple(_part(one, yardstick, alpha / len(chosen)) for one in chosen)
    verdict = yardstick.verdict(found)
    flipped = np.concatenate([weight * values / len(values) for weight, values in groups])
    finding = Finding(
        verdict=verdict,
        reading="",
        effect=yardstick.shown(effect),
        interval=yardstick.shown_interval(found),
        n=n,
        counted=yardstick.counted,
        unit=yardstick.unit,
        studies=tuple(dict.fromkeys(study for one in chosen for study in one.studies)),
        p=sign_flip(flipped) if yardstick.wanted in ("more", "less") else None,
        parts=parts,
    )
    needed = None
    if verdict == "undecided" and found is not None and len(groups) == 1:
        needed = seeds_needed(effect, float(groups[0][1].std(ddof=1)), yardstick.limit, alpha)
    reading = _reading(finding, yardstick, yardstick.word(found), needed)
    return replace(finding, reading=f"{reading} {note}".strip())


def worst(finding: Finding | None, yardstick: Yardstick) -> Finding | None:
    """The same for a claim that something never happens: it holds if it does in every setting, and one contradicts.

    The numbers are those of the setting that has most of it, among those that make the verdict.
    """
    if finding is None:
        return None
    words = [part.word for part in finding.parts]
    beyond, unclear = words.count("does not hold"), words.count("undecided")
    verdict: Verdict = "does not hold" if beyond else "undecided" if unclear else "holds"
    most = max((part for part in finding.parts if part.word == verdict), key=lambda part: part.effect)
    limit = f"{yardstick.rope:g} {yardstick.unit}"
    digits = decimals({"ci_family": most.interval}, yardstick.rope)
    return replace(
        finding,
        verdict=verdict,
        reading=(
            f"Of {counted(len(words), 'setting')}, {words.count('holds')} stay below {limit} with their whole "
            f"interval, {beyond} exceed it, {unclear} cannot tell. The most of these, in {most.what}: "
            f"{plain(most.effect, digits)} ({bounds(most.interval, digits)}, {counted(most.n, 'seed')})."
        ),
        effect=most.effect,
        interval=most.interval,
        n=most.n,
    )


def mean_interval(groups: Sequence[tuple[float, np.ndarray]], alpha: float) -> Interval | None:
    """The interval of Σ w · mean(values) for independent groups; for one group of weight 1 it is Student's.

    Its variance is Σ w² s²/n, and the degrees of freedom are those of the smallest group: with these it never covers
    less than it says (Hájek, 1962). Satterthwaite's approximation covers 93 % where three noisy seeds dominate.
    """
    if any(len(values) < 2 for _, values in groups):
        return None
    if len(groups) == 1:
        return interval(groups[0][1], alpha)
    middle = sum(weight * float(values.mean()) for weight, values in groups)
    variance = sum(weight**2 * float(values.var(ddof=1)) / len(values) for weight, values in groups)
    freedom = min(len(values) for _, values in groups) - 1
    half = float(stdtrit(freedom, 1 - alpha / 2)) * math.sqrt(variance)
    return middle - half, middle + half


def _by_seeds(measurements: Sequence[Measurement]) -> list[tuple[float, np.ndarray]]:
    """For each set of seeds: its share of the settings, and the mean over these for each seed."""
    groups: dict[frozenset[str], list[Measurement]] = {}
    for one in measurements:
        groups.setdefault(frozenset(one.values), []).append(one)
    return [
        (
            len(group) / len(measurements),
            np.round([np.mean([one.values[seed] for one in group]) for seed in group[0].values], 10),
        )
        for group in groups.values()
    ]


def _distinct(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Without numbers from the same runs as others; where two measurements share some, the larger one keeps them."""
    seen: set[object] = set()
    kept = {}
    for index in sorted(range(len(measurements)), key=lambda index: -len(measurements[index].values)):
        one = measurements[index]
        values = {seed: value for seed, value in one.values.items() if not one.runs.get(seed, frozenset()) & seen}
        seen |= frozenset().union(*one.runs.values())
        if values:
            kept[index] = replace(one, values=values)
    return [kept[index] for index in sorted(kept)]


def _part(one: Measurement, yardstick: Yardstick, alpha: float) -> Part:
    found = yardstick.trusted(interval(one.array, alpha), len(one.values))
    effect = yardstick.shown(float(one.array.mean()))
    return Part(
        one.what, one.studies, len(one.values), effect, yardstick.shown_interval(found), yardstick.word_of_part(found)
    )


def told(value: float, unit: str, digits: int = 2) -> str:
    """`+0.14 points`."""
    return f"{signed(value, digits)} {unit}".strip()


def _reading(finding: Finding, yardstick: Yardstick, word: Word, needed: int | None) -> str:
    assert finding.effect is not None
    digits = decimals({"ci_family": finding.interval}, yardstick.rope)
    effect = told(finding.effect, finding.unit, digits)
    count = counted(finding.n, finding.counted)
    settings = f", {counted(len(finding.parts), 'setting')}" if finding.counted == "seed" else ""
    if finding.interval is None:
        alone = any(part.n == 1 for part in finding.parts)
        where = "" if finding.n == 1 else " in each setting"
        reason = f"one number{where} decides nothing" if alone else "all are equal, and so few may agree by chance"
        return f"{effect} ({count}{settings}): {reason}."
    numbers = f"{effect} (interval {bounds(finding.interval, digits)}, {count}{settings})"
    sentence = f"{numbers}: {_where(finding.verdict, yardstick, word)}."
    if finding.verdict == "undecided" and needed is not None and needed > finding.n:
        sentence += f" About {needed:,} {finding.counted}s would decide if mean and spread stayed as they are."
    return sentence


def _where(verdict: Verdict, yardstick: Yardstick, word: Word) -> str:
    """Where the interval lies."""
    rope = f"{yardstick.rope:g} {yardstick.unit}"
    if yardstick.wanted == "at most":
        places = {"holds": "at most", "does not hold": "more than", "undecided": "on both sides of"}
        return f"{places[verdict]} the {rope} that count as none"
    if word == "undecided":
        return f"it reaches across the ±{rope} that count as none"
    if word == "equal":
        return f"within the ±{rope} that count as none"
    other_way = ", the other way" if word == "worse" and yardstick.wanted != "same" else ""
    return f"beyond the ±{rope} that count as none{other_way}"
