"""The verdict, against numbers worked out by hand, scipy.stats, brute force and simulated studies of known truth."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from durm.study import verdict
from durm.study.rules import look_alpha, look_sizes
from durm.study.verdict import (
    Comparison,
    compare,
    compare_family,
    decide,
    holm,
    interval,
    pitman_morgan,
    seeds_needed,
    sign_flip,
    smallest_p,
)

PEEKS = (6, 10, 16, 25, 40)
SIMULATIONS = 20_000


def by_seed(values: Sequence[float] | np.ndarray) -> dict[str, float]:
    return {str(seed): float(value) for seed, value in enumerate(values)}


def against_zero(differences: Sequence[float] | np.ndarray, **options: Any) -> Comparison:
    """One arm against a baseline of zeros, so that the arm's values are the differences."""
    (comparison,) = compare(
        "erm", {"erm": by_seed([0.0] * len(differences)), "durm": by_seed(differences)}, rope=0.1, **options
    )
    return comparison


# The interval


@pytest.mark.parametrize("n", [2, 3, 6, 10, 20, 1000])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 3, 0.0001])
def test_the_interval_is_students(n: int, alpha: float) -> None:
    differences = np.random.default_rng(n).normal(0.3, 2, n)
    expected = stats.t.interval(1 - alpha, n - 1, loc=differences.mean(), scale=stats.sem(differences))
    assert interval(differences, alpha) == pytest.approx(expected, rel=1e-9)


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


def test_without_spread_the_interval_is_a_point() -> None:
    assert interval(np.full(4, 0.25)) == (0.25, 0.25)
    assert interval(np.zeros(9)) == (0.0, 0.0)


def test_one_difference_has_no_interval() -> None:
    assert interval(np.array([])) is None
    assert interval(np.array([1.0])) is None


# The sign-flip test


def share_of_flips(differences: Sequence[int]) -> float:
    """The definition, in whole numbers."""
    flips = itertools.product((1, -1), repeat=len(differences))
    sums = [abs(sum(sign * value for sign, value in zip(flip, differences, strict=True))) for flip in flips]
    return sum(total >= abs(sum(differences)) for total in sums) / len(sums)


def share_by_counting(differences: Sequence[int]) -> float:
    """The same for many differences: how many flips have each sum, one difference after the other."""
    ways = Counter({0: 1})
    for value in differences:
        following: Counter[int] = Counter()
        for total, count in ways.items():
            following[total + value] += count
            following[total - value] += count
        ways = following
    extreme = sum(count for total, count in ways.items() if abs(total) >= abs(sum(differences)))
    return float(Fraction(extreme, 2 ** len(differences)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8), st.sampled_from([1.0, 0.1, 1 / 3, 1e-9, 1e9]))
def test_sign_flip_is_the_share_of_all_flips(differences: list[int], unit: float) -> None:
    """Small whole numbers have many ties, zeros and equal sizes; a unit that is no power of 2 has them inexactly."""
    assert sign_flip(unit * np.array(differences)) == share_of_flips(differences)


