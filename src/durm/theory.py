"""Theorems 1 and 2 and Proposition 1 of the paper, as numbers, and what their assumptions are worth on real logits.

g is the gradient of one logit over the training steps with ERM, ĝ the same with dummies. The theorems take them to be
normal; whether they are what the theorems assume is measured by `check_assumptions`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from durm._checks import whole_number
from durm._random import generator
from durm.scores import class_axis, dummy_mass, probabilities

MOST_STEPS = 10**12
RATIOS = (1.0, 1.5, 2.0, 3.0)
"""σ̂/σ of the four normal distributions in panels (a) and (b) of Fig. 6; the paper does not name its own."""
STEPS = (1, 10, 100, 10**4)
"""T of the curves in panel (c)."""
ALPHA = 0.05

_NODES = 512
_TAIL = 41.5
"""What lies beyond the probabilities e^-41.5 = 1e-18 is left out of the integrals."""

Number = float | int | Tensor


# Theorem 2.


@overload
def minimum_probability(ratio: float, steps: int) -> float: ...
@overload
def minimum_probability(ratio: Number, steps: Number) -> float | Tensor: ...
def minimum_probability(ratio: Number, steps: Number) -> float | Tensor:
    """P(g₍₁₎ ≥ ĝ₍₁₎) of Theorem 2: how often the smallest of T gradients is smaller with dummies than without.

    g is T independent draws from N(μ, σ²), ĝ is T from N(μ, σ̂²), and r = σ̂/σ. With Φ̄ = 1 − Φ,

        P = T ∫ Φ̄(r x)^T Φ̄(x)^(T−1) φ(x) dx,        P(r, T) + P(1/r, T) = 1,

    which is 1/2 at T = 1 or r = 1, rises with T and r where r > 1, and tends to 1 − 2^−T as r → ∞. Right to 1e-12.

    This is about the most *negative* gradient: see `size_probability` for the one nearest to zero.

    Args:
        ratio: r, above 0.
        steps: T, a whole number of at least 1.

    Returns:
        A float for two numbers; for tensors a float64 tensor of the shape that `ratio` and `steps` have together.

    Raises:
        ValueError: for a ratio that is not a finite number above 0, and for steps that are not whole or below 1.

    Examples:
        >>> round(minimum_probability(ratio=2, steps=10), 3)
        0.886
        >>> minimum_probability(torch.tensor([1.0, 1.5, 3.0]), 100)
        tensor([0.5000, 0.9558, 1.0000], dtype=torch.float64)
    """

    def nodes(steps: Tensor) -> tuple[Tensor, Tensor]:
        left = torch.special.ndtri(math.exp(-_TAIL) / steps)
        right = torch.special.ndtri((-torch.expm1(-_TAIL / steps)).clamp(max=1 - 2.0**-53))
        x = left + (right - left) * torch.linspace(0, 1, _NODES, dtype=torch.float64, device=steps.device)
        return x, (right - left) / (_NODES - 1)

    return _probability(ratio, steps, nodes, lambda x: torch.special.log_ndtr(-x), math.log(2 * math.pi) / 2)


@overload
def size_probability(ratio: float, steps: int) -> float: ...
@overload
def size_probability(ratio: Number, steps: Number) -> float | Tensor: ...
def size_probability(ratio: Number, steps: Number) -> float | Tensor:
    """P(min |g| ≥ min |ĝ|) for centred gradients: Theorem 2's question about the size of the gradient.

    With S(x) = P(|N(0, 1)| > x) = erfc(x/√2) in the place of Φ̄, over x > 0. It is 2/π · arctan(1/r) at T = 1 and tends
    to 1/(1 + r) as T grows: below 1/2 for r > 1. The method with the larger variance has the smaller minimum, but more
    seldom the gradient that is nearest to zero.

    Arguments, return value and errors are those of `minimum_probability`.

    Examples:
        >>> round(size_probability(ratio=2, steps=10), 3)
        0.327
    """

    def nodes(steps: Tensor) -> tuple[Tensor, Tensor]:
        left, right = -_TAIL - torch.log(steps), math.log(9.0)  # S(9) = 2e-19
        x = (left + (right - left) * torch.linspace(0, 1, _NODES, dtype=torch.float64, device=steps.device)).exp()
        return x, x * (right - left) / (_NODES - 1)  # equally spaced in log x: all scales from 1/T to 1 matter

    def log_survival(x: Tensor) -> Tensor:
        x = x / math.sqrt(2)
        return torch.where(x < 0.5, torch.log1p(-torch.erf(x)), torch.log(torch.erfc(x)))

    return _probability(ratio, steps, nodes, log_survival, math.log(math.pi / 2) / 2)


def _probability(
    ratio: Number,
    steps: Number,
    nodes: Callable[[Tensor], tuple[Tensor, Tensor]],
    log_survival: Callable[[Tensor], Tensor],
    log_scale: float,
) -> float | Tensor:
    """T ∫ S(r x)^T S(x)^(T−1) f(x) dx for a survival function S and its density f = e^(−x²/2 − log_scale).

    The trapezoidal rule, whose error falls exponentially for smooth integrands that vanish at both ends. The ratio that
    is at most 1 is integrated, and the other is one minus that: then S(r x) is the smoother of the two factors and the
    nodes need to suit the second alone.
    """
    plain = not isinstance(ratio, Tensor) and not isinstance(steps, Tensor)
    r = _checked("ratio", ratio, "a finite number above 0", lambda r: (r > 0) & r.isfinite())
    wanted = "a whole number from 1 to 10^12"
    n = _checked("steps", steps, wanted, lambda n: (n >= 1) & (n == n.floor()) & (n <= MOST_STEPS))
    r, n = torch.broadcast_tensors(r, n)
    smaller, n = torch.minimum(r, 1 / r).unsqueeze(-1), n.unsqueeze(-1)
    x, weights = nodes(n)
    exponent = n * log_survival(smaller * x) + (n - 1) * log_survival(x) - x.square() / 2 + torch.log(n) - log_scale
    below = (weights * exponent.exp()).sum(-1)
    result = torch.where(r <= 1, below, 1 - below)
    return result.item() if plain else result


def _checked(name: str, value: Number, wanted: str, is_right: Callable[[Tensor], Tensor]) -> Tensor:
    """The value as a float64 tensor, or an error that names the first wrong number in it."""
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64)
    except (RuntimeError, OverflowError):  # an int that is too large for torch
        raise ValueError(f"{name}={value}: expected {wanted}") from None
    wrong = tensor[~is_right(tensor)]
    if wrong.numel():
        raise ValueError(f"{name}={wrong[0].item():g}: expected {wanted}")
    return tensor


# The three panels of Fig. 6.


@dataclass(frozen=True)
class Curves:
    """Several curves over the same x.

    Attributes:
        x: `(K,)`.
        y: `(M, K)`, one row for each curve.
        values: M numbers, the ratio or the steps that each curve belongs to.
    """

    x: Tensor
    y: Tensor
    values: tuple[float, ...]


def distribution_curves(ratios: Sequence[float] = RATIOS) -> Curves:
    """Fig. 6 (a): the distribution functions F(g) of N(0, (r σ)²), g in units of σ."""
    x = torch.linspace(-6, 6, 241, dtype=torch.float64)
    return Curves(x, torch.stack([torch.special.ndtr(x / ratio) for ratio in ratios]), tuple(ratios))


def difference_curves(ratios: Sequence[float] = RATIOS) -> Curves:
    """Fig. 6 (b): (1 − F̂(g)) − (1 − F(g)), that of the larger variance first: negative left of the mean.

    Theorem 2's proof needs the difference the other way round, ΔF = (1 − F)^T − (1 − F̂)^T.
    """
    curves = distribution_curves(ratios)
    return Curves(curves.x, torch.special.ndtr(curves.x) - curves.y, curves.values)


def probability_curves(steps: Sequence[int] = STEPS) -> Curves:
    """Fig. 6 (c): P(g₍₁₎ ≥ ĝ₍₁₎) over the ratio σ̂/σ: the fixed term 1/2, and what varies on top of it."""
    x = torch.linspace(1, 4, 151, dtype=torch.float64)
    y = minimum_probability(x, torch.tensor(steps).unsqueeze(-1))
    assert isinstance(y, Tensor)
    return Curves(x, y, tuple(steps))


# Theorem 1.


class GradientVariance(NamedTuple):
    """D(g_c) with ERM and D(ĝ_c) with dummies."""

    erm: float
    durm: float


def gradient_variance(
    alpha: float,
    sigma_n: float,
    sigma_p: float,
    sigma_d: float,
    *,
    mu_n: float = 0.0,
    mu_p: float = 1.0,
    samples: int | None = None,
    seed: int = 0,
) -> GradientVariance:
    """The variances of Theorem 1, for gradients that are what it takes them to be.

    By Eq. (5), g_c is a draw from N(−μ_n, σ_n²) with probability α (samples of other classes) and otherwise from
    N(1 − μ_p, σ_p²) (samples of class c). Dummies add g_d ~ N(0, σ_d²), independent of g_c. So E(ĝ_c) = E(g_c) and

        D(g_c) = α σ_n² + (1 − α) σ_p² + α (1 − α) (1 − μ_p + μ_n)²,        D(ĝ_c) = D(g_c) + σ_d².

    (The paper's proof has α² σ_n² + (1 − α)² σ_p² for the first, which is the variance of a weighted sum of two
    gradients, not that of a mixture.) Real logits are not like that: see `check_assumptions`.

    Args:
        alpha: the share of samples of other classes, from 0 to 1.
        sigma_n: the standard deviation of p_c over samples of other classes.
        sigma_p: that over samples of class c.
        sigma_d: that of the extra gradient.
        mu_n: the mean of p_c over samples of other classes; 0 in the limit that the theorem takes.
        mu_p: that over samples of class c; 1 in the limit.
        samples: simulate so many gradients instead of using the closed form.
        seed: of the simulation.

    Examples:
        >>> gradient_variance(0.5, sigma_n=0.5, sigma_p=1.0, sigma_d=0.25)
        GradientVariance(erm=0.625, durm=0.6875)
    """
    _checked("alpha", alpha, "a number from 0 to 1", lambda share: (share >= 0) & (share <= 1))
    for name, sigma in (("sigma_n", sigma_n), ("sigma_p", sigma_p), ("sigma_d", sigma_d)):
        _checked(name, sigma, "a finite number of at least 0", lambda value: (value >= 0) & value.isfinite())
    for name, mean in (("mu_n", mu_n), ("mu_p", mu_p)):
        _checked(name, mean, "a finite number", Tensor.isfinite)
    if samples is None:
        erm = alpha * sigma_n**2 + (1 - alpha) * sigma_p**2 + alpha * (1 - alpha) * (1 - mu_p + mu_n) ** 2
        return GradientVariance(erm, erm + sigma_d**2)
    whole_number("samples", samples, minimum=2)
    random = generator(seed, "theorem 1")
    other = torch.rand(samples, generator=random, dtype=torch.float64) < alpha
    noise, extra = torch.randn(2, samples, generator=random, dtype=torch.float64)
    gradients = torch.where(other, -mu_n + sigma_n * noise, 1 - mu_p + sigma_p * noise)
    return GradientVariance(gradients.var().item(), (gradients + sigma_d * extra).var().item())


@dataclass(frozen=True)
class Assumptions:
    """What Theorem 1 assumes of the extra gradient, as measured. Tensors have shape `(C,)`, one value for each class.

    Attributes:
        n: samples.
        mean: of the extra gradient; the theorem has 0.
        standard_error: of that mean.
        correlation: of the extra gradient and ERM's; the theorem has 0. NaN where one of them is constant.
        correlation_error: 1/√(n − 1), the standard deviation of a correlation of independent values.
        variance_erm: of ERM's gradient, D(g_c).
        variance_extra: of the extra gradient, D(g_d).
        variance_durm: of DuRM's, D(ĝ_c); the theorem has the sum of the two above.
        dummy_mass: the mean of p_D, which is −Σ_c `mean`.
        is_centred: whether every mean is within its error of 0.
        is_uncorrelated: whether every correlation is.
    """

    n: int
    mean: Tensor
    standard_error: Tensor
    correlation: Tensor
    correlation_error: float
    variance_erm: Tensor
    variance_extra: Tensor
    variance_durm: Tensor
    dummy_mass: float
    is_centred: bool
    is_uncorrelated: bool

    @property
    def hold(self) -> bool:
        """Whether these samples are compatible with Theorem 1's assumptions."""
        return self.is_centred and self.is_uncorrelated


