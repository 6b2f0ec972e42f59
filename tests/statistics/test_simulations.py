"""Simulated studies of known truth: false words, warnings, coverage, power. `simulate` has the models and the rules."""

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from scipy import stats

from durm.statistics import hypothesis_tests
from durm.statistics.diagnostics import warn_about
from durm.statistics.intervals import interval, sample_variance, welch
from durm.statistics.sequential import analysis_levels, analysis_sizes
from durm.statistics.verdict import Plan, compare
from tests.statistics.simulate import (
    ANALYSES,
    NO_EFFECT,
    SKEWED,
    SOUND,
    TRUTHS,
    UNEVEN,
    Kind,
    coarse,
    coverage,
    judge,
    limits,
    power_with_and_without_floor,
    rates,
    two_way,
    unpaired,
    warned,
    words,
)

NAMES = {1: "better", -1: "worse", 2: "equal", 0: "undecided"}
NORMAL = SOUND[0]


def slack(rate: float, simulations: int) -> float:
    """Four standard errors of a simulated rate."""
    return 4 * math.sqrt(rate * (1 - rate) / simulations)


def by_seed(values: np.ndarray) -> dict[str, float]:
    return {str(seed): float(value) for seed, value in enumerate(values)}


# What holds for the simulations holds for the package


def test_the_simulations_judge_as_compare_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """All four words occur, in studies of fixed size and in sequential ones."""
    monkeypatch.setattr(hypothesis_tests, "FLIPS", 9)  # the p values are not used here, and take long beyond n = 20
    seen: Counter[str] = Counter()
    random = np.random.default_rng(1)
    cases = [
        (NORMAL, 1, 6, 0.0, 1.0, ()),
        (NORMAL, 3, 10, 0.8, 0.0, ()),
        (NORMAL, 3, 6, 0.1, -1.0, ()),
        (SOUND[2], 10, 10, 0.1, -3.0, ()),
        (SOUND[3], 1, 8, 0.1, -1.0, ()),
        (NORMAL, 1, 40, 0.5, 0.0, ANALYSES),
        (NORMAL, 3, 40, 0.4, 0.5, ANALYSES),
        (SOUND[2], 2, 40, 0.1, -1.5, ANALYSES),
    ]
    for kind, arms, n, rope, effect, sizes in cases:
        samples = kind.draw(random, (25, arms, n), effect)
        baseline = 100 * np.round(np.linspace(0.4, 0.5, n), 2)
        plan = None
        if sizes:
            seeds = [[str(seed) for seed in range(size)] for size in sizes]
            plan = Plan(seeds, lambda k, share: analysis_levels(ANALYSES, share)[k - 1])
        for sample, expected, told in zip(samples, *judge(samples, rope, kind.step, sizes), strict=True):
            values = {"erm": by_seed(baseline)} | {str(arm): by_seed(baseline + sample[arm]) for arm in range(arms)}
            found = compare("erm", values, rope=rope, step=kind.step, plan=plan)
            assert [one.verdict for one in found] == [NAMES[word] for word in expected.tolist()]
            assert sizes or [bool(one.warnings) for one in found] == told.tolist()
            seen.update(one.verdict for one in found if one.verdict)
    assert set(seen) == {"better", "worse", "equal", "undecided"}


@pytest.mark.parametrize("kind", [*SOUND, *SKEWED], ids=lambda kind: kind.name)
def test_the_simulations_warn_as_the_package_does(kind: Kind) -> None:
    differences = kind.draw(np.random.default_rng(2), (200, 1, 12), 0.0)[:, 0]
    expected = [bool(warn_about(np.round(row, 9), kind.step)) for row in differences]
    assert warned(differences, kind.step).tolist() == expected


def test_the_two_way_interval_is_that_of_the_package() -> None:
    outcomes = UNEVEN.outcomes(np.random.default_rng(3), 6, 250)
    alone, both = two_way(outcomes)
    rows = outcomes.mean(1, dtype=float)
    assert interval(rows, step=0.4) == pytest.approx(alone)
    assert interval(rows, step=0.4, samples=sample_variance(outcomes)) == pytest.approx(both)


