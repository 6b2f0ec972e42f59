"""Studies that are analysed several times: when, at which level, and what a word is worth afterwards."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from durm.statistics.sequential import (
    analysis_levels,
    analysis_sizes,
    series_level,
    simulated_slopes,
    spending_slope,
)
from durm.statistics.spending_table import SLOPES
from durm.statistics.verdict import Comparison, Plan, compare


def against_zero(differences: Sequence[float] | np.ndarray, **options: Any) -> Comparison:
    ours = {str(seed): float(value) for seed, value in enumerate(differences)}
    (one,) = compare("erm", {"erm": dict.fromkeys(ours, 0.0), "durm": ours}, rope=0.1, **options)
    return one


def plan_of(*sizes: int) -> Plan:
    seeds = [[str(seed) for seed in range(n)] for n in sizes]
    return Plan(seeds, lambda k, share: analysis_levels(sizes, share)[k - 1])


# When


def test_the_sizes() -> None:
    assert analysis_sizes(1000) == [6, 10, 16, 25, 40, 63, 100, 160, 250, 400, 630, 1000]
    assert analysis_sizes(1600)[-2:] == [1000, 1600]
    assert analysis_sizes(20_000)[-4:] == [6300, 10_000, 16_000, 20_000]
    assert analysis_sizes(6) == [6]
    assert analysis_sizes(10) == [6, 10]
    assert analysis_sizes(12) == [6, 10, 12]
    assert analysis_sizes(64) == [6, 10, 16, 25, 40, 63, 64]
    assert analysis_sizes(101) == [6, 10, 16, 25, 40, 63, 100, 101]
    assert analysis_sizes(3) == [3]


@given(st.integers(1, 10**7))
def test_the_sizes_rise_to_the_most_seeds(most: int) -> None:
    sizes = analysis_sizes(most)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == most
    assert all(1.5 < after / before < 1.7 for before, after in itertools.pairwise(sizes[:-1]))


# At which level


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_a_series_spends_alpha(alpha: float) -> None:
    """What the analyses beyond the K-th leave is 6α/π² · Σ 1/k², which lies between 6α/π² · 1/(K + 1) and 1/K."""
    spent = math.fsum(series_level(k, alpha) for k in range(1, 10_001))
    assert 6 / math.pi**2 / 10_001 < (alpha - spent) / alpha < 6 / math.pi**2 / 10_000
    assert series_level(1, alpha) == pytest.approx(0.6079271 * alpha)
    assert series_level(2, alpha) == pytest.approx(series_level(1, alpha) / 4)


def test_one_analysis_has_the_whole_level() -> None:
    assert analysis_levels([20]) == [0.05]
    assert analysis_levels([3], 0.01) == [0.01]


@pytest.mark.parametrize("most", [10, 63, 100, 1000])
@pytest.mark.parametrize("arms", [1, 3, 10])
def test_levels_rise_with_the_pairs_and_stay_below_alpha(most: int, arms: int) -> None:
    alpha = 0.05 / arms
    sizes = analysis_sizes(most)
    levels = analysis_levels(sizes, alpha)
    assert levels == [SLOPES[most][arms - 1] * size for size in sizes]
    assert levels[-1] < alpha < sum(levels)  # less than a single analysis, more than Bonferroni


def test_the_table_holds_what_the_simulation_finds() -> None:
    """Another seed; the error of a quantile is that of the share below it, so ±4/√(α · draws) of the slope at most."""
    for most in (10, 20, 63, 200):
        alphas = [0.05, 0.05 / 3, 0.005]
        found = simulated_slopes(analysis_sizes(most), alphas, simulated=200_000, seed=1)
        for alpha, slope, tabulated in zip(alphas, found, [SLOPES[most][k] for k in (0, 2, 9)], strict=True):
            assert slope == pytest.approx(tabulated, rel=4 / math.sqrt(alpha * 200_000) + 0.01)


def test_the_table_is_complete_and_ordered() -> None:
    for slopes in SLOPES.values():
        assert len(slopes) == 10
        assert all(after < before for before, after in itertools.pairwise(slopes))
    for k in range(10):
        column = [SLOPES[most][k] for most in sorted(SLOPES)]
        assert all(after < before for before, after in itertools.pairwise(column))


def test_plans_that_are_not_tabulated_are_simulated_and_always_the_same() -> None:
    assert spending_slope((6, 12), 0.05) == simulated_slopes((6, 12), [0.05])[0]
    spending_slope.cache_clear()
    assert spending_slope((6, 12), 0.05) == simulated_slopes((6, 12), [0.05])[0]
    assert spending_slope((6, 10), 0.05) == SLOPES[10][0]
    assert spending_slope((6, 10), 0.05 / 7) == SLOPES[10][6]
    assert spending_slope((6, 10), 0.04) == simulated_slopes((6, 10), [0.04])[0]


@pytest.mark.parametrize(("sizes", "alpha"), [((6, 10, 16, 25, 40), 0.05), ((6, 10, 16, 20), 0.05 / 3), ((6, 7), 0.05)])
def test_the_levels_together_make_alpha(sizes: tuple[int, ...], alpha: float) -> None:
    """Raw normal differences, each analysis by scipy's t; an error is any |t_k| beyond its limit."""
    simulations = 40_000
    differences = np.random.default_rng(7).normal(0, 1, (simulations, sizes[-1]))
    wrong = np.zeros(simulations, bool)
    for size, level in zip(sizes, analysis_levels(sizes, alpha), strict=True):
        part = differences[:, :size]
        t = part.mean(1) / (part.std(1, ddof=1) / math.sqrt(size))
        wrong |= np.abs(t) > stats.t.isf(level / 2, size - 1)
    assert wrong.mean() == pytest.approx(alpha, abs=4 * math.sqrt(alpha / simulations))


