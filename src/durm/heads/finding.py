"""Finds the layers of a model that produce its class logits.

The rules, from the surest to the weakest; the first that applies decides:

1. what the model declares: modules that widen themselves, the classifier names in timm's `pretrained_cfg`;
2. children with a customary name (`fc`, `classifier`, `segmentation_head`, `aux_classifier`, …), all of them, which
   takes in distilled, auxiliary and multi-branch heads;
3. the last child that holds a layer, and the other children with the same inputs and outputs.

Each rule names a part of the model, and the rules are applied again inside that part until a layer is reached. Where
they leave a doubt it is the user's to settle: a `ValueError` lists the candidates.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from torch import nn

from durm.heads.layer import LAYERS, Layer, width
from durm.heads.resizable import widens_itself

Head = str | nn.Module | Sequence[str | nn.Module]

_SEGMENTATION = ("segmentation_head", "decode_head")
_CLASSIFICATION = (
    *("head", "heads", "fc", "classifier", "classif", "last_linear", "score", "classification_head", "logits_proj"),
    *("cls_classifier", "low_classifier", "high_classifier"),
)
_AUXILIARY = (
    *("head_dist", "dist_head", "distillation_classifier", "classifier_distill"),
    *("auxiliary_head", "aux_head", "aux_classifier", "AuxLogits", "aux1", "aux2"),
)
"""Distilled and auxiliary heads, which a model has in addition to one of the others."""


def find_heads(model: nn.Module, head: Head | None, num_classes: int | None) -> dict[str, nn.Module]:
    """The layers to widen, by dotted name: those that `head` means or, left out, those that the rules find."""
    if head is None:
        layers = _search(model, "", num_classes)
    else:
        parts = [head] if isinstance(head, str | nn.Module) else list(head)
        names = [_name_of(model, part) for part in parts]
        layers = {k: v for name in names for k, v in _part(model, name, num_classes, head=name).items()}
    if not layers:
        raise ValueError(f"found no head in this {type(model).__name__}; pass head=…. {_candidates(model)}")
    for name, layer in layers.items():
        if num_classes is not None and width(layer) != num_classes:
            raise ValueError(
                f"head {name!r} has {width(layer)} outputs, not num_classes={num_classes}. {_candidates(model)}"
            )
        _check_what_follows(model, name, width(layer))
    if head is None and len({width(layer) for layer in layers.values()}) > 1:
        raise _ambiguous(layers)
    return {name: layer for name, layer in layers.items() if name == _name_of(model, layer)}


def _search(module: nn.Module, prefix: str, num_classes: int | None) -> dict[str, nn.Module]:
    """The output layers of `module`, which the model knows as `prefix`, by the three rules."""
    if isinstance(module, LAYERS) or widens_itself(module):
        return {prefix: module}
    named = _declared(module)
    if named is None:
        named = _customary(module)
    if named is None:
        return _last(module, prefix, num_classes)
    return {k: v for name in named for k, v in _part(module, name, num_classes, prefix=prefix).items()}


def _declared(module: nn.Module) -> list[str] | None:
    """Rule 1. A declared `head.fc` means `head` where a user has put another layer there."""
    config = getattr(module, "pretrained_cfg", None)
    found = [name for name, part in module.named_modules() if widens_itself(part)]
    if not found:
        if not isinstance(config, dict) or "classifier" not in config:
            return None
        names = config["classifier"] or ()
        found = [part for name in ([names] if isinstance(names, str) else names) if (part := _deepest(module, name))]
    covered = {part.split(".")[0] for part in found}
    return found + [name for name, _ in module.named_children() if found and name in _AUXILIARY and name not in covered]


def _customary(module: nn.Module) -> list[str] | None:
    """Rule 2. A classification head next to a segmentation head has labels of its own and is left alone."""
    names = [name for name, _ in module.named_children()]
    for customary in (_SEGMENTATION, _CLASSIFICATION):
        if any(name in customary for name in names):
            return [name for name in names if name in (*customary, *_AUXILIARY)]
    return None


def _last(module: nn.Module, prefix: str, num_classes: int | None) -> dict[str, nn.Module]:
    """Rule 3. Another child is a head too if it takes the same inputs and none takes its outputs."""
    children = {name: child for name, child in module.named_children() if _layers(child)}
    if not children:
        return {}
    *others, last = children
    found = _part(module, last, num_classes, prefix=prefix)
    if not isinstance(module, nn.Sequential) and len(found) == 1:
        (head,) = found.values()
        parallel = {
            n: layer
            for n in others
            if (layer := _single_output(children[n])) and _parallel(children[n], children[last])
        }
        for name, layer in parallel.items():
            if _fan_in(layer) == width(layer) == width(head):  # two equal square layers: in a row or side by side?
                raise _ambiguous({_join(prefix, name): layer} | found)
            if not any(_feeds(layer, child) for other, child in children.items() if other != name):
                found = {_join(prefix, _name_of(module, layer)): layer} | found
    if num_classes is not None:
        found = {name: layer for name, layer in found.items() if width(layer) == num_classes} or found
    stated = getattr(getattr(module, "config", None), "num_labels", None)
    if stated is not None and any(width(layer) != stated for layer in found.values()):
        return {}  # a Hugging Face model without a classification head
    return found


def _part(
    module: nn.Module, name: str, num_classes: int | None, *, prefix: str = "", head: str | None = None
) -> dict[str, nn.Module]:
    """The output layers of the part of `module` that is called `name`."""
    part = module.get_submodule(name)
    found = _search(part, _join(prefix, name), num_classes)
    if head is not None and not found:
        raise ValueError(
            f"head {head!r} is a {type(part).__name__} without a Linear or Conv layer. {_candidates(module)}"
        )
    return found


def _layers(module: nn.Module) -> list[Layer]:
    return [layer for layer in module.modules() if isinstance(layer, LAYERS)]


def _single_output(module: nn.Module) -> Layer | None:
    """The layer whose outputs `module` gives, where that is plain to see."""
    layers = _layers(module)
    return layers[-1] if len(layers) == 1 or isinstance(module, nn.Sequential) else None


def _parallel(one: nn.Module, other: nn.Module) -> bool:
    return _fan_in(_layers(one)[0]) == _fan_in(_layers(other)[0])


def _feeds(layer: Layer, module: nn.Module) -> bool:
    """Whether the outputs of `layer` could go into `module`: directly, flattened, or split (as a joint q, k, v is)."""
    outputs, inputs = width(layer), _fan_in(_layers(module)[0])
    flattened = not isinstance(layer, nn.Linear) and inputs % outputs == 0
    return flattened or (outputs >= inputs and outputs % inputs == 0)


def _fan_in(layer: Layer) -> int:
    return layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels


def _check_what_follows(model: nn.Module, name: str, classes: int) -> None:
    """Refuses a head whose logits go on, in an `nn.Sequential`, to a module with one parameter for each class."""
    parts = name.split(".") if name else []
    for depth in range(len(parts)):
        parent = model.get_submodule(".".join(parts[:depth]))
        if not isinstance(parent, nn.Sequential):
            continue
        names = [child for child, _ in parent.named_children()]
        for follower in names[names.index(parts[depth]) + 1 :]:
            child = parent.get_submodule(follower)
            if any(classes in tensor.shape for tensor in (*child.parameters(), *child.buffers())):
                raise ValueError(
                    f"cannot widen {name!r}: {'.'.join([*parts[:depth], follower])!r} ({type(child).__name__}) comes "
                    f"after it and is made for its {classes} outputs"
                )


def _name_of(model: nn.Module, part: str | nn.Module) -> str:
    """The dotted name of a part of the model that is given by its name or as the module itself."""
    names: dict[str, nn.Module] = dict(model.named_modules(remove_duplicate=False))
    if isinstance(part, str):
        if part in names:
            return part
        close = get_close_matches(part, names, n=3)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ValueError(f"head {part!r}: the model has no module of that name.{hint} {_candidates(model)}")
    if not isinstance(part, nn.Module):
        raise TypeError(f"head={part!r}: expected a dotted name, a module, or a list of them")
    for name, module in names.items():
        if module is part:
            return name
    raise ValueError(f"head: the {type(part).__name__} that was given is not a part of the model. {_candidates(model)}")


def _deepest(module: nn.Module, name: str) -> str:
    """The longest beginning of a dotted name that exists in the module."""
    parts = name.split(".")
    present = {name for name, _ in module.named_modules()}
    while parts and ".".join(parts) not in present:
        parts.pop()
    return ".".join(parts)


def _ambiguous(layers: Mapping[str, nn.Module]) -> ValueError:
    return ValueError(f"which of these gives the class logits? {_listing(layers)}. Say it with head=… or num_classes=…")


def _candidates(model: nn.Module) -> str:
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, LAYERS)}
    if not layers:
        return "The model has no Linear or Conv layer."
    last = dict(list(layers.items())[-8:])
    return f"{'Its last layers' if len(layers) > len(last) else 'Its layers'}: {_listing(last)}."


def _listing(layers: Mapping[str, nn.Module]) -> str:
    return ", ".join(f"{name!r} ({type(layer).__name__}, {width(layer)} outputs)" for name, layer in layers.items())


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