def check_assumptions(logits: Tensor, targets: Tensor, num_classes: int) -> Assumptions:
    """Compares the extra gradient that dummies bring with what Theorem 1 assumes of it: mean 0, independent of ERM's.

    On the same logits, with p the softmax over all C + C_d and q = p / (1 − p_D) that over the real ones,

        ERM      ∂L_ERM/∂z_c = q_c − 1[y = c]
        DuRM     ∂L/∂z_c     = p_c − 1[y = c]
        extra    g_d         = p_c − q_c = −p_D q_c,        Σ_c g_d = −p_D.

    (The paper's g is minus the gradient.) The extra gradient is never positive, so its mean is 0 only where p_D is; and
    it is as large as q_c is, so it goes with ERM's gradient. "Within error" is a two-sided test of all C classes at 5 %
    together (Bonferroni), for independent samples. Logits of one sample from several steps are not independent: take
    them from one pass over the data.

    Args:
        logits: `(N, C + C_d)`, of any real run.
        targets: `(N,)`, class indices.
        num_classes: C.

    Raises:
        ValueError: for shapes that do not fit, fewer than two samples, and logits that are NaN or +∞.

    Examples:
        >>> logits = torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.0, -1.0], [0.0, 3.0, 0.0]], dtype=torch.float64)
        >>> found = check_assumptions(logits, torch.tensor([0, 1, 1]), num_classes=2)
        >>> found.mean, round(found.dummy_mass, 4)
        (tensor([-0.0539, -0.0267], dtype=torch.float64), 0.0806)
    """
    class_axis(logits, num_classes, 1)
    if logits.ndim != 2 or targets.shape != logits.shape[:1] or len(logits) < 2:
        raise ValueError(
            f"logits of shape {tuple(logits.shape)} and targets of shape {tuple(targets.shape)}: "
            "expected (N, C + C_d) and (N,), N at least 2"
        )
    if targets.is_floating_point() or ((targets < 0) | (targets >= num_classes)).any():
        raise ValueError(f"targets: expected class indices from 0 to {num_classes - 1}")
    logits = logits.detach().double()
    mass, real = dummy_mass(logits, num_classes), probabilities(logits, num_classes)
    erm = real - F.one_hot(targets.long(), num_classes)
    extra = -mass.unsqueeze(1) * real
    if not extra.isfinite().all():
        raise ValueError("logits: expected numbers, found NaN or +∞ (dummies may be −∞)")
    n = len(logits)
    quantile = NormalDist().inv_cdf(1 - ALPHA / (2 * num_classes))
    mean, error = extra.mean(0), extra.std(0) / math.sqrt(n)
    correlation, correlation_error = _correlation(erm, extra), 1 / math.sqrt(n - 1)
    return Assumptions(
        n=n,
        mean=mean,
        standard_error=error,
        correlation=correlation,
        correlation_error=correlation_error,
        variance_erm=erm.var(0),
        variance_extra=extra.var(0),
        variance_durm=(erm + extra).var(0),
        dummy_mass=mass.mean().item(),
        is_centred=bool((mean.abs() <= quantile * error).all()),
        is_uncorrelated=not (correlation.abs() > quantile * correlation_error).any(),
    )