@pytest.mark.parametrize("n", [2, 5, 9, 12])
@pytest.mark.parametrize("tied", [False, True])
def test_sign_flip_agrees_with_scipys_permutation_test(n: int, tied: bool) -> None:
    random = np.random.default_rng(n)
    theirs, ours = random.normal(0, 1, n), random.normal(0.7, 1, n)
    if tied:
        theirs, ours = np.round(2 * theirs), np.round(2 * ours)

    def mean_difference(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray((first - second).mean(axis))

    result = stats.permutation_test((ours, theirs), mean_difference, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip(ours - theirs) == pytest.approx(result.pvalue, abs=1e-12)


@pytest.mark.parametrize("n", [13, 19, 20])
def test_sign_flip_takes_all_flips_up_to_twenty(n: int) -> None:
    differences = np.random.default_rng(n).integers(-30, 40, n)
    assert sign_flip(differences.astype(float)) == share_by_counting(differences.tolist())
    assert sign_flip(np.arange(1.0, n + 1)) == 2 / 2**n


@pytest.mark.parametrize("n", [21, 25, 40])
def test_beyond_twenty_random_flips_come_close(n: int) -> None:
    differences = np.random.default_rng(n).integers(-30, 40, n)
    exact = share_by_counting(differences.tolist())
    p = sign_flip(differences.astype(float))
    assert p is not None
    assert abs(p - exact) < 4 * math.sqrt(exact * (1 - exact) / verdict.FLIPS)
    assert p * (verdict.FLIPS + 1) == pytest.approx(round(p * (verdict.FLIPS + 1)), abs=1e-6)


def test_for_many_differences_the_flips_are_normal() -> None:
    differences = np.random.default_rng(3).normal(0.1, 1, 300)
    normal = 2 * stats.norm.sf(abs(differences.sum()) / math.sqrt((differences**2).sum()))
    assert sign_flip(differences) == pytest.approx(normal, abs=0.005)


def test_random_flips_are_seeded_and_never_give_zero() -> None:
    differences = np.random.default_rng(0).normal(0.2, 1, 30)
    assert sign_flip(differences) == sign_flip(differences) == sign_flip(differences, seed=0)
    assert sign_flip(differences) != sign_flip(differences, seed=1)
    assert sign_flip(np.ones(60)) == 1 / 100_000


def test_sign_flip_does_not_depend_on_sign_scale_or_order() -> None:
    random = np.random.default_rng(5)
    differences = random.normal(0.5, 1, 11)
    p = sign_flip(differences)
    assert sign_flip(-differences) == p
    for scale in (1e-8, 0.1, 3.0, 1e8):
        assert sign_flip(scale * differences) == p
    for _ in range(10):
        assert sign_flip(random.permutation(differences)) == p
    many = random.normal(0.2, 1, 30)
    assert sign_flip(-many) == sign_flip(many) == sign_flip(4 * many)


@pytest.mark.parametrize("n", [1, 6, 20, 21, 50])
def test_without_any_difference_p_is_one(n: int) -> None:
    assert sign_flip(np.zeros(n)) == 1


def test_sign_flip_of_nothing_and_of_one() -> None:
    assert sign_flip(np.array([])) is None
    assert sign_flip(np.array([5.0])) == 1


def test_the_smallest_p() -> None:
    assert (smallest_p(1), smallest_p(3), smallest_p(6)) == (1, 0.25, 0.03125)
    for n in (1, 3, 6, 12):
        assert sign_flip(np.arange(1.0, n + 1)) == smallest_p(n)


# Holm's correction


def test_holm_by_hand() -> None:
    """4 · 0.005, 3 · 0.01, 2 · 0.03, and 1 · 0.04, which may not fall below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_holm_counts_arms_without_a_p_value() -> None:
    assert holm([0.01, None, 0.02]) == [pytest.approx(0.03), None, pytest.approx(0.04)]
    assert holm([None, None]) == [None, None]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.03, 0.2, 0.5, 1.0]), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p_values: list[float]) -> None:
    """An arm is rejected only if Bonferroni's test rejects every group of arms that it is in: brute force."""
    corrected = holm(p_values)
    for arm, (p, p_holm) in enumerate(zip(p_values, corrected, strict=True)):
        others = [other for other in range(len(p_values)) if other != arm]
        groups = [(arm, *rest) for size in range(len(p_values)) for rest in itertools.combinations(others, size)]
        expected = max(min(1.0, len(group) * min(p_values[member] for member in group)) for group in groups)
        assert p_holm == pytest.approx(expected)
        assert p_holm is not None
        assert p_holm >= p
    ranked = [p_holm for _, p_holm in sorted(zip(p_values, corrected, strict=True))]
    assert ranked == sorted(p_holm for p_holm in corrected if p_holm is not None)


# The word


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
        ((0.0, 0.0), 0.0, "equal", "equal"),
        ((0.3, 0.2), 0.1, "undecided", "undecided"),  # looks that contradict each other
        ((0.05, -0.05), 0.1, "undecided", "undecided"),
        (None, 0.1, "undecided", "undecided"),
    ],
)
def test_the_word(limits: tuple[float, float] | None, rope: float, higher: str, lower: str) -> None:
    assert decide(limits, rope) == higher
    assert decide(limits, rope, higher_is_better=False) == lower


# The seeds needed


