"""The verdict: is an arm better than the baseline, worse, equal, or can these seeds not tell?

Everything here is a function of plain numbers, so that it judges any runs of any method. For n paired seeds, with the
differences d_i = arm_i − baseline_i:

- the interval of the mean difference is Student's, d ± t · s/√n, at every n;
- one word comes from the *family* interval (level 1 − α/m for m arms) against ±rope, the region of practical
  equivalence: differences that nobody would act upon;
- the p value is that of the sign-flip test, which is exact if the differences are symmetric about 0 under the null.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from durm.study.rules import ALPHA, ROPE, look_alpha

EXACT_UP_TO = 20
FLIPS = 99_999
MOST_SEEDS_NEEDED = 100_000

Word = Literal["better", "worse", "equal", "undecided"]
Interval = tuple[float, float]
Values = Mapping[str, float]
"""A number for each seed."""


@dataclass(frozen=True)
class Look:
    """One look of a study that goes on until it is decided."""

    n: int
    alpha: float
    interval: Interval | None


@dataclass(frozen=True)
class Comparison:
    """An arm against the baseline. Numbers that are not defined, such as a spread of one value, are None.

    Attributes:
        n: pairs.
        difference: mean of arm − baseline.
        ci: the plain 95 % interval of it, for this n and this arm alone.
        ci_family: the interval that the verdict comes from: at level 1 − 0.05/m for m arms; with looks, the part that
            the intervals of all looks have in common.
        p, p_holm: of the sign-flip test, alone and corrected for m arms.
        p_min: the smallest p that n pairs can give.
        wins, ties, losses: pairs in which the arm is better, equal, worse.
        correlation: of the pairs; what pairing removes.
        seeds_needed: the n that would be expected to decide, with this difference and this spread.
        variance_ratio: variance of the arm's values over that of the baseline's.
        p_variance, p_variance_holm: Pitman and Morgan's test that the two are equal.
        verdict: better, worse, equal or undecided.
        looks: the looks so far, if the study goes on until decided.
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
    seeds_needed: int | None
    variance_ratio: float | None
    p_variance: float | None
    p_variance_holm: float | None
    verdict: Word
    looks: list[Look] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in summary.json; `looks` only if there are any."""
        values = asdict(self)
        if not self.looks:
            del values["looks"]
        return values


def compare(baseline: str, values: Mapping[str, Values], **options: Any) -> list[Comparison]:
    """Every other arm against the baseline, as one family. The options are those of `compare_family`."""
    return compare_family([(arm, baseline) for arm in values if arm != baseline], values, **options)


def compare_family(
    family: Sequence[tuple[str, str]],
    values: Mapping[str, Values],
    *,
    rope: float = ROPE,
    alpha: float = ALPHA,
    higher_is_better: bool = True,
    looks: Sequence[Sequence[str]] = (),
) -> list[Comparison]:
    """Comparisons that are made together, and corrected for being several.

    Args:
        family: (arm, baseline) of each comparison.
        values: for each arm a number for each seed. Seeds that an arm and its baseline have in common are pairs.
        rope: half the width of the region of practical equivalence.
        alpha: the error rate of the whole family.
        higher_is_better: whether a larger number is the better one.
        looks: for a study that goes on until decided, the seeds that each look so far had.
    """
    if not rope >= 0 or math.isinf(rope):
        raise ValueError(f"rope {rope}: expected a number of at least 0")
    for arm in {name for pair in family for name in pair}:
        if arm not in values:
            raise ValueError(f"there are no values of arm {arm!r}; there are {', '.join(values)}")
        if not all(map(math.isfinite, values[arm].values())):
            raise ValueError(f"arm {arm!r} has a value that is not finite")
    share = alpha / max(1, len(family))
    pairs = [_pairs(values[baseline], values[arm]) for arm, baseline in family]
    p_values = [sign_flip(_differences(theirs, ours)) for theirs, ours in pairs]
    variances = [pitman_morgan(ours, theirs) for theirs, ours in pairs]
    tests = zip(p_values, holm(p_values), variances, holm([p for _, p in variances]), strict=True)
    comparisons = []
    for (arm, baseline), (theirs, ours), (p, p_holm, (ratio, p_variance), p_variance_holm) in zip(
        family, pairs, tests, strict=True
    ):
        differences = _differences(theirs, ours)
        n = len(differences)
        gains = differences if higher_is_better else -differences
        difference = float(differences.mean()) if n else None
        taken = [_look(k, seeds, values[baseline], values[arm], share) for k, seeds in enumerate(looks, 1)]
        ci_family = _common(taken) if taken else interval(differences, share)
        needed = None
        if difference is not None and n > 1:
            needed = seeds_needed(difference, float(differences.std(ddof=1)), rope, share)
        comparisons.append(
            Comparison(
                arm=arm,
                baseline=baseline,
                n=n,
                difference=difference,
                ci=interval(differences, alpha),
                ci_family=ci_family,
                p=p,
                p_holm=p_holm,
                p_min=smallest_p(n) if n else None,
                wins=int((gains > 0).sum()),
                ties=int((gains == 0).sum()),
                losses=int((gains < 0).sum()),
                correlation=_correlation(theirs, ours),
                seeds_needed=needed,
                variance_ratio=ratio,
                p_variance=p_variance,
                p_variance_holm=p_variance_holm,
                verdict=decide(ci_family, rope, higher_is_better=higher_is_better),
                looks=taken,
            )
        )
    return comparisons


def caution(comparison: Mapping[str, Any]) -> str | None:
    """What to bear in mind about a verdict that rests on few pairs which happen to agree."""
    n, interval = comparison["n"], comparison["ci"]
    if interval is None or interval[0] < interval[1] or smallest_p(n) <= ALPHA:
        return None
    arm, baseline = comparison["arm"], comparison["baseline"]
    return (
        f"The {n} differences between {arm} and {baseline} are all equal. So few may agree by chance: run more seeds."
    )


def decide(interval: Interval | None, rope: float, *, higher_is_better: bool = True) -> Word:
    """The word for an interval of the difference: outside ±rope, inside it, or neither."""
    if interval is None or interval[0] > interval[1]:
        return "undecided"
    low, high = interval if higher_is_better else (-interval[1], -interval[0])
    if low > rope:
        return "better"
    if high < -rope:
        return "worse"
    return "equal" if -rope <= low and high <= rope else "undecided"


def interval(differences: np.ndarray, alpha: float = ALPHA) -> Interval | None:
    """Student's interval of the mean at level 1 − α; [d, d] without spread, None for less than two differences."""
    n = len(differences)
    if n < 2:
        return None
    if np.ptp(differences) == 0:
        return float(differences[0]), float(differences[0])
    middle = float(differences.mean())
    half = _half_width(n, float(differences.std(ddof=1)), alpha)
    return middle - half, middle + half


