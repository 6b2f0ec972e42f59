"""The verdict: is an arm better than the baseline, worse, equal, or can these runs not tell?

Everything here is a function of plain numbers, so that it judges any runs of any method. The word comes from one
interval, at level 1 − α/m for m arms, against ±rope, the equivalence margin: *better* above it, *worse* below it,
*equal* inside it, else *undecided*. The interval is over seeds and test samples where the outcomes of the samples are
known, and over seeds otherwise (`durm.statistics.intervals`). Three things keep a word back:

- too few pairs: 2/2ⁿ > α/m, so that not even n differences of one sign would be a surprise;
- lost runs: the word must be the same without the pairs that lack a run, and with each lost run at the worst value of
  any arm in that setting. A method that fails on its hard seeds is not better on those that are left;
- an earlier analysis: a study that is analysed several times takes what its intervals have in common.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from durm.statistics.diagnostics import warn_about
from durm.statistics.hypothesis_tests import correlation, holm, pitman_morgan, sign_flip
from durm.statistics.intervals import (
    ALPHA,
    Interval,
    SampleVariance,
    Word,
    decide,
    fewest_pairs,
    interval,
    smallest_p,
    smallest_p_unpaired,
    standard_error,
    welch,
)
from durm.statistics.planning import min_difference, pairs_for_rope
from durm.statistics.proportions import jeffreys

LOST = "the lost runs could change the word"
FEWEST_UNPAIRED = 4
"""Runs of each arm: Welch's interval of 2 against 20 runs misses a difference of 0 in 12 %, of 4 against 4 in 4 %."""

Values = Mapping[str, float]
"""A number for each seed."""
SampleVariances = Callable[[str, str, Sequence[str]], SampleVariance | None]
"""Of (arm, baseline, seeds): what the test samples add to the variance; None where their outcomes are not known."""


@dataclass(frozen=True)
class Analysis:
    """One analysis of a study that is analysed several times: its pairs, its level, its interval."""

    n: int
    alpha: float
    interval: Interval | None


@dataclass(frozen=True)
class Plan:
    """The seeds of each analysis so far, and the level that each has for one arm of m: (k, α/m) → α_k."""

    seeds: Sequence[Sequence[str]]
    level: Callable[[int, float], float]


@dataclass(frozen=True)
class Comparison:
    """An arm against the baseline. Numbers that are not defined, such as a spread of one value, are None.

    Attributes:
        n: pairs.
        difference: mean of arm − baseline.
        ci: the 95 % interval of it over seeds, for this very test set, this n and this arm alone.
        ci_samples: the 95 % interval over seeds and test samples; None where their outcomes are not known.
        ci_family: the interval that the verdict comes from: at level 1 − 0.05/m for m arms, over samples too if they
            are known; with several analyses, what their intervals have in common.
        over: what `ci_family` is over: "seeds", or "seeds and samples".
        p, p_holm: of the sign-flip test, alone and corrected for m arms.
        p_min: the smallest p that n pairs can give.
        wins, ties, losses: pairs in which the arm is better, equal, worse.
        win_probability: (wins + ties/2)/n.
        win_interval: its 95 % interval, by Jeffreys.
        correlation: of the pairs; what pairing removes.
        min_difference: the smallest difference that n pairs of this spread call better or worse; None if n is too few.
        n_for_rope: the pairs with which half the interval is as wide as rope; None if no number is enough.
        n_for_rope_range: the same for the ends of a 90 % interval of the spread.
        test_samples_for_rope: the test samples that would make their part of the interval half as wide as rope, where
            more seeds alone cannot.
        seeds_needed: of version 1; always None now.
        variance_ratio: variance of the arm's values over that of the baseline's.
        p_variance, p_variance_holm: Pitman and Morgan's test that the two are equal.
        verdict: better, worse, equal or undecided; None for an arm that is not judged.
        reason: why it is undecided, if it is for another reason than the interval; else nothing.
        looks: the analyses so far, if there are several.
        lost: pairs that lack a run because it failed; runs, if they are not paired.
        paired: whether runs are compared by seed.
        step: the resolution of the metric, in its unit.
        samples: test samples; None where their outcomes are not known.
        variance_samples, variance_residual: v_t and v_e of `durm.statistics.intervals`.
        warnings: what a reader has to know about these differences.
        cost_ratio: median over the pairs of the ratio of seconds per step.
    """

    arm: str
    baseline: str
    n: int
    difference: float | None
    ci: Interval | None
    ci_family: Interval | None
    p: float | None
    p_holm: float | None
    p_min: float | None
    wins: int
    ties: int
    losses: int
    correlation: float | None
    variance_ratio: float | None
    p_variance: float | None
    p_variance_holm: float | None
    verdict: Word | None
    seeds_needed: int | None = None
    ci_samples: Interval | None = None
    over: str = "seeds"
    win_probability: float | None = None
    win_interval: Interval | None = None
    min_difference: float | None = None
    n_for_rope: int | None = None
    n_for_rope_range: tuple[int, int] | None = None
    test_samples_for_rope: int | None = None
    reason: str = ""
    looks: list[Analysis] = field(default_factory=list)
    lost: int = 0
    paired: bool = True
    step: float = 0.0
    samples: int | None = None
    variance_samples: float | None = None
    variance_residual: float | None = None
    warnings: list[str] = field(default_factory=list)
    cost_ratio: float | None = None


