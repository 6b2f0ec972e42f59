"""The rows of the dummies in state dicts, apart from those of the real classes.

A checkpoint that holds both apart is a plain C-class model for everybody else, and goes on as a widened one here.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from durm.heads.layer import class_parameters, widened_layers
from durm.heads.validation import check_narrow


def dummy_rows(model: nn.Module, state: Mapping[str, Any] | None = None) -> dict[str, Tensor]:
    """The rows of the dummies, on the CPU, by name: in the model, or in a state dict of it.

    They lie below the C real rows of a parameter, or in a buffer of the head, which has no others.
    """
    check_narrow(model)
    names = {module: name for name, module in model.named_modules()}
    found = {}
    for layer in widened_layers(model):
        starts = dict.fromkeys(class_parameters(layer), layer.num_classes)
        starts |= {key: 0 for key, _ in layer.named_buffers(recurse=False)}
        for key, start in starts.items():
            name = f"{names[layer]}.{key}".lstrip(".")
            every: Tensor = getattr(layer, key) if state is None else state[name]
            if len(every) > start:
                found[name] = every.detach()[start:].cpu().clone()
    return found


def without_rows(state: Mapping[str, Any], rows: Mapping[str, Tensor]) -> dict[str, Any]:
    """A state dict of the C-class model, from that of the widened one."""
    narrowed = dict(state)
    for name in rows.keys() & state.keys():
        real = len(state[name]) - len(rows[name])
        narrowed[name] = state[name][:real].clone()
        if not real:
            del narrowed[name]
    return narrowed


def with_rows(
    state: Mapping[str, Any], rows: Mapping[str, Tensor], model: nn.Module, prefix: str = ""
) -> dict[str, Any]:
    """The inverse, for the widened model; `prefix` stands before its names in the state dict, which may be a part."""
    every, buffers = dict(state), dict(model.named_buffers())
    for name, dummy in rows.items():
        key = prefix + name
        if name in buffers:
            every[key] = dummy
        elif key in state:
            every[key] = torch.cat([state[key], dummy.to(state[key])])
    return every


def check_rows(rows: Mapping[str, Tensor], model: nn.Module, where: str) -> None:
    """Refuses rows that were saved of a model with other dummies than this one."""
    saved, own = ({name: len(dummy) for name, dummy in some.items()} for some in (rows, dummy_rows(model)))
    if saved != own:
        theirs, ours = (max(counts.values(), default=0) for counts in (saved, own))
        raise ValueError(f"{where} is of a model with {theirs} dummies, and this one has {ours}")
