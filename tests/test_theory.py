"""Theorems 1 and 2 and Proposition 1 against closed forms, other quadratures, simulation and autograd."""

import ast
import math
import sys
from itertools import pairwise
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import special, stats
from scipy.integrate import quad
from torch import Tensor

import durm
import durm.theory
from durm.theory import (
    RATIOS,
    STEPS,
    Assumptions,
    check_assumptions,
    difference_curves,
    distribution_curves,
    eigenvalue_norm_correlation,
    gradient_variance,
    minimum_probability,
    probability_curves,
    size_probability,
)

# Theorem 2.


def test_the_numbers_of_the_issue() -> None:
    assert minimum_probability(ratio=2, steps=10) == pytest.approx(0.886, abs=5e-4)
    assert minimum_probability(ratio=1.5, steps=100) == pytest.approx(0.956, abs=5e-4)


@pytest.mark.parametrize("ratio", [1e-300, 0.01, 0.5, 1.0, 1 + 1e-6, 3.0, 100.0, 1e300])
def test_one_step_is_a_coin(ratio: float) -> None:
    assert minimum_probability(ratio, 1) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 1000, 10**6, 10**9, 10**12])
def test_equal_variances_are_a_coin(steps: int) -> None:
    assert minimum_probability(1, steps) == pytest.approx(0.5, abs=1e-12)
    assert size_probability(1, steps) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 1 + 1e-6, 1.5, 2.0, 100.0])
def test_two_steps_in_closed_form(ratio: float) -> None:
    """2 P(g_1, g_2, ĝ_2 > ĝ_1), an orthant of three normals: 1/8 + (arcsines of the correlations) / 4π."""
    first = math.asin(ratio**2 / (1 + ratio**2))
    second = math.asin(ratio / math.sqrt(2 * (1 + ratio**2)))
    assert minimum_probability(ratio, 2) == pytest.approx(1 / 4 + (first + 2 * second) / (2 * math.pi), abs=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_an_infinite_ratio_needs_one_negative_gradient(steps: int) -> None:
    assert minimum_probability(1e12, steps) == pytest.approx(1 - 2.0**-steps, abs=1e-10)


def by_scipy(ratio: float, steps: int) -> float:
    """T ∫ Φ̄(r x)^T Φ̄(x)^(T−1) φ(x) dx, in pieces between quantiles of the minimum."""

    def integrand(x: float) -> float:
        exponent = steps * special.log_ndtr(-ratio * x) + (steps - 1) * special.log_ndtr(-x)
        return steps * math.exp(exponent) * stats.norm._pdf(x)

    tails = [1e-19, 1e-9, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.99, 0.9999, 1 - 1e-12]
    ends = [*(float(special.ndtri(-math.expm1(math.log1p(-tail) / steps))) for tail in tails), 10.0]
    return math.fsum(quad(integrand, a, b, epsabs=1e-13, epsrel=1e-13, limit=200)[0] for a, b in pairwise(ends))


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.1, 1.5, 3.0])
@pytest.mark.parametrize("steps", [1, 3, 10, 1000, 10**6])
def test_another_quadrature_agrees(ratio: float, steps: int) -> None:
    assert minimum_probability(ratio, steps) == pytest.approx(by_scipy(ratio, steps), abs=1e-10)


def by_mpmath(ratio: float, steps: int, places: list[float]) -> float:
    """The same with 20 digits, in pieces between the given places."""

    def log_survival(x: mpmath.mpf) -> mpmath.mpf:
        lower = mpmath.erfc(-x / mpmath.sqrt(2)) / 2
        return mpmath.log1p(-lower) if x < 0 else mpmath.log(mpmath.erfc(x / mpmath.sqrt(2)) / 2)

    def integrand(x: mpmath.mpf) -> mpmath.mpf:
        exponent = steps * log_survival(ratio * x) + (steps - 1) * log_survival(x)
        return steps * mpmath.exp(exponent) * mpmath.npdf(x)

    with mpmath.workdps(20):
        return float(mpmath.quad(integrand, places, maxdegree=5))