def compare(baseline: str, values: Mapping[str, Values], **options: Any) -> list[Comparison]:
    """Every other arm against the baseline, as one family. The options are those of `compare_family`."""
    return compare_family([(arm, baseline) for arm in values if arm != baseline], values, **options)


def compare_family(
    family: Sequence[tuple[str, str]],
    values: Mapping[str, Values],
    *,
    rope: float = 0.0,
    alpha: float = ALPHA,
    level: float | None = None,
    higher_is_better: bool = True,
    step: float = 0.0,
    samples: SampleVariances | None = None,
    plan: Plan | None = None,
    lost: Mapping[str, Collection[str]] | None = None,
    unpaired: Collection[str] = (),
) -> list[Comparison]:
    """Comparisons that are made together, and corrected for being several.

    Args:
        family: (arm, baseline) of each comparison.
        values: for each arm a number for each seed. Seeds that an arm and its baseline have in common are pairs.
        rope: half the width of the equivalence margin; 0 is none, and nothing is *equal* then.
        alpha: the error rate of the whole family.
        level: that of this analysis, if it is a later one of a study that was not planned to have several.
        higher_is_better: whether a larger number is the better one.
        step: the resolution of the metric, 100/N for an accuracy of N samples in percent; 0 if it has none.
        samples: what the test samples add to the variance of a comparison.
        plan: of a study that is analysed several times.
        lost: for each arm, the seeds whose runs failed.
        unpaired: arms whose seeds have nothing to do with those of the baseline: their means are compared (Welch).
    """
    if not rope >= 0 or math.isinf(rope):
        raise ValueError(f"rope {rope}: expected a number of at least 0")
    if not step >= 0 or math.isinf(step):
        raise ValueError(f"resolution {step}: expected a number of at least 0")
    for arm in {name for pair in family for name in pair}:
        if arm not in values:
            raise ValueError(f"there are no values of arm {arm!r}; there are {', '.join(values)}")
        if not all(map(math.isfinite, values[arm].values())):
            raise ValueError(f"arm {arm!r} has a value that is not finite")
    arms = max(1, len(family))
    share, fewest = (alpha if level is None else level) / arms, fewest_pairs(alpha, arms)
    worst = _worst(values, higher_is_better)
    judged = []
    for arm, baseline in family:
        job = _Job(
            *(arm, baseline, values[arm], values[baseline], rope, alpha, share, fewest, higher_is_better, step),
            lost={name: {*(lost or {}).get(name, ())} - {*values[name]} for name in (arm, baseline)},
            worst=worst,
            sample_variances=samples,
            plan=plan,
        )
        judged.append(job.compare_means() if arm in unpaired else job.compare_pairs())
    return _corrected(judged)


