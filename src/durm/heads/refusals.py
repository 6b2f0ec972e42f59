"""What cannot be widened, and why: models and layers for which adding rows would be wrong, or not what it seems."""

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from durm.heads.layer import LAYERS, Layer, Widened, widened_layers, width


def check_model(model: nn.Module) -> None:
    for module in model.modules():
        kind = type(module).__name__
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError("model: a scripted or traced model cannot be widened; widen it before scripting")
        if kind in ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"):
            raise ValueError(f"model: it is already wrapped in {kind}; widen it before wrapping")


def check_layer(model: nn.Module, name: str, layer: Layer) -> None:
    """Refuses a layer for which adding rows would be wrong, or not what it seems."""
    kind = type(layer).__name__
    if isinstance(layer, Widened):
        raise ValueError(f"{name!r} has {layer.dummies} dummies already: narrow the model before widening it again")
    if parametrize.is_parametrized(layer) or "weight" not in layer._parameters:
        reason = "its weight is computed from other parameters (weight or spectral norm); widen before applying that"
    elif isinstance(layer.weight, nn.parameter.UninitializedParameter):
        reason = "it is lazy and has no weights yet; run one batch through the model first"
    elif layer.weight.is_meta:
        reason = "its weights are on the meta device; materialise the model first"
    elif is_sharded(layer.weight):
        reason = "its weights are sharded; widen before sharding"
    elif not layer.weight.is_floating_point():
        reason = f"its weights are {layer.weight.dtype}; widen before quantising"
    elif not _computes_plainly(type(layer)):
        reason = f"{kind} computes its outputs in a way of its own"
    elif extra := {*layer._parameters, *layer._buffers} - {"weight", "bias"}:
        reason = f"{kind} has more than weight and bias: {', '.join(sorted(extra))}"
    elif getattr(layer, "groups", 1) > 1:
        reason = "it is a grouped convolution"
    elif width(layer) < 2:
        reason = "it has 1 output, and DuRM needs a softmax over at least 2 classes"
    elif tied := _tied_to(model, layer):
        reason = f"it shares parameters with {tied}"
    else:
        return
    raise ValueError(f"cannot widen {name!r}: {reason}")


def _computes_plainly(kind: type[nn.Module]) -> bool:
    """Whether its outputs are those of the torch layer it derives from, so that the first C rows give the first C."""
    plain = any(kind.forward is layer.forward for layer in LAYERS)
    return (
        plain or f"{kind.__module__}.{kind.__name__}" == "timm.layers.linear.Linear"
    )  # which is F.linear in eager mode


def _tied_to(model: nn.Module, layer: Layer) -> str:
    """The name of a parameter elsewhere in the model that is one of the layer's own."""
    own = {id(parameter) for parameter in layer.parameters(recurse=False)}
    for name, module in model.named_modules():
        for key, parameter in module.named_parameters(prefix=name, recurse=False):
            if module is not layer and id(parameter) in own:
                return repr(key)
    return ""


def refuse_labels(model: nn.Module) -> None:
    """Guards Hugging Face models, which compute a loss of their own from `labels=`, on logits reshaped to C columns."""
    for module in model.modules():
        stated = getattr(getattr(module, "config", None), "num_labels", None)
        if stated is not None and "labels" in inspect.signature(module.forward).parameters:
            module.register_forward_pre_hook(_no_labels, with_kwargs=True)


def allow_labels(model: nn.Module) -> None:
    """Takes the guard away again."""
    for module in model.modules():
        for key, hook in list(module._forward_pre_hooks.items()):
            if hook is _no_labels:
                del module._forward_pre_hooks[key], module._forward_pre_hooks_with_kwargs[key]


def _no_labels(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if kwargs.get("labels") is not None and any(layer.training or layer.full for layer in widened_layers(module)):
        raise ValueError(
            f"labels=: {type(module).__name__} cannot compute its loss on dummy logits; call it without labels and use "
            "durm.cross_entropy on its logits"
        )


def is_sharded(parameter: Tensor) -> bool:
    return hasattr(parameter, "device_mesh")
