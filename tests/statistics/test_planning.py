"""Planning, against direct search, scipy.stats and simulation."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import integrate, stats

from durm.statistics.intervals import SampleVariance, decide, interval
from durm.statistics.planning import (
    MOST,
    equivalence_power,
    half_width,
    min_difference,
    pairs_for_rope,
    pairs_needed,
    plan_sizes,
    power,
    spread_range,
)


@cache
def quantiles(alpha: float, fewest: int) -> np.ndarray:
    return np.asarray(stats.t.isf(alpha / 2, np.arange(fewest, MOST + 1) - 1))


def first_n(spread: float, width: float, added: float, alpha: float, fewest: int) -> int | None:
    """The first n whose half-width is narrow enough, one after the other."""
    n = np.arange(fewest, MOST + 1)
    enough = quantiles(alpha, fewest) * np.sqrt(spread**2 / n + added) <= width
    return int(n[enough.argmax()]) if enough.any() else None


@pytest.mark.parametrize(("alpha", "fewest"), [(0.05, 6), (0.05 / 3, 7), (0.005, 9)])
@pytest.mark.parametrize("spread", [0.01, 0.3, 0.7, 5.0, 50.0])
@pytest.mark.parametrize("added", [0.0, 0.001, 0.01])
def test_pairs_needed_is_the_first_n_that_is_narrow_enough(
    spread: float, added: float, alpha: float, fewest: int
) -> None:
    for width in (0.0, 0.01, 0.1, 2.0):
        expected = first_n(spread, width, added, alpha, fewest) if width else None
        assert pairs_needed(spread, width, added, alpha) == expected


@pytest.mark.parametrize("n", [6, 10, 50])
def test_the_smallest_difference_decides_and_less_does_not(n: int) -> None:
    """Samples that have exactly this mean and spread."""
    shape = 0.3 * stats.zscore(np.arange(float(n)), ddof=1)
    limit = min_difference(n, 0.3 / math.sqrt(n), 0.0, 0.1, 0.05)
    assert limit is not None
    assert decide(interval(1.0001 * limit + shape), 0.1) == "better"
    assert decide(interval(0.9999 * limit + shape), 0.1) == "undecided"
    assert decide(interval(-1.0001 * limit + shape), 0.1) == "worse"


def test_the_samples_widen_the_smallest_difference() -> None:
    """s² / n + v = 0.04 + 0.05 = 0.3², t(9) = 2.2622."""
    assert min_difference(10, 0.2, 0.05, 0.1, 0.05) == pytest.approx(0.1 + 2.2622 * 0.3, abs=1e-4)
    assert half_width(10, 0.2 * math.sqrt(10), 0.05) == pytest.approx(2.2622 * 0.3, abs=1e-4)


def test_the_pairs_for_rope_and_their_range() -> None:
    found = pairs_for_rope(10, 0.1, None, 0.1, 0.05)
    spread = 0.1 * math.sqrt(10)
    low, high = (spread * math.sqrt(9 / stats.chi2.ppf(p, 9)) for p in (0.95, 0.05))
    assert found["n_for_rope"] == first_n(spread, 0.1, 0.0, 0.05, 6)
    assert found["n_for_rope_range"] == tuple(first_n(one, 0.1, 0.0, 0.05, 6) for one in (low, high))
    assert "test_samples_for_rope" not in found


def test_where_the_samples_alone_are_too_wide_more_of_them_help() -> None:
    """v = 0.01 is a half-width of 0.196 with any number of seeds; the answer leaves them half of the variance."""
    found = pairs_for_rope(10, 0.1, SampleVariance(500, 0.012, 0.002), 0.1, 0.05)
    assert found["n_for_rope"] is None
    assert "n_for_rope_range" not in found
    needed = found["test_samples_for_rope"]
    assert needed == pytest.approx(2 * 500 * 0.01 * (stats.norm.isf(0.025) / 0.1) ** 2, rel=1e-3)
    assert pairs_needed(0.1 * math.sqrt(10), 0.1, 0.01 * 500 / needed) is not None
    assert "test_samples_for_rope" not in pairs_for_rope(10, 0.1, SampleVariance(500, 0.012, 0.002), 0.0, 0.05)


@pytest.mark.parametrize("n", [2, 6, 30])
def test_the_range_of_a_spread_is_that_of_chi_square(n: int) -> None:
    low, high = spread_range(2.0, n)
    assert low == pytest.approx(2 * math.sqrt((n - 1) / stats.chi2.ppf(0.95, n - 1)))
    assert high == pytest.approx(2 * math.sqrt((n - 1) / stats.chi2.ppf(0.05, n - 1)))


def test_the_range_of_a_spread_covers() -> None:
    spreads = np.random.default_rng(0).normal(0, 1, (20_000, 6)).std(1, ddof=1)
    factors = spread_range(1.0, 6)
    assert ((spreads * factors[0] <= 1) & (spreads * factors[1] >= 1)).mean() == pytest.approx(0.9, abs=0.01)


# Power


@pytest.mark.parametrize(("n", "alpha"), [(6, 0.05), (10, 0.05), (9, 0.005), (40, 0.05 / 3)])
@pytest.mark.parametrize("difference", [-1.0, 0.1, 0.3, 0.8, 3.0])
def test_power_is_that_of_the_noncentral_t_and_of_simulated_studies(n: int, alpha: float, difference: float) -> None:
    found = power(n, 0.5, difference, 0.1, alpha)
    limit = stats.t.isf(alpha / 2, n - 1)
    assert found == pytest.approx(stats.nct.sf(limit, n - 1, (difference - 0.1) * math.sqrt(n) / 0.5), abs=1e-7)
    values = np.random.default_rng(n).normal(difference, 0.5, (20_000, n))
    low = values.mean(1) - limit * values.std(1, ddof=1) / math.sqrt(n)
    assert (low > 0.1).mean() == pytest.approx(found, abs=0.015)


def test_power_far_away_is_a_number() -> None:
    """Of a non-central t whose centre is 38, scipy says nan."""
    for centre in (37.0, 38.0, 39.0, 100.0, 1e6):
        assert power(10, 1.0, centre / math.sqrt(10), 0.0) == pytest.approx(1)
        assert power(10, 1.0, -centre / math.sqrt(10), 0.0) == pytest.approx(0)
    assert (power(10, 0.0, 0.2, 0.1), power(10, 0.0, 0.1, 0.1)) == (1, 0)


@pytest.mark.parametrize(("n", "spread"), [(6, 0.05), (20, 0.15), (60, 0.3)])
def test_the_power_to_find_equality(n: int, spread: float) -> None:
    values = np.random.default_rng(1).normal(0, spread, (20_000, n))
    half = stats.t.isf(0.025, n - 1) * values.std(1, ddof=1) / math.sqrt(n)
    expected = (np.abs(values.mean(1)) + half <= 0.1).mean()
    assert 0.1 < expected < 0.999
    assert equivalence_power(n, spread, 0.1) == pytest.approx(expected, abs=0.015)


def test_the_edges_of_the_power_to_find_equality() -> None:
    assert equivalence_power(6, 0.0, 0.1) == 1
    assert equivalence_power(6, 0.0, 0.0) == 0  # no margin, never equal
    assert equivalence_power(10, 5.0, 0.1) == 0


def test_too_few_pairs_have_no_power() -> None:
    for n, alpha in ((5, 0.05), (6, 0.05 / 3), (8, 0.005)):
        assert min_difference(n, 0.1, 0.0, 0.1, alpha) is None
        assert power(n, 0.1, 5.0, 0.1, alpha) == equivalence_power(n, 0.001, 0.1, alpha) == 0
    (one,) = plan_sizes([5], 0.1, 0.1, difference=5.0, pilot=10)
    assert (one.min_difference, one.equal, one.better, one.assurance) == (None, 0, 0, 0)


# Plans


def test_a_plan_puts_the_figures_together() -> None:
    for arms in (1, 3):
        for one in plan_sizes([7, 20, 80], 0.4, 0.1, arms=arms, difference=0.3):
            alpha = 0.05 / arms
            assert one.half_width == half_width(one.n, 0.4, 0.0, alpha)
            assert one.min_difference == pytest.approx(0.1 + one.half_width)
            assert one.equal == equivalence_power(one.n, 0.4, 0.1, alpha)
            assert one.better == power(one.n, 0.4, 0.3, 0.1, alpha)
            assert one.assurance is None


@pytest.mark.parametrize("pilot", [3, 6, 20])
def test_assurance_is_the_power_averaged_over_the_spread(pilot: int) -> None:
    """σ² = s² (n − 1)/χ²(n − 1): by quadrature."""
    for n in (10, 40):
        (one,) = plan_sizes([n], 0.4, 0.1, difference=0.3, pilot=pilot)

        def weighted(chi: float, n: int = n) -> float:
            return power(n, 0.4 * math.sqrt((pilot - 1) / chi), 0.3, 0.1) * float(stats.chi2.pdf(chi, pilot - 1))

        expected, _ = integrate.quad(weighted, 1e-9, stats.chi2.isf(1e-9, pilot - 1), limit=200)
        assert one.assurance == pytest.approx(expected, abs=0.01)


def test_without_a_difference_assurance_is_that_of_equality() -> None:
    (one,) = plan_sizes([60], 0.3, 0.1, pilot=6)
    random = np.random.default_rng(2)
    spreads = 0.3 * np.sqrt(5 / random.chisquare(5, 20_000))
    values = spreads[:, None] * random.normal(0, 1, (20_000, 60))
    half = stats.t.isf(0.025, 59) * values.std(1, ddof=1) / math.sqrt(60)
    assert one.better is None
    assert one.assurance == pytest.approx((np.abs(values.mean(1)) + half <= 0.1).mean(), abs=0.02)
    assert one.assurance < one.equal  # the spread may be larger than the pilot's