def sign_flip(differences: np.ndarray, seed: int = 0) -> float | None:
    """The two-sided sign-flip test of the mean: all 2ⁿ flips up to n = 20, (b + 1)/(B + 1) of B random ones beyond.

    Under the null that each difference is symmetric about 0, its sign is a fair coin; p is the share of flips whose
    sum is at least as far from 0 as the observed one.
    """
    n = len(differences)
    if n == 0:
        return None
    sizes = np.sort(np.abs(differences))
    slack = 1e-9 * float(sizes.sum())  # sums in another order differ in the last bits
    threshold = abs(float(differences.sum())) - slack
    if n <= EXACT_UP_TO:
        sums = sizes[:1]  # the other half of the flips has the same sums with the other sign
        for size in sizes[1:]:
            sums = np.concatenate([sums + size, sums - size])
        return float((np.abs(sums) >= threshold).mean())
    generator = np.random.default_rng(seed)
    rows = max(1, 2**22 // n)
    extreme = 0
    for start in range(0, FLIPS, rows):
        flips = generator.integers(0, 2, (min(rows, FLIPS - start), n), dtype=np.int8)
        sums = 2 * (flips @ sizes) - sizes.sum()
        extreme += int((np.abs(sums) >= threshold).sum())
    return (extreme + 1) / (FLIPS + 1)


def smallest_p(n: int) -> float:
    """2/2ⁿ: all n differences of one sign. Three pairs cannot do better than 0.25."""
    return 2.0 ** (1 - n)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction of m p values: the i-th smallest times m − i + 1, at most 1, and never falling."""
    m = len(p_values)
    ranked = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * m
    running = 0.0
    for rank, (p, index) in enumerate(ranked):
        running = max(running, min(1.0, p * (m - rank)))
        corrected[index] = running
    return corrected


def seeds_needed(difference: float, spread: float, rope: float, alpha: float) -> int | None:
    """The smallest n with half-width ≤ ||d| − rope|: the interval then lies inside ±rope, or beyond it.

    A rough guide: another study of so many seeds has another difference, and is decided in about half of all cases.
    None beyond 100,000, as for a difference of exactly rope.
    """
    if spread == 0:
        return 2
    margin = abs(abs(difference) - rope)
    low, high = 2, MOST_SEEDS_NEEDED
    if margin == 0 or _half_width(high, spread, alpha) > margin:
        return None
    while low < high:
        middle = (low + high) // 2
        if _half_width(middle, spread, alpha) <= margin:
            high = middle
        else:
            low = middle + 1
    return low


def pitman_morgan(first: np.ndarray, second: np.ndarray) -> tuple[float | None, float | None]:
    """The ratio of two variances, and the p value of Pitman and Morgan's test that they are equal in pairs.

    Equal variances are the same as no correlation between sum and difference: t = r √((n − 2)/(1 − r²)) on n − 2
    degrees of freedom.
    """
    n = len(first)
    if n < 2 or np.ptp(second) == 0:
        return None, None
    ratio = float(first.var() / second.var())
    r = _correlation(first + second, first - second)
    if n < 3 or r is None:
        return ratio, None
    if abs(r) == 1:
        return ratio, 0.0
    return ratio, float(2 * stdtr(n - 2, -abs(r) * math.sqrt((n - 2) / (1 - r * r))))


def _look(k: int, seeds: Sequence[str], baseline: Values, arm: Values, alpha: float) -> Look:
    chosen = set(seeds)
    theirs, ours = _pairs(baseline, {seed: value for seed, value in arm.items() if seed in chosen})
    return Look(len(ours), look_alpha(k, alpha), interval(_differences(theirs, ours), look_alpha(k, alpha)))


def _common(looks: Sequence[Look]) -> Interval | None:
    """What the intervals of all looks share. All of them cover the truth together with probability 1 − α or more."""
    intervals = [look.interval for look in looks if look.interval is not None]
    return (max(low for low, _ in intervals), min(high for _, high in intervals)) if intervals else None


def _pairs(baseline: Values, arm: Values) -> tuple[np.ndarray, np.ndarray]:
    seeds = [seed for seed in baseline if seed in arm]
    return np.array([baseline[seed] for seed in seeds], float), np.array([arm[seed] for seed in seeds], float)


def _differences(theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Ours − theirs, to 12 digits of the values: the subtraction leaves no more, and equal differences stay equal."""
    differences: np.ndarray = ours - theirs
    largest = max(np.abs(theirs).max(initial=0), np.abs(ours).max(initial=0))
    return np.round(differences, 12 - math.ceil(math.log10(largest))) if largest > 1e-200 else differences


def _half_width(n: int, spread: float, alpha: float) -> float:
    return float(stdtrit(n - 1, 1 - alpha / 2)) * spread / math.sqrt(n)


def _correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Pearson's; None where a variance is 0."""
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.clip(np.corrcoef(first, second)[0, 1], -1, 1))
