"""Steps along the gradient: FGSM, one of them (Goodfellow et al. 2015), and PGD, several (Madry et al. 2018)."""

import torch
from torch import Tensor, nn

from durm._checks import positive_or_none, whole_number
from durm.attacks.ball import check_eps
from durm.attacks.loss import AttackLoss
from durm.attacks.state import search


def fgsm(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    eps: float,
    norm: str = "linf",
    step_size: float | None = None,
    loss: str = "ce",
    through: str = "real",
    targeted: bool = False,
    start: Tensor | None = None,
    early_stop: bool = False,
    keep_best: bool = False,
) -> Tensor:
    """The fast gradient (sign) method: one step from the inputs, x + ε sign(∇L) or x + ε ∇L / ‖∇L‖₂, into the box.

    With `step_size`, that step is longer (and cut off) or shorter than ε. With `keep_best` it is `pgd` with one step
    from the inputs, which count as a point: where the step lowers the loss, they are what is returned. To know it takes
    one more forward pass. The other arguments are those of `pgd`.

    Examples:
        >>> model = nn.Linear(2, 2, bias=False)
        >>> model.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> fgsm(model, torch.tensor([[0.5, 0.25]]), torch.tensor([0]), eps=0.125)
        tensor([[0.3750, 0.3750]])
    """
    check_eps(eps, norm)  # before it is a step size
    positive_or_none("step_size", step_size)
    size = eps if step_size is None else step_size
    with search(model, inputs, targets, eps, norm, AttackLoss(through, loss, targeted), early_stop) as active:
        for points, _ in active.starts(1, False, None, start):
            _, gradient = active.gradient(points)
            points, gradient = active.going_on(points, gradient)
            stepped = active.ball.project(torch.add(points, active.ball.direction(gradient), alpha=size))
            if keep_best:
                active.last(stepped, of_all=True)
            else:
                active.best[active.rows] = stepped
    return active.best


def pgd(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    eps: float,
    norm: str = "linf",
    steps: int = 10,
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
    """Projected gradient steps: x ← P(x + η sign(∇L)), or ∇L / ‖∇L‖₂ in place of the sign, P into ball and box.

    The best point of each sample over all steps and restarts is kept, by (success, loss); the start counts. So more
    restarts, and more steps of the same size, never lower the loss of a sample or undo a success. The last point of a
    restart, which alone costs a forward pass of its own, is judged only for the samples not yet fooled (with one step:
    for all).

    Args:
        model: gives (N, C) logits in eval mode for inputs in [0, 1]; widened or not.
        inputs: (N, …) in [0, 1], float32 or float64.
        targets: (N,), the true classes; the wanted ones if `targeted`.
        eps: the radius of the ball, in units of [0, 1].
        norm: "linf" or "l2".
        steps: how many steps a restart takes.
        step_size: η; left out, 2.5 ε / steps.
        restarts: how often; each after the first begins at a random point of the ball.
        random_start: whether the first does too, instead of at the inputs.
        loss: "ce", "cw" (margin) or "dlr": see `durm.attacks.loss`.
        through: "real", "full" or "dummy": the logits that the loss is of.
        targeted: lower the loss of `targets`, instead of raising it.
        generator: where random starts come from; left out, a new one with seed 0. The global one is not touched.
        start: (N, …), where the first restart begins, once projected.
        early_stop: leave out of all further passes a sample that is fooled, and keep that point.

    Returns:
        (N, …), in the ball and the box.
    """
    whole_number("steps", steps, minimum=1)
    positive_or_none("step_size", step_size)
    size = 2.5 * eps / steps if step_size is None else step_size
    with search(model, inputs, targets, eps, norm, AttackLoss(through, loss, targeted), early_stop) as active:
        for points, _ in active.starts(restarts, random_start, generator, start):
            for _ in range(steps):
                _, gradient = active.gradient(points)
                points, gradient = active.going_on(points, gradient)
                if not len(points):
                    break
                ball = active.ball
                points = ball.project(torch.add(points, ball.direction(gradient), alpha=size))
            active.last(points, of_all=steps == 1)
    return active.best
