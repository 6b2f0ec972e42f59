"""Auto-PGD: projected gradient steps with momentum whose size needs no tuning (Croce & Hein 2020, Algorithm 1)."""

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

import torch
from torch import Tensor, nn

from durm._checks import positive_or_none, whole_number
from durm.attacks.ball import per_sample
from durm.attacks.loss import AttackLoss
from durm.attacks.state import AttackState, search

MOMENTUM = 0.75
"""α: the share of the new step; 1 - α is that of the last one."""
RISES = 0.75
"""ρ: a step size is kept if at least this share of its steps raised the loss."""


def apgd(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    eps: float,
    norm: str = "linf",
    steps: int = 100,
    step_size: float | None = None,
    restarts: int = 1,
    random_start: bool = True,
    loss: str = "ce",
    through: str = "real",
    targeted: bool = False,
    generator: torch.Generator | None = None,
    start: Tensor | None = None,
    early_stop: bool = False,
) -> Tensor:
    """PGD that halves the step size of a sample, and goes back to its best point, where it makes no headway.

        z = P(x_k + η s_k),    x_{k+1} = P(x_k + α (z - x_k) + (1 - α) (x_k - x_{k-1})),    α = 0.75,

    s_k being the sign of the gradient, or the gradient divided by its length. At the checkpoints (see `checkpoints`) a
    sample's η is halved and x_k set to its best point so far, if since the last checkpoint either

    1. fewer than ρ = 3/4 of its steps raised the loss, or
    2. neither its η nor its highest loss has changed.

    The arguments are those of `pgd`, but for `step_size`, the first η: left out, 2 ε. The checkpoints depend on
    `steps`, so more restarts never lower the loss reached, but more steps may.
    """
    whole_number("steps", steps, minimum=1)
    positive_or_none("step_size", step_size)
    size = 2 * eps if step_size is None else step_size
    with search(model, inputs, targets, eps, norm, AttackLoss(through, loss, targeted), early_stop) as active:
        for points, _ in active.starts(restarts, random_start, generator, start):
            _ascend(active, points, steps, size)
    return active.best


def targeted_apgd(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    eps: float,
    norm: str = "linf",
    steps: int = 100,
    step_size: float | None = None,
    target_classes: int = 9,
    random_start: bool = True,
    loss: str = "dlr",
    through: str = "real",
    generator: torch.Generator | None = None,
    start: Tensor | None = None,
    early_stop: bool = False,
) -> Tensor:
    """APGD that goes for one wrong class after the other, the likeliest at the input first (Croce & Hein 2020).

    An untargeted attack goes for whichever class is nearest, and stays where that is a dead end. Any wrong class is a
    success. All samples that are still right go for their own next class in one batch.

    The arguments are those of `apgd`, except: `target_classes` is how many classes each sample goes for, each from a
    start of its own; `loss` is "dlr", (z_t - z_y) / (z_(1) - (z_(3) + z_(4)) / 2), which needs four logits, "cw",
    z_t - z_y, or "ce", the cross-entropy of the class that is gone for, to be lowered.
    """
    whole_number("steps", steps, minimum=1)
    whole_number("target_classes", target_classes, minimum=1)
    positive_or_none("step_size", step_size)
    size = 2 * eps if step_size is None else step_size
    if through == "dummy":
        raise ValueError("through='dummy' wants the dummies, so it cannot be targeted at classes as well")
    with search(model, inputs, targets, eps, norm, AttackLoss(through, loss, False), early_stop) as active:
        classes = active.likeliest(target_classes).unbind(1) if len(inputs) else ()
        begun = active.starts(max(len(classes), 1), random_start, generator, start)
        for (points, _), wanted in zip(begun, classes, strict=False):  # with early_stop the starts may end before
            active.aim(wanted)
            _ascend(active, points, steps, size)
    return active.best


def _ascend(active: AttackState, points: Tensor, steps: int, size: float) -> None:
    """Algorithm 1 from these points."""
    checked_at = set(checkpoints(steps))
    state = _begin(points, size)
    last_checkpoint = 0
    for step in range(steps):
        value, gradient = active.gradient(state.points)
        state = _judged(state, value, gradient)
        if step in checked_at:
            state = _checked(state, step - last_checkpoint)
            last_checkpoint = step
        state = _State(*active.going_on(*state))
        if not len(state.points):
            break
        ball, points = active.ball, state.points
        ahead = ball.project(points + per_sample(state.size, points) * ball.direction(state.gradient))
        if step:
            ahead = points + MOMENTUM * (ahead - points) + (1 - MOMENTUM) * (points - state.previous)
            ahead = ball.project(ahead)
        state = state._replace(points=ahead, previous=points)
    active.last(state.points, of_all=steps == 1)


def checkpoints(steps: int) -> Iterator[int]:
    """After which steps the size is reconsidered: ⌈p_j · steps⌉.

    p_0 = 0, p_1 = 0.22, p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06), up to 1.

    Examples:
        >>> list(checkpoints(100))
        [22, 41, 57, 70, 80, 87, 93, 99]
    """
    before, now = 0, 22  # in hundredths, which are exact
    while now <= 100:
        yield ceil(now * steps / 100)
        before, now = now, now + max(now - before - 3, 6)


class _State(NamedTuple):
    """What is known of each sample that is attacked: (n, …), or (n,) for one number each."""

    points: Tensor
    previous: Tensor
    loss: Tensor
    gradient: Tensor
    best: Tensor
    best_loss: Tensor
    best_gradient: Tensor
    size: Tensor
    rises: Tensor  # how many steps raised the loss since the last checkpoint
    halved: Tensor  # whether the last checkpoint halved the size
    checkpoint_loss: Tensor  # the best loss at the last checkpoint


def _begin(points: Tensor, size: float) -> _State:
    nothing, lowest = torch.zeros_like(points), points.new_full(points.shape[:1], -torch.inf)
    return _State(
        points=points,
        previous=points,
        loss=lowest.new_full(lowest.shape, torch.inf),  # the start is no rise
        gradient=nothing,
        best=points,
        best_loss=lowest,
        best_gradient=nothing,
        size=torch.full_like(lowest, size),
        rises=torch.zeros_like(lowest),
        halved=torch.ones_like(lowest, dtype=torch.bool),  # so that condition 2 cannot hold at the first checkpoint
        checkpoint_loss=lowest,
    )


def _judged(state: _State, loss: Tensor, gradient: Tensor) -> _State:
    """The state once its points have been judged."""
    better = loss > state.best_loss
    wide = per_sample(better, gradient)
    return state._replace(
        loss=loss,
        gradient=gradient,
        rises=state.rises + (loss > state.loss),
        best=torch.where(wide, state.points, state.best),
        best_loss=torch.where(better, loss, state.best_loss),
        best_gradient=torch.where(wide, gradient, state.best_gradient),
    )


def _checked(state: _State, steps: int) -> _State:
    """The state after a checkpoint, `steps` after the last one."""
    few_rises = state.rises < RISES * steps
    stuck = ~state.halved & (state.best_loss <= state.checkpoint_loss)
    halve = few_rises | stuck
    wide = per_sample(halve, state.points)
    return state._replace(
        points=torch.where(wide, state.best, state.points),
        loss=torch.where(halve, state.best_loss, state.loss),
        gradient=torch.where(wide, state.best_gradient, state.gradient),
        size=torch.where(halve, state.size / 2, state.size),
        rises=torch.zeros_like(state.rises),
        halved=halve,
        checkpoint_loss=state.best_loss,
    )
