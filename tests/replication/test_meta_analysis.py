"""From estimates to findings: one setting by its interval, several by their hierarchical mean; judged twice."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from durm.replication.finding import Criterion, Verdict
from durm.replication.mean_effect import EffectEstimate, OneSetting, by_setting, independent
from durm.replication.meta_analysis import combine, to_decide
from durm.statistics.intervals import SampleVariance
from durm.statistics.sequential import series_level


def some(seed: int, n: int, size: float = 1.0, spread: float = 1.0, **more: Any) -> EffectEstimate:
    values = np.random.default_rng(seed).normal(size, spread, n)
    return EffectEstimate(
        (f"study {seed}",), f"setting {seed}", {str(i): float(v) for i, v in enumerate(values)}, **more
    )


def exactly(mean: float, spread: float, n: int, name: str = "a", **more: Any) -> EffectEstimate:
    """Values with exactly this mean and standard deviation."""
    raw = np.arange(n) - (n - 1) / 2
    values = mean + spread * raw / raw.std(ddof=1)
    return EffectEstimate((name,), name, {str(i): float(v) for i, v in enumerate(values)}, **more)


# One setting.


def test_one_setting_has_students_interval() -> None:
    one = some(1, 8)
    found = combine([one], Criterion())
    assert found is not None
    assert found.interval == pytest.approx(stats.t.interval(0.95, 7, one.array.mean(), stats.sem(one.array)))
    assert (found.n, found.settings) == (8, 1)


def test_steps_of_the_metric_widen_it() -> None:
    """Six equal differences of a metric that moves in steps of 0.6: √(0.36/6/6) = 0.1, and t(5) = 2.571."""
    found = combine([exactly(1.0, 0.0, 6, step=0.6)], Criterion())
    assert found is not None
    assert found.interval == pytest.approx((1 - 0.2571, 1 + 0.2571), abs=1e-4)
    assert found.verdict == "holds"


def test_test_samples_widen_it() -> None:
    """s²/n = 0.06/6 = 0.01, and the samples add 0.04 − 0.01 = 0.03: SE = 0.2."""
    one = exactly(1.0, math.sqrt(0.06), 6, samples=SampleVariance(100, 0.04, 0.01))
    found = combine([one], Criterion())
    assert found is not None
    assert found.interval == pytest.approx(stats.t.interval(0.95, 5, 1.0, 0.2))


def test_several_analyses_widen_it() -> None:
    found = combine([exactly(1.0, 1.0, 10, level=series_level(2))], Criterion())
    assert found is not None
    half = stats.t.ppf(1 - series_level(2) / 2, 9) / math.sqrt(10)
    assert found.interval == pytest.approx((1 - half, 1 + half))


@pytest.mark.parametrize(("n", "verdict"), [(3, "undecided"), (5, "undecided"), (6, "holds")])
def test_six_pairs_are_the_fewest_that_decide(n: int, verdict: Verdict) -> None:
    """2/2ⁿ ≤ 0.05 takes n = 6; as everywhere in durm, and with no other rule for equal differences."""
    found = combine([exactly(2.0, 0.01, n)], Criterion())
    assert found is not None
    assert (found.verdict, found.verdict_margin) == (verdict, verdict)
    assert found.interval is not None
    assert ("too few seeds" in found.reading) == (verdict == "undecided")


@pytest.mark.parametrize(
    ("wanted", "interval", "verdict"),
    [
        ("more", (0.2, 0.3), "holds"),
        ("more", (-0.05, 0.05), "does not hold"),
        ("more", (-0.3, 0.05), "does not hold"),  # wholly below the margin, though it crosses −0.1
        ("more", (-0.3, -0.2), "does not hold"),
        ("more", (0.0, 0.3), "undecided"),
        ("less", (-0.3, -0.2), "holds"),
        ("less", (-0.05, 0.3), "does not hold"),
        ("same", (-0.05, 0.05), "holds"),
        ("same", (0.2, 0.3), "does not hold"),
        ("same", (-0.3, -0.2), "does not hold"),
        ("same", (-0.05, 0.2), "undecided"),
        ("at most", (-5.0, 0.05), "holds"),
        ("at most", (0.2, 0.3), "does not hold"),
        ("at most", (0.0, 0.2), "undecided"),
        ("more", None, "undecided"),
        ("at most", None, "undecided"),
    ],
)
def test_from_interval_to_verdict(wanted: Any, interval: tuple[float, float] | None, verdict: str) -> None:
    assert Criterion(wanted).verdict(OneSetting(0.0, interval, 10)) == verdict


@pytest.mark.parametrize(
    ("interval", "at_margin", "of_paper"),
    [
        ((0.2, 0.6), "holds", "holds"),  # above the margin, and the paper's 0.39 is inside
        ((0.5, 0.6), "holds", "holds"),
        ((0.2, 0.3), "holds", "does not hold"),  # a gain, but less than the paper's
        ((0.0, 0.3), "undecided", "does not hold"),
        ((0.0, 0.5), "undecided", "undecided"),
        ((-0.2, 0.05), "does not hold", "does not hold"),
    ],
)
def test_a_gain_is_judged_twice(interval: tuple[float, float], at_margin: str, of_paper: str) -> None:
    criterion, known = Criterion(paper_gain=0.39), OneSetting(0.0, interval, 10)
    assert (criterion.verdict(known), criterion.verdict_of_paper(known)) == (at_margin, of_paper)


# Several settings.


def test_several_settings_have_the_hierarchical_mean() -> None:
    """Against a direct integration of the model over μ and τ, with Student's density of three settings."""
    settings = [exactly(0.6, 0.5, 6, "a"), exactly(0.2, 0.3, 8, "b"), exactly(0.5, 0.4, 5, "c")]
    found = combine(settings, Criterion())
    assert found is not None
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)

    def density(mu: float, tau: float) -> float:
        value = stats.norm.pdf(mu) * stats.halfnorm.pdf(tau, scale=0.3)
        for one in settings:
            n = len(one.values)
            theta = mu + tau * nodes
            likelihood = stats.t.pdf(one.array.mean(), n - 1, theta, one.array.std(ddof=1) / math.sqrt(n))
            value *= float((weights * likelihood).sum()) / math.sqrt(2 * math.pi)
        return value

    mu, tau = np.linspace(-1.5, 2.5, 161), np.linspace(0, 1.35, 55)
    grid = np.array([integrate.simpson([density(m, t) for t in tau], x=tau) for m in mu])
    total = integrate.simpson(grid, x=mu)
    mean = integrate.simpson(grid * mu, x=mu) / total
    above = integrate.simpson(grid[mu >= 0.1], x=mu[mu >= 0.1]) / total
    assert found.effect == pytest.approx(mean, abs=0.005)
    assert found.probability == pytest.approx(above, abs=0.01)
    assert (found.n, found.settings, found.prior) == (19, 3, (1.0, 0.3))
    assert {*found.prior_sensitivity} == {"sceptical", "wide"}
    assert "19 seeds, 3 settings" in found.reading
    assert "prior μ ~ N(0, 1), τ ~ half-normal(0.3)" in found.reading


