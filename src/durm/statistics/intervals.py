"""Intervals of a mean difference: over seeds, over seeds and test samples, unpaired; and the word that one allows.

Seeds: n paired differences d_i with variance s². A metric that counts samples moves in steps (`step` = 100/N points of
accuracy), and rounding to a lattice of that step has variance step²/12 in each arm, so

    mean(d) ± t(n − 1) · √((s² + step²/6)/n).

Samples: the test set is a sample too. With D the matrix (seeds × samples) of arm − baseline,

    v_s = (var(row means) + step²/6)/n,   v_t = var(column means)/N,   v_e = var(D)/(nN),
    SE² = max(v_s + v_t − v_e, v_s):      v_t and v_s both contain the noise of single cells, so it is taken off once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

ALPHA = 0.05

Word = Literal["better", "worse", "equal", "undecided", "larger", "smaller"]
"""`larger` and `smaller` are of quantities that are neither good nor bad."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class SampleVariance:
    """What the test samples add to the variance of a mean difference.

    Attributes:
        samples: N, of the smallest test set where several are averaged.
        between: v_t, the variance of the mean over samples.
        residual: v_e, the part of it that is noise of single runs, which the variance over seeds has already.
    """

    samples: int
    between: float
    residual: float

    @property
    def added(self) -> float:
        return max(0.0, self.between - self.residual)


def sample_variance(outcomes: np.ndarray) -> SampleVariance | None:
    """v_t and v_e of a matrix of differences, seeds × samples; None for fewer than two seeds or samples."""
    seeds, samples = outcomes.shape
    if seeds < 2 or samples < 2:
        return None
    between = float(outcomes.mean(0, dtype=float).var(ddof=1)) / samples
    return SampleVariance(samples, between, float(outcomes.var(ddof=1, dtype=float)) / (seeds * samples))


def jackknife_variance(without_one: np.ndarray) -> SampleVariance | None:
    """The same of what is no mean, such as mIoU: from differences with one sample left out, seeds × samples.

    The jackknife variance of N leave-one-out values is (N − 1)/N · Σ (value − mean)²: v_t is that of their mean over
    the seeds, v_e the mean over the seeds of that of a single seed, divided by n.
    """
    seeds, samples = without_one.shape
    if seeds < 2 or samples < 2:
        return None
    scale = (samples - 1) ** 2 / samples
    between = scale * float(without_one.mean(0).var(ddof=1))
    residual = scale * float(without_one.var(axis=1, ddof=1).mean()) / seeds
    return SampleVariance(samples, between, residual)


def mean_of_domains(domains: list[SampleVariance]) -> SampleVariance:
    """Of the mean over k independent test sets: the variances add up, divided by k²."""
    k2 = len(domains) ** 2
    return SampleVariance(
        min(one.samples for one in domains),
        sum(one.between for one in domains) / k2,
        sum(one.residual for one in domains) / k2,
    )


def bound_of_mean(effects: Sequence[SampleVariance]) -> SampleVariance:
    """At most what the samples add to the variance of the mean of several effects on one test set.

    Effects on the same samples go together in an unknown way, but sd(mean) ≤ mean(sd), whatever their correlation.
    """
    error = sum(math.sqrt(one.added) for one in effects) / len(effects)
    return SampleVariance(min(one.samples for one in effects), error**2, 0.0)


def standard_error(differences: np.ndarray, step: float = 0.0, samples: SampleVariance | None = None) -> float:
    """Of the mean of at least two differences; over samples too if their variance is given."""
    variance = (_mean_and_variance(differences)[1] + step**2 / 6) / len(differences)
    return math.sqrt(variance + (samples.added if samples is not None else 0.0))


def interval(
    differences: np.ndarray, alpha: float = ALPHA, step: float = 0.0, samples: SampleVariance | None = None
) -> Interval | None:
    """The interval of the mean difference at level 1 − α; None for less than two differences."""
    if len(differences) < 2:
        return None
    middle, _ = _mean_and_variance(differences)
    half = quantile(len(differences), alpha) * standard_error(differences, step, samples)
    return middle - half, middle + half


def _mean_and_variance(values: np.ndarray) -> tuple[float, float]:
    """From the first value on, so that equal values have exactly that mean and no variance, whatever the last bits."""
    rest = values - values[0]
    return float(values[0] + rest.mean()), float(rest.var(ddof=1))


def welch(ours: np.ndarray, theirs: np.ndarray, alpha: float = ALPHA, step: float = 0.0) -> Interval | None:
    """Welch's interval of a difference of two means that are not paired, with s² + step²/12 in each arm."""
    if min(len(ours), len(theirs)) < 2:
        return None
    (mean, spread), (mean_theirs, spread_theirs) = _mean_and_variance(ours), _mean_and_variance(theirs)
    parts = [
        ((spread + step**2 / 12) / len(ours), len(ours) - 1),
        ((spread_theirs + step**2 / 12) / len(theirs), len(theirs) - 1),
    ]
    variance = sum(part for part, _ in parts)
    middle = mean - mean_theirs
    if variance == 0:
        return middle, middle
    freedom = variance**2 / sum(part**2 / df for part, df in parts)
    half = float(scipy.special.stdtrit(freedom, 1 - alpha / 2)) * math.sqrt(variance)
    return middle - half, middle + half


def quantile(n: int, alpha: float) -> float:
    """Student's two-sided quantile for n differences at level 1 − α."""
    return float(scipy.special.stdtrit(n - 1, 1 - alpha / 2))


def smallest_p(n: int) -> float:
    """2/2ⁿ, the smallest p of a sign-flip test of n pairs: all of one sign. Three pairs cannot do better than 0.25."""
    return 2.0 ** (1 - n)


def smallest_p_unpaired(n_ours: int, n_theirs: int) -> float:
    """2/binom(n + m, n), the smallest p of a permutation test of two groups: all of one above all of the other."""
    return 2.0 / math.comb(n_ours + n_theirs, n_ours)


def fewest_pairs(alpha: float = ALPHA, arms: int = 1) -> int:
    """The smallest n with 2/2ⁿ ≤ α/m: 6, 7, 9 pairs for 1, 3, 10 arms. Fewer get no word but undecided."""
    return math.ceil(1 - math.log2(alpha / arms) - 1e-12)


def decide(interval: Interval | None, rope: float, *, higher_is_better: bool = True) -> Word:
    """The word for an interval of the difference: outside ±rope, inside it, or neither. Without a rope never equal."""
    if interval is None or interval[0] > interval[1]:
        return "undecided"
    low, high = interval if higher_is_better else (-interval[1], -interval[0])
    if low > rope:
        return "better"
    if high < -rope:
        return "worse"
    return "equal" if rope > 0 and -rope <= low and high <= rope else "undecided"
