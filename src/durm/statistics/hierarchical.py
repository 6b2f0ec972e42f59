"""Several settings at once: the mean effect over all settings like these, and what a new setting may show.

Setting j has a mean difference y_j with standard error e_j from n_j pairs. Its true effect is θ_j ~ N(μ, τ²), and

    y_j | θ_j ~ θ_j + e_j · t(n_j − 1),   μ ~ N(0, 1),   τ ~ half-normal(0.3)     in points of percent

(in another unit the priors are multiplied by rope/0.1). A t distribution is a normal one whose variance is divided by
w ~ Gamma(ν/2, ν/2), so y_j | μ, τ is a mixture over w of N(μ, e_j²/w + τ²): one smooth integral a setting, by the
trapezoidal rule in log w, on a grid of μ and τ. The grid is dense where the posterior is, at any scale. No sampler.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from durm.statistics.intervals import Interval

NORMAL_ABOVE = 120
"""Degrees of freedom from which t is taken to be normal."""
MU_POINTS, TAU_POINTS, PASSES = 401, 81, 4


@dataclass(frozen=True)
class Prior:
    """Standard deviations of μ and of the half-normal τ, in points of percent."""

    mu: float = 1.0
    tau: float = 0.3


PRIORS = {"main": Prior(), "sceptical": Prior(0.3, 0.1), "wide": Prior(3.0, 1.0)}


@dataclass(frozen=True)
class SettingEffect:
    """The mean difference of one setting, its standard error, and the pairs that it comes from (two or more)."""

    difference: float
    error: float
    n: int


@dataclass(frozen=True)
class Posterior:
    """What several settings say together.

    Attributes:
        settings: how many.
        mean, interval: of μ, the mean effect over settings like these; 95 %.
        better, equal, worse: P(μ > rope), P(|μ| ≤ rope), P(μ < −rope); turned round where lower is better.
        tau: posterior mean of τ, the spread of true effects between settings.
        new_interval: 95 % prediction interval of the effect in a new setting.
        new_better, new_equal, new_worse: the same probabilities of a new setting.
        prior: standard deviations of the priors of μ and τ, in the unit of the differences.
        sensitivity: P(better), P(equal), P(worse) under other priors.
    """

    settings: int
    mean: float
    interval: Interval
    better: float
    equal: float
    worse: float
    tau: float
    new_interval: Interval
    new_better: float
    new_equal: float
    new_worse: float
    prior: tuple[float, float]
    sensitivity: dict[str, tuple[float, float, float]]


def summarize_settings(
    effects: Sequence[SettingEffect], rope: float, *, unit: float = 1.0, higher_is_better: bool = True
) -> Posterior | None:
    """The posterior; None for fewer than two settings. `unit` multiplies the priors: rope/0.1 where not percent.

    Raises:
        ValueError: for a setting of fewer than two pairs, or one without any error.
    """
    if len(effects) < 2:
        return None
    for one in effects:
        if one.n < 2 or not one.error > 0:
            raise ValueError(f"a setting needs two pairs and a standard error above 0; this one has {one}")
    mu, tau, weights = _posteriors(tuple(effects), unit)
    chances = {name: _chances(mu, weight.sum(1), rope, higher_is_better) for name, weight in weights.items()}
    weight = weights["main"]
    by_mu = weight.sum(1)
    new = [_new_setting(mu, tau, weight, bound) for bound in (-rope, rope)]
    below, above = new[0], 1 - new[1]
    new_better, new_worse = (above, below) if higher_is_better else (below, above)
    better, equal, worse = chances["main"]
    return Posterior(
        settings=len(effects),
        mean=float(by_mu @ mu),
        interval=(_quantile(mu, by_mu, 0.025), _quantile(mu, by_mu, 0.975)),
        **{"better": better, "equal": equal, "worse": worse},
        tau=float(weight.sum(0) @ tau),
        new_interval=(_new_quantile(mu, tau, weight, 0.025), _new_quantile(mu, tau, weight, 0.975)),
        **{"new_better": new_better, "new_equal": new[1] - new[0], "new_worse": new_worse},
        prior=(PRIORS["main"].mu * unit, PRIORS["main"].tau * unit),
        sensitivity={name: found for name, found in chances.items() if name != "main"},
    )


def probability_above(effects: Sequence[SettingEffect], threshold: float, *, unit: float = 1.0) -> float:
    """P(μ > threshold) under the main prior, at any threshold, for two settings or more."""
    mu, _, weights = _posteriors(tuple(effects), unit)
    return 1 - _cumulative(mu, weights["main"].sum(1), threshold)


def prior_unit(effects: Sequence[SettingEffect], unit: float = 1.0) -> float:
    """The unit of the priors, or the largest difference if that is more: a prior must not shrink a certain gain.

    With priors of one point, five settings at 50 ± 0.5 points would have a mean of 1.0.
    """
    return max([unit, *(abs(one.difference) for one in effects)])


@lru_cache(maxsize=64)
def _posteriors(
    effects: tuple[SettingEffect, ...], unit: float
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Points of μ, points of τ, and for each prior the posterior probability of each pair of them.

    The points of τ are close together where it is below the smallest error. Those of μ are placed in several passes,
    by the quantiles of what was found so far, and of flatter versions of it, which reach into the tails.
    """
    centres = np.array([one.difference for one in effects])
    widest = max(prior.mu for prior in PRIORS.values()) * unit
    scale = min(one.error for one in effects)
    far = float((np.maximum(np.abs(centres), np.ptp(centres)) ** 2).sum())
    # at most: where the half-normal prior of τ and normal deviations as far as these are in balance, and a bit beyond
    most = max(4.5 * prior.tau * unit + math.sqrt(prior.tau * unit * math.sqrt(far)) for prior in PRIORS.values())
    x = np.linspace(0, math.asinh(most / scale), TAU_POINTS)
    tau, tau_widths = scale * np.sinh(x), scale * np.cosh(x) * (x[1] - x[0])
    tau_widths[0] /= 2
    mu = np.union1d(np.linspace(-6 * widest, 6 * widest, MU_POINTS), centres)
    weights: dict[str, np.ndarray] = {}
    for last in [False] * (PASSES - 1) + [True]:
        log = sum(_log_likelihood(one, mu[:, None], tau[None, :]) for one in effects)
        widths = np.gradient(mu)
        log = log + np.log(widths)[:, None] + np.log(tau_widths)
        for name, prior in PRIORS.items():
            logs = log - 0.5 * (mu[:, None] / (prior.mu * unit)) ** 2 - 0.5 * (tau / (prior.tau * unit)) ** 2
            weight = np.exp(logs - logs.max())
            weights[name] = weight / weight.sum()
        if not last:
            mu = np.union1d(_placed(mu, [weight.sum(1) for weight in weights.values()]), centres)
    return mu, tau, weights


