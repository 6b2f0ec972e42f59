"""The protocol by which a module says how it is widened, where a head is more than one layer.

`widen` knows layers in which each class has a row of its own. In some heads the classes interact: in
Segmenter they are tokens that attend to each other, and a LayerNorm runs over them. Such a head must compute all its
C + C_d logits and give the first C.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import nn


@runtime_checkable
class ResizableHead(Protocol):
    """What an `nn.Module` has for `widen` to take it as a head: these two methods, and logits (N, C, …).

    `widen` then keeps its promises as it does for a layer. It adds rows below the real ones, swaps the parameters in an
    optimizer, and lets the module give C + C_d logits in training mode and the first C of them in eval mode. Dummies
    change the real logits of such a head, so they cannot be taken off again: `narrow` refuses it.

    The module must count its classes by the rows of its parameters, not by a number that it keeps. The attributes
    `num_classes`, `full`, `dummy_kind` and `guard` belong to `widen`.

    Examples:
        >>> import durm, torch
        >>> from torch import nn
        >>> class Cosines(nn.Module):
        ...     def __init__(self, width, classes):
        ...         super().__init__()
        ...         self.tokens = nn.Parameter(torch.randn(classes, width))
        ...         self.norm = nn.LayerNorm(classes)
        ...
        ...     def forward(self, features):
        ...         return self.norm(features @ self.tokens.T)
        ...
        ...     def class_parameters(self):
        ...         return {"tokens": None, "norm.weight": 1.0, "norm.bias": 0.0}
        ...
        ...     def resize_classes(self, count):
        ...         self.norm.normalized_shape = (count,)
        >>> model = durm.widen(nn.Sequential(nn.Linear(4, 8), Cosines(8, 3)), dummies=2)
        >>> model(torch.zeros(1, 4)).shape, model.eval()(torch.zeros(1, 4)).shape
        (torch.Size([1, 5]), torch.Size([1, 3]))
    """

    def class_parameters(self) -> Mapping[str, float | None]:
        """The dotted names of the parameters whose first axis is that of the classes, and how a dummy starts in each.

        A number fills its row. None draws it as one more class: normal with the standard deviation of the real rows, or
        uniform within 1 / sqrt(the size of a row) where that is 0.
        """
        ...

    def resize_classes(self, count: int) -> None:
        """Called when the parameters have `count` rows: sets what else of the module depends on that number."""
        ...


def widens_itself(module: nn.Module) -> bool:
    """Whether its class has the protocol. The module is not asked: compiled ones pass on the attributes of others."""
    return issubclass(type(module), ResizableHead)


def own_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that the module names, which must be there and have as many rows as each other."""
    own: Any = module
    present, kind = dict(module.named_parameters(remove_duplicate=False)), type(module).__name__
    if missing := [name for name in own.class_parameters() if name not in present]:
        raise ValueError(f"class_parameters of {kind} names {missing[0]!r}, which is no parameter of it")
    found = {name: present[name] for name in own.class_parameters()}
    rows = {name: len(parameter) if parameter.ndim else 0 for name, parameter in found.items()}
    if len(set(rows.values())) != 1:
        raise ValueError(f"class_parameters of {kind} must have one row for each class, and has {rows or 'none'}")
    return found
