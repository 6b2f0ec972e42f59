"""Giving an optimizer the widened parameters in place of the old ones."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from durm.heads.init import grown
from durm.heads.layer import class_parameters


def swap(optimizer: torch.optim.Optimizer, old: nn.Parameter, new: nn.Parameter) -> None:
    """Puts `new` in the place of `old`, with the state of the real rows kept and that of the dummies zero."""
    for group in optimizer.param_groups:
        group["params"][:] = [new if parameter is old else parameter for parameter in group["params"]]
    if old not in optimizer.state:
        return
    added = len(new) - len(old)
    optimizer.state[new] = {
        key: grown(value, value.new_zeros(added, *value.shape[1:])) if _by_row(value, old) else value
        for key, value in optimizer.state.pop(old).items()
    }


def _by_row(value: object, parameter: nn.Parameter) -> bool:
    """Whether a piece of optimizer state has one row for each row of the parameter."""
    return isinstance(value, Tensor) and value.numel() > 1 and len(value) == len(parameter)


def check_optimizer(optimizer: torch.optim.Optimizer, heads: Mapping[str, nn.Module]) -> None:
    kind = type(optimizer).__name__
    held = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    if isinstance(optimizer, torch.optim.LBFGS) and optimizer.state:
        raise ValueError("optimizer: the history of LBFGS cannot be widened; widen before its first step")
    for name, head in heads.items():
        for key, parameter in class_parameters(head).items():
            if parameter.requires_grad and parameter not in held:
                known_as = f"{name}.{key}" if name else key
                raise ValueError(f"optimizer: this {kind} does not hold {known_as!r}; is it another model's?")
            for piece, value in optimizer.state.get(parameter, {}).items():
                known = not isinstance(value, Tensor | list | tuple | dict) or (
                    isinstance(value, Tensor) and (value.numel() <= 1 or len(value) in (1, len(parameter)))
                )
                if not known:
                    raise ValueError(f"optimizer: do not know how to widen the state {piece!r} of this {kind}")
