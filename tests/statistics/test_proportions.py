"""Intervals of a share, against scipy.stats and known numbers."""

import pytest
from scipy import stats

from durm.statistics.proportions import clopper_pearson, jeffreys


@pytest.mark.parametrize(("count", "n"), [(0, 1), (1, 1), (0, 500), (3, 10), (10, 10), (250, 500)])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_clopper_pearson_is_scipys_exact_interval(count: int, n: int, alpha: float) -> None:
    expected = stats.binomtest(count, n).proportion_ci(1 - alpha, "exact")
    assert clopper_pearson(count, n, alpha) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_none_of_500_leaves_more_than_half_a_percent() -> None:
    """1 − 0.025^(1/500) = 0.74 %, one-sided 1 − 0.05^(1/500) = 0.6 %."""
    assert clopper_pearson(0, 500) == (0, pytest.approx(0.00735, abs=1e-5))
    assert clopper_pearson(0, 500, 0.1)[1] == pytest.approx(1 - 0.05 ** (1 / 500))


@pytest.mark.parametrize("wins", [0.5, 1, 4.5, 9, 9.5])
def test_jeffreys_is_the_quantile_of_its_beta(wins: float) -> None:
    assert jeffreys(wins, 10) == pytest.approx(stats.beta.interval(0.95, wins + 0.5, 10 - wins + 0.5))


def test_jeffreys_ends_at_the_ends() -> None:
    assert jeffreys(0, 10) == (0, pytest.approx(stats.beta.ppf(0.975, 0.5, 10.5)))
    assert jeffreys(10, 10) == (pytest.approx(stats.beta.ppf(0.025, 10.5, 0.5)), 1)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_exact_interval_covers_by_enumeration(share: float) -> None:
    n = 20
    chances = stats.binom.pmf(range(n + 1), n, share)
    intervals = [clopper_pearson(count, n) for count in range(n + 1)]
    covered = sum(chance for chance, (low, high) in zip(chances, intervals, strict=True) if low <= share <= high)
    assert covered >= 0.95
