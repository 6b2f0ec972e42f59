"""How far the loss rises around the weights: the stability of Definition 2, whose inverse is flatness (Definition 3).

    ε = max f(w + v) − f(w)        over all v in a ball,

the ball being filter-normalised, see `durm.curvature.filter_norm`. The definition has |f(w + v) − f(w)|, for a w that
is a minimum; this is the rise alone, which is the same there. The maximum is searched for by gradient ascent, so what
is found is a lower bound of ε. The mean over the ball says how the loss changes in a random direction.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, stdev

import torch
from torch import Tensor

from durm._checks import not_negative, whole_number
from durm.curvature.filter_norm import Ball
from durm.curvature.loss import Loss

FIRST = 4.0
"""The size of the first steps. The more the loss curves upwards, the longer they may be; those too long are halved."""


@dataclass(frozen=True)
class Stability:
    """The rise of the loss in a ball around the weights.

    Attributes:
        radius: of the ball, as a share of the norm of each filter.
        loss: f(w).
        worst: the largest rise that was found. At least 0, because w lies in the ball.
        starts: the largest rise that was found from each start.
        steps: of gradient ascent from each start.
        mean: the rise at a random point of the ball, on average.
        standard_error: of that mean.
        points: how many random points it is the mean of.
    """

    radius: float
    loss: float
    worst: float
    starts: tuple[float, ...]
    steps: int
    mean: float
    standard_error: float
    points: int


def stability(
    loss: Loss, radius: float, *, steps: int = 20, starts: int = 4, points: int = 16, seed: int = 0
) -> Stability:
    """The worst and the mean rise of a loss within a filter-normalised ball.

    From each start the ascent goes to the projection of v + size · d into the ball, d being the point of the ball that
    is farthest along the gradient, and size 4 at first. A step that does not raise the loss is taken back, and the size
    is halved. So neither more steps nor more starts can lower what is found.

    Args:
        loss: the loss; its weights are written to and come back bit for bit.
        radius: the largest perturbation of a filter, as a share of its norm.
        steps: of ascent from each start, each a forward and a backward pass.
        starts: the first begins at w itself, the others at random points of the ball; at a minimum, where there is no
            gradient, only these go anywhere.
        points: random points for the mean, each a forward pass; at least 2.
        seed: of all that is random.

    Raises:
        ValueError: if the loss is not finite.

    Examples:
        >>> from torch import nn
        >>> from durm.curvature import ClosureLoss
        >>> w = nn.Parameter(torch.tensor([3.0, 4.0]))  # one filter with the norm 5
        >>> found = stability(ClosureLoss(lambda: w[1], {"w": w}), radius=0.2)
        >>> round(found.worst, 5)
        1.0
    """
    not_negative("radius", radius)
    whole_number("steps", steps, minimum=1)
    whole_number("starts", starts, minimum=1)
    whole_number("points", points, minimum=2)
    base = loss.value()
    if not math.isfinite(base):
        raise ValueError(f"the loss is {base}: expected a finite number")
    climbs, rises = [0.0] * starts, [0.0] * points
    with loss.eval_mode(), loss.perturbed() as move:
        ball = Ball(loss.layout, radius)
        for start in range(starts if radius else 0):
            begin = ball.random(seed, "start", start) if start else torch.zeros_like(loss.layout.weights())
            climbs[start] = max(0.0, _climb(loss, ball, move, begin, steps) - base)
        for point in range(points if radius else 0):
            move(ball.random(seed, "point", point))
            rises[point] = loss.value() - base
    return Stability(radius, base, max(climbs), tuple(climbs), steps, fmean(rises), stdev(rises) / points**0.5, points)


def _climb(loss: Loss, ball: Ball, move: Callable[[Tensor], None], begin: Tensor, steps: int) -> float:
    """The largest loss on the way up."""
    best, size = begin, FIRST
    move(best)
    highest, gradient = loss.gradient()
    for _ in range(steps):
        point = ball.project(best + size * ball.farthest(gradient))
        move(point)
        value, there = loss.gradient()
        if value > highest:
            best, highest, gradient = point, value, there
        else:
            size /= 2
    return highest
