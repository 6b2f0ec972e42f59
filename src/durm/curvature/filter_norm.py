"""Directions and balls in units of the weights themselves, filter by filter.

A network with ReLU or normalisation computes the same after one layer is scaled up and the next one down, but a step of
a given length matters less to large weights. So a perturbation is measured filter by filter, each against the norm of
that filter (Li et al., Visualizing the loss landscape of neural nets, 2018).

A filter is what makes one output: a row w_F of a weight, a kernel of a convolution. A parameter with one axis, a bias
or what normalisation scales by, counts as one filter with the norm of the whole; where it is 0 it does not move. (Li et
al. leave these out; `only` does that here.)
"""

import math

import torch
from torch import Tensor

from durm._checks import not_negative
from durm._random import generator
from durm.curvature.layout import Layout


class Ball:
    """All v with ‖v_F‖ ≤ radius · ‖w_F‖ for every filter F, around the weights w as they are.

    Args:
        layout: what the weights are.
        radius: the largest perturbation of a filter, as a share of its norm.
    """

    def __init__(self, layout: Layout, radius: float) -> None:
        not_negative("radius", radius)
        self._layout = layout
        self._reach = [radius * _lengths(part) for part in layout.split(layout.weights())]

    def project(self, vector: Tensor) -> Tensor:
        """The nearest point of the ball."""
        return self._scaled(vector, 1.0)

    def farthest(self, vector: Tensor) -> Tensor:
        """The point of the ball that lies farthest in this direction; a filter without direction stays where it is."""
        return self._scaled(vector, math.inf)

    def random(self, seed: int, *purpose: str | int) -> Tensor:
        """A uniform point of the ball: of each filter a uniform direction, and for its D weights a length ~ u^(1/D)."""
        vector = self.farthest(self._layout.random(torch.randn, seed, *purpose))
        for block, part in zip(self._layout.blocks, self._layout.split(vector), strict=True):
            filters = _filters(part)
            uniform = torch.rand(len(filters), 1, generator=generator(seed, *purpose, block.name, "length"))
            filters *= uniform.to(filters) ** (1 / filters.shape[1])
        return vector

    def _scaled(self, vector: Tensor, most: float) -> Tensor:
        """The vector with each filter brought to the boundary, stretched by no more than `most`."""
        vector = vector.clone()
        for part, reach in zip(self._layout.split(vector), self._reach, strict=True):
            filters, lengths = _filters(part), _lengths(part)
            filters *= torch.where(lengths > 0, reach / lengths, 0.0).clamp(max=most)
        return vector


def _filters(part: Tensor) -> Tensor:
    """A parameter as `(filters, D)`; it shares its memory."""
    return part.view(len(part), -1) if part.ndim > 1 else part.view(1, -1)


def _lengths(part: Tensor) -> Tensor:
    """The norm of each filter, `(filters, 1)`."""
    lengths: Tensor = torch.linalg.vector_norm(_filters(part), dim=1, keepdim=True)
    return lengths
