"""A running attack: it judges points, keeps the best of each sample, and leaves out the samples that are done.

    with search(model, inputs, targets, ...) as active:
        for points, random in active.starts(restarts, ...):
            loss, gradient = active.gradient(points)
            ...
    return active.best

Points are ranked by (success, loss): one that succeeds comes before one that does not, and among equals the one with
the higher loss. So what is returned fools the model if any point did.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from durm import _random
from durm._checks import whole_number
from durm.attacks.ball import Ball, make_ball
from durm.attacks.loss import AttackLoss
from durm.heads import dummies
from durm.heads.layer import eval_mode


class AttackState:
    """The state of an attack on one batch.

    Attributes:
        rows: which samples are attacked now, as indices into the batch: all, or with `early_stop` those not yet done.
            Points, losses and gradients that go in and out are of these.
        ball: where the points of `rows` may go.
        best: the best point of each sample of the batch; the inputs before any was judged.
    """

    def __init__(self, model: nn.Module, targets: Tensor, ball: Ball, loss: AttackLoss, early_stop: bool) -> None:
        self.best = ball.inputs.clone()
        self._model, self._attack_loss, self._early_stop = model, loss, early_stop
        self._dummies = dummies(model) if loss.through != "real" else 0
        self._num_classes: int | None = None
        self._all_targets, self._all = targets, ball
        self._aimed_at: Tensor | None = None
        self._loss = torch.full(targets.shape, -torch.inf, dtype=ball.inputs.dtype, device=ball.inputs.device)
        self._done = torch.zeros_like(targets, dtype=torch.bool)
        self._attack(torch.arange(len(targets), device=targets.device))

    def starts(
        self,
        restarts: int,
        random_start: bool,
        generator: torch.Generator | None,
        start: Tensor | None,
        draw: Callable[[torch.Generator], Tensor] | None = None,
    ) -> Iterator[tuple[Tensor, torch.Generator]]:
        """For each restart the points where it begins, and its own generator.

        The first begins at `start` if given, otherwise at random or at the inputs; the others at random. One number is
        drawn from `generator`, whatever the settings, and restart r is a function of that number and r. `draw` gives
        random points for the whole batch: uniform ones of the ball, if it is left out. At ε = 0 there are no starts.
        """
        whole_number("restarts", restarts, minimum=1)
        shape = self.best.shape
        if start is not None and start.shape != shape:
            raise ValueError(f"start of shape {tuple(start.shape)}: expected that of the inputs, {tuple(shape)}")
        generator = generator or torch.Generator().manual_seed(0)
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        for restart in range(restarts if self._all.eps else 0):
            rows = torch.arange(len(self.best), device=self.best.device)
            self._attack(rows[~self._done] if self._early_stop else rows)
            if not len(self.rows):
                return
            random = _random.generator(seed, "restart", restart)
            if restart == 0 and start is not None:
                points = self._all.project(start.detach().to(self.best))
            elif restart == 0 and not random_start:
                points = self._all.inputs
            else:  # for the whole batch, so that the samples left out do not shift what the others are given
                points = (draw or self._all.random)(random)
            yield points[self.rows], random

    def likeliest(self, count: int) -> Tensor:
        """The `count` likeliest wrong classes of each sample at its input, (N, count), the likeliest first.

        There are fewer of them where the model has fewer classes.
        """
        with torch.no_grad():
            logits = self._model(self._all.inputs)
        num_classes = self._check(logits, len(self.best))
        self._attack_loss.check(num_classes, self._dummies, aimed=True)
        others: Tensor = logits[:, :num_classes].scatter(1, self._all_targets[:, None], -torch.inf)
        return others.topk(min(count, num_classes - 1), 1).indices

    def aim(self, classes: Tensor) -> None:
        """From now on the attack goes for these classes, (N,); every wrong class still is a success."""
        self._aimed_at = classes

    def gradient(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """The loss at each point, (n,), and its gradient there: one forward and one input-gradient pass."""
        with torch.enable_grad():
            points = points.detach().requires_grad_()
            loss, success = self._judge(points)
            if not loss.requires_grad:
                raise ValueError("the model gives no gradient with respect to its inputs; 'square' needs none")
            (gradient,) = torch.autograd.grad(loss.sum(), points)
        loss = loss.detach()
        self._keep(points.detach(), loss, success)
        return loss, gradient.nan_to_num_(nan=0.0)

    def loss(self, points: Tensor) -> Tensor:
        """The loss at each point, (n,), by a forward pass alone."""
        with torch.no_grad():
            loss, success = self._judge(points)
        self._keep(points, loss, success)
        return loss

    def last(self, points: Tensor, *, of_all: bool) -> None:
        """Judges the points at which a restart ends.

        The points before came with the gradient that the next step needed; these cost a forward pass of their own,
        half as much as a step. So it is spent on all samples only if asked for, else on those not yet done: of the
        others a point that succeeds is known.
        """
        if not of_all:
            (points,) = self._not_done(points)
        if len(points):
            self.loss(points)

    def going_on(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """With `early_stop` these tensors without the rows of samples that are done, which are attacked no more."""
        return self._not_done(*tensors) if self._early_stop else tensors

    def _not_done(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        left = ~self._done[self.rows]
        if left.all():
            return tensors
        self._attack(self.rows[left])
        return tuple(tensor[left] for tensor in tensors)

    def _attack(self, rows: Tensor) -> None:
        self.rows = rows
        everything = len(rows) == len(self._all_targets)
        self.ball = self._all if everything else self._all.of(rows)
        self._targets = self._all_targets if everything else self._all_targets[rows]

    def _judge(self, points: Tensor) -> tuple[Tensor, Tensor]:
        logits = self._model(points)
        if self._num_classes is None:
            self._num_classes = self._check(logits, len(points))
        aimed_at = None if self._aimed_at is None else self._aimed_at[self.rows]
        loss, success = self._attack_loss(logits.to(points.dtype), self._targets, self._num_classes, aimed_at)
        return loss, success & ~loss.isnan()

    def _check(self, logits: object, count: int) -> int:
        """C, after checking what the model gives against what is asked for."""
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != count:
            found = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"type {type(logits).__name__}"
            raise ValueError(f"the model gives an output of {found}: an attack needs logits, ({count}, classes)")
        num_classes = logits.shape[1] - self._dummies
        self._attack_loss.check(num_classes, self._dummies)
        low, high = (int(value) for value in self._all_targets.aminmax())
        if low < 0 or high >= num_classes:
            raise ValueError(f"target {low if low < 0 else high} is outside 0 … {num_classes - 1}, the real classes")
        return num_classes

    def _keep(self, points: Tensor, loss: Tensor, success: Tensor) -> None:
        done = self._done[self.rows]
        better = (success & ~done) | ((success == done) & (loss > self._loss[self.rows]))
        rows = self.rows[better]
        self.best[rows] = points[better]
        self._loss[rows] = loss[better]
        self._done[rows] = success[better]


@contextmanager
def search(
    model: nn.Module, inputs: Tensor, targets: Tensor, eps: float, norm: str, loss: AttackLoss, early_stop: bool
) -> Iterator[AttackState]:
    """Checks what all attacks take, and puts the model into eval mode, with the logits that are attacked.

    Afterwards every module's mode is what it was. Parameters, their gradients and buffers are not written to.
    """
    # In inference mode there are no gradients; a tensor that was made in it has none, its copy has.
    with torch.inference_mode(False), eval_mode(model, full=loss.through != "real"):
        ball = make_ball(inputs.detach().clone(), eps, norm)
        if targets.shape != inputs.shape[:1] or targets.is_floating_point() or targets.dtype == torch.bool:
            raise ValueError(
                f"targets of shape {tuple(targets.shape)} and dtype {targets.dtype}: "
                f"expected class indices of shape ({len(inputs)},)"
            )
        yield AttackState(model, targets.long().clone(), ball, loss, early_stop)
