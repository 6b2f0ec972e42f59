"""Norms over the parameters of a model, the shared ones and the rows of the dummies apart.

Arms of different C_d have all but the dummy rows in common: only over these do their norms compare.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from durm.heads.layer import real_rows
from durm.heads.validation import is_sharded
from durm.probes._running import wide


def parameters(model: nn.Module) -> list[tuple[nn.Parameter, int]]:
    """Each parameter, with the number of its rows that are shared; the rest are the dummies'."""
    classes, found = real_rows(model), list(model.parameters())
    if any(is_sharded(parameter) for parameter in found):
        raise ValueError("the weights are sharded over processes: their norms cannot be watched")
    return [(parameter, classes.get(parameter, len(parameter) if parameter.ndim else 1)) for parameter in found]


def squared_norms(values: Iterable[tuple[Tensor, int]]) -> Tensor:
    """The squared Euclidean norms of the shared rows and of the dummy rows, `(2,)`, from tensors as in `parameters`.

    Each row's norm is taken in 32 bit and their squares are summed in 64. A sum over a whole tensor in 32 bit, which is
    no faster on CPU, is off by up to 1e-3 for a million weights.
    """
    rows = [(_row_norms(value), shared) for value, shared in values]
    apart = torch.cat([norms[:shared] for norms, shared in rows]), torch.cat([norms[shared:] for norms, shared in rows])
    return torch.stack([wide(norms).square().sum() for norms in apart])


def _row_norms(value: Tensor) -> Tensor:
    if value.ndim < 2:
        return value.abs().flatten()
    exact = None if value.dtype in (torch.float32, torch.float64) else torch.float32
    norms: Tensor = torch.linalg.vector_norm(value, dim=tuple(range(1, value.ndim)), dtype=exact)
    return norms
