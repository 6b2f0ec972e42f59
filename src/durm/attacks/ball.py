"""Where an attack may go: within ε of the inputs in a norm, and inside the box [0, 1] of all images.

A ball is of a batch: it holds one centre for each sample, and all of it works on (N, …) tensors of any shape.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from durm._checks import not_negative, one_of


class Ball(ABC):
    """What the two norms share: the centres and ε."""

    def __init__(self, inputs: Tensor, eps: float) -> None:
        self.inputs, self.eps = inputs, eps

    def of(self, rows: Tensor) -> "Ball":
        """The ball of these samples alone; rows are indices or a mask."""
        return type(self)(self.inputs[rows], self.eps)

    @abstractmethod
    def project(self, points: Tensor) -> Tensor:
        """Points of the ball and the box, near the given ones; those that lie in both are not changed by a bit."""

    @abstractmethod
    def direction(self, gradient: Tensor) -> Tensor:
        """The step of norm 1 that raises a linear function of this gradient most; 0 where the gradient is 0."""

    @abstractmethod
    def random(self, generator: torch.Generator) -> Tensor:
        """A uniform point of the ball for each sample, projected into the box."""


class Linf(Ball):
    """max_i |x_i - c_i| <= ε."""

    def __init__(self, inputs: Tensor, eps: float) -> None:
        super().__init__(inputs, eps)
        self._lower, self._upper = (inputs - eps).clamp_(min=0), (inputs + eps).clamp_(max=1)

    def project(self, points: Tensor) -> Tensor:
        return points.clamp(self._lower, self._upper)

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def random(self, generator: torch.Generator) -> Tensor:
        noise = torch.rand(self.inputs.shape, generator=generator, dtype=self.inputs.dtype).to(self.inputs.device)
        return self.project(self.inputs + self.eps * (2 * noise - 1))


class L2(Ball):
    """sqrt(sum_i (x_i - c_i)^2) <= ε."""

    def project(self, points: Tensor) -> Tensor:
        # The box comes last: a centre lies in it, so each coordinate that is clipped comes closer to the centre, and
        # the point stays in the ball. (It is not the nearest point of both, which has no closed form.)
        difference = points - self.inputs
        length = _length(difference)
        scaled = self.inputs + difference * (self.eps / length)
        return torch.where(length <= self.eps, points, scaled).clamp_(0, 1)

    def direction(self, gradient: Tensor) -> Tensor:
        # Divided by the greatest entry first, or the squares of a small gradient would vanish.
        tiny = torch.finfo(gradient.dtype).tiny
        gradient = gradient / per_sample(gradient.abs().flatten(1).amax(1), gradient).clamp_min(tiny)
        return gradient / _length(gradient).clamp_min(tiny)

    def random(self, generator: torch.Generator) -> Tensor:
        """A normal vector has a uniform direction; the length of a uniform point of F dimensions is ε u^(1/F)."""
        inputs = self.inputs
        normal = torch.randn(inputs.shape, generator=generator, dtype=inputs.dtype).to(inputs.device)
        share = torch.rand(len(inputs), generator=generator, dtype=inputs.dtype).to(inputs.device)
        share = share ** (1 / inputs[0].numel())
        return self.project(inputs + self.eps * per_sample(share, inputs) * self.direction(normal))


NORMS: dict[str, type[Ball]] = {"linf": Linf, "l2": L2}


def make_ball(inputs: Tensor, eps: float, norm: str) -> Ball:
    """The ball of that norm, after checking the inputs and ε."""
    check_eps(eps, norm)
    if inputs.dtype not in (torch.float32, torch.float64):
        hint = " (divide bytes by 255)" if inputs.dtype == torch.uint8 else ""
        raise ValueError(f"inputs of dtype {inputs.dtype}: expected float32 or float64 in [0, 1]{hint}")
    if inputs.ndim < 2:
        raise ValueError(f"inputs of shape {tuple(inputs.shape)}: expected a batch, (N, …)")
    if inputs.numel():
        low, high = (value.item() for value in inputs.aminmax())
        if not (low >= 0 and high <= 1):
            raise ValueError(
                f"inputs from {low:.4g} to {high:.4g}: expected values in [0, 1]; "
                "durm.attacks.Normalised makes a model take them so"
            )
        farthest = math.sqrt(inputs[0].numel())
        if norm == "l2" and eps > farthest:
            raise ValueError(
                f"eps={eps}: two inputs of {inputs[0].numel()} values in [0, 1] are at most {farthest:.4g} apart"
            )
    return NORMS[norm](inputs, eps)


def check_eps(eps: float, norm: str) -> None:
    """Refuses an unknown norm, and an ε that is negative, infinite or in units of 0 … 255."""
    one_of("norm", norm, tuple(NORMS))
    not_negative("eps", eps)
    if norm == "linf" and eps > 1:
        raise ValueError(f"eps={eps}: ε is in units of [0, 1]; did you mean {eps:g}/255?")


def _length(vectors: Tensor) -> Tensor:
    """The Euclidean length of each sample, of a shape that broadcasts against it."""
    return per_sample(torch.linalg.vector_norm(vectors.flatten(1), dim=1), vectors)


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """One number for each sample, (N,), in a shape that broadcasts against `like`, (N, …)."""
    return values.view(-1, *[1] * (like.ndim - 1))