# Proposition 1.


class Correlation(NamedTuple):
    """Pearson's correlation, its 95 % interval by Fisher's transformation (None for less than four pairs), and n."""

    value: float
    interval: tuple[float, float] | None
    n: int


def eigenvalue_norm_correlation(eigenvalues: Tensor, norms: Tensor) -> Correlation:
    """Proposition 1 says that the largest eigenvalue ρ of the Hessian and the norm of the gradient rise together.

    Args:
        eigenvalues: `(n,)`, ρ at n points of training, or of n runs.
        norms: `(n,)`, the norm of the gradient at the same points.

    Raises:
        ValueError: for shapes that differ, and where the correlation is undefined.

    Examples:
        >>> eigenvalue_norm_correlation(torch.tensor([1.0, 2.0, 3.0, 5.0]), torch.tensor([0.2, 0.1, 0.4, 0.5]))
        Correlation(value=0.85..., interval=(-0.5..., 0.99...), n=4)
    """
    n = len(eigenvalues)
    if eigenvalues.shape != norms.shape or eigenvalues.ndim != 1 or n < 2:
        raise ValueError(
            f"eigenvalues of shape {tuple(eigenvalues.shape)} and norms of shape {tuple(norms.shape)}: "
            "expected (n,) and (n,), n at least 2"
        )
    value = _correlation(eigenvalues.double()[:, None], norms.double()[:, None])
    if value.isnan() or any(bool((values == values[0]).all()) for values in (eigenvalues, norms)):
        raise ValueError("a correlation needs finite eigenvalues and norms, neither of them constant")
    if n < 4:
        return Correlation(value.item(), None, n)
    half = NormalDist().inv_cdf(1 - ALPHA / 2) / math.sqrt(n - 3)
    return Correlation(value.item(), ((value.atanh() - half).tanh().item(), (value.atanh() + half).tanh().item()), n)


def _correlation(first: Tensor, second: Tensor) -> Tensor:
    """Pearson's, column by column; NaN for a constant column."""
    first, second = first - first.mean(0), second - second.mean(0)
    result: Tensor = (first * second).sum(0) / (first.norm(dim=0) * second.norm(dim=0))
    return result.clamp(-1, 1)
