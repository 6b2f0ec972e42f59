"""The Square attack: random search with square patches, no gradient (Andriushchenko et al. 2020, Algorithms 1 and 2).

It sees what gradients do not: a model that resists `pgd` but not this one hides its gradients and is not robust.
"""

import math

import torch
from torch import Tensor, nn

from durm._checks import whole_number
from durm.attacks.ball import per_sample
from durm.attacks.loss import AttackLoss
from durm.attacks.squares_l2 import first_change, propose
from durm.attacks.state import search

FIRST_SHARE = 0.8
"""p: the share of the image that the first patches cover."""
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""The queries, of 10,000, after which p is halved."""


def square(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    eps: float,
    norm: str = "linf",
    steps: int = 5000,
    restarts: int = 1,
    random_start: bool = True,
    loss: str = "cw",
    through: str = "real",
    targeted: bool = False,
    generator: torch.Generator | None = None,
    start: Tensor | None = None,
    early_stop: bool = False,
) -> Tensor:
    """Random search: a patch at a random place is moved by ±2 ε in each channel, projected, and kept if it helps.

    It begins with stripes, one pixel wide and as high as the image, of ±ε in each channel. The patches cover a share p
    of the image, 0.8 at first and halved nine times (see `share`). In "l2" it begins with a grid of patterns, and a
    proposal moves length from one window to another: see `durm.attacks.squares_l2`. Images are (N, channels, height,
    width); (N, height, width) has one channel; of flat inputs, (N, F), a patch is a run of neighbours.

    The arguments are those of `pgd`, except: `steps` is the number of queries of a restart, forward passes of one
    sample, the one of its start included; `loss` is the margin unless said otherwise, because it does not saturate;
    with `random_start=False` it begins at the inputs, without stripes or patterns. More restarts never lower the loss
    reached; the shares depend on `steps`, so more steps may.
    """
    whole_number("steps", steps, minimum=1)
    if inputs.ndim not in (2, 3, 4):
        raise ValueError(f"inputs of shape {tuple(inputs.shape)}: the Square attack takes images or flat samples")
    channels, height, width = (1, 1, 1, *inputs.shape[1:])[-3:]
    image = channels, height, width
    with search(model, inputs, targets, eps, norm, AttackLoss(through, loss, targeted), early_stop) as active:
        ball = active.ball

        def begin(random: torch.Generator) -> Tensor:
            if norm == "l2":
                change = first_change(len(inputs), image, random).to(ball.inputs)
                return ball.project(ball.inputs + eps * change.reshape(inputs.shape))
            signs = _signs((len(inputs), channels, 1, width), random).to(ball.inputs)
            return ball.project(ball.inputs + eps * signs.expand(-1, *image).reshape(inputs.shape))

        def moved(points: Tensor, share: float, random: torch.Generator) -> Tensor:
            if norm == "l2":
                change = (points - active.ball.inputs).view(-1, *image)
                changed = propose(change, eps, share, len(inputs), active.rows.cpu(), random)
                return active.ball.inputs + changed.reshape(points.shape)
            patch = _patches(image, share, len(inputs), active.rows, random).to(points)
            return torch.add(points, patch.reshape(points.shape), alpha=2 * eps)

        for points, random in active.starts(restarts, random_start, generator, start, draw=begin):
            value = active.loss(points)
            for query in range(1, steps):
                points, value = active.going_on(points, value)
                if not len(points):
                    break
                proposed = active.ball.project(moved(points, share(query, steps), random))
                proposed_value = active.loss(proposed)
                better = proposed_value > value
                points = torch.where(per_sample(better, points), proposed, points)
                value = torch.where(better, proposed_value, value)
    return active.best


def share(query: int, queries: int) -> float:
    """p at this query, the published schedule for 10,000 queries being stretched to as many as there are.

    Examples:
        >>> share(1, 1000), share(2, 1000), share(1000, 1000)
        (0.8, 0.4, 0.0015625)
    """
    return FIRST_SHARE * 0.5 ** len([after for after in HALVED_AFTER if query * 10_000 > after * queries])


def _patches(image: tuple[int, int, int], share: float, count: int, rows: Tensor, random: torch.Generator) -> Tensor:
    """-1 or 1 within a patch and 0 around it, (n, channels, height, width), for those rows of `count` samples."""
    channels, height, width = image
    tall, wide = patch_size(height, width, share)
    # Drawn for all samples, so that those left out do not shift what the others are given.
    top = torch.randint(height - tall + 1, (count, 1, 1, 1), generator=random)
    left = torch.randint(width - wide + 1, (count, 1, 1, 1), generator=random)
    signs = _signs((count, channels, 1, 1), random)
    kept = rows.cpu()
    top, left, signs = top[kept], left[kept], signs[kept]
    down, across = torch.arange(height)[:, None], torch.arange(width)
    inside = (down >= top) & (down < top + tall) & (across >= left) & (across < left + wide)
    return signs * inside


def patch_size(height: int, width: int, share: float) -> tuple[int, int]:
    """The height and width of a patch: a square of that share of the image, or a run of it if that is one pixel high.

    Examples:
        >>> patch_size(32, 32, 0.05), patch_size(1, 64, 0.05)
        ((7, 7), (1, 3))
    """
    side = share * width if height == 1 else math.sqrt(share * height * width)
    whole = max(round(side), 1)
    return min(whole, height), min(whole, width)


def _signs(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    return 2 * torch.randint(2, shape, generator=random) - 1
