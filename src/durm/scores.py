"""Scores from the dummy logits: the probability mass on them, whether one of them wins, and the two normalisations.

All functions take the full logits, real classes first: `(N, C + C_d, ...)`, or any layout with the class axis at `dim`.
"""

from typing import Literal

import torch
from torch import Tensor

from durm._checks import whole_number


def dummy_mass(logits: Tensor, num_classes: int, *, dim: int = 1) -> Tensor:
    """The total softmax probability on the dummy classes, p_D: a score of uncertainty for each sample or pixel.

    With real logits z and dummy logits d,

        p_D = sum_j e^{d_j} / (sum_c e^{z_c} + sum_j e^{d_j}) = sigmoid(logsumexp(d) - logsumexp(z)),

    computed in the second form, which keeps its relative precision when p_D is tiny.

    Args:
        logits: all C + C_d logits, as `durm.full_logits` gives them.
        num_classes: C.
        dim: the class axis.

    Returns:
        p_D, of the shape of `logits` without the class axis. Zero where there are no dummies.

    Examples:
        >>> logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
        >>> dummy_mass(logits, num_classes=2)
        tensor([0.0900, 0.3333])
    """
    return torch.sigmoid(dummy_log_odds(logits, num_classes, dim=dim))


def dummy_log_odds(logits: Tensor, num_classes: int, *, dim: int = 1) -> Tensor:
    """The logit of p_D, logsumexp(d) - logsumexp(z); -inf where there are no dummies. Shapes as in `dummy_mass`."""
    dim = class_axis(logits, num_classes, dim)
    real, dummy = split(logits, num_classes, dim)
    if dummy.shape[dim] == 0:
        return torch.full_like(real.select(dim, 0), -torch.inf)
    return dummy.logsumexp(dim) - real.logsumexp(dim)


def dummy_hits(logits: Tensor, num_classes: int, *, dim: int = 1) -> Tensor:
    """Whether a dummy class has the largest of all C + C_d logits: max_j d_j > max_c z_c.

    Args:
        logits: all C + C_d logits, as `durm.full_logits` gives them.
        num_classes: C.
        dim: the class axis.

    Returns:
        A boolean tensor of the shape of `logits` without the class axis; a tie counts for the real class.

    Examples:
        >>> dummy_hits(torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 3.0]]), num_classes=2)
        tensor([False,  True])
    """
    dim = class_axis(logits, num_classes, dim)
    real, dummy = split(logits, num_classes, dim)
    if dummy.shape[dim] == 0:
        return torch.zeros_like(real.select(dim, 0), dtype=torch.bool)
    return dummy.amax(dim) > real.amax(dim)


def probabilities(logits: Tensor, num_classes: int, *, over: Literal["real", "all"] = "real", dim: int = 1) -> Tensor:
    """Softmax probabilities over the C real classes, or over all C + C_d.

    Args:
        logits: all C + C_d logits, as `durm.full_logits` gives them.
        num_classes: C.
        over: "real" gives those of the narrowed model, C values that sum to 1. "all" keeps the dummies: C + C_d values
            that sum to 1, of which the first C sum to 1 - p_D. On the real classes the two differ by this factor.
        dim: the class axis.

    Returns:
        A tensor of the shape of `logits`, with C or C + C_d along `dim`.

    Examples:
        >>> logits = torch.tensor([[2.0, 1.0, 0.0]])
        >>> probabilities(logits, num_classes=2)
        tensor([[0.7311, 0.2689]])
        >>> probabilities(logits, num_classes=2, over="all")
        tensor([[0.6652, 0.2447, 0.0900]])
    """
    dim = class_axis(logits, num_classes, dim)
    if over == "real":
        return split(logits, num_classes, dim)[0].softmax(dim)
    if over == "all":
        return logits.softmax(dim)
    raise ValueError(f"over={over!r}: expected 'real' or 'all'")


def split(logits: Tensor, num_classes: int, dim: int) -> tuple[Tensor, Tensor]:
    """The real and the dummy logits, as views."""
    width = logits.shape[dim]
    return logits.narrow(dim, 0, num_classes), logits.narrow(dim, num_classes, width - num_classes)


def class_axis(logits: Tensor, num_classes: int, dim: int) -> int:
    """The class axis, counted from the front, after checking that it exists and holds at least C logits.

    One sample without a batch axis, `(C + C_d,)`, has it at 0 where the default 1 is asked for, as in
    `torch.nn.functional.cross_entropy`.
    """
    whole_number("num_classes", num_classes, minimum=1)
    if logits.ndim == 1 and dim == 1:
        dim = 0
    if not -logits.ndim <= dim < logits.ndim:
        raise ValueError(f"dim={dim}: logits of shape {tuple(logits.shape)} have no such axis")
    dim %= logits.ndim
    if logits.shape[dim] < num_classes:
        raise ValueError(
            f"logits of shape {tuple(logits.shape)} have {logits.shape[dim]} classes along dim {dim}, "
            f"fewer than num_classes={num_classes}"
        )
    return dim
