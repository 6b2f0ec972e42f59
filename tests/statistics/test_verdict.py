"""The verdict of whole comparisons, against numbers worked out by hand and scipy.stats."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from scipy import stats

from durm.statistics.intervals import SampleVariance, sample_variance
from durm.statistics.sequential import analysis_levels, series_level
from durm.statistics.verdict import Comparison, Plan, compare, compare_family, rounded_differences


def by_seed(values: Sequence[float] | np.ndarray) -> dict[str, float]:
    return {str(seed): float(value) for seed, value in enumerate(values)}


def against_zero(differences: Sequence[float] | np.ndarray, **options: Any) -> Comparison:
    """One arm against a baseline of zeros, so that the arm's values are the differences."""
    values = {"erm": by_seed([0.0] * len(differences)), "durm": by_seed(differences)}
    (comparison,) = compare("erm", values, **{"rope": 0.1} | options)
    return comparison


def seeds_up_to(*sizes: int) -> list[list[str]]:
    return [[str(seed) for seed in range(n)] for n in sizes]


# One comparison


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
    assert comparison.win_probability == 2.5 / 4
    assert comparison.win_interval == pytest.approx(stats.beta.interval(0.95, 3, 2))
    assert comparison.correlation == pytest.approx(9 / math.sqrt(5 * 27))
    assert comparison.variance_ratio == pytest.approx(27 / 5)
    assert (comparison.verdict, comparison.over) == ("undecided", "seeds")
    assert comparison.reason == "too few pairs (4; a word takes 6)"
    assert (comparison.looks, comparison.lost, comparison.paired, comparison.seeds_needed) == ([], 0, True, None)
    assert (comparison.ci_samples, comparison.samples) == (None, None)


def test_the_step_widens_both_intervals() -> None:
    """The same differences with a step of 2: s² = 14/3 + 4/6."""
    comparison = against_zero([1, 0, -1, 4], step=2.0)
    half = 3.18245 * math.sqrt((14 / 3 + 4 / 6) / 4)
    assert comparison.ci == comparison.ci_family == pytest.approx((1 - half, 1 + half), abs=1e-4)
    assert comparison.step == 2


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
    expected = {one.arm: asdict(one) for one in compare("erm", values, rope=0.1)}
    for _ in range(5):
        shuffled = {arm: {seed: values[arm][seed] for seed in random.permutation(list(values[arm]))} for arm in values}
        for one in compare("erm", dict(reversed(shuffled.items())), rope=0.1):
            for name, value in asdict(one).items():
                wanted = expected[one.arm][name]
                assert value == (pytest.approx(wanted) if isinstance(wanted, float | tuple) else wanted), name


def test_an_arm_without_pairs() -> None:
    (comparison,) = compare("erm", {"erm": {"a": 1.0}, "durm": {}})
    assert (comparison.n, comparison.verdict) == (0, "undecided")
    assert (comparison.wins, comparison.ties, comparison.losses) == (0, 0, 0)
    undefined = ["difference", "ci", "ci_family", "p", "p_holm", "p_min", "correlation", "seeds_needed"]
    undefined += ["variance_ratio", "p_variance", "p_variance_holm", "win_probability", "min_difference", "n_for_rope"]
    assert all(getattr(comparison, name) is None for name in undefined)


def test_a_baseline_without_arms_has_nothing_to_say() -> None:
    assert compare("erm", {"erm": by_seed([1, 2, 3])}) == []


def test_one_seed_decides_nothing() -> None:
    comparison = against_zero([50.0])
    assert (comparison.n, comparison.difference, comparison.verdict) == (1, 50, "undecided")
    assert comparison.ci is None
    assert comparison.ci_family is None
    assert comparison.min_difference is None
    assert (comparison.p, comparison.p_min) == (1, 1)


@pytest.mark.parametrize(("arms", "fewest"), [(1, 6), (3, 7), (10, 9)])
def test_too_few_pairs_have_no_word(arms: int, fewest: int) -> None:
    """However large and however constant the difference."""
    for n in range(2, fewest + 1):
        values = {"erm": by_seed([0.0] * n)} | {f"arm-{k}": by_seed([50.0] * n) for k in range(arms)}
        for one in compare("erm", values, rope=0.1):
            enough = n == fewest
            assert one.verdict == ("better" if enough else "undecided")
            assert one.reason == ("" if enough else f"too few pairs ({n}; a word takes {fewest})")
            assert (one.min_difference is not None) == enough  # fewer pairs decide no difference at all


