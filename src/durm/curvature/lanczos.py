"""The largest eigenvalues of the Hessian, by Lanczos' method with full reorthogonalisation.

After m products with H there is an orthonormal basis V of m vectors, in which H is tridiagonal, T = Vᵀ H V. The
eigenvalues θ of T approach those of H, the outermost first, and an eigenvector s of T gives the residual of the pair
without another product, with β the norm of the next vector before it is scaled to 1:

    v = V s,        ‖H v − θ v‖ = β |s_m|.

Power iteration sees the last of these vectors alone. See Golub and Van Loan, Matrix Computations, chapter 10; Parlett,
The Symmetric Eigenvalue Problem, sections 10.6 and 13.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from durm._checks import whole_number
from durm.curvature.loss import Loss
from durm.curvature.products import Hessian, hessian
from durm.curvature.vectors import Basis, norm, unit

SUBSAMPLE = 16
"""The start is prepared on every so many-th sample."""


@dataclass(frozen=True)
class Eigenvalues:
    """The algebraically largest eigenvalues of a Hessian, the largest first.

    Attributes:
        values: k of them; λ₁ is the ρ of the paper's Proposition 1.
        residuals: r = ‖H v − λ v‖ for each, v of norm 1. An eigenvalue lies within r of λ, for certain; nearly always
            much nearer, within r² divided by the distance to the next eigenvalue.
        converged: whether every residual is within the tolerance.
        products: products with the Hessian that it took, over all samples.
        vectors: the eigenvectors, `(k, size)`, if they were asked for.
    """

    values: tuple[float, ...]
    residuals: tuple[float, ...]
    converged: bool
    products: int
    vectors: Tensor | None = field(default=None, repr=False, compare=False)


def top_eigenvalues(
    loss: Loss | Hessian,
    k: int = 1,
    *,
    tolerance: float = 1e-3,
    max_products: int = 100,
    vectors: bool = False,
    seed: int = 0,
) -> Eigenvalues:
    """The k algebraically largest eigenvalues of the Hessian of a loss.

    Largest, not largest in magnitude: they say how fast the loss curves upwards. An eigenvalue that is there several
    times is found once, and of two that nearly agree the smaller may be found first, which no residual shows. The
    basis takes the memory of as many copies of the weights as there are products.

    Args:
        loss: the loss, or its Hessian, whose graph is then used again.
        k: how many.
        tolerance: the largest residual of each, as a share of the eigenvalue.
        max_products: the budget. When it is spent, the result says `converged=False`.
        vectors: whether the eigenvectors are wanted.
        seed: of the random part of the start.

    Examples:
        >>> from torch import nn
        >>> from durm.curvature import ClosureLoss
        >>> w = nn.Parameter(torch.tensor([1.0, 1.0, 1.0]))
        >>> found = top_eigenvalues(ClosureLoss(lambda: w[0] ** 2 + 3 * w[1] ** 2 - w[2] ** 2, {"w": w}), k=2)
        >>> [round(value, 4) for value in found.values], found.converged
        ([6.0, 2.0], True)
    """
    whole_number("k", k, minimum=1)
    whole_number("max_products", max_products, minimum=k)
    check_tolerance(tolerance)
    if k > loss.size:
        raise ValueError(f"k={k}: the Hessian of {loss.size} weights has no more than {loss.size} eigenvalues")
    with hessian(loss) as matrix:
        for pairs in ritz_pairs(matrix, k, seed):
            allowed = (tolerance * pairs.values.abs()).clamp_min(pairs.rounding)
            converged = len(pairs.values) == k and bool((pairs.residuals <= allowed).all())
            if converged or len(pairs.basis) == max_products:
                break
    return Eigenvalues(
        values=tuple(pairs.values.tolist()),
        residuals=tuple(pairs.residuals.tolist()),
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
    rounding: float  # the size of a residual that is as good as 0
    basis: Basis  # V, of m vectors until the next pairs are asked for
    coordinates: Tensor  # (k, m), the eigenvectors of T


def ritz_pairs(matrix: Hessian, k: int, seed: int) -> Iterator[RitzPairs]:
    """The k largest pairs after each product, without an end."""
    basis = Basis()
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    vector = start_vector(matrix, seed)
    while True:
        basis.add(vector)
        rest, along = basis.reject(matrix.product(vector))
        diagonal.append(float(along[-1]))
        length = norm(rest)
        rounding = 10 * torch.finfo(vector.dtype).eps * max(map(abs, [*diagonal, *off_diagonal]))
        if len(basis) == matrix.size or length <= rounding:
            length = 0.0  # H leads out of the span no more
        lower = torch.tensor(diagonal, dtype=torch.float64).diag()  # the half of T that eigh reads
        lower += torch.tensor(off_diagonal, dtype=torch.float64).diag(-1)
        values, vectors = (ascending.flip(-1) for ascending in torch.linalg.eigh(lower))
        residuals = length * vectors[-1].abs()
        yield RitzPairs(values[:k], residuals[:k], rounding, basis, vectors.T[:k])
        off_diagonal.append(length)
        if not length:
            rest, _ = basis.reject(matrix.loss.layout.random(torch.randn, seed, "lanczos", len(basis)))
        vector = unit(rest)


def start_vector(matrix: Hessian, seed: int) -> Tensor:
    """Where to begin: the nearer to the top eigenvectors, the fewer products are left to do.

    A random vector of millions of entries is nearly orthogonal to all of them, so that the first product is spent on
    bringing it there. The gradient lies largely among them (Gur-Ari, Roberts and Dyer 2018) and is at hand; but it may
    miss one. So a random vector is added, after a product with the Hessian on a few of the samples, if there are
    samples; and a little of that vector itself, for eigenvectors that this product has lost.
    """
    random = unit(matrix.loss.layout.random(torch.randn, seed, "lanczos"))
    rough = matrix.loss.subsample(SUBSAMPLE)
    if rough is None:
        return unit(unit(matrix.gradient()) + random)
    with hessian(rough) as thin:
        prepared = thin.product(random)
    return unit(unit(matrix.gradient()) + unit(prepared) + random / 10)