@pytest.mark.parametrize("ratio", [0.01, 1 + 1e-6, 1.1, 100.0])
def test_a_million_steps_to_many_digits(ratio: float) -> None:
    """The smallest of a million standard normal gradients lies between −10 and −3.5, but for 1e-17."""
    expected = by_mpmath(ratio, 10**6, [-10, -7, -6, -5.5, -5, -4.5, -4, -3.5])
    assert minimum_probability(ratio, 10**6) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ratio", [0.01, 100.0])
def test_ten_steps_of_very_different_spread_to_many_digits(ratio: float) -> None:
    near = [place / max(1.0, ratio) for place in (-4, -2, -1, 0, 1, 3, 8)]
    expected = by_mpmath(ratio, 10, sorted({-9, -4, -2, -1, 0.5, 2, 4, 9, *near}))
    assert minimum_probability(ratio, 10) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 7, 100, 10**6])
@pytest.mark.parametrize("ratio", [1 + 1e-6, 1.3, 4.0, 100.0])
@pytest.mark.parametrize("probability", [minimum_probability, size_probability])
def test_changing_the_two_around(probability, ratio: float, steps: int) -> None:
    assert probability(ratio, steps) + probability(1 / ratio, steps) == pytest.approx(1, abs=1e-12)


def test_it_rises_with_ratio_and_steps() -> None:
    ratios = torch.linspace(1.01, 3, 40, dtype=torch.float64)
    table = minimum_probability(ratios, torch.tensor([[1], [2], [5], [20], [100]]))
    assert (table.diff(dim=0) > 0).all()
    assert (table[1:].diff(dim=1) > 0).all()


@pytest.mark.parametrize(("ratio", "steps"), [(2.0, 10), (1.5, 100), (0.7, 4)])
def test_simulation_agrees(ratio: float, steps: int) -> None:
    """50,000 draws: a standard deviation of at most 0.0022, four of which are allowed."""
    random = np.random.default_rng(0)
    erm = random.standard_normal((50_000, steps), dtype=np.float32)
    durm_ = ratio * random.standard_normal((50_000, steps), dtype=np.float32)
    assert minimum_probability(ratio, steps) == pytest.approx((erm.min(1) >= durm_.min(1)).mean(), abs=0.009)
    sizes = np.abs(erm).min(1) >= np.abs(durm_).min(1)
    assert size_probability(ratio, steps) == pytest.approx(sizes.mean(), abs=0.009)


def test_tensors_give_what_numbers_give() -> None:
    ratios, steps = torch.tensor([0.5, 1.0, 2.0]), torch.tensor([[1], [10]])
    for probability in (minimum_probability, size_probability):
        table = probability(ratios, steps)
        assert (table.dtype, table.shape) == (torch.float64, (2, 3))
        one_by_one = [[probability(r, n) for r in ratios.tolist()] for n in (1, 10)]
        torch.testing.assert_close(table, torch.tensor(one_by_one, dtype=torch.float64), rtol=0, atol=1e-15)
    assert isinstance(minimum_probability(2, 10.0), float)


