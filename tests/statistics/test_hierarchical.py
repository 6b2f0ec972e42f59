"""Several settings at once, against brute-force integration over θ, importance sampling, and limits."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, fields

import numpy as np
import pytest
from scipy import stats

from durm.statistics import hierarchical
from durm.statistics.hierarchical import PRIORS, Posterior, Prior, SettingEffect, summarize_settings

Setting = tuple[float, float, int]


def summarize(settings: Sequence[Setting], rope: float = 0.1, **options: float) -> Posterior:
    found = summarize_settings([SettingEffect(*one) for one in settings], rope, **options)
    assert found is not None
    return found


def brute_force(
    settings: Sequence[Setting],
    reach: tuple[float, float],
    most_tau: float,
    rope: float = 0.1,
    prior: Prior = PRIORS["main"],
) -> dict[str, float]:
    """θ_j = μ + τz integrated over z, on a plain grid of μ and τ: no mixture, no change of variables."""
    mu, tau = np.linspace(*reach, 301), np.linspace(0, most_tau, 101)
    z = np.linspace(-7, 7, 301)
    normal = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    log = -0.5 * (mu[:, None] / prior.mu) ** 2 - 0.5 * (tau / prior.tau) ** 2
    for difference, error, n in settings:
        for column, spread in enumerate(tau):
            t = (difference - mu[:, None] - spread * z) / error
            log[:, column] += np.log((1 + t**2 / (n - 1)) ** (-n / 2) @ normal)
    weight = np.exp(log - log.max())
    weight[:, 0] /= 2
    weight /= weight.sum()
    by_mu = weight.sum(1)
    cumulative = by_mu.cumsum() - by_mu / 2
    spread = np.maximum(tau, (mu[1] - mu[0]) / 2)
    return {
        "mean": by_mu @ mu,
        "better": 1 - np.interp(rope, mu, cumulative),
        "worse": np.interp(-rope, mu, cumulative),
        "tau": weight.sum(0) @ tau,
        "low": np.interp(0.025, cumulative, mu),
        "high": np.interp(0.975, cumulative, mu),
        "new_better": (weight * stats.norm.sf((rope - mu[:, None]) / spread)).sum(),
        "new_worse": (weight * stats.norm.cdf((-rope - mu[:, None]) / spread)).sum(),
    }


CASES: dict[str, tuple[list[Setting], tuple[float, float], float]] = {
    "usual": ([(0.3, 0.1, 10), (0.1, 0.15, 6), (-0.05, 0.2, 10), (0.4, 0.3, 3)], (-1.5, 1.5), 1.8),
    "two pairs": ([(0.5, 0.05, 2), (0.2, 0.3, 2), (0.1, 0.05, 2)], (-2.5, 2.5), 1.8),
    "an outlier": ([(0.1, 0.05, 10), (0.12, 0.05, 10), (0.05, 0.05, 10), (5, 0.05, 3)], (-1.5, 1.5), 1.5),
    "disagreement": ([(3, 0.5, 10), (-3, 0.5, 10), (3, 0.5, 10), (-3, 0.5, 10), (2, 0.5, 10)], (-4, 4), 4.0),
    "far from the prior": ([(5, 0.5, 10), (5.5, 0.5, 10), (4.8, 0.4, 6)], (-2, 8), 4.0),
    "many pairs": ([(0.3, 0.06, 200), (0.1, 0.06, 200)], (-2, 2), 1.8),
}


@pytest.mark.parametrize("name", CASES)
def test_the_posterior_is_that_of_brute_force(name: str) -> None:
    settings, reach, most_tau = CASES[name]
    found, expected = summarize(settings), brute_force(settings, reach, most_tau)
    for key in ("better", "worse", "new_better", "new_worse"):
        assert getattr(found, key) == pytest.approx(expected[key], abs=0.003), key
    scale = expected["high"] - expected["low"]
    assert found.mean == pytest.approx(expected["mean"], abs=0.003 * scale)
    assert found.interval == pytest.approx((expected["low"], expected["high"]), abs=0.005 * scale)
    assert found.tau == pytest.approx(expected["tau"], abs=0.003)
    for prior, values in (("sceptical", Prior(0.3, 0.1)), ("wide", Prior(3.0, 1.0))):
        if name == "usual":
            other = brute_force(settings, (-3, 3), 6 * values.tau, prior=values)
            chances = (other["better"], 1 - other["better"] - other["worse"], other["worse"])
            assert found.sensitivity[prior] == pytest.approx(chances, abs=0.003)


def test_the_posterior_is_that_of_importance_sampling() -> None:
    """μ, τ and every θ_j from their priors, weighted by the t densities of what was seen."""
    settings = [(0.5, 0.3, 4), (0.1, 0.4, 6), (-0.2, 0.5, 3)]
    random = np.random.default_rng(0)
    mu, tau = random.normal(0, 1, 1_000_000), np.abs(random.normal(0, 0.3, 1_000_000))
    weight = np.ones(len(mu))
    for difference, error, n in settings:
        t = (difference - random.normal(mu, tau)) / error
        weight *= (1 + t**2 / (n - 1)) ** (-n / 2)
    weight /= weight.sum()
    error = 4 / math.sqrt(1 / (weight**2).sum())
    found = summarize(settings)
    assert found.mean == pytest.approx(weight @ mu, abs=error)
    assert found.better == pytest.approx(weight @ (mu > 0.1), abs=error)
    assert found.worse == pytest.approx(weight @ (mu < -0.1), abs=error)
    assert found.tau == pytest.approx(weight @ tau, abs=error)
    new = random.normal(mu, tau)
    assert found.new_better == pytest.approx(weight @ (new > 0.1), abs=error)
    order = np.argsort(new)
    low, high = np.interp([0.025, 0.975], weight[order].cumsum(), new[order])
    assert found.new_interval == pytest.approx((low, high), abs=0.03)


def test_without_a_spread_between_settings_it_is_one_normal_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchical, "PRIORS", {"main": Prior(1.0, 1e-6), "other": Prior(1.0, 1e-6)})
    found = summarize([(0.5, 0.2, 1000), (0.2, 0.3, 1000)])
    precision = 1 + 1 / 0.04 + 1 / 0.09
    mean, spread = (0.5 / 0.04 + 0.2 / 0.09) / precision, precision**-0.5
    assert found.mean == pytest.approx(mean, abs=1e-4)
    assert found.interval == pytest.approx(stats.norm.interval(0.95, mean, spread), abs=2e-3)
    assert found.better == pytest.approx(stats.norm.sf(0.1, mean, spread), abs=1e-3)
    assert found.new_interval == pytest.approx(found.interval, abs=2e-3)


def test_one_precise_setting_leaves_the_spread_between_settings() -> None:
    """μ is then as uncertain as one draw from N(μ, τ²): with τ from its prior, and the other setting says nothing."""
    found = summarize([(0.5, 1e-4, 1000), (0.0, 1000.0, 6)])
    tau = np.linspace(1e-4, 1.8, 4000)
    weight = stats.halfnorm.pdf(tau, scale=0.3) * stats.norm.pdf(0.5, 0, np.sqrt(1 + tau**2))
    weight /= weight.sum()
    shrunk = 0.5 / (1 + tau**2)
    spread = tau / np.sqrt(1 + tau**2)
    assert found.mean == pytest.approx(weight @ shrunk, abs=2e-3)
    assert found.better == pytest.approx(weight @ stats.norm.sf(0.1, shrunk, spread), abs=5e-3)


@pytest.mark.parametrize("scale", [0.1, 0.01, 100.0])
def test_the_unit_does_not_matter(scale: float) -> None:
    settings = CASES["usual"][0]
    points = summarize(settings)
    scaled = summarize([(scale * d, scale * e, n) for d, e, n in settings], 0.1 * scale, unit=scale)
    for key in ("better", "equal", "worse", "new_better", "new_equal", "new_worse"):
        assert getattr(scaled, key) == pytest.approx(getattr(points, key), abs=1e-9)
    assert scaled.mean == pytest.approx(scale * points.mean)
    assert scaled.interval == pytest.approx(tuple(scale * end for end in points.interval))
    assert scaled.prior == pytest.approx((scale, 0.3 * scale))


def test_where_lower_is_better_the_chances_turn_round() -> None:
    settings = CASES["usual"][0]
    higher, lower = summarize(settings), summarize(settings, higher_is_better=False)
    assert (lower.better, lower.equal, lower.worse) == (higher.worse, higher.equal, higher.better)
    assert (lower.new_better, lower.new_worse) == (higher.new_worse, higher.new_better)
    assert lower.mean == higher.mean
    mirrored = summarize([(-d, e, n) for d, e, n in settings])
    assert mirrored.better == pytest.approx(higher.worse, abs=1e-4)
    assert mirrored.mean == pytest.approx(-higher.mean, abs=1e-4)


EXTREME: list[list[Setting]] = [
    [(50.0, 1e-6, 2), (50.0, 1e-6, 2)],
    [(50.0, 1e-6, 300), (-50.0, 1e-6, 300)],
    [(50.0, 0.5, 10)] * 5,
    [(0.2, 1e-6, 10), (0.2, 1e-6, 10)],
    [(0.0, 1e-9, 2), (0.0, 1e3, 2)],
    [(0.0, 100.0, 2), (0.0, 100.0, 2)],
    [(0.1, 0.05, 121), (0.1, 0.05, 122)],
    [(1e-12, 1e-12, 6)] * 3,
]


@pytest.mark.parametrize("settings", EXTREME)
def test_extreme_settings_give_numbers(settings: list[Setting]) -> None:
    found = summarize(settings)
    chances = [
        (found.better, found.equal, found.worse),
        (found.new_better, found.new_equal, found.new_worse),
        *found.sensitivity.values(),
    ]
    for three in chances:
        assert sum(three) == pytest.approx(1, abs=1e-9)
        assert all(-1e-12 <= chance <= 1 + 1e-12 for chance in three)
    assert found.interval[0] < found.mean < found.interval[1]
    assert found.new_interval[0] <= found.interval[0] + 0.02
    assert found.new_interval[1] >= found.interval[1] - 0.02
    assert found.tau >= 0
    json.dumps(asdict(found), allow_nan=False)
    assert {field.name for field in fields(Posterior)} == {*asdict(found)}


def test_at_the_change_to_normal_nothing_jumps() -> None:
    first, second = (summarize([(0.3, 0.1, n), (0.1, 0.1, n)]) for n in (121, 122))
    assert second.better == pytest.approx(first.better, abs=0.002)
    assert second.interval == pytest.approx(first.interval, abs=0.01)


def test_more_settings_that_agree_say_more() -> None:
    widths = []
    for count in (2, 4, 16):
        found = summarize([(0.3, 0.1, 10)] * count)
        assert found.mean == pytest.approx(0.3, abs=0.02)
        widths.append(found.interval[1] - found.interval[0])
    assert widths == sorted(widths, reverse=True)


def test_what_is_refused() -> None:
    assert summarize_settings([SettingEffect(0.1, 0.1, 10)], 0.1) is None
    assert summarize_settings([], 0.1) is None
    for bad in (SettingEffect(0.1, 0.0, 10), SettingEffect(0.1, 0.1, 1), SettingEffect(0.1, math.nan, 10)):
        with pytest.raises(ValueError, match="two pairs and a standard error above 0"):
            summarize_settings([SettingEffect(0.1, 0.1, 10), bad], 0.1)
