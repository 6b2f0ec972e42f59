"""Intervals, against scipy.stats, numbers worked out by hand and direct loops."""

import math

import numpy as np
import pytest
from scipy import stats

from durm.statistics.intervals import (
    SampleVariance,
    bound_of_mean,
    decide,
    fewest_pairs,
    interval,
    jackknife_variance,
    mean_of_domains,
    quantile,
    sample_variance,
    smallest_p,
    smallest_p_unpaired,
    standard_error,
    welch,
)

# Over seeds


@pytest.mark.parametrize("n", [2, 3, 6, 10, 20, 1000])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 3, 0.0001])
def test_the_interval_is_students(n: int, alpha: float) -> None:
    differences = np.random.default_rng(n).normal(0.3, 2, n)
    expected = stats.t.interval(1 - alpha, n - 1, loc=differences.mean(), scale=stats.sem(differences))
    assert interval(differences, alpha) == pytest.approx(expected, rel=1e-9)
    assert quantile(n, alpha) == pytest.approx(stats.t.isf(alpha / 2, n - 1))


def test_the_interval_by_hand() -> None:
    """1, 2, 3: d = 2, s = 1; the table has t = 4.303 for two degrees of freedom, so 2 ± 4.303/√3."""
    assert interval(np.array([1.0, 2.0, 3.0])) == pytest.approx((-0.484, 4.484), abs=1e-3)


def test_the_interval_belongs_to_the_paired_t_test() -> None:
    """At level 1 − p it ends at 0, if p is that of scipy's paired test."""
    random = np.random.default_rng(1)
    theirs, ours = random.normal(0, 1, 12), random.normal(0.5, 1, 12)
    limits = interval(ours - theirs, float(stats.ttest_rel(ours, theirs).pvalue))
    assert limits is not None
    assert min(abs(limits[0]), abs(limits[1])) < 1e-12


def test_one_difference_has_no_interval() -> None:
    assert interval(np.array([])) is None
    assert interval(np.array([1.0])) is None


@pytest.mark.parametrize("n", [2, 3, 6, 20])
@pytest.mark.parametrize("value", [0.0, 0.1, 0.25, 93.4 - 93.1])
def test_without_spread_and_without_steps_the_interval_is_a_point(n: int, value: float) -> None:
    """Whatever the last bits of the mean."""
    assert interval(np.full(n, value)) == (value, value)


def test_the_lattice_floor_by_hand() -> None:
    """Two pairs at 0.2 of a metric with steps of 0.6: variance 0.36/6 = 0.06, half-width 12.706 · √0.03."""
    assert standard_error(np.array([0.2, 0.2]), step=0.6) == pytest.approx(math.sqrt(0.03))
    expected = (0.2 - 12.7062 * math.sqrt(0.03), 0.2 + 12.7062 * math.sqrt(0.03))
    assert interval(np.array([0.2, 0.2]), step=0.6) == pytest.approx(expected, abs=1e-4)


def test_the_floor_is_the_variance_of_two_rounded_numbers() -> None:
    """Rounding to a lattice adds step²/12 in each arm, so step²/6 to a difference, if the step is not too coarse."""
    random = np.random.default_rng(0)
    exact = random.normal(90, 1, (2, 200_000))
    rounded = np.round(exact / 0.5) * 0.5
    added = (rounded[1] - rounded[0]).var() - (exact[1] - exact[0]).var()
    assert added == pytest.approx(0.5**2 / 6, rel=0.1)


# Over seeds and samples


def test_the_two_way_variance_by_hand() -> None:
    """Rows 1 0 2, 3 2 4. Row means 1, 3: variance 2. Column means 2, 1, 3: variance 1. Σ(D − 2)² = 10: variance 2."""
    outcomes = np.array([[1, 0, 2], [3, 2, 4]])
    found = sample_variance(outcomes)
    assert found is not None
    assert (found.samples, found.between, found.residual) == (3, pytest.approx(1 / 3), pytest.approx(2 / 6))
    assert found.added == pytest.approx(0)
    # v_s = (2 + 0.6²/6)/2 = 1.03
    assert standard_error(outcomes.mean(1), step=0.6, samples=found) == pytest.approx(math.sqrt(1.03))


