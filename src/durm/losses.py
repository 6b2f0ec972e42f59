"""The cross-entropy on widened logits, Eq. (2), and its push and pull terms, Eq. (3).

`torch.nn.CrossEntropyLoss` is right on C + C_d logits for index targets without label smoothing or class weights. With
smoothing it would pull the dummies up, and weights or soft targets of width C raise a shape error. The losses of this
file take C-wide weights and targets, smooth over the C real classes only, and give the dummies no target mass.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from durm._checks import one_of, whole_number
from durm.scores import class_axis


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    num_classes: int,
    *,
    weight: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    reduction: str = "mean",
    dim: int = 1,
) -> Tensor:
    """The cross-entropy of C + C_d logits against targets over the C real classes, Eq. (2) of the paper.

    With real logits z, dummy logits d and p_D the softmax probability on all dummies together,

        L_DuRM = -z_y + log(sum_c e^{z_c} + sum_j e^{d_j}) = L_ERM - log(1 - p_D).

    Everything else is as in `torch.nn.functional.cross_entropy`, to which this reduces, bit for bit, when C_d = 0.

    Args:
        logits: `(N, C + C_d, ...)`, `(C + C_d,)`, or any layout with the class axis at `dim`.
        target: class indices, of the shape of `logits` without the class axis; or probabilities over the real classes
            (floating point), of the shape of `logits` with C in place of C + C_d.
        num_classes: C.
        weight: C class weights.
        label_smoothing: the mass that is spread evenly over the C real classes, in [0, 1].
        ignore_index: the class index whose positions do not count.
        reduction: "mean" (weighted by `weight` for index targets), "sum" or "none".
        dim: the class axis; token classifiers have it last.

    Raises:
        ValueError: for an index target outside 0 … C - 1 (checked on CPU in eager mode) and for shapes that do not fit.

    Examples:
        >>> logits = torch.tensor([[2.0, 1.0, 0.0]])  # two classes, one dummy
        >>> cross_entropy(logits, torch.tensor([0]), num_classes=2)
        tensor(0.4076)
        >>> cross_entropy(logits, torch.tensor([[0.5, 0.5]]), num_classes=2)
        tensor(0.9076)
    """
    dim = class_axis(logits, num_classes, dim)
    _check_options(num_classes, weight, label_smoothing, reduction)
    soft = _is_soft(target)
    check_target(logits, target, num_classes, ignore_index, dim)
    if logits.ndim == 1:  # one sample without a batch axis
        loss = cross_entropy(
            logits[None],
            target[None],
            num_classes,
            weight=weight,
            label_smoothing=label_smoothing,
            ignore_index=ignore_index,
            reduction=reduction,
        )
        return loss[0] if reduction == "none" else loss
    if dim != 1:
        logits = logits.movedim(dim, 1)
        target = target.movedim(dim, 1) if soft else target
    target = target if soft else target.long()

    dummies = logits.shape[1] - num_classes
    if dummies == 0 or not (soft or label_smoothing or weight is not None):
        return F.cross_entropy(
            logits, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
        )
    log_p = logits.log_softmax(1).narrow(1, 0, num_classes)
    if soft:
        return _soft_nll(log_p, target, weight, label_smoothing, reduction)
    return _smoothed_nll(log_p, target, weight, label_smoothing, ignore_index, reduction)


class CrossEntropyLoss(nn.CrossEntropyLoss):
    """`cross_entropy` as a module: the loss of `(N, C + C_d, ...)` logits against targets over the C real classes.

        L_DuRM = -z_y + log(sum_c e^{z_c} + sum_j e^{d_j})

    It is a subclass of `torch.nn.CrossEntropyLoss`, from which skorch knows that it takes logits.

    Args:
        num_classes: C, the number of real classes.
        weight: C class weights.
        label_smoothing: as in `cross_entropy`.
        ignore_index: as in `cross_entropy`.
        reduction: as in `cross_entropy`.
        dim: as in `cross_entropy`.

    Examples:
        >>> criterion = CrossEntropyLoss(num_classes=2, label_smoothing=0.1)
        >>> criterion(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0]))
        tensor(0.4576)
    """

    weight: Tensor | None

    def __init__(
        self,
        num_classes: int,
        weight: Tensor | None = None,
        *,
        label_smoothing: float = 0.0,
        ignore_index: int = -100,
        reduction: str = "mean",
        dim: int = 1,
    ) -> None:
        super().__init__(weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
        self.num_classes = whole_number("num_classes", num_classes, minimum=1)
        _check_options(num_classes, weight, label_smoothing, reduction)
        self.dim = dim

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(
            logits,
            target,
            self.num_classes,
            weight=self.weight,
            label_smoothing=self.label_smoothing,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            dim=self.dim,
        )

    def extra_repr(self) -> str:
        return f"num_classes={self.num_classes}, label_smoothing={self.label_smoothing}, reduction={self.reduction!r}"


class PushPull(NamedTuple):
    """The two terms of Eq. (3) for each of the C + C_d classes; their sum is the gradient of the summed loss."""

    push: Tensor
    pull: Tensor


def push_pull(logits: Tensor, target: Tensor, num_classes: int, *, ignore_index: int = -100, dim: int = 1) -> PushPull:
    """Splits the gradient of the summed cross-entropy with respect to each class's logit as in Eq. (3) of the paper.

        sum_i dL_i/dz_k = sum_{i: y_i != k} p_k^(i)  +  sum_{j: y_j = k} (p_k^(j) - 1)
                                  push                         pull

    (the paper calls this quantity -g_k). The push term is never negative, the pull term never positive; a dummy has no
    samples of its own, so its pull term is exactly zero and it is only ever pushed down.

    Args:
        logits: `(N, C + C_d, ...)`, or the class axis at `dim`.
        target: class indices, of the shape of `logits` without the class axis.
        num_classes: C.
        ignore_index: the class index whose positions do not count.
        dim: the class axis.

    Returns:
        `push` and `pull`, each of shape `(C + C_d,)`, summed over all positions.

    Examples:
        >>> push, pull = push_pull(torch.zeros(4, 3), torch.tensor([0, 0, 1, 1]), num_classes=2)
        >>> push
        tensor([0.6667, 0.6667, 1.3333])
        >>> pull
        tensor([-1.3333, -1.3333,  0.0000])
    """
    dim = class_axis(logits, num_classes, dim)
    if _is_soft(target):
        raise TypeError("push and pull terms need class indices as targets, not probabilities")
    check_target(logits, target, num_classes, ignore_index, dim)
    p = logits.softmax(dim).movedim(dim, -1).flatten(0, -2)
    target = target.long().flatten()
    counted = target != ignore_index
    own = F.one_hot(target.where(counted, 0), p.shape[-1]).bool()
    push = p.where(counted[:, None] & ~own, 0.0).sum(0)
    pull = (p - 1).where(counted[:, None] & own, 0.0).sum(0)
    return PushPull(push, pull)


def _soft_nll(log_p: Tensor, target: Tensor, weight: Tensor | None, smoothing: float, reduction: str) -> Tensor:
    """-sum_c w_c t_c log p_c for probabilities t over the C real classes."""
    if smoothing:
        target = target * (1 - smoothing) + smoothing / log_p.shape[1]
    loss = -_per_class(log_p * target, weight).sum(1)
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.mean()


def _smoothed_nll(
    log_p: Tensor, target: Tensor, weight: Tensor | None, smoothing: float, ignore_index: int, reduction: str
) -> Tensor:
    """(1 - s) w_y (-log p_y) + s / C sum_c w_c (-log p_c), the mean being over the weights of the counted targets."""
    nll = F.nll_loss(log_p, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not smoothing:
        return nll
    counted = target != ignore_index
    spread = -_per_class(log_p, weight).sum(1).where(counted, 0.0)
    if reduction == "sum":
        spread = spread.sum()
    elif reduction == "mean":
        spread = spread.sum() / (counted.sum() if weight is None else weight[target[counted]].sum())
    return (1 - smoothing) * nll + smoothing / log_p.shape[1] * spread


def _per_class(values: Tensor, weight: Tensor | None) -> Tensor:
    """`values` of shape `(N, C, ...)` times the C class weights."""
    return values if weight is None else values * weight.view(-1, *[1] * (values.ndim - 2))


def _is_soft(target: Tensor) -> bool:
    """Whether the targets are probabilities rather than class indices."""
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(f"target of dtype {target.dtype}: expected integers (class indices) or floats (probabilities)")
    return target.is_floating_point()


def _check_options(num_classes: int, weight: Tensor | None, label_smoothing: float, reduction: str) -> None:
    if weight is not None and weight.shape != (num_classes,):
        raise ValueError(
            f"weight of shape {tuple(weight.shape)}: expected ({num_classes},), one weight for each real class"
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing={label_smoothing}: expected a number from 0 to 1")
    one_of("reduction", reduction, ("none", "mean", "sum"))


def check_target(logits: Tensor, target: Tensor, num_classes: int, ignore_index: int, dim: int) -> None:
    shape = list(logits.shape)
    if _is_soft(target):
        shape[dim] = num_classes
        if list(target.shape) != shape:
            raise ValueError(
                f"target of shape {tuple(target.shape)}: expected probabilities over the {num_classes} real classes, "
                f"{tuple(shape)}; class indices need an integer dtype"
            )
        return
    shape.pop(dim)  # `del` is not known to torch.compile before 2.5
    if list(target.shape) != shape:
        raise ValueError(f"target of shape {tuple(target.shape)}: expected class indices of shape {tuple(shape)}")
    if target.device.type == "cpu" and not torch.compiler.is_compiling() and target.numel():
        _check_range(target, num_classes, ignore_index)


def _check_range(target: Tensor, num_classes: int, ignore_index: int) -> None:
    """Refuses a label that is no real class. Without this a label of C … C + C_d - 1 would silently train a dummy."""
    try:
        lowest, highest = map(int, torch.aminmax(target))
    except RuntimeError:  # under torch.func.vmap the values cannot be read
        return
    if lowest >= 0 and highest < num_classes:
        return
    wrong = target[((target < 0) | (target >= num_classes)) & (target != ignore_index)]
    if wrong.numel():
        raise ValueError(
            f"target {wrong[0].item()} is outside 0 … {num_classes - 1} (num_classes={num_classes}) "
            f"and is not ignore_index={ignore_index}"
        )