# The word


def test_analyses_share_their_intervals() -> None:
    """Each at its own level on its own seeds; the family interval is what all of them share."""
    random = np.random.default_rng(9)
    differences = {"one": random.normal(0.5, 1, 25), "two": random.normal(0, 1, 25)}
    values = {"erm": {str(seed): 0.0 for seed in range(25)}}
    values |= {arm: {str(seed): value for seed, value in enumerate(numbers)} for arm, numbers in differences.items()}
    sizes = (6, 10, 16, 25)
    levels = analysis_levels(sizes, 0.025)
    for one in compare("erm", values, rope=0.1, plan=plan_of(*sizes)):
        numbers = differences[one.arm]
        expected = []
        for n, level, analysis in zip(sizes, levels, one.looks, strict=True):
            expected.append(stats.t.interval(1 - level, n - 1, loc=numbers[:n].mean(), scale=stats.sem(numbers[:n])))
            assert (analysis.n, analysis.alpha) == (n, level)
            assert analysis.interval == pytest.approx(expected[-1])
        lows, highs = zip(*expected, strict=True)
        assert one.ci_family == pytest.approx((max(lows), min(highs)))
        plain = stats.t.interval(0.95, 24, loc=numbers.mean(), scale=stats.sem(numbers))
        assert one.ci == pytest.approx(plain)


def test_an_analysis_counts_only_the_pairs_it_had() -> None:
    values = {"erm": {str(seed): 0.0 for seed in range(10)}, "durm": dict.fromkeys("0234567", 1.0)}
    seeds = [["0", "1"], ["5", "4", "3", "2", "1", "0"]]
    (one,) = compare("erm", values, plan=Plan(seeds, series_level))
    assert [(look.n, look.interval) for look in one.looks] == [(1, None), (5, (1.0, 1.0))]
    assert (one.ci_family, one.n) == ((1.0, 1.0), 7)
    (early,) = compare("erm", values, plan=Plan(seeds[:1], series_level))
    assert (early.ci_family, early.verdict, early.ci) == (None, "undecided", (1.0, 1.0))


def test_a_word_takes_enough_pairs_in_an_analysis() -> None:
    """All seven pairs are one side of rope, but the only analysis had five of them."""
    values = {"erm": {str(seed): 0.0 for seed in range(7)}, "durm": {str(seed): 1.0 for seed in range(7)}}
    (one,) = compare("erm", values, rope=0.1, plan=Plan([list("01234")], series_level))
    assert (one.n, one.verdict) == (7, "undecided")


def test_an_arm_keeps_its_word() -> None:
    """Six seeds at 1 ± 0.001, then ten at 0: the later interval lies below the earlier one, which has decided."""
    differences = [0.999, 1.0, 1.001] * 2 + [0.0] * 10
    first, both = (against_zero(differences, plan=plan_of(*sizes)) for sizes in ((6,), (6, 16)))
    assert first.verdict == both.verdict == "better"
    assert both.ci_family is not None
    assert both.ci_family[0] > both.ci_family[1]


def test_analyses_that_contradict_each_other_before_a_word_decide_nothing() -> None:
    """0.1 ± 0.01 touches rope; then ninety seeds near −3: the two intervals have nothing in common."""
    differences = [0.09, 0.1, 0.11] * 2 + [-3.0, -3.1, -2.9] * 30
    one = against_zero(differences, plan=plan_of(6, 96))
    assert one.looks[0].interval is not None
    assert one.looks[0].interval[0] < 0.1 < one.looks[0].interval[1]
    assert (one.verdict, one.reason) == ("undecided", "the analyses contradict each other")


def test_the_series_of_version_1() -> None:
    differences = np.random.default_rng(1).normal(0.8, 1, 16)
    plan = Plan([[str(seed) for seed in range(n)] for n in (6, 10, 16)], series_level)
    one = against_zero(differences, plan=plan)
    assert [look.alpha for look in one.looks] == pytest.approx([0.0303964, 0.0075991, 0.0033774], abs=1e-7)