def test_the_two_way_interval_by_hand() -> None:
    """Rows 0 6, 0 6, 3 3: row means all 3, v_s = 0; column means 1 and 5, v_t = 8/2; Σ(D − 3)² = 36, v_e = 7.2/6."""
    outcomes = np.array([[0, 6], [0, 6], [3, 3]], np.int8)
    found = sample_variance(outcomes)
    assert found is not None
    assert (found.between, found.residual) == (pytest.approx(4.0), pytest.approx(1.2))
    half = 4.30265 * math.sqrt(2.8)
    assert interval(outcomes.mean(1), samples=found) == pytest.approx((3 - half, 3 + half), abs=1e-4)


def test_the_samples_never_make_the_interval_narrower() -> None:
    """Cells without any effect of the sample have v_t below v_e in half of all cases; SE² is at least v_s."""
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(50):
        outcomes = random.integers(-1, 2, (6, 40))
        found = sample_variance(outcomes)
        assert found is not None
        row_means = outcomes.mean(1)
        expected = row_means.var(ddof=1) / 6 + max(0, found.between - found.residual)
        assert standard_error(row_means, samples=found) ** 2 == pytest.approx(expected)
        seen.add(found.between > found.residual)
    assert seen == {True, False}


def test_without_two_seeds_or_two_samples_there_is_no_variance_over_samples() -> None:
    for shape in ((1, 5), (5, 1), (0, 5), (0, 0)):
        assert sample_variance(np.zeros(shape)) is None
        assert jackknife_variance(np.zeros(shape)) is None


def leave_one_out(outcomes: np.ndarray) -> np.ndarray:
    """The mean of each row without one sample."""
    return np.stack([np.delete(outcomes, sample, axis=1).mean(1) for sample in range(outcomes.shape[1])], axis=1)


def test_for_a_mean_the_jackknife_is_the_formula() -> None:
    outcomes = np.random.default_rng(3).normal(0.2, 1, (5, 30)) + np.linspace(0, 2, 30)
    direct, jackknife = sample_variance(outcomes), jackknife_variance(leave_one_out(outcomes))
    assert direct is not None
    assert jackknife is not None
    assert jackknife.samples == 30
    assert jackknife.between == pytest.approx(direct.between)
    within_rows = np.mean([row.var(ddof=1) for row in outcomes]) / (5 * 30)
    assert jackknife.residual == pytest.approx(within_rows)


def test_the_jackknife_against_a_loop_for_a_ratio() -> None:
    """Σa/Σb of each seed, as an intersection over a union."""
    random = np.random.default_rng(4)
    tops, bottoms = random.integers(0, 20, (4, 12)), random.integers(20, 40, (4, 12))
    keep = ~np.eye(12, dtype=bool)
    without = np.array([[tops[i, keep[j]].sum() / bottoms[i, keep[j]].sum() for j in range(12)] for i in range(4)])

    def variance(values: np.ndarray) -> float:
        return 11 / 12 * sum((value - values.mean()) ** 2 for value in values)

    found = jackknife_variance(without)
    assert found is not None
    assert found.between == pytest.approx(variance(without.mean(0)))
    assert found.residual == pytest.approx(np.mean([variance(row) for row in without]) / 4)


def test_the_mean_over_domains() -> None:
    """(0.9 + 0.1)/4 and (0.3 + 0.1)/4, added 0.6/4."""
    found = mean_of_domains([SampleVariance(100, 0.9, 0.3), SampleVariance(50, 0.1, 0.1)])
    assert (found.samples, found.between, found.residual) == (50, pytest.approx(0.25), pytest.approx(0.1))
    assert found.added == pytest.approx(0.15)


def test_one_domain_is_itself() -> None:
    one = SampleVariance(100, 0.9, 0.3)
    assert mean_of_domains([one]) == one


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.5, 1.0])
def test_the_mean_of_several_effects_on_the_same_samples_varies_no_more_than_its_bound(correlation: float) -> None:
    """Effects of many samples, of known standard deviations 1 and 3; the bound is met where they go together."""
    random, samples, seeds = np.random.default_rng(3), 20_000, 12
    first, other = random.standard_normal((2, samples))
    effects = [first, 3 * (correlation * first + math.sqrt(1 - correlation**2) * other)]
    found = [sample_variance(effect + random.standard_normal((seeds, samples))) for effect in effects]
    bound = bound_of_mean([one for one in found if one is not None])
    known = 1 - 1 / seeds  # v_t − v_e takes off a share of the effects' own variance
    assert bound.samples == samples
    assert bound.added == pytest.approx(known * ((1 + 3) / 2) ** 2 / samples, rel=0.05)
    mean = sample_variance(sum(effects) / 2 + random.standard_normal((seeds, samples)) / math.sqrt(2))
    assert mean is not None
    assert mean.added == pytest.approx(known * (1 + 9 + 2 * 3 * correlation) / 4 / samples, rel=0.05)
    assert mean.added <= 1.05 * bound.added


