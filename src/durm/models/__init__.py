"""Models by name.

Images: `cnn`, `mlp` and every name of timm. Text: `transformer`, and `hf:NAME` for those of Hugging Face. Sound:
`lstm`. A class for each pixel: the names of `durm.models.segmentation`. One's own: `package.module:function`.

Importing this package also makes torchvision importable with a CPU-only torch.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any, Literal

from torch import Tensor, nn

from durm import _torchvision as _torchvision
from durm._user_code import import_user_module, is_code
from durm.errors import InputError, did_you_mean, unknown
from durm.models import audio, segmentation, tiny
from durm.models.segmentation import timm

Task = Literal["classification", "segmentation"]

TINY: dict[str, Callable[[int, tuple[int, ...]], nn.Module]] = {"cnn": tiny.cnn, "mlp": tiny.mlp}
SEQUENCE: dict[str, Callable[[int, tuple[int, ...]], nn.Module]] = {"lstm": audio.lstm}
TEXT = "transformer"
HUGGING_FACE = "hf:"
OWN = (*TINY, *SEQUENCE, TEXT)


def build(
    name: str,
    num_classes: int,
    shape: tuple[int, ...],
    *,
    task: Task = "classification",
    pretrained: bool = False,
    vocabulary: int | None = None,
    embedding: Tensor | None = None,
) -> nn.Module:
    """A model with C outputs for samples of that shape. No weights are downloaded unless `pretrained`.

    Of text the samples are token ids, of which there are `vocabulary`. A pretrained `transformer` starts from the
    `embedding` that came with the data. A segmentation model takes images of other sizes than `shape` too, and gives
    logits (N, C, H, W); one with an auxiliary head gives those and the auxiliary ones in training mode, as a pair.

    Raises:
        InputError: if there is no such model for that task, or it does not take inputs of that shape.
    """
    check(name, pretrained=pretrained, task=task)
    if name == TEXT or name.startswith(HUGGING_FACE):
        from durm.models.text import TransformerClassifier, huggingface

        if vocabulary is None:
            raise InputError(f"model {name!r} takes text, and the samples have shape {shape}; {_instead(shape)}")
        if name != TEXT:
            return huggingface(name.removeprefix(HUGGING_FACE), num_classes, vocabulary, pretrained=pretrained)
        if pretrained and embedding is None:
            raise InputError(f"model {name!r} cannot be pretrained: these data come without an embedding file")
        return TransformerClassifier(num_classes, vocabulary, shape[0], embedding if pretrained else None)
    if is_code(name):
        return _from_factory(name, num_classes)
    if task == "classification" and vocabulary is not None:
        raise InputError(f"model {name!r} does not take text; use 'transformer' or 'hf:NAME'")
    if name in SEQUENCE:
        if len(shape) != 2:
            raise InputError(f"model {name!r} takes sequences of features, and the samples have shape {shape}")
        return SEQUENCE[name](num_classes, shape)
    if len(shape) != 3 and name != "mlp":
        hint = "" if task == "segmentation" else f"; {_instead(shape)}"
        raise InputError(f"model {name!r} takes images, and the samples have shape {shape}{hint}")
    if name in TINY:
        return TINY[name](num_classes, shape)
    from_library = segmentation.build if task == "segmentation" else _from_timm
    try:
        return from_library(name, num_classes, shape, pretrained)
    except InputError:
        raise
    except (AssertionError, LookupError, TypeError, ValueError, RuntimeError) as error:
        unnamed = "this architecture does not take that encoder" if task == "segmentation" else type(error).__name__
        reason = (str(error).splitlines() or [unnamed])[0]
        raise InputError(f"model {name!r} cannot be built for samples of shape {shape}: {reason}") from None


def check(name: str, *, pretrained: bool = False, task: Task = "classification") -> None:
    """Raises an `InputError` if there is no model of that name for that task."""
    hugging_face = name.startswith(HUGGING_FACE)
    if name == HUGGING_FACE:
        raise InputError(f"model {name!r}: expected hf:NAME")
    if is_code(name):
        factory(name)
        return
    if task == "segmentation":
        if hugging_face or name in OWN or _in_timm(name):
            raise InputError(
                f"model {name!r} gives one class to a whole sample, and the data have one for each pixel; "
                f"use {segmentation.instead_of(name)!r}"
            )
        segmentation.check(name, pretrained=pretrained)
        return
    if hugging_face:
        return
    if segmentation.is_name(name):
        raise InputError(
            f"model {name!r} gives a class to each pixel, and the data have one for the whole sample; "
            f"use {segmentation.classifier_of(name)!r}"
        )
    if name not in OWN and not _in_timm(name):
        raise unknown("model", name, _classifiers(), "`durm models`")
    if pretrained and name != TEXT and (name in OWN or not _in_timm(name, pretrained=True)):
        raise InputError(f"model {name!r} has no pretrained weights")


def names(pattern: str = "") -> list[str]:
    """The names that `build` knows, those of timm included; `pattern` may hold * and ?.

    Of the segmentation models those with an encoder are listed if the pattern begins with an architecture, as `unet`.
    """
    return [name for name in _classifiers() if segmentation.matches(name, pattern)] + segmentation.names(pattern)


def factory(name: str) -> Callable[..., Any]:
    """The user's own function, from `package.module:function`; it is called with `num_classes=C`.

    The module is looked for among what is installed, and then in the current folder.
    """
    path, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in path.split(".")):
        raise InputError(f"model {name!r}: expected package.module:function")
    try:
        module = import_user_module(path)
    except ModuleNotFoundError as error:
        raise InputError(f"model {name!r}: there is no module {error.name!r}") from None
    except InputError as error:
        raise InputError(f"model {name!r}: {error}") from None
    made: Callable[..., Any] | None = getattr(module, attribute, None)
    if made is None or not callable(made):
        functions = [known for known in dir(module) if callable(getattr(module, known, None))]
        hint = did_you_mean(attribute, functions, "expected one of its functions")
        raise InputError(f"model {name!r}: {path!r} has no function {attribute!r}; {hint}")
    return made


def _in_timm(name: str, *, pretrained: bool = False) -> bool:
    return bool(timm().is_model_pretrained(name) if pretrained else timm().is_model(name))


def _classifiers() -> list[str]:
    return [*OWN, *timm().list_models()]


def _instead(shape: tuple[int, ...]) -> str:
    known = {1: "use 'mlp' for flat inputs", 2: "use 'lstm' for sequences"}
    return known.get(len(shape), "use 'cnn' or a timm model for images")


def _from_factory(name: str, num_classes: int) -> nn.Module:
    made = factory(name)
    try:
        signature(made).bind(num_classes=num_classes)
    except (TypeError, ValueError) as error:
        raise InputError(f"model {name!r} cannot be called with num_classes={num_classes} alone: {error}") from None
    model = made(num_classes=num_classes)
    if not isinstance(model, nn.Module):
        raise InputError(f"model {name!r} gave a {type(model).__name__}; expected a torch.nn.Module")
    return model


def _from_timm(name: str, num_classes: int, shape: tuple[int, ...], pretrained: bool) -> nn.Module:
    fixed = getattr(timm().get_pretrained_cfg(name), "fixed_input_size", False)
    options: dict[str, Any] = {"img_size": shape[1:]} if fixed else {}
    model: nn.Module = timm().create_model(
        name, num_classes=num_classes, in_chans=shape[0], pretrained=pretrained, **options
    )
    return model
