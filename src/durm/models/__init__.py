"""Models by name: `cnn` and `mlp`, every name of timm, and `package.module:function` for one's own.

Importing this room also makes torchvision importable beside a CPU-only torch.
"""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from inspect import signature
from typing import Any

from torch import nn

from durm import _torchvision as _torchvision
from durm.errors import InputError, unknown
from durm.models import tiny

TINY: dict[str, Callable[[int, tuple[int, ...]], nn.Module]] = {"cnn": tiny.cnn, "mlp": tiny.mlp}


def build(name: str, num_classes: int, shape: tuple[int, ...], *, pretrained: bool = False) -> nn.Module:
    """A model with C outputs for samples of that shape. Nothing is downloaded unless `pretrained`.

    Raises:
        InputError: if there is no such model, or it does not take inputs of that shape.
    """
    check(name, pretrained=pretrained)
    if ":" in name:
        model = _call(name, num_classes)
        if not isinstance(model, nn.Module):
            raise InputError(f"model {name!r} gave a {type(model).__name__}; expected a torch.nn.Module")
        return model
    if len(shape) != 3 and name != "mlp":
        raise InputError(f"model {name!r} takes images, and the samples have shape {shape}; use 'mlp' for flat inputs")
    return TINY[name](num_classes, shape) if name in TINY else _from_timm(name, num_classes, shape, pretrained)


def check(name: str, *, pretrained: bool = False) -> None:
    """Raises an `InputError` if there is no model of that name."""
    if ":" in name:
        factory(name)
        return
    if name in TINY:
        if pretrained:
            raise InputError(f"model {name!r} has no pretrained weights")
        return
    import timm

    if not timm.is_model(name):
        raise unknown("model", name, names())
    if pretrained and not timm.is_model_pretrained(name):
        raise InputError(f"model {name!r} has no pretrained weights")


def names(pattern: str = "") -> list[str]:
    """The names that `build` knows, those of timm included; `pattern` may hold * and ?."""
    from fnmatch import fnmatch

    import timm

    every = [*TINY, *timm.list_models()]
    return every if not pattern else [name for name in every if fnmatch(name, pattern) or pattern in name]


def factory(name: str) -> Callable[..., Any]:
    """The user's own function, from `package.module:function`; it is called with `num_classes=C`."""
    path, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in path.split(".")):
        raise InputError(f"model {name!r}: expected package.module:function")
    try:
        module = import_module(path)
    except ModuleNotFoundError as error:
        raise InputError(f"model {name!r}: there is no module {error.name!r}") from None
    made: Callable[..., Any] | None = getattr(module, attribute, None)
    if made is None or not callable(made):
        functions = [known for known in dir(module) if callable(getattr(module, known, None))]
        close = get_close_matches(attribute, functions, n=3)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise InputError(f"model {name!r}: {path!r} has no function {attribute!r}{hint}")
    return made


def _call(name: str, num_classes: int) -> Any:
    made = factory(name)
    try:
        signature(made).bind(num_classes=num_classes)
    except (TypeError, ValueError) as error:
        raise InputError(f"model {name!r} cannot be called with num_classes={num_classes} alone: {error}") from None
    return made(num_classes=num_classes)


def _from_timm(name: str, num_classes: int, shape: tuple[int, ...], pretrained: bool) -> nn.Module:
    import timm

    options: dict[str, Any] = {"num_classes": num_classes, "in_chans": shape[0], "pretrained": pretrained}
    if getattr(timm.get_pretrained_cfg(name), "fixed_input_size", False):
        options["img_size"] = shape[1:]
    try:
        model: nn.Module = timm.create_model(name, **options)
    except (AssertionError, TypeError, ValueError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"model {name!r} cannot be built for samples of shape {shape}: {reason}") from None
    return model
