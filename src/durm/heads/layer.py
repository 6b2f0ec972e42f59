"""The widened head: the layer, or the module, it was, with C_d more rows, and a class that also knows C."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from durm.heads.own import WidensItself, own_parameters, widens_itself

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)

NOTE = "durm_num_classes"
"""The key under which a state dict's metadata, where torch keeps each module's version, holds C of a widened head."""

STAYS = "durm_stays_wide"
"""The key beside it that says that the head widens itself, so that its dummies cannot be taken off."""


class Widened(nn.Module):
    """What a widened head adds to the class that it had, as in `class WidenedLinear(WidenedLayer, nn.Linear)`.

    In training mode, or where `full` is set, it gives all C + C_d logits; in eval mode the C real ones.
    """

    narrow_class: type[nn.Module]
    num_classes: int
    full: bool

    @property
    def dummies(self) -> int:
        return width(self) - self.num_classes

    def extra_repr(self) -> str:
        own = super().extra_repr()
        return f"{own}{', ' if own else ''}dummies={self.dummies}"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]].update(self._note())

    def _note(self) -> dict[str, Any]:
        return {NOTE: self.num_classes}

    def __reduce_ex__(
        self, protocol: object
    ) -> tuple[Callable[..., nn.Module], tuple[type[nn.Module]], dict[str, Any]]:
        return _blank, (self.narrow_class,), self.__dict__.copy()


class WidenedLayer(Widened):
    """A layer computes its real logits from the first C rows alone: they equal those of before, bit for bit."""

    is_linear: bool
    weight: Tensor
    bias: Tensor | None

    def forward(self, input: Tensor) -> Tensor:
        if self.training or self.full:
            every: Tensor = super().forward(input)
            return every
        own: dict[str, Tensor | None] = self._parameters  # type: ignore[assignment]
        weight, bias = own.get("weight"), own.get("bias")  # nn.Module takes 1 µs for each self.weight
        if weight is None:  # pruned or reparametrised after widening: no longer a parameter, but an attribute
            weight, bias = self.weight, self.bias
        real_weight, real_bias = weight[: self.num_classes], None if bias is None else bias[: self.num_classes]
        if self.is_linear:
            return F.linear(input, real_weight, real_bias)
        real: Tensor = self._conv_forward(input, real_weight, real_bias)  # type: ignore[operator]
        return real


class WidenedOwn(Widened):
    """A module that widens itself computes all its logits, because they depend on each other, and gives the first C."""

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        every: Tensor = super().forward(*inputs, **options)
        return every if self.training or self.full else every[:, : self.num_classes]

    def _note(self) -> dict[str, Any]:
        return {**super()._note(), STAYS: True}


def widened_layers(model: nn.Module) -> list[Widened]:
    return [module for module in model.modules() if isinstance(module, Widened)]


def width(head: nn.Module) -> int:
    """The number of outputs of a Linear or Conv layer, or of a module that widens itself."""
    if widens_itself(head):
        return len(next(iter(class_parameters(head).values())))
    return int(getattr(head, _width_name(head)))


def class_parameters(head: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a head that have one row for each class, by the names that it has for them."""
    return own_parameters(head) if widens_itself(head) else dict(head.named_parameters(recurse=False))


def make_widened(head: nn.Module, dummies: int) -> None:
    """Turns a head whose parameters already have the rows of the dummies into a widened one, in place."""
    widened: Any = head
    if widens_itself(head):
        count = width(head)
        widened.resize_classes(count)
    else:
        count = width(head) + dummies
        setattr(head, _width_name(head), count)
    widened.__class__ = _widened_class(widened.__class__)
    widened.num_classes, widened.full = count - dummies, False


def make_narrow(layer: WidenedLayer) -> None:
    """Turns a widened layer whose parameters have lost the rows of the dummies into the layer it was, in place."""
    setattr(layer, _width_name(layer), layer.num_classes)
    del layer.num_classes, layer.full
    narrowed: Any = layer
    narrowed.__class__ = layer.narrow_class


def _width_name(layer: nn.Module) -> str:
    return "out_features" if isinstance(layer, nn.Linear) else "out_channels"


@cache
def _widened_class(narrow_class: type[Any]) -> type[Widened]:
    attributes = {
        "narrow_class": narrow_class,
        "is_linear": issubclass(narrow_class, nn.Linear),
        "__module__": __name__,
    }
    kind = WidenedOwn if issubclass(narrow_class, WidensItself) else WidenedLayer
    return type(f"Widened{narrow_class.__name__}", (kind, narrow_class), attributes)


def _blank(narrow_class: Any) -> Widened:
    """An empty widened head, for copying and unpickling: its class is made at run time and cannot be imported."""
    widened_class = _widened_class(narrow_class)
    return widened_class.__new__(widened_class)
