"""The density of all eigenvalues, by stochastic Lanczos quadrature.

After m products from a random unit vector b, the eigenvalues θ_i of T and the squared first entries τ_i of their
eigenvectors are the nodes and weights of a Gauss quadrature: Σ_i τ_i g(θ_i) = bᵀ g(H) b for every polynomial g of
degree up to 2m − 1, and its mean over b is tr g(H) / n, the mean of g over the eigenvalues. With a narrow Gaussian for
g it is their density. See Golub and Meurant, Matrices, Moments and Quadrature (2010); Lin, Saad and Yang 2016,
Approximating spectral densities of large matrices; Ghorbani, Krishnan and Xiao 2019, for networks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from durm._checks import whole_number
from durm.curvature.lanczos import tridiagonal
from durm.curvature.loss import Loss
from durm.curvature.products import Operator, hessian


@dataclass(frozen=True)
class Density:
    """The density of the eigenvalues of a matrix, as points with weights.

    Attributes:
        nodes: θ for each random vector, in ascending order.
        weights: τ likewise; those of a random vector add up to 1.
        samples: how many random vectors.
    """

    nodes: tuple[tuple[float, ...], ...]
    weights: tuple[tuple[float, ...], ...]
    samples: int

    def moment(self, power: int) -> float:
        """The mean of λ^power over the eigenvalues; the first is tr H / n."""
        return self._mean(torch.tensor(self.nodes, dtype=torch.float64) ** power)

    def below(self, value: float) -> float:
        """The share of the eigenvalues that are at most this value."""
        return self._mean((torch.tensor(self.nodes, dtype=torch.float64) <= value).double())

    def at(self, points: Sequence[float], width: float) -> list[float]:
        """The density at some points, every eigenvalue being smeared to a Gaussian with this standard deviation."""
        nodes = torch.tensor(self.nodes, dtype=torch.float64)
        scaled = [(point - nodes) / width for point in points]
        return [self._mean((-0.5 * part**2).exp()) / (width * math.sqrt(2 * math.pi)) for part in scaled]

    def _mean(self, values: torch.Tensor) -> float:
        mean: float = (values * torch.tensor(self.weights, dtype=torch.float64)).sum(1).mean().item()
        return mean


def density(loss: Loss | Operator, *, samples: int = 4, steps: int = 30, seed: int = 0) -> Density:
    """The density of the eigenvalues of the Hessian of a loss, or of another matrix.

    Args:
        loss: the loss, or a matrix of it, whose graph is then used again.
        samples: random vectors; the more, the less noise.
        steps: products for each of them; the more, the finer. No more than there are weights are taken.
        seed: of those vectors.

    Examples:
        >>> from durm.curvature import ClosureLoss
        >>> w = torch.nn.Parameter(torch.ones(4))
        >>> found = density(ClosureLoss(lambda: w[0] ** 2 + 3 * w[1] ** 2, {"w": w}), samples=2)
        >>> round(found.nodes[0][-1], 4), len(found.nodes)
        (6.0, 2)
    """
    whole_number("samples", samples, minimum=1)
    whole_number("steps", steps, minimum=1)
    nodes, weights = [], []
    with hessian(loss) as matrix:
        for sample in range(samples):
            start = matrix.loss.layout.random(torch.randn, seed, "density", sample)
            for found in tridiagonal(matrix, start, seed):
                # What comes after the products have led nowhere new has no weight.
                if len(found.basis) == steps or not found.lengths[-1]:
                    break
            values, vectors = torch.linalg.eigh(found.lower)
            missing = [0.0] * (steps - len(values))
            nodes.append((*values.tolist(), *([values[-1].item()] * len(missing))))
            weights.append((*(vectors[0] ** 2).tolist(), *missing))
    return Density(tuple(nodes), tuple(weights), samples)
