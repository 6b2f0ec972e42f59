"""The widened head: the layer, or the module, it was, with C_d more rows, and a class that also knows C."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from durm.heads.guard import Guard
from durm.heads.init import FROZEN, Kind
from durm.heads.resizable import ResizableHead, own_parameters, widens_itself

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)

NOTE = "durm_num_classes"
"""The key under which a state dict's metadata, where torch keeps each module's version, holds C of a widened head."""

STAYS = "durm_stays_wide"
"""The key that says that the head widens itself, so that its dummies cannot be taken off."""


DUMMY_ROWS = {"weight": "dummy_weight", "bias": "dummy_bias"}
"""The buffers that hold the rows of frozen dummies, for each parameter."""


class Widened(nn.Module):
    """What a widened head adds to the class that it had, as in `class WidenedLinear(WidenedLayer, nn.Linear)`.

    In training mode, or where `full` is set, it gives all C + C_d logits; in eval mode the C real ones.
    """

    narrow_class: type[nn.Module]
    num_classes: int
    full: bool
    dummy_kind: Kind = "learned"
    guard: Guard | None = None

    @property
    def dummies(self) -> int:
        return width(self) - self.num_classes

    def extra_repr(self) -> str:
        own = super().extra_repr()
        kind = "" if self.dummy_kind == "learned" else f", kind={self.dummy_kind!r}"
        return f"{own}{', ' if own else ''}dummies={self.dummies}{kind}"

    def _watched(self, logits: Tensor, dim: int) -> Tensor:
        """All logits of a forward pass, as they are; in training mode the guard looks at their gradient."""
        if self.training and self.guard is not None and not torch.compiler.is_compiling():
            self.guard.watch(logits, self.num_classes, dim)
        return logits

    def __prepare_scriptable__(self) -> nn.Module:
        raise RuntimeError(
            "torch.jit.script cannot compile a model that durm.widen has widened: call durm.narrow(model) first, or "
            "use torch.export or torch.jit.trace in place of it"
        )

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
    """A layer computes its real logits from the first C rows alone: they equal those of before, bit for bit.

    Frozen dummies have their rows in buffers, `dummy_weight` and `dummy_bias`, so that neither gradients nor weight
    decay reach them; the parameters keep C rows then.
    """

    is_linear: bool
    weight: Tensor
    bias: Tensor | None

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training or self.full):
            weight, bias = self._rows()
            return self._logits(input, weight[: self.num_classes], None if bias is None else bias[: self.num_classes])
        every = self._logits(input, *self._all_rows()) if self.dummy_kind in FROZEN else super().forward(input)
        return self._watched(every, -1 if self.is_linear else 1 - len(self.weight.shape))

    def _logits(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.is_linear:
            return F.linear(input, weight, bias)
        logits: Tensor = self._conv_forward(input, weight, bias)  # type: ignore[operator]
        return logits

    def _rows(self) -> tuple[Tensor, Tensor | None]:
        own: dict[str, Tensor | None] = self._parameters  # type: ignore[assignment]
        weight, bias = own.get("weight"), own.get("bias")  # nn.Module takes 1 µs for each self.weight
        if weight is None:  # pruned or reparametrised after widening: no longer a parameter, but an attribute
            weight, bias = self.weight, self.bias
        return weight, bias

    def _all_rows(self) -> tuple[Tensor, Tensor | None]:
        """Those of the parameters, and those of frozen dummies below them."""
        (weight, bias), frozen = self._rows(), cast("dict[str, Tensor]", self._buffers)
        every = torch.cat([weight, frozen["dummy_weight"]])
        return every, None if bias is None else torch.cat([bias, frozen["dummy_bias"]])


class WidenedOwn(Widened):
    """A module that widens itself computes all its logits, because they depend on each other, and gives the first C."""

    def forward(self, *inputs: Any, **options: Any) -> Tensor:
        every: Tensor = super().forward(*inputs, **options)
        return self._watched(every, 1) if self.training or self.full else every[:, : self.num_classes]

    def _note(self) -> dict[str, Any]:
        return {**super()._note(), STAYS: True}


def widened_layers(model: nn.Module) -> list[Widened]:
    return [module for module in model.modules() if isinstance(module, Widened)]


def real_rows(model: nn.Module) -> dict[nn.Parameter, int]:
    """C, for each parameter with dummy rows. Models of different C_d have all but these rows in common."""
    return {value: layer.num_classes for layer in widened_layers(model) for value in class_parameters(layer).values()}


@contextmanager
def switched(modules: Iterable[nn.Module], attribute: str, value: bool) -> Iterator[None]:
    """Within this context the attribute has this value in all modules; afterwards it is what it was."""
    before = [(module, getattr(module, attribute)) for module in modules]
    try:
        for module, _ in before:
            setattr(module, attribute, value)
        yield
    finally:
        for module, own in before:
            if hasattr(module, attribute):  # `full` is gone if the layer was narrowed within
                setattr(module, attribute, own)


@contextmanager
def eval_mode(model: nn.Module, *, full: bool) -> Iterator[None]:
    """The model in eval mode, giving all its logits or the real ones; not by eval(), which some models extend."""
    with switched(model.modules(), "training", False), switched(widened_layers(model), "full", full):
        yield


def width(head: nn.Module) -> int:
    """The number of outputs of a Linear or Conv layer, or of a module that widens itself."""
    if widens_itself(head):
        return len(next(iter(class_parameters(head).values())))
    return int(getattr(head, _width_name(head)))


def class_parameters(head: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a head that have one row for each class, by the names that it has for them."""
    return own_parameters(head) if widens_itself(head) else dict(head.named_parameters(recurse=False))


def make_widened(head: nn.Module, dummies: int, kind: Kind) -> None:
    """Turns a head that already has the rows of the dummies into a widened one, in place."""
    widened: Any = head
    if widens_itself(head):
        count = width(head)
        widened.resize_classes(count)
    else:
        count = width(head) + dummies
        setattr(head, _width_name(head), count)
    widened.__class__ = _widened_class(widened.__class__)
    widened.num_classes, widened.full, widened.dummy_kind = count - dummies, False, kind


def make_narrow(layer: WidenedLayer) -> None:
    """Turns a widened layer whose parameters have lost the rows of the dummies into the layer it was, in place."""
    setattr(layer, _width_name(layer), layer.num_classes)
    for name in ("num_classes", "full", "dummy_kind", "guard"):
        layer.__dict__.pop(name, None)
    for name in DUMMY_ROWS.values():
        layer._buffers.pop(name, None)
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
    kind = WidenedOwn if issubclass(narrow_class, ResizableHead) else WidenedLayer
    return type(f"Widened{narrow_class.__name__}", (kind, narrow_class), attributes)


def _blank(narrow_class: Any) -> Widened:
    """An empty widened head, for copying and unpickling: its class is made at run time and cannot be imported."""
    widened_class = _widened_class(narrow_class)
    return widened_class.__new__(widened_class)