@pytest.mark.parametrize(("size", "verdict"), [(1.0, "holds"), (0.0, "does not hold"), (-1.0, "does not hold")])
def test_many_settings_decide(size: float, verdict: Verdict) -> None:
    found = combine([exactly(size, 0.1, 6, name) for name in "abcdef"], Criterion())
    assert found is not None
    assert found.verdict == verdict, found.reading


def test_a_mean_below_the_papers_gain_contradicts_it_though_it_is_a_gain() -> None:
    settings = [exactly(0.4, 0.05, 8, name) for name in "abcdef"]
    found = combine(settings, Criterion(paper_gain=1.0))
    assert found is not None
    assert (found.verdict_margin, found.verdict) == ("holds", "does not hold")
    assert "The paper's mean gain is +1.00 points: below it." in found.reading


def test_numbers_of_the_same_runs_are_one_setting() -> None:
    """Two attacks on the same models: the mean of both for each seed, with the step of a mean of two."""
    first, second = exactly(1.0, 0.5, 6, "a", group="attacked", step=0.2), exactly(3.0, 0.5, 6, "a", group="attacked")
    (one,) = by_setting([first, second])
    assert one.array.mean() == pytest.approx(2.0)
    assert one.step == pytest.approx(0.1)
    found = combine([first, second], Criterion())
    assert found is not None
    assert (found.settings, found.n, len(found.parts)) == (1, 6, 2)


def test_settings_with_one_seed_count_only_if_none_has_more() -> None:
    one, six = exactly(1.0, 0.5, 2, "a"), exactly(1.0, 0.5, 6, "b")
    single = EffectEstimate(("c",), "c", {"0": 5.0})
    assert independent([one, six, single]) == [one, six]
    assert independent([single]) == [single]


def test_equal_differences_without_a_step_among_others() -> None:
    found = combine([exactly(1.0, 0.0, 6, "a"), exactly(1.0, 0.1, 6, "b")], Criterion())
    assert found is not None
    assert found.verdict == "holds"


def test_single_settings_are_corrected_for_their_number() -> None:
    estimates = [some(seed, 9) for seed in range(5)]
    found = combine(estimates, Criterion())
    assert found is not None
    for part, one in zip(found.parts, estimates, strict=True):
        expected = stats.t.interval(1 - 0.05 / 5, 8, one.array.mean(), stats.sem(one.array))
        assert part.interval == pytest.approx(expected)


def test_relative_changes_are_told_in_percent() -> None:
    found = combine([exactly(math.log(1.1), 0.001, 6)], Criterion("more", 1.0, "%", relative=True))
    assert found is not None
    assert found.effect == pytest.approx(10)
    assert found.verdict == "holds"


# What would decide.


def test_the_size_that_would_decide() -> None:
    """Half-widths by hand: t(n − 1) · 1/√n ≤ 0.5 first at n = 18 (2.110/√18 = 0.497; 2.120/√17 = 0.514)."""
    size = to_decide(1.0, Criterion(rope=0.5, paper_gain=0.5))
    assert size.startswith("18 seeds for an interval of ± 0.5 points or 18 seeds for an interval of ± the paper's 0.50")
    assert "more than 100,000 seeds" in to_decide(1000.0, Criterion())
    assert "more than the 40 seeds of now" in to_decide(1.0, Criterion(rope=0.5), have=40)


def test_the_size_that_would_decide_near_the_margin() -> None:
    """t(n − 1) · 1/√n ≤ 0.25, the distance of 0.25 from 0.5, first at n = 64 (1.998/8 = 0.2498; 1.999/√63 = 0.2518)."""
    assert to_decide(1.0, Criterion(rope=0.5), 40, 0.25).startswith("64 seeds, if the effect stays where it is")
    assert "64 seeds" in to_decide(1.0, Criterion("same", 0.5), 40, -0.25)
    assert "64 seeds" in to_decide(1.0, Criterion("less", 0.5), 40, -0.25)


def test_an_undecided_finding_says_so() -> None:
    found = combine([exactly(0.3, 1.0, 6)], Criterion(rope=0.5))
    assert found is not None
    assert (found.verdict, found.to_decide[:8]) == ("undecided", "18 seeds")
