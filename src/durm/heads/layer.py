"""The widened layer: the layer it was, with C_d more rows, and a class that also knows C."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)

NOTE = "durm_num_classes"
"""The key under which a state dict's metadata, where torch keeps each module's version, holds C of a widened layer."""


class Widened(nn.Module):
    """What a widened layer adds to the class of the layer it was, as in `class WidenedLinear(Widened, nn.Linear)`.

    In training mode, or where `full` is set, it gives all C + C_d logits; in eval mode the C real ones, computed from
    the first C rows alone, so equal to those of the layer it was, bit for bit.
    """

    narrow_class: type[nn.Module]
    is_linear: bool
    num_classes: int
    full: bool
    weight: Tensor
    bias: Tensor | None

    @property
    def dummies(self) -> int:
        return width(self) - self.num_classes

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

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, dummies={self.dummies}"

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]][NOTE] = self.num_classes

    def __reduce_ex__(
        self, protocol: object
    ) -> tuple[Callable[..., nn.Module], tuple[type[nn.Module]], dict[str, Any]]:
        return _blank, (self.narrow_class,), self.__dict__.copy()


def widened_layers(model: nn.Module) -> list[Widened]:
    return [module for module in model.modules() if isinstance(module, Widened)]


def width(layer: nn.Module) -> int:
    """The number of outputs of a Linear or Conv layer."""
    return int(getattr(layer, _width_name(layer)))


def make_widened(layer: Layer, dummies: int) -> None:
    """Turns a layer whose parameters already have the rows of the dummies into a widened one, in place."""
    classes = width(layer)
    setattr(layer, _width_name(layer), classes + dummies)
    widened: Any = layer
    widened.__class__ = _widened_class(widened.__class__)
    widened.num_classes, widened.full = classes, False


def make_narrow(layer: Widened) -> None:
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
    return type(f"Widened{narrow_class.__name__}", (Widened, narrow_class), attributes)


def _blank(narrow_class: Any) -> Widened:
    """An empty widened layer, for copying and unpickling: its class is made at run time and cannot be imported."""
    widened_class = _widened_class(narrow_class)
    return widened_class.__new__(widened_class)
