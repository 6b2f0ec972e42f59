"""The loss along a straight line through the weights, f(w + a d), as in Li et al. (2018).

Two directions d, both as long as the weights, ‖d‖ = ‖w‖, so that a distance a is a share of that norm:

- "random": normal, and then each filter is given the norm of that filter of the weights.
- "gradient": ∇f, as a whole; a > 0 goes uphill.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from durm.curvature.filter_norm import Ball
from durm.curvature.loss import ClassifierLoss
from durm.curvature.vectors import norm, unit
from durm.errors import unknown

DIRECTIONS = ("random", "gradient")
DISTANCES = tuple(step / 40 for step in range(-20, 21))


@dataclass(frozen=True)
class Path:
    """Both losses along one direction, one value for each distance."""

    direction: str
    distances: tuple[float, ...]
    training: tuple[float, ...]
    real: tuple[float, ...]


def loss_along(
    loss: ClassifierLoss,
    directions: Iterable[str] = DIRECTIONS,
    distances: Iterable[float] = DISTANCES,
    *,
    seed: int = 0,
) -> tuple[Path, ...]:
    """The training loss and the real one along lines through the weights.

    Args:
        loss: the loss that has the weights to move and the gradient to follow; its weights are written to and come back
            bit for bit.
        directions: "random", "gradient".
        distances: where to compute it, as shares of the norm of the weights; one forward pass each.
        seed: of the random direction. What it gives to shared parameters does not depend on C_d.

    Examples:
        >>> model = torch.nn.Linear(4, 3)
        >>> loss = ClassifierLoss(model, torch.zeros(3, 4), torch.tensor([0, 1, 2]), num_classes=3)
        >>> [len(path.training) for path in loss_along(loss, distances=[-0.1, 0, 0.1])]
        [3, 3]
    """
    distances = checked_distances(distances)
    paths = []
    with loss.eval_mode(), loss.perturbed() as move:
        lines = {name: _direction(loss, name, seed) for name in directions}
        for name, line in lines.items():
            values = []
            for distance in distances:
                move(distance * line)
                values.append(loss.values())
            training, real = (tuple(value[kind] for value in values) for kind in ("training", "real"))
            paths.append(Path(name, distances, training, real))
    return tuple(paths)


def checked_distances(distances: Iterable[float]) -> tuple[float, ...]:
    numbers = tuple(float(distance) for distance in distances)
    for number in numbers:
        if not math.isfinite(number):
            raise ValueError(f"distances: expected finite numbers, not {number}")
    return numbers


def _direction(loss: ClassifierLoss, name: str, seed: int) -> Tensor:
    if name == "random":
        return Ball(loss.layout, 1.0).farthest(loss.layout.random(torch.randn, seed, "direction"))
    if name == "gradient":
        return unit(loss.gradient()[1]) * norm(loss.layout.weights())
    raise unknown("direction", name, DIRECTIONS)