def test_the_truth_of_the_latent_model() -> None:
    """A million samples, one run of the pair each; the standard error is about 0.03 points."""
    random = np.random.default_rng(4)
    for model in (NO_EFFECT, UNEVEN):
        means = [model.outcomes(random, 1, 20_000).mean(dtype=float) for _ in range(100)]
        assert np.mean(means) == pytest.approx(model.truth(), abs=4 * stats.sem(means))


@pytest.mark.parametrize("samples", [100, 10_000])
def test_the_truth_of_coarse_differences(samples: int) -> None:
    for effect in (0.0, 0.1, -1.0):
        differences = coarse(samples)(np.random.default_rng(5), (20_000, 1, 5), effect)
        assert differences.mean() == pytest.approx(effect, abs=4 * stats.sem(differences.ravel()))


# False words


@pytest.mark.parametrize("kind", SOUND, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("n", "arms"), [(6, 1), (20, 1), (10, 3), (9, 10)])
def test_words_are_false_in_at_most_five_studies_of_a_hundred(kind: Kind, n: int, arms: int) -> None:
    for truth in TRUTHS:
        assert rates(kind, n, arms, truth, 2000).false <= 0.05 + slack(0.05, 2000), truth


@pytest.mark.parametrize("kind", SOUND, ids=lambda kind: kind.name)
@pytest.mark.parametrize("arms", [1, 3])
def test_sequential_words_are_false_in_at_most_five_studies_of_a_hundred(kind: Kind, arms: int) -> None:
    for truth in TRUTHS:
        assert rates(kind, 40, arms, truth, 1000, ANALYSES).false <= 0.05 + slack(0.05, 1000), truth


@pytest.mark.parametrize("n", [2, 3, 5])
def test_fewer_than_six_pairs_have_no_false_word_at_all(n: int) -> None:
    for kind in (NORMAL, SOUND[2], SKEWED[1]):
        assert rates(kind, n, 1, 0, 1000).false == 0
        assert rates(kind, n, 10, 0, 100).false == 0


def test_nor_is_it_bought_with_silence() -> None:
    """Normal differences without an effect: close to 5 % with one arm and with three, and sequentially."""
    for arms, n, analyses in ((1, 6, ()), (1, 20, ()), (3, 10, ()), (1, 40, ANALYSES), (3, 40, ANALYSES)):
        rate = rates(NORMAL, n, arms, 0, 5000, analyses).false
        assert 0.035 < rate <= 0.05 + slack(0.05, 5000)


def test_the_tests_above_can_fail() -> None:
    """Without the correction for arms; with plain intervals at each analysis."""
    arms = NORMAL.draw(np.random.default_rng(7), (4000, 3, 10), 0.0)
    assert (words(*limits(arms, 0.05), 0.0) != 0).any(-1).mean() > 0.08
    naive = NORMAL.draw(np.random.default_rng(8), (4000, 1, 40), 0.0)
    found = [words(*limits(naive[..., :n], 0.05), 0.0) != 0 for n in ANALYSES]
    assert np.any(found, axis=0).mean() > 0.12


def test_zero_spread_is_no_certainty() -> None:
    """Two pairs of 500 samples, ten arms: of pairs that agree, the old interval was a point; now it is wide."""
    differences = coarse(500, 0.05)(np.random.default_rng(9), (2000, 10, 2), 0.0)
    share = 0.05 / 10
    assert (words(*limits(differences, share), 0.1) != 0).any(-1).mean() > 0.3
    assert (words(*limits(differences, share, 0.2), 0.1) != 0).any(-1).mean() <= 0.05