@pytest.mark.parametrize("probability", [minimum_probability, size_probability])
@pytest.mark.parametrize(
    ("ratio", "steps", "message"),
    [
        (0, 1, "ratio=0: expected a finite number above 0"),
        (-1.5, 1, r"ratio=-1\.5: expected a finite number above 0"),
        (math.nan, 1, "ratio=nan: expected"),
        (math.inf, 1, "ratio=inf: expected"),
        (torch.tensor([1.0, -2.0]), 1, "ratio=-2: expected"),
        (2, 0, r"steps=0: expected a whole number from 1 to 10\^12"),
        (2, -3, "steps=-3: expected"),
        (2, 1.5, r"steps=1\.5: expected"),
        (2, math.nan, "steps=nan: expected"),
        (2, 10**400, "steps=10+: expected"),
    ],
)
def test_bad_numbers_are_named(probability, ratio, steps, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        probability(ratio, steps)


# The size of the gradient.


@pytest.mark.parametrize("ratio", [0.01, 0.5, 2.0, 100.0])
def test_the_size_of_one_gradient_in_closed_form(ratio: float) -> None:
    assert size_probability(ratio, 1) == pytest.approx(2 / math.pi * math.atan(1 / ratio), abs=1e-12)


@pytest.mark.parametrize("ratio", [0.01, 0.5, 2.0, 100.0])
def test_the_smallest_size_of_many_gradients(ratio: float) -> None:
    """Near zero the density is flat: the smallest of many sizes is exponential, with a rate of T over the spread."""
    assert size_probability(ratio, 10**6) == pytest.approx(1 / (1 + ratio), abs=1e-6)
    assert size_probability(ratio, 10**12) == pytest.approx(1 / (1 + ratio), abs=1e-10)


@pytest.mark.parametrize("ratio", [0.5, 1.1, 3.0])
@pytest.mark.parametrize("steps", [2, 10, 1000])
def test_another_quadrature_of_the_size_agrees(ratio: float, steps: int) -> None:
    def integrand(x: float) -> float:
        return steps * stats.halfnorm._sf(ratio * x) ** steps * stats.halfnorm._sf(x) ** (steps - 1) * halfnormal(x)

    def halfnormal(x: float) -> float:
        return math.sqrt(2 / math.pi) * math.exp(-(x**2) / 2)

    ends = [0, *(scale / steps for scale in (0.3, 1, 3, 10, 50)), 50 / steps + 9]
    expected = math.fsum(quad(integrand, a, b, epsabs=1e-13, epsrel=1e-13)[0] for a, b in pairwise(ends))
    assert size_probability(ratio, steps) == pytest.approx(expected, abs=1e-10)


# Fig. 6.


def test_the_curves_of_the_figure() -> None:
    a, b, c = distribution_curves(), difference_curves(), probability_curves()
    assert (a.values, b.values, c.values) == (RATIOS, RATIOS, STEPS)
    scales = np.array(RATIOS)[:, None]
    np.testing.assert_allclose(a.y, stats.norm.cdf(a.x[None], scale=scales), atol=1e-14)
    np.testing.assert_allclose(b.y, stats.norm.sf(b.x[None], scale=scales) - stats.norm.sf(b.x), atol=1e-14)
    assert (b.y[1:, b.x < -0.01] < 0).all()  # as the caption has it; ΔF of the proof has the other sign
    assert (b.y[1:, b.x > 0.01] > 0).all()
    assert c.x[[0, 50, -1]].tolist() == [1, 2, 4]
    assert c.y[:, 50].tolist() == pytest.approx([minimum_probability(2, steps) for steps in STEPS], abs=1e-15)


# Theorem 1.


def test_the_variance_of_a_mixture_by_hand() -> None:
    """Gradients of exactly 0 and 1/2, half of each, have a variance of 1/16."""
    assert gradient_variance(0.5, 0, 0, 0.5, mu_p=0.5) == (1 / 16, 1 / 16 + 1 / 4)
    assert gradient_variance(1, 3, 5, 2) == (9, 13)
    assert gradient_variance(0, 3, 5, 2) == (25, 29)


@pytest.mark.parametrize("means", [{}, {"mu_n": 0.1, "mu_p": 0.6}])
def test_the_simulated_variance_agrees(means: dict) -> None:
    """The sampling error of these variances is 0.2 % or less; the paper's α² and (1 − α)² would be off by half."""
    options = {"alpha": 0.7, "sigma_n": 0.2, "sigma_p": 0.4, "sigma_d": 0.1, **means}
    closed, simulated = gradient_variance(**options), gradient_variance(**options, samples=10**6, seed=1)
    assert simulated == pytest.approx(closed, rel=0.01)
    assert simulated.durm > simulated.erm > 1.5 * (0.7**2 * 0.2**2 + 0.3**2 * 0.4**2)
    assert gradient_variance(**options, samples=100, seed=1) != gradient_variance(**options, samples=100, seed=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 1.1}, r"alpha=1\.1: expected a number from 0 to 1"),
        ({"alpha": math.nan}, "alpha=nan: expected a number from 0 to 1"),
        ({"sigma_n": -1}, "sigma_n=-1: expected a finite number of at least 0"),
        ({"sigma_d": math.inf}, "sigma_d=inf: expected a finite number of at least 0"),
        ({"mu_p": math.nan}, "mu_p=nan: expected a finite number"),
        ({"samples": 1}, "samples=1: expected an int of at least 2"),
    ],
)
def test_a_model_that_is_none_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gradient_variance(**{"alpha": 0.5, "sigma_n": 1, "sigma_p": 1, "sigma_d": 1} | change)


