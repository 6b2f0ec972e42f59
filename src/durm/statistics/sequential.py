"""Studies that are analysed several times: when, and at which level each analysis is.

A study that goes on until it is decided is analysed at n_1 < n_2 < … < n_K pairs, planned beforehand. Analysis k has

    α_k = min(c · n_k, α),

with c such that the chance that any |t_k| of the plan is beyond its limit, without an effect, is α. Early analyses
spend little, the last ones most. c comes from a simulation of the t statistics: a group of Δ normal differences has a
sum N(0, Δ) and, independent of it, a sum of squares about its mean χ²(Δ − 1), so two draws an analysis are enough.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import scipy

from durm.statistics.intervals import ALPHA
from durm.statistics.spending_table import SLOPES

FIRST = (6, 10, 16, 25, 40, 63)
"""Where such a study is analysed; then ten times the last five, a hundred times, and so on."""
SIMULATED = 400_000


def analysis_sizes(most: int) -> list[int]:
    """The numbers of pairs at which a study of at most that many is analysed: 6, 10, 16, 25, 40, 63, 100, …"""
    sizes = list(FIRST)
    while sizes[-1] < most:
        sizes += [10 * size for size in sizes[-5:]]
    return [*(size for size in sizes if size < most), most]


def analysis_levels(sizes: Sequence[int], alpha: float = ALPHA) -> list[float]:
    """α_k of each analysis of a plan; all of them together have level α."""
    slope = spending_slope(tuple(sizes), alpha)
    return [min(slope * size, alpha) for size in sizes]


def series_level(k: int, alpha: float = ALPHA) -> float:
    """6α/(πk)², which adds up to α over all k: for the k-th analysis of a series that nobody planned.

    Studies of version 1 that go on until decided have it in every analysis.
    """
    return 6 * alpha / (math.pi * k) ** 2


@cache
def spending_slope(sizes: tuple[int, ...], alpha: float) -> float:
    """c of α_k = min(c · n_k, α), tabulated for the usual plans and simulated for the others, always the same."""
    if len(sizes) == 1:
        return alpha / sizes[0]
    arms = round(ALPHA / alpha)
    tabulated = SLOPES.get(sizes[-1], ()) if list(sizes) == analysis_sizes(sizes[-1]) else ()
    if math.isclose(arms * alpha, ALPHA) and 1 <= arms <= len(tabulated):
        return tabulated[arms - 1]
    return simulated_slopes(sizes, [alpha])[0]


def simulated_slopes(
    sizes: Sequence[int], alphas: Sequence[float], simulated: int = SIMULATED, seed: int = 0
) -> list[float]:
    """For each α, the α-quantile of min over k of p_k/n_k, where only p_k ≤ α count.

    Any p_k < min(c · n_k, α) is then an error, and their chance is α.
    """
    generator = np.random.default_rng(seed)
    sums, squares = np.zeros(simulated), np.zeros(simulated)
    smallest = [np.full(simulated, np.inf) for _ in alphas]
    before = 0
    for size in sizes:
        group = size - before
        total = generator.normal(0, math.sqrt(group), simulated)
        within = generator.chisquare(group - 1, simulated) if group > 1 else 0.0
        sums += total
        squares += within + total**2 / group
        before = size
        variance = (squares - sums**2 / size) / (size - 1)
        p = 2 * scipy.special.stdtr(size - 1, -np.abs(sums) / np.sqrt(size * variance))
        smallest = [
            np.minimum(so_far, np.where(p <= alpha, p / size, np.inf))
            for so_far, alpha in zip(smallest, alphas, strict=True)
        ]
    return [float(np.quantile(values, alpha, method="lower")) for values, alpha in zip(smallest, alphas, strict=True)]
