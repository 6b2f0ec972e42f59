"""The outermost eigenvalues of a matrix of which only products are known, by Lanczos' method with reorthogonalisation.

After m products with H there is an orthonormal basis V of m vectors, in which H is tridiagonal, T = Vᵀ H V. The
eigenvalues θ of T approach those of H, the outermost first, and an eigenvector s of T gives the residual of the pair
without another product, with β_m the norm of the next vector before it is scaled to 1:

    v = V s,        ‖H v − θ v‖ = β_m |s_m|.

Power iteration sees the last of these vectors alone. See Golub and Van Loan, Matrix Computations, chapter 10; Parlett,
The Symmetric Eigenvalue Problem, sections 10.6 and 13.

A residual shows that there is an eigenvalue near θ, not that none is larger. What shows this is the start b, which is
uniform on the unit sphere of Rⁿ, independent of the loss: an eigenvector u has |uᵀb| > c with a probability of at least
1 − c √(2n/π). As ‖Π_i (H − θ_i) b‖ = Π_i β_i, an eigenvalue λ with that u obeys

    Π_i |λ − θ_i| · |uᵀb| ≤ Π_i β_i.

So with a probability of 1 − δ the largest one is below the x > θ₁ with Π_i (x − θ_i) = Π_i β_i · √(2n/π) / δ, whatever
m is, also where m depends on what was found (van Dorsselaer, Hochstenbach and van der Vorst 2000, Computing
probabilistic bounds for extreme eigenvalues of symmetric matrices with the Lanczos method, SIAM J. Matrix Anal. Appl.
22). Beforehand less can be said: of every matrix λ₁ − θ₁ ≤ ε (λ₁ − λ_n), but for a probability of
1.648 √n exp(−√ε (2m − 1)) (Kuczyński and Woźniakowski 1992).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from durm._checks import whole_number
from durm.curvature.loss import Loss
from durm.curvature.products import Operator, hessian
from durm.curvature.vectors import Basis, norm, unit

LEAST_PRODUCTS = 5
"""Before it may count as converged, unless the products lead nowhere new."""
MISSED = 0.01
"""δ: the probability that an eigenvalue lies beyond the bound."""
BOUND_TOLERANCE = 10
"""How many times the tolerance the bound may lie away from the outermost eigenvalue."""


@dataclass(frozen=True)
class Eigenvalues:
    """The largest or the smallest eigenvalues of a matrix, the outermost first.

    Attributes:
        values: k of them; the largest one of the Hessian is the ρ of the paper's Proposition 1.
        residuals: r = ‖H v − λ v‖ for each, v of norm 1. An eigenvalue lies within r of λ, for certain; nearly always
            much nearer, within r² divided by the distance to the next eigenvalue.
        bound: beyond it there is no eigenvalue, with a probability of 99 % over the random start.
        converged: whether every residual is within the tolerance, and the bound within ten times the tolerance.
        products: products with the matrix that it took, over all samples.
        vectors: the eigenvectors, `(k, size)`, if they were asked for.
    """

    values: tuple[float, ...]
    residuals: tuple[float, ...]
    bound: float
    converged: bool
    products: int
    vectors: Tensor | None = field(default=None, repr=False, compare=False)


def top_eigenvalues(
    loss: Loss | Operator,
    k: int = 1,
    *,
    tolerance: float = 1e-3,
    max_products: int = 100,
    vectors: bool = False,
    seed: int = 0,
) -> Eigenvalues:
    """The k algebraically largest eigenvalues of the Hessian of a loss, or of another matrix.

    Largest, not largest in magnitude: they say how fast the loss curves upwards. An eigenvalue that is there several
    times is found once, and of two that nearly agree the smaller may be found first, which no residual shows, but the
    bound does. The basis takes the memory of as many copies of the weights as there are products.

    Args:
        loss: the loss, or its Hessian (`hessian`) or Gauss-Newton matrix (`gauss_newton`), whose graph is then used
            again.
        k: how many.
        tolerance: the largest residual of each, as a share of the eigenvalue; the bound may be ten times as far.
        max_products: the budget. When it is spent, the result says `converged=False`.
        vectors: whether the eigenvectors are wanted.
        seed: of the start.

    Examples:
        >>> from torch import nn
        >>> from durm.curvature import ClosureLoss
        >>> w = nn.Parameter(torch.tensor([1.0, 1.0, 1.0]))
        >>> found = top_eigenvalues(ClosureLoss(lambda: w[0] ** 2 + 3 * w[1] ** 2 - w[2] ** 2, {"w": w}), k=2)
        >>> [round(value, 4) for value in found.values], found.converged
        ([6.0, 2.0], True)
    """
    return _outermost(loss, k, 1, tolerance, max_products, vectors, seed)


def bottom_eigenvalues(
    loss: Loss | Operator,
    k: int = 1,
    *,
    tolerance: float = 1e-3,
    max_products: int = 100,
    vectors: bool = False,
    seed: int = 0,
) -> Eigenvalues:
    """The k algebraically smallest eigenvalues, the smallest first: below 0 the loss curves downwards.

    The arguments are those of `top_eigenvalues`. A smallest eigenvalue near 0 takes many products, because the others
    crowd there.
    """
    return _outermost(loss, k, -1, tolerance, max_products, vectors, seed)


def _outermost(
    loss: Loss | Operator, k: int, sign: int, tolerance: float, max_products: int, vectors: bool, seed: int
) -> Eigenvalues:
    whole_number("k", k, minimum=1)
    whole_number("max_products", max_products, minimum=k)
    check_tolerance(tolerance)
    if k > loss.size:
        raise ValueError(f"k={k}: the Hessian of {loss.size} weights has no more than {loss.size} eigenvalues")
    with hessian(loss) as matrix:
        for pairs in ritz_pairs(matrix, k, seed, sign):
            converged = len(pairs.values) == k and has_converged(pairs, tolerance)
            if converged or len(pairs.basis) == max_products:
                break
    return Eigenvalues(
        values=tuple((sign * pairs.values).tolist()),
        residuals=tuple(pairs.residuals.tolist()),
        bound=sign * pairs.bound,
        converged=converged,
        products=len(pairs.basis),
        vectors=pairs.basis.combine(pairs.coordinates) if vectors else None,
    )


def check_tolerance(tolerance: float) -> None:
    if not 0 < tolerance < math.inf:
        raise ValueError(f"tolerance={tolerance}: expected a number above 0")


class RitzPairs(NamedTuple):
    """What is known of the k largest eigenvalues after m products; fewer than k of them before the k-th product."""

    values: Tensor  # (k,), the largest first
    residuals: Tensor  # (k,)
    bound: float  # of the largest eigenvalue, with a probability of 1 − δ
    exhausted: bool  # the products lead out of the span no more
    rounding: float  # the size of a residual that is as good as 0
    basis: Basis  # V, of m vectors until the next pairs are asked for
    coordinates: Tensor  # (k, m), the eigenvectors of T


def has_converged(pairs: RitzPairs, tolerance: float) -> bool:
    allowed = (tolerance * pairs.values.abs()).clamp_min(pairs.rounding)
    top = float(pairs.values[0])
    near = pairs.bound - top <= max(BOUND_TOLERANCE * tolerance * abs(top), pairs.rounding)
    enough = pairs.exhausted or len(pairs.basis) >= LEAST_PRODUCTS
    return enough and near and bool((pairs.residuals <= allowed).all())


def ritz_pairs(matrix: Operator, k: int, seed: int, sign: int = 1) -> Iterator[RitzPairs]:
    """The k largest pairs of `sign` times the matrix after each product, without an end."""
    exhausted = False
    for found in tridiagonal(matrix, matrix.loss.layout.random(torch.randn, seed, "lanczos"), seed):
        values, vectors = torch.linalg.eigh(sign * found.lower)
        values, vectors = values.flip(-1), vectors.flip(-1)
        exhausted |= not found.lengths[-1]
        bound = largest_bound(values, found.lengths, matrix.size)
        residuals = found.lengths[-1] * vectors[-1].abs()
        yield RitzPairs(values[:k], residuals[:k], bound, exhausted, found.rounding, found.basis, vectors.T[:k])


class Tridiagonal(NamedTuple):
    """T = Vᵀ H V after m products, and β_1 … β_m; β_m is the norm of the next vector."""

    lower: Tensor  # (m, m), the half of T that eigh reads
    lengths: list[float]
    rounding: float
    basis: Basis


def tridiagonal(matrix: Operator, start: Tensor, seed: int) -> Iterator[Tridiagonal]:
    """Lanczos' method: T after each product, without an end. Where H no longer leads out of the span, it restarts."""
    basis = Basis()
    diagonal: list[float] = []
    lengths: list[float] = []
    vector = unit(start)
    while True:
        basis.add(vector)
        rest, along = basis.reject(matrix.product(vector))
        diagonal.append(float(along[-1]))
        length = norm(rest)
        rounding = 10 * torch.finfo(vector.dtype).eps * max(map(abs, [*diagonal, *lengths]))
        if len(basis) >= matrix.size or length <= rounding:
            length = 0.0
        lower = torch.tensor(diagonal, dtype=torch.float64).diag()
        lower += torch.tensor(lengths, dtype=torch.float64).diag(-1)
        lengths.append(length)
        yield Tridiagonal(lower, lengths, rounding, basis)
        if not length:
            rest, _ = basis.reject(matrix.loss.layout.random(torch.randn, seed, "lanczos", len(basis)))
        vector = unit(rest)


def largest_bound(values: Tensor, lengths: list[float], size: int, missed: float = MISSED) -> float:
    """The x above all θ (`values`, the largest first) with Σ_i log((x − θ_i) / β_i) = log(√(2n/π) / δ)."""
    top = float(values[0])
    if not all(lengths):
        return top
    wanted = 0.5 * math.log(2 * size / math.pi) - math.log(missed) + sum(map(math.log, lengths))
    gaps = top - values  # of 0 and more

    def excess(distance: float) -> float:
        return float((gaps + distance).log().sum()) - wanted

    high = max(lengths)
    while excess(high) < 0:
        high *= 2
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return top + high