def test_identical_values_are_equal_from_six_pairs_on() -> None:
    values = by_seed([90.5, 91.25, 89.0, 90.0, 91.0, 90.25])
    (comparison,) = compare("erm", {"erm": values, "durm": values}, rope=0.1)
    assert comparison.verdict == "equal"
    assert (comparison.difference, comparison.ci, comparison.p) == (0, (0, 0), 1)
    assert (comparison.wins, comparison.ties, comparison.losses) == (0, 6, 0)
    assert comparison.correlation == pytest.approx(1)
    assert (comparison.variance_ratio, comparison.p_variance) == (1, None)
    (coarse,) = compare("erm", {"erm": values, "durm": values}, rope=0.1, step=0.25)
    assert coarse.verdict == "undecided"  # ±0.107: on this lattice six pairs may agree by chance
    (without,) = compare("erm", {"erm": values, "durm": values})
    assert without.verdict == "undecided"  # no rope, never equal


def test_two_pairs_on_a_lattice_are_not_better() -> None:
    """90.1, 90.4 and 90.3, 90.6: both pairs differ by 0.2."""
    values = {"a": by_seed([90.1, 90.4]), "b": by_seed([90.3, 90.6])}
    (comparison,) = compare("a", values, rope=0.1, step=0.1)
    assert comparison.verdict == "undecided"
    half = 12.7062 * 0.1 / math.sqrt(12)
    assert comparison.ci == pytest.approx((0.2 - half, 0.2 + half), abs=1e-4)


def test_constant_values() -> None:
    comparison = against_zero([0.5] * 6)
    assert comparison.verdict == "better"
    assert comparison.ci == comparison.ci_family == (0.5, 0.5)
    assert comparison.p == 0.03125
    assert comparison.correlation is None
    assert comparison.variance_ratio is None


def test_twenty_differences_of_exactly_rope_are_not_better() -> None:
    assert against_zero([0.1] * 20).verdict == "equal"


def test_where_lower_is_better_words_and_wins_turn_round_but_numbers_stay() -> None:
    differences = [-0.5, -0.6, -0.4, -0.5, 0.0, -0.7, 0.1, -0.5, -0.6, -0.5]
    accuracy, loss = against_zero(differences), against_zero(differences, higher_is_better=False)
    assert (accuracy.verdict, accuracy.wins, accuracy.ties, accuracy.losses) == ("worse", 1, 1, 8)
    assert (loss.verdict, loss.wins, loss.ties, loss.losses) == ("better", 8, 1, 1)
    for name in ("difference", "ci", "ci_family", "p", "min_difference", "n_for_rope"):
        assert getattr(accuracy, name) == getattr(loss, name)


def test_equal_sizes_count_as_equal_after_a_subtraction() -> None:
    """Of 50,000 test samples; in whole samples the differences are 1, 2, 2, −1, 2, −2, and p is 0.5."""
    theirs = np.array([45530, 45205, 47161, 46760, 46553, 47007])
    samples = np.array([1, 2, 2, -1, 2, -2])
    before, after = 100 * theirs / 50_000, 100 * (theirs + samples) / 50_000
    (comparison,) = compare("erm", {"erm": by_seed(before), "durm": by_seed(after)})
    assert comparison.p == 0.5


@pytest.mark.parametrize("scale", [1e-250, 1e-9, 1.0, 1e9])
def test_differences_are_rounded_to_what_the_values_hold(scale: float) -> None:
    theirs, ours = np.array([93.1, 92.8, 93.4]) * scale, np.array([93.4, 93.1, 93.7]) * scale
    differences = rounded_differences(theirs, ours)
    assert differences == pytest.approx(np.full(3, 0.3 * scale), rel=1e-9)
    assert scale == 1e-250 or np.ptp(differences) <= 1e-15 * scale


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_no_numbers_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        against_zero([0.1, 0.2, value])


@pytest.mark.parametrize("rope", [-0.1, -1e-12, math.nan, math.inf, -math.inf])
def test_a_rope_or_step_that_is_no_length_is_refused(rope: float) -> None:
    with pytest.raises(ValueError, match=r"^rope .*: expected a number of at least 0$"):
        against_zero([1, 2], rope=rope)
    with pytest.raises(ValueError, match=r"^resolution .*: expected a number of at least 0$"):
        against_zero([1, 2], step=rope)


def test_an_arm_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no values of arm 'x'; there are erm"):
        compare_family([("x", "erm")], {"erm": {}})


# Families


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
        half = stats.t.isf(0.05 / 8, 9) * stats.sem(differences)
        assert one.min_difference == pytest.approx(0.05 + half)
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


# Over samples


