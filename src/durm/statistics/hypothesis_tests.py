"""Tests of pairs: sign flips for the mean, Holm's correction, Pitman and Morgan's test of two variances."""

import math
from collections.abc import Sequence

import numpy as np
import scipy

EXACT_UP_TO = 20
FLIPS = 99_999


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


def pitman_morgan(first: np.ndarray, second: np.ndarray) -> tuple[float | None, float | None]:
    """The ratio of two variances, and the p value of Pitman and Morgan's test that they are equal in pairs.

    Equal variances are the same as no correlation between sum and difference: t = r √((n − 2)/(1 − r²)) on n − 2
    degrees of freedom.
    """
    n = len(first)
    if n < 2 or np.ptp(second) == 0:
        return None, None
    ratio = float(first.var() / second.var())
    r = correlation(first + second, first - second)
    if n < 3 or r is None:
        return ratio, None
    if abs(r) == 1:
        return ratio, 0.0
    return ratio, float(2 * scipy.special.stdtr(n - 2, -abs(r) * math.sqrt((n - 2) / (1 - r * r))))


def log_variance_ratio_pseudo_values(first: np.ndarray, second: np.ndarray) -> np.ndarray | None:
    """Of the logarithm of the ratio of two variances in pairs, by the jackknife: n θ − (n − 1) θ without the pair.

    Their mean estimates it, and their standard error is that of the mean, also if values are not normal. None where
    the values of one arm, or all but one of them, are equal.
    """
    n = len(first)
    if n < 3:
        return None

    def without_each(values: np.ndarray) -> np.ndarray:
        """The variances of all values but one."""
        return np.array([np.delete(values, index).var() for index in range(n)])

    left = [without_each(values) for values in (first, second)]
    if any(np.any(variances <= 0) for variances in left):
        return None
    whole = math.log(first.var() / second.var())
    pseudo: np.ndarray = n * whole - (n - 1) * np.log(left[0] / left[1])
    return pseudo


def correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Pearson's; None where a variance is 0."""
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.clip(np.corrcoef(first, second)[0, 1], -1, 1))
