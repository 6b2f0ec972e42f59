"""Rows for the dummies: how they are drawn, and how they are put below the real ones."""

from typing import Literal, get_args

import torch
from torch import Tensor

Kind = Literal["learned", "frozen", "constant", "copies"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FROZEN = ("frozen", "constant")
"""The kinds whose rows are buffers, which no optimizer trains."""


def dummy_rows(kind: Kind, real: Tensor, dummies: int, bound: float, random: torch.Generator) -> Tensor:
    """The first rows of dummies of that kind: zero where their logits are constant, else drawn.

    Frozen dummies are those that learned ones start as, and copies all start as the first of those.
    """
    if kind == "constant":
        return real.new_zeros(dummies, *real.shape[1:])
    if kind == "copies":
        return draw(real, 1, bound, random).repeat(dummies, *[1] * (real.ndim - 1))
    return draw(real, dummies, bound, random)


def draw(real: Tensor, dummies: int, bound: float, random: torch.Generator) -> Tensor:
    """Rows that start as one more class would: normal with the spread of the real rows; U(-bound, bound) if that is 0.

    Drawn one at a time, because torch fills a larger tensor with other numbers, and the dummies must be nested.
    """
    spread = real.double().std().item()
    shape = real.shape[1:]
    if spread > 0:
        rows = [torch.randn(shape, generator=random) * spread for _ in range(dummies)]
    else:
        rows = [(torch.rand(shape, generator=random) * 2 - 1) * bound for _ in range(dummies)]
    return torch.stack(rows).to(real)


def grown(real: Tensor, rows: Tensor) -> Tensor:
    """`real` with `rows` below it, in the memory layout of `real`."""
    shape = (len(real) + len(rows), *real.shape[1:])
    rows_outermost = real.stride(0) == real[0].numel()
    both = real.new_empty_strided(shape, real.stride()) if rows_outermost else real.new_empty(shape)
    both[: len(real)] = real
    both[len(real) :] = rows
    return both