def test_the_samples_enter_the_interval_that_decides() -> None:
    random = np.random.default_rng(5)
    outcomes = 100 * random.binomial(1, np.linspace(0, 0.2, 50), (8, 50))
    asked: list[Sequence[str]] = []

    def samples(arm: str, baseline: str, seeds: Sequence[str]) -> SampleVariance | None:
        assert (arm, baseline) == ("durm", "erm")
        asked.append(seeds)
        return sample_variance(outcomes[[int(seed) for seed in seeds]])

    one = against_zero(outcomes.mean(1), step=2.0, samples=samples)
    over_seeds = (outcomes.mean(1).var(ddof=1) + 4 / 6) / 8
    between, residual = outcomes.mean(0).var(ddof=1) / 50, outcomes.var(ddof=1) / 400
    assert between > residual
    for limits, variance in ((one.ci, over_seeds), (one.ci_samples, over_seeds + between - residual)):
        expected = stats.t.interval(0.95, 7, loc=outcomes.mean(), scale=math.sqrt(variance))
        assert limits == pytest.approx(expected)
    assert one.ci_family == one.ci_samples
    assert (one.over, one.samples) == ("seeds and samples", 50)
    assert (one.variance_samples, one.variance_residual) == (pytest.approx(between), pytest.approx(residual))
    assert all(sorted(seeds) == list("01234567") for seeds in asked)


def test_without_outcomes_it_is_over_seeds() -> None:
    one = against_zero([1.0, 2.0] * 4, samples=lambda *_: None)
    assert (one.over, one.ci_samples, one.ci_family) == ("seeds", None, one.ci)


# Unpaired


def test_arms_that_are_not_paired() -> None:
    theirs, ours = [90.0, 91.0, 90.5, 91.5], [95.0, 96.0, 95.5, 96.0, 95.0]
    values = {"erm": by_seed(theirs), "durm": {f"x{k}": value for k, value in enumerate(ours)}}
    (one,) = compare("erm", values, unpaired=["durm"], rope=0.1)
    expected = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert one.ci == one.ci_family == pytest.approx((expected.low, expected.high))
    assert (one.verdict, one.paired, one.n, one.p) == ("better", False, 4, None)


@pytest.mark.parametrize(
    ("sizes", "arms", "enough"), [((3, 3), 1, False), ((4, 4), 1, True), ((4, 4), 3, False), ((3, 20), 1, False)]
)
def test_too_few_runs_that_are_not_paired(sizes: tuple[int, int], arms: int, enough: bool) -> None:
    """2/20 > 0.05 ≥ 2/70 > 0.05/3; three runs against twenty are few, though 2/1771 is small."""
    values = {"erm": by_seed([0.0] * sizes[0])} | {f"arm-{k}": by_seed([9.0] * sizes[1]) for k in range(arms)}
    one = compare("erm", values, unpaired=[*values], rope=0.1)[0]
    assert one.verdict == ("better" if enough else "undecided")
    assert one.reason == ("" if enough else f"too few runs ({sizes[0]} and {sizes[1]})")


def test_an_unpaired_arm_without_runs() -> None:
    (one,) = compare("erm", {"erm": by_seed([1.0, 2.0]), "durm": {}}, unpaired=["durm"])
    assert (one.verdict, one.difference, one.ci) == ("undecided", None, None)


# Plain data


@pytest.mark.parametrize(
    "differences", [[], [1.0], [1.0, 2.0], [0.0] * 3, [2.0] * 7, [0.1, 0.2, 0.4, 0.3], [*range(25)]]
)
@pytest.mark.parametrize("several", [False, True])
def test_a_comparison_is_plain_json(differences: list[float], several: bool) -> None:
    plan = Plan(seeds_up_to(1, 3), series_level) if several else None
    comparison = against_zero(differences, plan=plan, lost={"durm": ["x"]})
    values = asdict(comparison)
    read = json.loads(json.dumps(values, allow_nan=False))
    assert read["difference"] == (pytest.approx(np.mean(differences)) if differences else None)
    assert read["ci"] == (None if comparison.ci is None else list(comparison.ci))
    assert len(read["looks"]) == (2 if several else 0)
    if several:
        alpha = pytest.approx(0.05 * 6 / math.pi**2)
        assert read["looks"][0] == {"n": min(1, len(differences)), "alpha": alpha, "interval": None}
    assert all(value is None or isinstance(value, int | float | str | list) for value in read.values())


def test_the_levels_of_a_plan_are_those_of_the_share() -> None:
    sizes = [6, 10, 16, 20]
    plan = Plan(seeds_up_to(*sizes), lambda k, share: analysis_levels(sizes, share)[k - 1])
    differences = np.random.default_rng(0).normal(0, 1, 20)
    values = {"erm": by_seed([0] * 20)} | {arm: by_seed(differences) for arm in "ab"}
    for one in compare("erm", values, rope=0.1, plan=plan):
        assert [look.alpha for look in one.looks] == analysis_levels(sizes, 0.025)
