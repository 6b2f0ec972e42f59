"""The trace of the Hessian, which is the sum of its eigenvalues, by Hutchinson's estimator.

For a vector z of independent signs (Rademacher) E[zᵀ H z] = tr H, with the variance 2 Σ_{i≠j} H_ij². The mean over
several of them has a standard error that is estimated from their spread (Hutchinson 1989).
"""

from dataclasses import dataclass
from statistics import fmean, stdev

import torch
from torch import Tensor

from durm._checks import whole_number
from durm.curvature.loss import Loss
from durm.curvature.products import Operator, hessian
from durm.curvature.vectors import dot


@dataclass(frozen=True)
class Trace:
    """An estimate of the trace, its standard error, and of how many random vectors it is the mean."""

    value: float
    standard_error: float
    samples: int


def trace(loss: Loss | Operator, *, samples: int = 16, seed: int = 0) -> Trace:
    """tr H of the Hessian of a loss.

    Args:
        loss: the loss, or a matrix of it, whose graph is then used again.
        samples: random vectors, each of which takes one product; at least 2.
        seed: of those vectors.

    Examples:
        >>> from durm.curvature import ClosureLoss
        >>> w = torch.nn.Parameter(torch.ones(3))
        >>> trace(ClosureLoss(lambda: w[0] ** 2 + 3 * w[1] ** 2, {"w": w}))  # exact for a diagonal Hessian
        Trace(value=8.0, standard_error=0.0, samples=16)
    """
    whole_number("samples", samples, minimum=2)
    with hessian(loss) as matrix:
        values = []
        for sample in range(samples):
            vector = matrix.loss.layout.random(_signs, seed, "trace", sample)
            values.append(dot(vector, matrix.product(vector)))
    return Trace(fmean(values), stdev(values) / samples**0.5, samples)


def _signs(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """+1 or −1, each as often."""
    return 2.0 * torch.randint(2, shape, generator=generator) - 1.0
