"""What cannot be widened, and why: models and layers for which adding rows would be wrong, or not what it seems."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from durm.heads.layer import LAYERS, Widened, WidenedOwn, class_parameters, width
from durm.heads.resizable import widens_itself


def check_model(model: nn.Module) -> None:
    for module in model.modules():
        kind = type(module).__name__
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError("model: a scripted or traced model cannot be widened; widen it before scripting")
        if kind in ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"):
            raise ValueError(f"model: it is already wrapped in {kind}; widen it before wrapping")


def check_head(model: nn.Module, name: str, head: nn.Module) -> None:
    """Refuses a layer, or a module that widens itself, for which adding rows would be wrong, or not what it seems."""
    which, count = repr(name) if name else "the model", _counted(getattr(head, "dummies", 0))
    if isinstance(head, WidenedOwn):
        raise ValueError(f"{which} has {count} already, and they cannot be taken off")
    if isinstance(head, Widened):
        raise ValueError(f"{which} has {count} already: narrow the model before widening it again")
    reason = _against_own(head) if widens_itself(head) else _against_layer(head)
    if not reason and (tied := _tied_to(model, name, head)):
        reason = f"it shares parameters with {tied}"
    if reason:
        raise ValueError(f"cannot widen {which}: {reason}")


def _counted(dummies: int) -> str:
    return "1 dummy" if dummies == 1 else f"{dummies} dummies"


def _against_layer(layer: Any) -> str:
    kind = type(layer).__name__
    if parametrize.is_parametrized(layer) or "weight" not in layer._parameters:
        return "its weight is computed from other parameters (weight or spectral norm); widen before applying that"
    if reason := _against_parameter(layer.weight, "its weights"):
        return reason
    if not _computes_plainly(type(layer)):
        return f"{kind} computes its outputs in a way of its own"
    if extra := {*layer._parameters, *layer._buffers} - {"weight", "bias"}:
        return f"{kind} has more than weight and bias: {', '.join(sorted(extra))}"
    if getattr(layer, "groups", 1) > 1:
        return "it is a grouped convolution"
    return _against_width(width(layer))


def _against_own(module: nn.Module) -> str:
    if taken := [name for name in ("num_classes", "full", "dummy_kind", "guard") if hasattr(module, name)]:
        return f"it has an attribute {taken[0]!r}, which belongs to widen; count classes by the rows of a parameter"
    reasons = [_against_parameter(value, f"its {name!r}") for name, value in class_parameters(module).items()]
    return next(filter(None, reasons), _against_width(width(module)))


def _against_parameter(parameter: Tensor, what: str) -> str:
    if isinstance(parameter, nn.parameter.UninitializedParameter):
        return "it is lazy and has no weights yet; run one batch through the model first"
    if parameter.is_meta:
        return f"{what} are on the meta device; materialise the model first"
    if is_sharded(parameter):
        return f"{what} are sharded; widen before sharding"
    return "" if parameter.is_floating_point() else f"{what} are {parameter.dtype}; widen before quantising"


def _against_width(outputs: int) -> str:
    return "" if outputs > 1 else "it has 1 output, and DuRM needs a softmax over at least 2 classes"


def _computes_plainly(kind: type[nn.Module]) -> bool:
    """Whether its outputs are those of the torch layer it derives from, so that the first C rows give the first C."""
    is_timm = f"{kind.__module__}.{kind.__name__}" == "timm.layers.linear.Linear"  # which is F.linear in eager mode
    return is_timm or any(kind.forward is layer.forward for layer in LAYERS)


def _tied_to(model: nn.Module, name: str, head: nn.Module) -> str:
    """The name of a parameter elsewhere in the model that is one of the head's own."""
    own = {id(value): f"{name}.{key}" if name else key for key, value in class_parameters(head).items()}
    for prefix, module in model.named_modules():
        for key, parameter in module.named_parameters(prefix=prefix, recurse=False):
            if own.get(id(parameter), key) != key:
                return repr(key)
    return ""


def check_narrow(model: nn.Module) -> None:
    """Refuses to take the dummies off where the real logits would then be others."""
    for name, module in model.named_modules():
        if isinstance(module, WidenedOwn):
            raise stays_wide(name)


def stays_wide(name: str) -> ValueError:
    return ValueError(
        f"cannot narrow {name!r}: its classes take part in each other's logits, so that without the dummies the real "
        "logits would be others; keep the widened model, which gives the real ones in eval mode"
    )


def is_sharded(parameter: Tensor) -> bool:
    return hasattr(parameter, "device_mesh")