def _placed(mu: np.ndarray, posteriors: Sequence[np.ndarray]) -> np.ndarray:
    """New points of μ: quantiles of p, √p and p^⅛ of each density p."""
    widths = np.gradient(mu)
    densities = [by_mu / widths for by_mu in posteriors]
    each = MU_POINTS // (3 * len(densities))
    points = [
        np.interp(np.linspace(0, 1, each), *_distribution(mu, density**power * widths))
        for density in densities
        for power in (1.0, 0.5, 0.125)
    ]
    placed = np.unique(np.concatenate(points))
    apart = np.concatenate([[True], np.diff(placed) > 1e-12 * max(np.abs(placed).max(), float(np.ptp(placed)))])
    return np.asarray(placed[apart])


def _log_likelihood(one: SettingEffect, mu: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Of a mean difference given μ and τ, θ integrated out, but for a constant."""
    freedom = one.n - 1
    squares = (one.difference - mu) ** 2
    if freedom > NORMAL_ABOVE:
        variance = one.error**2 + tau**2
        return np.asarray(-0.5 * squares / variance - 0.5 * np.log(variance))
    # in u = log w the integrand without τ is w^{(ν + 1)/2} e^{−w(ν + r²)/2}, r errors away: largest at (ν + 1)/(ν + r²)
    width = math.sqrt(2 / (freedom + 1))
    reach = 6 * width + 50 / (freedom + 1)
    farthest = float(squares.max()) / one.error**2
    low = math.log((freedom + 1) / (freedom + farthest)) - reach
    high = math.log(1 + 6 * width + 40 / freedom)
    u = np.linspace(low, high, math.ceil((high - low) / (0.6 * width)) + 1)
    w = np.exp(u)
    weights = freedom / 2 * (u - w)  # log of the Gamma density in u
    largest, total = np.full(np.broadcast_shapes(mu.shape, tau.shape), -np.inf), np.float64(0.0)
    for scale, weight in zip(w, weights, strict=True):
        variance = one.error**2 / scale + tau**2
        log = weight - 0.5 * squares / variance - 0.5 * np.log(variance)
        above = np.maximum(largest, log)
        total = total * np.exp(largest - above) + np.exp(log - above)
        largest = above
    return np.asarray(largest + np.log(total) + math.log(u[1] - u[0]))


def _distribution(mu: np.ndarray, by_mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(μ ≤ edge) and the edges: each point stands for the cell around it."""
    edges = np.concatenate([mu[:1], (mu[1:] + mu[:-1]) / 2, mu[-1:]])
    below = np.concatenate([[0.0], np.cumsum(by_mu)])
    return below / below[-1], edges


def _chances(mu: np.ndarray, by_mu: np.ndarray, rope: float, higher_is_better: bool) -> tuple[float, float, float]:
    below, above = _cumulative(mu, by_mu, -rope), 1 - _cumulative(mu, by_mu, rope)
    better, worse = (above, below) if higher_is_better else (below, above)
    return better, max(0.0, 1 - above - below), worse


def _cumulative(mu: np.ndarray, by_mu: np.ndarray, at: float) -> float:
    below, edges = _distribution(mu, by_mu)
    return float(np.interp(at, edges, below))


def _quantile(mu: np.ndarray, by_mu: np.ndarray, p: float) -> float:
    return float(np.interp(p, *_distribution(mu, by_mu)))


def _new_setting(mu: np.ndarray, tau: np.ndarray, weight: np.ndarray, at: float) -> float:
    """P(θ_new ≤ at), with θ_new ~ N(μ, τ²)."""
    spread = np.hypot(tau[None, :], np.gradient(mu)[:, None] / 2)  # a point of μ stands for its cell
    return float((weight * scipy.special.ndtr((at - mu[:, None]) / spread)).sum())


def _new_quantile(mu: np.ndarray, tau: np.ndarray, weight: np.ndarray, p: float) -> float:
    low, high = float(mu[0] - 9 * tau[-1]), float(mu[-1] + 9 * tau[-1])
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _new_setting(mu, tau, weight, middle) < p else (low, middle)
    return (low + high) / 2