# Unpaired


@pytest.mark.parametrize("sizes", [(2, 2), (5, 9), (30, 4)])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_welch_is_scipys(sizes: tuple[int, int], alpha: float) -> None:
    random = np.random.default_rng(sum(sizes))
    ours, theirs = random.normal(1, 2, sizes[0]), random.normal(0, 0.5, sizes[1])
    expected = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(1 - alpha)
    assert welch(ours, theirs, alpha) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_welch_with_steps_by_hand() -> None:
    """Both constant, four runs each, step 1.2: variance 0.12 in each arm, 0.06 of the difference, 6 degrees."""
    half = stats.t.isf(0.025, 6) * math.sqrt(0.06)
    assert welch(np.full(4, 3.0), np.full(4, 1.0), step=1.2) == pytest.approx((2 - half, 2 + half))
    assert welch(np.full(4, 3.0), np.full(4, 1.0)) == (2, 2)
    assert welch(np.ones(1), np.ones(5)) is None


# Words


def test_the_smallest_p() -> None:
    assert (smallest_p(1), smallest_p(3), smallest_p(6)) == (1, 0.25, 0.03125)
    assert (smallest_p_unpaired(3, 3), smallest_p_unpaired(4, 4)) == (0.1, 2 / 70)
    ours, theirs = np.arange(5.0) + 10, np.arange(4.0)

    def difference(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(first.mean(axis) - second.mean(axis))

    exact = stats.permutation_test((ours, theirs), difference, n_resamples=np.inf).pvalue
    assert smallest_p_unpaired(5, 4) == pytest.approx(exact)


def test_the_fewest_pairs_of_a_word() -> None:
    assert [fewest_pairs(arms=arms) for arms in (1, 3, 10)] == [6, 7, 9]
    for arms in range(1, 200):
        n = fewest_pairs(arms=arms)
        assert smallest_p(n) <= 0.05 / arms < smallest_p(n - 1)
    assert fewest_pairs(2**-5) == 6  # exactly 2/2⁶


@pytest.mark.parametrize(
    ("limits", "rope", "higher", "lower"),
    [
        ((0.11, 0.5), 0.1, "better", "worse"),
        ((-0.5, -0.11), 0.1, "worse", "better"),
        ((0.1, 0.5), 0.1, "undecided", "undecided"),  # a lower end of exactly rope is not beyond it
        ((-0.5, -0.1), 0.1, "undecided", "undecided"),
        ((-0.1, 0.1), 0.1, "equal", "equal"),
        ((0.1, 0.1), 0.1, "equal", "equal"),
        ((0.0, 0.05), 0.1, "equal", "equal"),
        ((0.02, 0.05), 0.1, "equal", "equal"),  # a difference for sure, but of no practical size
        ((-0.11, 0.1), 0.1, "undecided", "undecided"),
        ((-0.1, 0.11), 0.1, "undecided", "undecided"),
        ((-1.0, 1.0), 0.1, "undecided", "undecided"),
        ((1e-9, 1.0), 0.0, "better", "worse"),
        ((-1.0, -1e-9), 0.0, "worse", "better"),
        ((0.0, 1.0), 0.0, "undecided", "undecided"),
        ((-1e-9, 1e-9), 0.0, "undecided", "undecided"),
        ((0.0, 0.0), 0.0, "undecided", "undecided"),  # no rope, never equal
        ((0.3, 0.2), 0.1, "undecided", "undecided"),  # analyses that contradict each other
        ((0.05, -0.05), 0.1, "undecided", "undecided"),
        (None, 0.1, "undecided", "undecided"),
    ],
)
def test_the_word(limits: tuple[float, float] | None, rope: float, higher: str, lower: str) -> None:
    assert decide(limits, rope) == higher
    assert decide(limits, rope, higher_is_better=False) == lower
