"""Several processes that train one model: each has its part of every batch, rows rank, rank + size, … of it.

Inside `together` these functions talk to the other processes, which must call them in the same order; outside of it,
and in a training of one process, they give back what they are given.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed
from torch import Tensor

_together = False


def launched() -> int:
    """How many processes torchrun started with this one; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1


@contextmanager
def together() -> Iterator[None]:
    """All processes are in it at the same time, and do the same."""
    global _together
    before, _together = _together, torch.distributed.is_available() and torch.distributed.is_initialized()
    try:
        yield
    finally:
        _together = before


def size() -> int:
    return torch.distributed.get_world_size() if _together else 1


def rank() -> int:
    return torch.distributed.get_rank() if _together else 0


def of_all(value: Any) -> list[Any]:
    """What each process has, in the order of their ranks: any value that can be pickled."""
    if not _together:
        return [value]
    values = [None] * size()
    torch.distributed.all_gather_object(values, value)
    return values


def of_first(value: Any) -> Any:
    """What the first process has."""
    values = [value]
    if _together:
        torch.distributed.broadcast_object_list(values, src=0)
    return values[0]


def sums(values: list[float], device: torch.device) -> list[float]:
    """Each number, added up over the processes."""
    if not _together:
        return values
    total = torch.tensor(values, dtype=torch.float32 if device.type == "mps" else torch.float64, device=device)
    torch.distributed.all_reduce(total)
    added: list[float] = total.tolist()
    return added


def tensors_of_all(value: Tensor) -> list[Tensor]:
    """The tensor of each process, all of one shape, without gradients."""
    if not _together:
        return [value]
    values = [torch.empty_like(value, memory_format=torch.contiguous_format) for _ in range(size())]
    torch.distributed.all_gather(values, value.detach().contiguous())
    return values


def whole_batch(part: Tensor) -> Tensor:
    """The rows (N, …) of the whole batch, in its order, from the part of each process.

    A loss over the whole batch is computed by every process, each with gradients for its own rows alone. These count
    `size` times, because DDP takes the mean over the processes: so that mean is the gradient of the loss.
    """
    if not _together:
        return part
    parts = tensors_of_all(part)
    if part.requires_grad:
        kept = part.detach()
        parts[rank()] = kept + size() * (part - kept)
    return torch.stack(parts, 1).flatten(0, 1)


def own_rows(whole: Tensor) -> Tensor:
    """The part of this process, from the rows of a whole batch."""
    return whole[rank() :: size()]


def mean_of_all(values: Tensor) -> Tensor:
    """The mean over the processes; its gradient is that of this process's own values, of which DDP takes the mean."""
    if not _together:
        return values
    mean = torch.stack(tensors_of_all(values)).mean(0)
    return mean + (values - values.detach())