def _corrected(comparisons: Sequence[dict[str, Any]]) -> list[Comparison]:
    """With the p values of the family corrected by Holm."""
    means = holm([one["p"] for one in comparisons])
    variances = holm([one["p_variance"] for one in comparisons])
    return [
        Comparison(**one, p_holm=p, p_variance_holm=p_variance)
        for one, p, p_variance in zip(comparisons, means, variances, strict=True)
    ]


@dataclass(frozen=True)
class _Job:
    """One arm against the baseline, with all that the comparison needs; `share` is α/m."""

    arm: str
    baseline: str
    ours: Values
    theirs: Values
    rope: float
    alpha: float
    share: float
    fewest: int
    higher_is_better: bool
    step: float
    lost: Mapping[str, Collection[str]]
    worst: float
    sample_variances: SampleVariances | None
    plan: Plan | None

    def compare_pairs(self) -> dict[str, Any]:
        seeds = [seed for seed in self.theirs if seed in self.ours]
        theirs, ours = _array(self.theirs, seeds), _array(self.ours, seeds)
        differences = rounded_differences(theirs, ours)
        n = len(seeds)
        gains = differences if self.higher_is_better else -differences
        wins, ties = int((gains > 0).sum()), int((gains == 0).sum())
        variance = self._sample_variance(seeds)
        analyses = self._analyses()
        ci_family = _common(analyses) if analyses else self._interval(seeds, self.share)
        word, reason = self._word(ci_family, analyses, n)
        ratio, p_variance = pitman_morgan(ours, theirs)
        return {
            **self._common_fields(n, differences, variance),
            "ci": interval(differences, self.alpha, self.step),
            "ci_samples": interval(differences, self.alpha, self.step, variance) if variance else None,
            "ci_family": ci_family,
            "over": "seeds and samples" if variance else "seeds",
            "p": sign_flip(differences),
            "p_min": smallest_p(n) if n else None,
            **{"wins": wins, "ties": ties, "losses": n - wins - ties},
            "win_probability": (wins + ties / 2) / n if n else None,
            "win_interval": jeffreys(wins + ties / 2, n) if n else None,
            "correlation": correlation(theirs, ours),
            "variance_ratio": ratio,
            "p_variance": p_variance,
            "verdict": word,
            "reason": reason,
            "looks": analyses,
            "lost": len({*self.lost[self.arm], *self.lost[self.baseline]}),
            "warnings": warn_about(differences, self.step),
        }

    def compare_means(self) -> dict[str, Any]:
        """Arms that are not paired: Welch's interval, and no word that a permutation test could not give."""
        theirs, ours = (np.array(list(values.values()), float) for values in (self.theirs, self.ours))
        found = welch(ours, theirs, self.share, self.step)
        word = self._decide(found)
        reason = ""
        lost = sum(map(len, self.lost.values()))
        if smallest_p_unpaired(len(ours), len(theirs)) > self.share or min(len(ours), len(theirs)) < FEWEST_UNPAIRED:
            word, reason = "undecided", f"too few runs ({len(theirs)} and {len(ours)})"
        elif word != "undecided" and lost and not self._lost_runs_agree(word):
            filled, filled_theirs = (np.array(list(values.values()), float) for values in self._with_lost_runs())
            if self._decide(welch(filled, filled_theirs, self.share, self.step)) != word:
                word, reason = "undecided", LOST
        difference = float(ours.mean() - theirs.mean()) if len(ours) and len(theirs) else None
        return {
            **{"arm": self.arm, "baseline": self.baseline, "n": min(len(ours), len(theirs)), "difference": difference},
            "ci": welch(ours, theirs, self.alpha, self.step),
            **{"ci_family": found, "verdict": word, "reason": reason, "paired": False, "step": self.step, "lost": lost},
            **dict.fromkeys(("p", "p_min", "correlation", "variance_ratio", "p_variance")),
            **dict.fromkeys(("wins", "ties", "losses"), 0),
        }

    def _common_fields(self, n: int, differences: np.ndarray, variance: SampleVariance | None) -> dict[str, Any]:
        planned: dict[str, Any] = {}
        if n > 1:
            error, added = standard_error(differences, self.step), variance.added if variance else 0.0
            planned = {
                "min_difference": min_difference(n, error, added, self.rope, self.share),
                **pairs_for_rope(n, error, variance, self.rope, self.share),
            }
        return {
            **{"arm": self.arm, "baseline": self.baseline, "n": n, "step": self.step},
            "difference": float(differences.mean()) if n else None,
            "samples": variance.samples if variance else None,
            "variance_samples": variance.between if variance else None,
            "variance_residual": variance.residual if variance else None,
            **planned,
        }

    def _analyses(self) -> list[Analysis]:
        analyses = []
        for k, planned in enumerate(self.plan.seeds if self.plan else (), 1):
            assert self.plan is not None
            seeds = [seed for seed in planned if seed in self.theirs and seed in self.ours]
            level = self.plan.level(k, self.share)
            analyses.append(Analysis(len(seeds), level, self._interval(seeds, level)))
        return analyses

    def _interval(self, seeds: Sequence[str], alpha: float) -> Interval | None:
        differences = rounded_differences(_array(self.theirs, seeds), _array(self.ours, seeds))
        return interval(differences, alpha, self.step, self._sample_variance(seeds))

    def _sample_variance(self, seeds: Sequence[str]) -> SampleVariance | None:
        if self.sample_variances is None or len(seeds) < 2:
            return None
        return self.sample_variances(self.arm, self.baseline, seeds)

    def _word(self, ci_family: Interval | None, analyses: Sequence[Analysis], n: int) -> tuple[Word, str]:
        """The word, and why there is none if the interval alone would allow one."""
        word: Word = "undecided"
        if analyses:  # an arm keeps the word that it got first
            for k, one in enumerate(analyses, 1):
                if word == "undecided" and one.n >= self.fewest:
                    word = self._decide(_common(analyses[:k]))
        else:
            word = self._decide(ci_family)
        if ci_family is not None and ci_family[0] > ci_family[1] and word == "undecided":
            return word, "the analyses contradict each other"
        if n < self.fewest:
            return "undecided", f"too few pairs ({n}; a word takes {self.fewest})"
        if word == "undecided" or not any(self.lost.values()) or self._lost_runs_agree(word):
            return word, ""
        return (word, "") if self._word_with_lost_runs() == word else ("undecided", LOST)

    def _lost_runs_agree(self, word: Word) -> bool:
        """Whether the lost runs are all of the arm that the word is against, and so could only confirm it."""
        return word in ("better", "worse") and not self.lost[self.arm if word == "better" else self.baseline]

    def _word_with_lost_runs(self) -> Word:
        """Over seeds alone, with each lost run at the worst value of any arm."""
        ours, theirs = self._with_lost_runs()
        seeds = [seed for seed in theirs if seed in ours]
        differences = rounded_differences(_array(theirs, seeds), _array(ours, seeds))
        return self._decide(interval(differences, self.share, self.step))

    def _with_lost_runs(self) -> tuple[Values, Values]:
        ours, theirs = (dict.fromkeys(self.lost[name], self.worst) for name in (self.arm, self.baseline))
        return {**self.ours, **ours}, {**self.theirs, **theirs}

    def _decide(self, found: Interval | None) -> Word:
        return decide(found, self.rope, higher_is_better=self.higher_is_better)


def _common(analyses: Sequence[Analysis]) -> Interval | None:
    """What the intervals of all analyses share. All of them cover the truth together with probability 1 − α or more."""
    intervals = [one.interval for one in analyses if one.interval is not None]
    return (max(low for low, _ in intervals), min(high for _, high in intervals)) if intervals else None


def _worst(values: Mapping[str, Values], higher_is_better: bool) -> float:
    every = [value for arm in values.values() for value in arm.values()]
    return (min if higher_is_better else max)(every, default=0.0)


def _array(values: Values, seeds: Sequence[str]) -> np.ndarray:
    return np.array([values[seed] for seed in seeds], float)


def rounded_differences(theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Ours − theirs, to 12 digits of the values: the subtraction leaves no more, and equal differences stay equal."""
    differences: np.ndarray = ours - theirs
    largest = max(np.abs(theirs).max(initial=0), np.abs(ours).max(initial=0))
    return np.round(differences, 12 - math.ceil(math.log10(largest))) if largest > 1e-200 else differences