PINNED = {
    # name: (n, arms, analyses): false words, false and not warned, warned; at the worst truth, in %
    ("exponential", 6, 1): (10.0, 8.8, 21.6),
    ("exponential", 10, 3): (9.2, 5.4, 45.0),
    ("exponential", 20, 1): (8.0, 3.8, 65.3),
    ("lognormal", 6, 1): (17.6, 15.4, 31.4),
    ("lognormal", 10, 3): (17.5, 6.1, 71.6),
    ("lognormal", 20, 1): (13.3, 4.6, 84.8),
    ("collapsing", 6, 1): (12.4, 11.6, 29.0),
    ("collapsing", 10, 3): (24.2, 7.4, 84.4),
    ("collapsing", 20, 1): (20.3, 19.3, 65.5),
}
"""Where Student's interval does not hold: how bad it is, and how often the study is warned."""


@pytest.mark.parametrize(("name", "n", "arms"), PINNED)
def test_skewed_differences_have_more_false_words_and_are_often_warned(name: str, n: int, arms: int) -> None:
    (kind,) = (kind for kind in SKEWED if kind.name == name)
    found = max((rates(kind, n, arms, truth, 3000) for truth in TRUTHS), key=lambda one: one.false)
    print(f"{name}, n = {n}, m = {arms}: {found}")
    for rate, pinned in zip((found.false, found.false_unwarned, found.warned), PINNED[name, n, arms], strict=True):
        assert 100 * rate == pytest.approx(pinned, abs=100 * slack(pinned / 100, 3000) + 0.5)


def test_pairs_of_skewed_values_are_symmetric() -> None:
    """Each value is skewed, but the difference of two alike is not: what pairing gives without an effect."""
    random = np.random.default_rng(10)
    for n in (6, 20):
        differences = random.exponential(1, (10_000, 1, n)) - random.exponential(1, (10_000, 1, n))
        assert (judge(differences, 0.0)[0] != 0).mean() <= 0.05 + slack(0.05, 10_000)


def test_welch_holds_for_alike_numbers_of_runs_and_not_for_two_against_many() -> None:
    """Measured and pinned: Welch's degrees of freedom are themselves uncertain with two runs."""
    for ours, theirs, pinned in ((4, 4, 4.1), (10, 10, 4.8), (5, 40, 5.7), (3, 20, 7.5), (2, 10, 9.8), (2, 20, 12.1)):
        assert 100 * unpaired(ours, theirs) == pytest.approx(pinned, abs=100 * slack(pinned / 100, 10_000) + 0.3)


def test_unpaired_simulations_judge_as_the_package_does() -> None:
    random = np.random.default_rng([2, 10])
    ours, theirs = random.normal(0, 1, (200, 2)), random.normal(0, 1, (200, 10))
    found = [welch(one, other) for one, other in zip(ours, theirs, strict=True)]
    wrong = np.mean([limits is not None and (limits[0] > 0 or limits[1] < 0) for limits in found])
    assert wrong == unpaired(2, 10, 200)


@pytest.mark.slow
def test_whole_studies_without_a_difference_end_to_end() -> None:
    """Through `compare` itself: words, p values and variances of three arms that are all like the baseline."""
    simulations, n = 10_000, 10
    random = np.random.default_rng(11)
    counts: Counter[str] = Counter()
    for _ in range(simulations):
        seeds = random.normal(0, 1, n)  # what the pairs have in common
        values = {arm: by_seed(90 + seeds + random.normal(0, 0.5, n)) for arm in ("erm", "one", "two", "three")}
        comparisons = compare("erm", values, rope=0.0)
        counts["word"] += any(one.verdict != "undecided" for one in comparisons)
        counts["p"] += any(one.p_holm is not None and one.p_holm <= 0.05 for one in comparisons)
        counts["variance"] += any(
            one.p_variance_holm is not None and one.p_variance_holm <= 0.05 for one in comparisons
        )
    for name in ("word", "p", "variance"):
        assert 0.02 < counts[name] / simulations <= 0.05 + slack(0.05, simulations), name


# Coverage


