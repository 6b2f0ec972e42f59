"""Warnings about single differences, against numbers worked out by hand and scipy.stats."""

import numpy as np
import pytest
from scipy import stats

from durm.statistics.diagnostics import adjusted_skewness, warn_about


@pytest.mark.parametrize("n", [3, 6, 40])
def test_the_skewness_is_scipys_without_bias(n: int) -> None:
    values = np.random.default_rng(n).exponential(1, n)
    assert adjusted_skewness(values) == pytest.approx(stats.skew(values, bias=False))


def test_without_spread_or_values_there_is_no_skewness() -> None:
    assert adjusted_skewness(np.ones(5)) is None
    assert adjusted_skewness(np.array([1.0, 2.0])) is None


def test_a_difference_far_from_the_others() -> None:
    """Median 0, MAD 1: the limit is 5 · 1.4826 = 7.413."""
    others = [-2.0, -1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 2.0]
    assert not any("robust" in warning for warning in warn_about(np.array([*others, 7.41])))
    (first, *_) = warn_about(np.array([*others, 7.42]))
    assert first.startswith("1 of 9 differences lies more than 5 robust standard deviations from the median")
    (first, *_) = warn_about(np.array([*others, *others, 20, -20.0]))
    assert first.startswith("2 of 18 differences lie more than 5")


def test_most_differences_equal_on_a_lattice() -> None:
    """The MAD is 0; it counts as step/√6, so the limit is 5 · 1.4826 · 0.1/√6 = 0.303."""
    few = [0.0] * 6
    assert not any("robust" in warning for warning in warn_about(np.array([*few, 0.3]), 0.1))
    assert any("robust" in warning for warning in warn_about(np.array([*few, 0.31]), 0.1))
    assert warn_about(np.array([*few, -20.0]))  # without a step the skewness warns


def test_skewed_differences_are_named() -> None:
    """G₁ of 0, 0, 0, 0, 0, 1 is √6; the limit at n = 6 is 2."""
    values = np.array([0.0] * 5 + [1.0])
    assert adjusted_skewness(values) == pytest.approx(6**0.5)
    (warning,) = warn_about(values)
    assert warning.startswith("the differences are skewed (G1 = 2.4)")
    assert warn_about(-values)


@pytest.mark.parametrize(
    "values", [[], [1.0], [0.0, 50.0], [1.0] * 9, [-1.0, 0.0, 1.0], [0.0, 0.1, 50.0], list(range(10))]
)
def test_nothing_is_said_of_what_is_even_or_of_very_few(values: list[float]) -> None:
    assert warn_about(np.array(values, float)) == []


def test_normal_differences_are_seldom_warned_about() -> None:
    random = np.random.default_rng(0)
    for n in (6, 20):
        assert np.mean([bool(warn_about(random.normal(0, 1, n))) for _ in range(2000)]) < 0.1