def make(samples: int = 300, dummies: int = 2) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(samples, 4 + dummies, generator=random, dtype=torch.float64)
    return logits, torch.randint(4, (samples,), generator=random)


def gradients(logits: Tensor, targets: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """On the four real logits: ERM's gradient, and what dummies add to it; by autograd."""
    both = logits.clone().requires_grad_()
    durm.cross_entropy(both, targets, 4, reduction="sum").backward()
    alone = logits[:, :4].clone().requires_grad_()
    F.cross_entropy(alone, targets, reduction="sum").backward()
    return alone.grad.numpy(), (both.grad[:, :4] - alone.grad).numpy()


def test_the_extra_gradient_is_that_of_autograd() -> None:
    logits, targets = make()
    erm, extra = gradients(logits, targets)
    found = check_assumptions(logits.float().double(), targets, 4)
    assert found.n == 300
    for ours, truth in (
        (found.mean, extra.mean(0)),
        (found.standard_error, stats.sem(extra)),
        (found.correlation, [stats.pearsonr(erm[:, c], extra[:, c]).statistic for c in range(4)]),
        (found.variance_erm, erm.var(0, ddof=1)),
        (found.variance_extra, extra.var(0, ddof=1)),
        (found.variance_durm, (erm + extra).var(0, ddof=1)),
    ):
        np.testing.assert_allclose(ours, truth, rtol=1e-5)


def test_the_extra_gradient_sums_to_minus_the_dummy_mass_and_is_never_positive() -> None:
    logits, targets = make()
    _, extra = gradients(logits, targets)
    assert (extra < 0).all()
    found = check_assumptions(logits, targets, 4)
    mass = (logits.exp()[:, 4:].sum(1) / logits.exp().sum(1)).mean().item()
    assert found.dummy_mass == pytest.approx(mass, rel=1e-12)
    assert found.mean.sum().item() == pytest.approx(-mass, rel=1e-12)
    assert (found.is_centred, found.is_uncorrelated, found.hold) == (False, False, False)


@pytest.mark.parametrize("masked", [False, True])
def test_without_dummies_the_assumptions_hold(masked: bool) -> None:
    logits, targets = make(dummies=2 if masked else 0)
    logits[:, 4:] = -math.inf
    found = check_assumptions(logits, targets, 4)
    assert found.hold
    assert (found.mean == 0).all()
    assert found.correlation.isnan().all()
    assert found.dummy_mass == 0


def test_a_constant_dummy_mass_lowers_the_variance_of_a_guess_and_raises_that_of_a_fit() -> None:
    """D((1 − d) q − y): q without a bearing on y loses variance, q = y gains d² D(y). Theorem 1 has a gain in both."""
    logits, targets = make(4000, dummies=1)
    guess = torch.cat([logits[:, :4], logits[:, :4].logsumexp(1, keepdim=True)], 1)  # p_D = 1/2
    found = check_assumptions(guess, targets, 4)
    assert (found.variance_durm < found.variance_erm).all()
    fit = torch.cat([40.0 * F.one_hot(targets, 4), torch.full((4000, 1), 40.0)], 1)
    found = check_assumptions(fit, targets, 4)
    shares = F.one_hot(targets, 4).double()
    torch.testing.assert_close(found.variance_durm, shares.var(0) / 4)
    assert (found.variance_erm < 1e-30).all()


def unrelated(seed: int) -> Assumptions:
    """Equal real logits, and a dummy mass that is drawn without regard to the label."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.cat([torch.zeros(400, 4), torch.randn(400, 1, generator=random)], 1)
    return check_assumptions(logits, torch.randint(4, (400,), generator=random), 4)


def test_independent_gradients_are_rarely_called_dependent() -> None:
    """At 5 % for the four classes together: 5 of 100 cases; 13 or more would come once in 700 times."""
    found = [unrelated(seed) for seed in range(100)]
    assert sum(not one.is_uncorrelated for one in found) < 13
    assert not any(one.is_centred or one.hold for one in found)
    spread = torch.stack([one.correlation for one in found]).std().item()
    assert spread == pytest.approx(found[0].correlation_error, rel=0.1)


def test_dependent_gradients_are_called_so() -> None:
    targets = torch.arange(400) % 4
    logits = torch.cat([torch.zeros(400, 4), (targets == 0).float()[:, None]], 1)
    assert not check_assumptions(logits, targets, 4).is_uncorrelated


@pytest.mark.parametrize(
    ("logits", "targets", "message"),
    [
        (torch.zeros(3, 5), torch.zeros(4).long(), r"targets of shape \(4,\): expected \(N, C \+ C_d\) and \(N,\)"),
        (torch.zeros(3, 5, 2), torch.zeros(3, 2).long(), r"logits of shape \(3, 5, 2\)"),
        (torch.zeros(1, 5), torch.zeros(1).long(), "N at least 2"),
        (torch.zeros(3, 3), torch.zeros(3).long(), "fewer than num_classes=4"),
        (torch.zeros(3, 5), torch.tensor([0, 4, 1]), "expected class indices from 0 to 3"),
        (torch.zeros(3, 5), torch.zeros(3), "expected class indices from 0 to 3"),
        (torch.full((3, 5), math.nan), torch.zeros(3).long(), "found NaN"),
    ],
)
def test_bad_logs_are_named(logits: Tensor, targets: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_assumptions(logits, targets, 4)


# Proposition 1.


def test_the_correlation_of_eigenvalues_and_norms_is_that_of_scipy() -> None:
    random = np.random.default_rng(0)
    norms = random.standard_normal(30)
    eigenvalues = norms + random.standard_normal(30)
    found = eigenvalue_norm_correlation(torch.tensor(eigenvalues), torch.tensor(norms))
    truth = stats.pearsonr(eigenvalues, norms)
    assert found.n == 30
    assert found.value == pytest.approx(truth.statistic, rel=1e-12)
    assert found.interval == pytest.approx(tuple(truth.confidence_interval()), rel=1e-12)


def test_few_pairs_have_no_interval() -> None:
    found = eigenvalue_norm_correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0]))
    assert (found.value, found.interval, found.n) == (pytest.approx(-1), None, 3)


@pytest.mark.parametrize(
    ("eigenvalues", "norms", "message"),
    [
        (torch.ones(3), torch.ones(4), r"eigenvalues of shape \(3,\) and norms of shape \(4,\)"),
        (torch.ones(1), torch.ones(1), "n at least 2"),
        (torch.ones(3), torch.tensor([1.0, 2.0, 3.0]), "neither of them constant"),
    ],
)
def test_undefined_correlations_are_refused(eigenvalues: Tensor, norms: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        eigenvalue_norm_correlation(eigenvalues, norms)


# The room.


def test_it_needs_nothing_but_torch() -> None:
    tree = ast.parse(Path(durm.theory.__file__).read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert {name.split(".")[0] for name in names} <= {*sys.stdlib_module_names, "torch", "durm"}