@pytest.mark.parametrize("n", [6, 10, 20])
def test_the_interval_covers_at_its_level(n: int) -> None:
    low, high = limits(NORMAL.draw(np.random.default_rng(n), (20_000, 1, n), 0.3), 0.05)
    assert ((low <= 0.3) & (high >= 0.3)).mean() == pytest.approx(0.95, abs=slack(0.95, 20_000))


@cache
def covered(uneven: bool) -> dict[tuple[int, int], tuple[float, float, float]]:
    return coverage(UNEVEN if uneven else NO_EFFECT, 120, (6, 10, 40), (100, 250, 1000, 10_000))


@pytest.mark.parametrize("uneven", [False, True])
def test_the_interval_over_seeds_and_samples_covers(uneven: bool) -> None:
    """At least 93 %, from 250 test samples on; 480 small studies of each size, 120 of the largest."""
    for (n, samples), (alone, both, wider) in covered(uneven).items():
        print(f"n = {n}, N = {samples}: {alone:.3f} over seeds, {both:.3f} over samples too, × {wider:.2f}")
        studies = 120 if samples == 10_000 else 480
        assert both >= (0.93 if samples >= 250 else 0.90) - slack(0.93, studies) * 0.75
        assert wider >= 1


def test_seeds_alone_do_not_cover_an_effect_that_differs_from_sample_to_sample() -> None:
    found = covered(True)
    assert found[40, 250][0] < 0.6
    assert found[10, 250][0] < 0.85
    assert found[40, 10_000][0] < 0.87
    assert found[40, 250][2] > 2.5


def test_without_such_an_effect_the_samples_cost_nearly_nothing() -> None:
    assert max(wider for *_, wider in covered(False).values()) < 1.08


# Power


@pytest.mark.parametrize(("n", "effect"), [(6, 1.5), (10, 1.2), (20, 0.8)])
def test_the_power_is_that_of_the_noncentral_t(n: int, effect: float) -> None:
    found, _ = judge(NORMAL.draw(np.random.default_rng(n), (20_000, 1, n), effect), 0.1)
    power = stats.nct.sf(stats.t.isf(0.025, n - 1), n - 1, (effect - 0.1) * math.sqrt(n))
    assert 0.3 < power < 0.99
    assert (found == 1).mean() == pytest.approx(power, abs=slack(power, 20_000))
    assert (found == -1).mean() == 0


def test_the_floor_costs_little_power() -> None:
    for samples, n, effect, most in ((100, 20, 1.5, 0.05), (500, 10, 1.0, 0.03), (10_000, 10, 0.3, 0.005)):
        with_floor, without = power_with_and_without_floor(samples, n, effect, 4000)
        assert 0.3 < without < 0.99
        assert 0 <= without - with_floor < most


def test_a_sequential_study_finds_a_large_difference_early_and_equality_late() -> None:
    large = NORMAL.draw(np.random.default_rng(11), (4000, 1, 40), 2.0)
    assert (judge(large[..., :10], 0.1, sizes=(6, 10))[0] == 1).mean() > 0.9
    assert (judge(large, 0.1, sizes=ANALYSES)[0] == 1).mean() > 0.999
    none = NORMAL.draw(np.random.default_rng(12), (3000, 1, 100), 0.0)
    assert (judge(none, 0.5, sizes=analysis_sizes(100))[0] == 2).mean() > 0.9
    assert (judge(none[..., :60], 0.5)[0] == 2).mean() > 0.9


# The longer grid


@pytest.mark.long
@pytest.mark.parametrize("kind", SOUND, ids=lambda kind: kind.name)
@pytest.mark.parametrize("arms", [1, 3, 10])
def test_the_longer_grid(kind: Kind, arms: int) -> None:
    for n in range(2, 21):
        for truth in TRUTHS:
            assert rates(kind, n, arms, truth, 20_000, seed=1).false <= 0.05 + slack(0.05, 20_000), (n, truth)
    for most in (10, 20, 63, 100):
        for truth in TRUTHS:
            found = rates(kind, most, arms, truth, 5000, analysis_sizes(most), seed=1).false
            assert found <= 0.05 + slack(0.05, 5000), (most, truth)