@cache
def half_widths(alpha: float) -> np.ndarray:
    """For a spread of 1 and n = 2, 3, …, 100,001."""
    n = np.arange(2, 100_002)
    return np.asarray(stats.t.isf(alpha / 2, n - 1) / np.sqrt(n))


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 3, 0.005])
@pytest.mark.parametrize("rope", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("spread", [0.01, 0.7, 5.0])
def test_seeds_needed_is_the_first_n_that_is_narrow_enough(spread: float, rope: float, alpha: float) -> None:
    for difference in (-3.0, -0.2, 0.0, 0.03, 0.13, 1.9, 2.5):
        margin = abs(abs(difference) - rope)
        enough = (spread * half_widths(alpha) <= margin)[:-1]
        expected = int(enough.argmax()) + 2 if enough.any() else None
        assert seeds_needed(difference, spread, rope, alpha) == expected


def test_the_seeds_needed_are_enough_and_one_less_is_not() -> None:
    """Samples that have exactly this difference and spread."""
    for difference, word in ((0.25, "better"), (-0.25, "worse"), (0.02, "equal")):
        n = seeds_needed(difference, 0.3, 0.1, 0.05)
        assert n is not None
        words = []
        for size in (n - 1, n):
            shape = stats.zscore(np.arange(float(size)), ddof=1)
            words.append(decide(interval(difference + 0.3 * shape), 0.1))
        assert words == ["undecided", word]


def test_seeds_needed_has_an_end() -> None:
    assert seeds_needed(0.1, 1.0, 0.1, 0.05) is None
    assert seeds_needed(-0.1, 1.0, 0.1, 0.05) is None
    assert seeds_needed(0.0, 1.0, 0.0, 0.05) is None
    last = float(half_widths(0.05)[-2])
    assert seeds_needed(1.000001 * last, 1.0, 0.0, 0.05) == 100_000
    assert seeds_needed(0.999999 * last, 1.0, 0.0, 0.05) is None


def test_without_spread_two_seeds_are_enough() -> None:
    assert seeds_needed(0.3, 0.0, 0.1, 0.05) == 2
    assert seeds_needed(0.0, 0.0, 0.1, 0.05) == 2


# Variances


@pytest.mark.parametrize("n", [3, 4, 6, 10, 50])
@pytest.mark.parametrize("spread", [0.3, 1.0, 4.0])
def test_pitman_morgan_agrees_with_its_two_forms(n: int, spread: float) -> None:
    """Pitman's correlation of sum and difference, and Morgan's t from the ratio and the correlation of the pairs."""
    random = np.random.default_rng(n)
    second = random.normal(90, 1, n)
    first = spread * random.normal(0, 1, n) + 0.5 * second
    ratio, p = pitman_morgan(first, second)
    assert ratio == pytest.approx(np.var(first, ddof=1) / np.var(second, ddof=1))
    assert p == pytest.approx(stats.pearsonr(first + second, first - second).pvalue)
    f, r = first.var() / second.var(), stats.pearsonr(first, second).statistic
    t = (f - 1) * math.sqrt(n - 2) / (2 * math.sqrt(f * (1 - r**2)))
    assert p == pytest.approx(2 * stats.t.sf(abs(t), n - 2))


def test_pitman_morgan_by_hand() -> None:
    """First (1, −1, 0, 0), second (0, 0, 1, −1): sum and difference do not correlate, and the variances are equal."""
    ratio, p = pitman_morgan(np.array([1.0, -1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, -1.0]))
    assert ratio == 1
    assert p == pytest.approx(1)


def test_very_different_variances_are_seen() -> None:
    random = np.random.default_rng(0)
    narrow, wide = random.normal(0, 0.1, 20), random.normal(0, 2, 20)
    ratio, p = pitman_morgan(narrow, wide)
    swapped, p_swapped = pitman_morgan(wide, narrow)
    assert ratio is not None
    assert swapped is not None
    assert ratio < 0.02
    assert swapped == pytest.approx(1 / ratio)
    assert p == pytest.approx(p_swapped, rel=1e-6)
    assert p is not None
    assert p < 1e-9


def test_variances_of_constants_and_of_few_pairs() -> None:
    varying, constant = np.array([1.0, 2.0, 4.0]), np.ones(3)
    assert pitman_morgan(varying, constant) == (None, None)
    assert pitman_morgan(constant, constant) == (None, None)
    assert pitman_morgan(constant, varying)[0] == 0
    assert pitman_morgan(varying, varying) == (1, None)
    assert pitman_morgan(varying, varying + 1) == (1, None)
    assert pitman_morgan(varying[:0], varying[:0]) == (None, None)
    assert pitman_morgan(varying[:1], varying[:1]) == (None, None)
    assert pitman_morgan(np.array([0.0, 2.0]), np.array([0.0, 1.0])) == (4, None)
    ratio, p = pitman_morgan(2 * varying, varying)
    assert ratio == 4
    assert p == pytest.approx(0, abs=1e-6)


# Looks


def test_look_sizes() -> None:
    assert look_sizes(1000) == [6, 10, 16, 25, 40, 63, 100, 160, 250, 400, 630, 1000]
    assert look_sizes(1600)[-2:] == [1000, 1600]
    assert look_sizes(20_000)[-4:] == [6300, 10_000, 16_000, 20_000]
    assert look_sizes(6) == [6]
    assert look_sizes(10) == [6, 10]
    assert look_sizes(12) == [6, 10, 12]
    assert look_sizes(64) == [6, 10, 16, 25, 40, 63, 64]
    assert look_sizes(101) == [6, 10, 16, 25, 40, 63, 100, 101]
    assert look_sizes(3) == [3]


@given(st.integers(1, 10**7))
def test_looks_rise_to_the_most_seeds(most: int) -> None:
    sizes = look_sizes(most)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == most
    assert all(1.5 < after / before < 1.7 for before, after in itertools.pairwise(sizes[:-1]))


@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_all_looks_together_spend_alpha(alpha: float) -> None:
    """What the looks beyond the K-th leave is 6α/π² · Σ 1/k², which lies between 6α/π² · 1/(K + 1) and 1/K."""
    spent = math.fsum(look_alpha(k, alpha) for k in range(1, 10_001))
    assert 6 / math.pi**2 / 10_001 < (alpha - spent) / alpha < 6 / math.pi**2 / 10_000
    assert look_alpha(1, alpha) == pytest.approx(0.6079271 * alpha)
    assert look_alpha(2, alpha) == pytest.approx(look_alpha(1, alpha) / 4)


# The comparison


def test_a_comparison_by_hand() -> None:
    """Differences 1, 0, −1, 4: mean 1, s² = 14/3; t = 3.182; of the 16 flips those with |sum| ≥ 4 are 12."""
    values = {"erm": by_seed([10, 11, 12, 13]), "durm": by_seed([11, 11, 11, 17])}
    (comparison,) = compare("erm", values, rope=0.5)
    assert (comparison.arm, comparison.baseline, comparison.n) == ("durm", "erm", 4)
    assert comparison.difference == 1
    assert comparison.ci == comparison.ci_family == pytest.approx((-2.437, 4.437), abs=1e-3)
    assert comparison.p == comparison.p_holm == 12 / 16
    assert comparison.p_min == 0.125
    assert (comparison.wins, comparison.ties, comparison.losses) == (2, 1, 1)
    assert comparison.correlation == pytest.approx(9 / math.sqrt(5 * 27))
    assert comparison.variance_ratio == pytest.approx(27 / 5)
    assert comparison.verdict == "undecided"
    assert comparison.looks == []


def test_pairs_are_the_seeds_that_both_have() -> None:
    values = {"erm": {"a": 1.0, "b": 2.0, "c": 50.0}, "durm": {"d": -50.0, "b": 3.0, "a": 4.0}}
    (comparison,) = compare("erm", values)
    assert comparison.n == 2
    assert comparison.difference == (3 + 1) / 2


def test_arms_may_have_different_pairs() -> None:
    values = {"erm": by_seed([0, 0, 0, 0]), "one": by_seed([1, 1]), "two": by_seed([1, 2, 3, 6]), "none": {"x": 1.0}}
    assert [(one.arm, one.n, one.difference) for one in compare("erm", values)] == [
        ("one", 2, 1),
        ("two", 4, 3),
        ("none", 0, None),
    ]


@pytest.mark.parametrize("n", [7, 15])
def test_the_order_of_seeds_and_arms_does_not_matter(n: int) -> None:
    random = np.random.default_rng(n)
    values = {arm: by_seed(random.normal(0, 1, n)) for arm in ("erm", "one", "two")}
    expected = {one.arm: one.as_dict() for one in compare("erm", values, rope=0.1)}
    for _ in range(5):
        shuffled = {arm: {seed: values[arm][seed] for seed in random.permutation(list(values[arm]))} for arm in values}
        for one in compare("erm", dict(reversed(shuffled.items())), rope=0.1):
            for name, value in one.as_dict().items():
                wanted = expected[one.arm][name]
                assert value == (pytest.approx(wanted) if isinstance(wanted, float | tuple) else wanted), name


def test_an_arm_without_pairs() -> None:
    (comparison,) = compare("erm", {"erm": {"a": 1.0}, "durm": {}})
    assert (comparison.n, comparison.verdict) == (0, "undecided")
    assert (comparison.wins, comparison.ties, comparison.losses) == (0, 0, 0)
    undefined = ["difference", "ci", "ci_family", "p", "p_holm", "p_min", "correlation", "seeds_needed"]
    undefined += ["variance_ratio", "p_variance", "p_variance_holm"]
    assert all(getattr(comparison, name) is None for name in undefined)


def test_a_baseline_without_arms_has_nothing_to_say() -> None:
    assert compare("erm", {"erm": by_seed([1, 2, 3])}) == []


def test_one_seed_decides_nothing() -> None:
    comparison = against_zero([50.0])
    assert (comparison.n, comparison.difference, comparison.verdict) == (1, 50, "undecided")
    assert comparison.ci is None
    assert comparison.ci_family is None
    assert comparison.seeds_needed is None
    assert (comparison.p, comparison.p_min) == (1, 1)


def test_identical_values_are_equal() -> None:
    values = by_seed([90.5, 91.25, 89.0])
    (comparison,) = compare("erm", {"erm": values, "durm": values})
    assert comparison.verdict == "equal"
    assert (comparison.difference, comparison.ci, comparison.p) == (0, (0, 0), 1)
    assert (comparison.wins, comparison.ties, comparison.losses) == (0, 3, 0)
    assert comparison.correlation == pytest.approx(1)
    assert (comparison.variance_ratio, comparison.p_variance) == (1, None)


def test_constant_values() -> None:
    comparison = against_zero([0.5] * 6)
    assert comparison.verdict == "better"
    assert comparison.ci == comparison.ci_family == (0.5, 0.5)
    assert comparison.p == 0.03125
    assert comparison.correlation is None
    assert comparison.variance_ratio is None


def test_where_lower_is_better_words_and_wins_turn_round_but_numbers_stay() -> None:
    differences = [-0.5, -0.6, -0.4, -0.5, 0.0, -0.7, 0.1, -0.5, -0.6, -0.5]
    accuracy, loss = against_zero(differences), against_zero(differences, higher_is_better=False)
    assert (accuracy.verdict, accuracy.wins, accuracy.ties, accuracy.losses) == ("worse", 1, 1, 8)
    assert (loss.verdict, loss.wins, loss.ties, loss.losses) == ("better", 8, 1, 1)
    for name in ("difference", "ci", "ci_family", "p", "seeds_needed"):
        assert getattr(accuracy, name) == getattr(loss, name)


def test_several_arms_are_one_family() -> None:
    random = np.random.default_rng(2)
    theirs = random.normal(90, 1, 10)
    arms = {f"durm-{k}": theirs + random.normal(0.1 * k, 0.3, 10) for k in (1, 2, 3, 4)}
    values = {"erm": by_seed(theirs)} | {arm: by_seed(ours) for arm, ours in arms.items()}
    comparisons = compare("erm", values, rope=0.05)
    assert [one.arm for one in comparisons] == list(arms)
    p_values = [stats.ttest_rel(ours, theirs).pvalue for ours in arms.values()]
    assert min(p_values) < 0.05 / 4 < max(p_values)
    for one in comparisons:
        differences = arms[one.arm] - theirs
        for limits, level in ((one.ci, 0.95), (one.ci_family, 1 - 0.05 / 4)):
            expected = stats.t.interval(level, 9, loc=differences.mean(), scale=stats.sem(differences))
            assert limits == pytest.approx(expected)
        assert one.correlation == pytest.approx(stats.pearsonr(arms[one.arm], theirs).statistic)
        margin = abs(abs(differences.mean()) - 0.05)
        enough = differences.std(ddof=1) * half_widths(0.05 / 4) <= margin
        assert one.seeds_needed == int(enough.argmax()) + 2
    ranked = sorted((one.p, one.p_holm) for one in comparisons if one.p is not None)
    running = 0.0
    for factor, (p, p_holm) in zip((4, 3, 2, 1), ranked, strict=True):
        running = max(running, min(1.0, factor * p))
        assert p_holm == pytest.approx(running)


def test_a_family_may_have_several_baselines() -> None:
    values = {"erm": by_seed([1, 2, 4]), "durm": by_seed([3, 3, 3]), "erm*": by_seed([1, 5, 9]), "unused": by_seed([7])}
    one, two = compare_family([("durm", "erm"), ("erm*", "durm")], values)
    assert [(both.arm, both.baseline, both.difference) for both in (one, two)] == [
        ("durm", "erm", pytest.approx(2 / 3)),
        ("erm*", "durm", 2),
    ]
    assert two.ci_family == pytest.approx(stats.t.interval(1 - 0.05 / 2, 2, loc=2, scale=4 / math.sqrt(3)))
    assert compare_family([], values) == []


def test_the_variances_are_corrected_as_a_family_too() -> None:
    random = np.random.default_rng(4)
    values = {arm: by_seed(random.normal(0, spread, 12)) for arm, spread in (("erm", 3), ("one", 1), ("two", 2))}
    one, two = compare("erm", values)
    assert one.p_variance is not None
    assert two.p_variance is not None
    assert one.p_variance < two.p_variance
    assert one.p_variance_holm == pytest.approx(2 * one.p_variance)
    assert two.p_variance_holm == pytest.approx(max(2 * one.p_variance, two.p_variance))


def test_alpha_is_that_of_the_family() -> None:
    differences = np.array([0.2, 0.4, 0.1, 0.5, 0.3])
    values = {"erm": by_seed([0] * 5), "one": by_seed(differences), "two": by_seed(differences)}
    one, _ = compare("erm", values, alpha=0.2)
    expected = stats.t.interval(0.9, 4, loc=differences.mean(), scale=stats.sem(differences))
    assert one.ci_family == pytest.approx(expected)


@pytest.mark.parametrize("rope", [-0.1, -1e-12, math.nan, math.inf, -math.inf])
def test_a_rope_that_is_no_length_is_refused(rope: float) -> None:
    with pytest.raises(ValueError, match=r"^rope .*: expected a number of at least 0$"):
        compare("erm", {"erm": by_seed([1, 2]), "durm": by_seed([1, 2])}, rope=rope)


def test_looks_share_their_intervals() -> None:
    """Each look is at level 1 − α_k/m on its own seeds, and the family interval is what all of them share."""
    random = np.random.default_rng(9)
    differences = {"one": random.normal(0.5, 1, 25), "two": random.normal(0, 1, 25)}
    values = {"erm": by_seed([0] * 25)} | {arm: by_seed(numbers) for arm, numbers in differences.items()}
    sizes = (6, 10, 16, 25)
    for one in compare("erm", values, rope=0.1, looks=[[str(seed) for seed in range(n)] for n in sizes]):
        numbers = differences[one.arm]
        expected = []
        for k, n in enumerate(sizes, 1):
            level = 1 - 6 * 0.05 / math.pi**2 / k**2 / 2
            expected.append(stats.t.interval(level, n - 1, loc=numbers[:n].mean(), scale=stats.sem(numbers[:n])))
            assert one.looks[k - 1].n == n
            assert one.looks[k - 1].alpha == pytest.approx(1 - level)
            assert one.looks[k - 1].interval == pytest.approx(expected[-1])
        lows, highs = zip(*expected, strict=True)
        assert one.ci_family == pytest.approx((max(lows), min(highs)))
        plain = stats.t.interval(0.95, 24, loc=numbers.mean(), scale=stats.sem(numbers))
        assert one.ci == pytest.approx(plain)


def test_a_look_counts_only_the_pairs_it_had() -> None:
    values = {"erm": by_seed([0.0] * 10), "durm": dict.fromkeys("0234567", 1.0)}
    looks = [["0", "1"], ["5", "4", "3", "2", "1", "0"]]
    (one,) = compare("erm", values, looks=looks)
    assert [(look.n, look.interval) for look in one.looks] == [(1, None), (5, (1.0, 1.0))]
    assert one.ci_family == (1.0, 1.0)
    assert one.n == 7
    (early,) = compare("erm", values, looks=looks[:1])
    assert (early.ci_family, early.verdict) == (None, "undecided")
    assert early.ci == (1.0, 1.0)


def test_looks_that_contradict_each_other_decide_nothing() -> None:
    """Six seeds at 1 ± 0.001, then ten at 0: the later interval lies below the earlier one."""
    differences = [0.999, 1.0, 1.001] * 2 + [0.0] * 10
    looks = [[str(seed) for seed in range(n)] for n in (6, 16)]
    first = against_zero(differences, looks=looks[:1])
    both = against_zero(differences, looks=looks)
    assert first.verdict == "better"
    assert both.ci_family is not None
    assert both.ci_family[0] > both.ci_family[1]
    assert both.verdict == "undecided"


def test_a_comparison_is_plain_json() -> None:
    cases: list[list[float]] = [
        [],
        [1.0],
        [1.0, 2.0],
        [0.0, 0.0, 0.0],
        [2.0, 2.0, 2.0],
        [0.1, 0.2, 0.4, 0.3],
        [*range(25)],
    ]
    for differences in cases:
        looks = [[str(seed) for seed in range(n)] for n in (1, 3)]
        options: dict[str, Any]
        for options in ({}, {"looks": looks}):
            comparison = against_zero(differences, **options)
            values = comparison.as_dict()
            assert ("looks" in values) == bool(options)
            read = json.loads(json.dumps(values, allow_nan=False))
            assert set(read) == set(Comparison.__dataclass_fields__) - (set() if options else {"looks"})
            assert read["difference"] == (pytest.approx(np.mean(differences)) if differences else None)
            assert read["ci"] == (None if comparison.ci is None else list(comparison.ci))
            if options:
                assert read["looks"][0] == {
                    "n": min(1, len(differences)),
                    "alpha": pytest.approx(0.05 * 6 / math.pi**2),
                    "interval": None,
                }
            assert all(value is None or isinstance(value, int | float | str | list) for value in read.values())


# Simulated studies of known truth


def slack(rate: float, simulations: int = SIMULATIONS) -> float:
    """Four standard errors of a simulated rate."""
    return 4 * math.sqrt(rate * (1 - rate) / simulations)


def intervals(differences: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Student's, over the last axis."""
    n = differences.shape[-1]
    middle = differences.mean(-1)
    half = stats.t.isf(alpha / 2, n - 1) * differences.std(-1, ddof=1) / math.sqrt(n)
    return middle - half, middle + half


def words(low: np.ndarray, high: np.ndarray, rope: float) -> np.ndarray:
    inside = (low >= -rope) & (high <= rope)
    return np.select(
        [low > high, low > rope, high < -rope, inside], ["undecided", "better", "worse", "equal"], "undecided"
    )


def fixed(differences: np.ndarray, rope: float, alpha: float = 0.05) -> np.ndarray:
    """The words of studies (…, arms, n) with a fixed number of seeds."""
    return words(*intervals(differences, alpha / differences.shape[-2]), rope)


def peeking(differences: np.ndarray, rope: float, alpha: float = 0.05, sizes: Sequence[int] = PEEKS) -> np.ndarray:
    """The words of studies (…, arms, n) at each look (looks, …, arms), from all looks so far."""
    arms = differences.shape[-2]
    seen = [intervals(differences[..., :n], 6 * alpha / (math.pi * k) ** 2 / arms) for k, n in enumerate(sizes, 1)]
    low = np.maximum.accumulate([low for low, _ in seen])
    high = np.minimum.accumulate([high for _, high in seen])
    return words(low, high, rope)


def naive_peeking(differences: np.ndarray, rope: float) -> np.ndarray:
    """The same with the plain 95 % interval of each look: what must not be done."""
    return np.stack([words(*intervals(differences[..., :n], 0.05), rope) for n in PEEKS])


def first_decision(looks: np.ndarray) -> np.ndarray:
    """The word at which a study stops that stops at the first decision, of (looks, …)."""
    first = (looks != "undecided").argmax(0)  # 0, an undecided look, if there is no decision
    return np.asarray(np.take_along_axis(looks, first[None], 0)[0])


def simulate(seed: int, n: int, arms: int = 1, difference: float = 0.0, simulations: int = SIMULATIONS) -> np.ndarray:
    """Differences (simulations, arms, n) of variance 1; the baseline that the arms share correlates them by 1/2."""
    random = np.random.default_rng(seed)
    baseline = random.normal(0, math.sqrt(0.5), (simulations, 1, n))
    return random.normal(difference, math.sqrt(0.5), (simulations, arms, n)) - baseline


def study(differences: np.ndarray) -> dict[str, dict[str, float]]:
    """One simulated study, as `compare` takes it, with a baseline that has values of its own."""
    baseline = np.linspace(-1, 1, differences.shape[-1])
    arms = {str(arm): by_seed(baseline + differences[arm]) for arm in range(len(differences))}
    return {"erm": by_seed(baseline)} | arms


def test_the_simulations_judge_as_compare_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """So what holds for them holds for it. All four words occur."""
    monkeypatch.setattr(verdict, "FLIPS", 9)  # the p values are not looked at here, and take long beyond n = 20
    seen: Counter[str] = Counter()
    for arms, n, rope, difference in ((1, 6, 0.0, 1.0), (3, 10, 0.8, 0.0), (3, 10, 0.1, -1.0), (10, 10, 0.0, 0.0)):
        samples = simulate(1, n, arms, difference, simulations=100)
        for sample, expected in zip(samples, fixed(samples, rope), strict=True):
            given_words = [one.verdict for one in compare("erm", study(sample), rope=rope)]
            assert given_words == expected.tolist()
            seen.update(given_words)
    for arms, rope, difference in ((1, 0.0, 0.5), (3, 0.4, 0.0), (2, 0.3, -1.0)):
        samples = simulate(2, 40, arms, difference, simulations=15)
        expected = peeking(samples, rope)
        for index, sample in enumerate(samples):
            for k in range(1, len(PEEKS) + 1):
                looks = [[str(seed) for seed in range(n)] for n in PEEKS[:k]]
                so_far = study(sample[:, : PEEKS[k - 1]])
                given_words = [one.verdict for one in compare("erm", so_far, rope=rope, looks=looks)]
                assert given_words == expected[k - 1, index].tolist()
                seen.update(given_words)
    assert set(seen) == {"better", "worse", "equal", "undecided"}


@pytest.mark.parametrize("n", [6, 10, 20])
def test_the_interval_covers_at_its_level(n: int) -> None:
    low, high = intervals(simulate(n, n, difference=0.3), 0.05)
    assert ((low <= 0.3) & (high >= 0.3)).mean() == pytest.approx(0.95, abs=slack(0.95))


@pytest.mark.parametrize(("n", "least"), [(6, 0.88), (10, 0.89), (20, 0.91)])
def test_the_interval_covers_somewhat_less_for_very_skewed_differences(n: int, least: float) -> None:
    """Exponential ones, of skewness 2."""
    differences = np.random.default_rng(n).exponential(1, (SIMULATIONS, n))
    low, high = intervals(differences, 0.05)
    assert least < ((low <= 1) & (high >= 1)).mean() < 0.95


@pytest.mark.parametrize("n", [6, 10, 20])
def test_the_interval_covers_for_pairs_of_skewed_values(n: int) -> None:
    """Each value is skewed, but the difference of two alike is symmetric: what pairing gives under the null."""
    random = np.random.default_rng(n)
    low, high = intervals(random.exponential(1, (SIMULATIONS, n)) - random.exponential(1, (SIMULATIONS, n)), 0.05)
    assert ((low <= 0) & (high >= 0)).mean() > 0.95 - slack(0.95)


@pytest.mark.parametrize("arms", [1, 3, 10])
@pytest.mark.parametrize("n", [6, 20])
def test_without_a_difference_a_study_rarely_sees_one(arms: int, n: int) -> None:
    """Any false word of any arm counts, and the arms share their baseline."""
    differences = simulate(10 * arms + n, n, arms)
    assert np.corrcoef(differences[:, 0, 0], differences[:, -1, 0])[0, 1] == pytest.approx(
        1 if arms == 1 else 0.5, abs=0.03
    )
    rate = (fixed(differences, 0.0) != "undecided").any(-1).mean()
    assert rate <= 0.05 + slack(0.05)
    assert rate > 0.02  # nor is it bought with silence
    if arms > 1:
        uncorrected = np.stack([fixed(differences[:, [arm]], 0.0) for arm in range(arms)])
        assert (uncorrected != "undecided").any(0).mean() > 0.08


@pytest.mark.parametrize("n", [6, 10, 40])
def test_a_difference_of_exactly_rope_is_rarely_called_better(n: int) -> None:
    found = fixed(simulate(n, n, difference=0.5), 0.5)
    assert (found == "better").mean() == pytest.approx(0.025, abs=slack(0.025))
    assert (found == "worse").mean() < 0.001


@pytest.mark.parametrize("n", [10, 30, 200])
def test_a_difference_just_beyond_rope_is_rarely_called_equal(n: int) -> None:
    found = fixed(simulate(n, n, difference=0.5, simulations=4000), 0.5)
    assert (found == "equal").mean() <= 0.025 + slack(0.025, 4000)


@pytest.mark.parametrize("arms", [1, 3])
def test_peeking_stays_within_the_stated_rate(arms: int) -> None:
    differences = simulate(arms, max(PEEKS), arms)
    rate = (first_decision(peeking(differences, 0.0)) != "undecided").any(-1).mean()
    assert 0.02 < rate <= 0.05 + slack(0.05)
    assert (peeking(differences, 0.0) != "undecided").any((0, -1)).mean() == rate  # going on adds no false word


def test_naive_peeking_does_not() -> None:
    """So the test above is able to fail."""
    differences = simulate(1, max(PEEKS))
    assert (first_decision(naive_peeking(differences, 0.0)) != "undecided").mean() > 0.12


def test_peeking_at_a_difference_of_exactly_rope() -> None:
    found = first_decision(peeking(simulate(7, max(PEEKS), difference=0.5), 0.5))
    assert 0.01 < (found == "better").mean() <= 0.025 + slack(0.025)
    assert (found == "equal").mean() <= 0.025 + slack(0.025)


def test_peeking_finds_a_large_difference_early() -> None:
    """With δ = 2σ, most studies stop at the first or second look, and nearly none without the word."""
    looks = peeking(simulate(8, max(PEEKS), difference=2.0), 0.1)
    assert (looks[1] == "better").mean() > 0.9
    assert (first_decision(looks) == "better").mean() > 0.999


@pytest.mark.parametrize(("n", "difference"), [(6, 1.5), (10, 1.2), (20, 0.8)])
@pytest.mark.parametrize("arms", [1, 3])
def test_the_power_is_that_of_the_noncentral_t(n: int, difference: float, arms: int) -> None:
    rope = 0.1
    found = fixed(simulate(n + arms, n, arms, difference), rope)[:, 0]
    power = stats.nct.sf(stats.t.isf(0.025 / arms, n - 1), n - 1, (difference - rope) * math.sqrt(n))
    assert 0.3 < power < 0.99
    assert (found == "better").mean() == pytest.approx(power, abs=slack(power))
    assert (found == "worse").mean() == 0


def test_enough_seeds_find_that_two_arms_are_equal() -> None:
    assert (fixed(simulate(1, 60), 0.5) == "equal").mean() > 0.9
    assert (fixed(simulate(1, 100, simulations=5000), 0.5) == "equal").mean() > 0.99
    peeks = peeking(simulate(1, 160, simulations=5000), 0.5, sizes=look_sizes(160))
    assert (first_decision(peeks) == "equal").mean() > 0.99


@pytest.mark.parametrize("n", [6, 10])
def test_rounding_to_whole_test_samples_does_little_harm_from_six_seeds_on(n: int) -> None:
    """Accuracies of 360 samples come in steps of 0.28 points, about as large as the spread of the differences."""
    step = 100 / 360
    differences = step * np.round(0.4 * simulate(n, n) / step)
    assert (fixed(differences, 0.0) != "undecided").mean() <= 0.055 + slack(0.055)
    assert (fixed(differences, 0.1) != "undecided").mean() <= 0.05


@pytest.mark.parametrize("shape", ["normal", "heavy tails", "spreads that differ", "ties"])
def test_the_sign_flip_test_keeps_its_level_for_symmetric_differences(shape: str) -> None:
    simulations, n = 4000, 8
    random = np.random.default_rng(6)
    differences = random.normal(0, 1, (simulations, n))
    if shape == "heavy tails":
        differences = random.standard_cauchy((simulations, n))
    elif shape == "spreads that differ":
        differences *= np.geomspace(0.1, 10, n)
    elif shape == "ties":
        differences = np.round(differences)
    p_values = np.array([sign_flip(row) for row in differences])
    for level in (0.01, 0.05, 0.1, 0.25, 0.5, 0.9):
        rate = (p_values <= level).mean()
        assert rate <= level + slack(level, simulations)
        if shape != "ties":  # p comes in steps of 2/2⁸
            assert rate >= level - 2 / 2**n - slack(level, simulations)


def test_the_sign_flip_test_with_random_flips_keeps_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """(b + 1)/(B + 1) is valid for any number of flips, so few do."""
    monkeypatch.setattr(verdict, "FLIPS", 199)
    simulations = 4000
    p_values = np.array(
        [sign_flip(row, seed) for seed, row in enumerate(simulate(3, 30, simulations=simulations)[:, 0])]
    )
    for level in (0.05, 0.25, 0.5):
        assert (p_values <= level).mean() == pytest.approx(level, abs=slack(level, simulations))


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_pitman_morgan_keeps_its_level(correlation: float) -> None:
    simulations = 4000
    random = np.random.default_rng(8)
    pairs = random.multivariate_normal([90, 91], [[1, correlation], [correlation, 1]], (simulations, 8))
    p_values = np.array([pitman_morgan(pair[:, 0], pair[:, 1])[1] for pair in pairs])
    for level in (0.05, 0.25, 0.5):
        assert (p_values <= level).mean() == pytest.approx(level, abs=slack(level, simulations))


@pytest.mark.slow
def test_whole_studies_without_a_difference_end_to_end() -> None:
    """Through `compare` itself: words, p values and variances of three arms that are all like the baseline."""
    simulations, n = 10_000, 10
    random = np.random.default_rng(11)
    rates: Counter[str] = Counter()
    for _ in range(simulations):
        seeds = random.normal(0, 1, n)  # what the pairs have in common
        values = {arm: by_seed(90 + seeds + random.normal(0, 0.5, n)) for arm in ("erm", "one", "two", "three")}
        comparisons = compare("erm", values, rope=0.0)
        rates["word"] += any(one.verdict != "undecided" for one in comparisons)
        rates["p"] += any(one.p_holm is not None and one.p_holm <= 0.05 for one in comparisons)
        rates["variance"] += any(one.p_variance_holm is not None and one.p_variance_holm <= 0.05 for one in comparisons)
    for name in ("word", "p", "variance"):
        assert 0.02 < rates[name] / simulations <= 0.05 + slack(0.05, simulations), name


# Rounding, and numbers that are none


def test_constant_values_are_constant_whatever_their_last_bits() -> None:
    assert pitman_morgan(np.array([93.1, 93.5, 93.2]), np.full(3, 93.4)) == (None, None)
    (comparison,) = compare("erm", {"erm": by_seed([93.4] * 3), "durm": by_seed([93.1, 93.5, 93.2])})
    assert comparison.correlation is None


@pytest.mark.parametrize("n", [3, 6, 20])
def test_equal_differences_have_a_point_for_an_interval_whatever_their_last_bits(n: int) -> None:
    assert interval(np.full(n, 0.1)) == (0.1, 0.1)


def test_twenty_differences_of_exactly_rope_are_not_better() -> None:
    assert against_zero([0.1] * 20).verdict == "equal"


def test_equal_sizes_count_as_equal_after_a_subtraction() -> None:
    """Of 50,000 test samples; in whole samples the differences are 1, 2, 2, −1, 2, −2, and p is 0.5."""
    theirs = np.array([45530, 45205, 47161, 46760, 46553, 47007])
    samples = np.array([1, 2, 2, -1, 2, -2])
    assert share_of_flips(samples.tolist()) == 0.5
    before, after = 100 * theirs / 50_000, 100 * (theirs + samples) / 50_000
    (comparison,) = compare("erm", {"erm": by_seed(before), "durm": by_seed(after)})
    assert comparison.p == 0.5


def test_the_order_of_many_seeds_does_not_matter() -> None:
    differences = np.random.default_rng(1).normal(0.3, 1, 25)
    assert sign_flip(differences[::-1]) == sign_flip(differences)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_no_numbers_are_refused(value: float) -> None:
    differences = [*np.random.default_rng(1).normal(0.3, 1, 24), value]
    with pytest.raises(ValueError, match="not finite"):
        against_zero(differences)


def test_two_equal_differences_decide_by_the_rule_and_may_be_wrong() -> None:
    """Accuracies of 360 samples come in steps of 0.28 points: two pairs may agree by chance, and have no spread then.

    The rule says that no spread is no interval, so such studies decide, and some decide wrongly. Summaries warn of it.
    """
    step, simulations = 100 / 360, 2000
    differences = step * np.round(0.3 * simulate(2, 2, simulations=simulations)[:, 0] / step)
    found = [against_zero(pair).verdict for pair in differences]
    wrong = sum(word in ("better", "worse") for word in found) / simulations
    assert 0.05 + slack(0.05, simulations) < wrong < 0.2
