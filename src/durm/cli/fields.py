"""Flags from the fields of a `Config`: their names, types, defaults and help are written there, and only there.

The classes are read when a command needs its flags, because pydantic takes longer to import than all other help.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from durm.cli.flags import as_flag, options_as_flags
from durm.cli.help import PlainCommand
from durm.errors import InputError

if TYPE_CHECKING:
    from durm._config import Config

DATA, TRAINING, ATTACKS, RUNNING, OUTPUT = "Data and model", "Training", "Attacks", "Running", "Output"
PANELS = {
    **dict.fromkeys(("pretrained", "image_size", "skip_bad"), DATA),
    **dict.fromkeys(("attack_samples", "norm", "steps", "restarts", "loss", "through"), ATTACKS),
    **dict.fromkeys(("device", "devices", "precision", "threads"), RUNNING),
}
"""Where the flag of a field stands in the help, if not under training."""
PAIRS = {int: ("HEIGHT,WIDTH", "a height and a width in pixels"), float: ("A,B", "two numbers")}
"""How a tuple of two is written, and what it is."""
Function = Callable[..., int | None]
"""What runs a command. It returns the exit code; None is 0."""
GIVEN = "durm.given"
"""Under which name the context of a command has the values of fields that were given."""


def with_fields(
    only: tuple[str, ...] = (), **configs: str
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Gives a command a flag for each field of those classes of `durm.training.spec`, or for those named in `only`.

    With `train="TrainSpec"` the command's parameter `train` is a dict of the values that were given.
    """

    @cache
    def flags() -> dict[str, list[_Flag]]:
        from durm.training import spec

        found = {parameter: _flags(getattr(spec, name)) for parameter, name in configs.items()}
        return {name: [flag for flag in every if not only or flag.name in only] for name, every in found.items()}

    def decorate(function: Function) -> Function:
        @wraps(function)
        def command(context: typer.Context, **own: Any) -> int | None:
            values = context.meta[GIVEN]
            given = {
                parameter: {flag.name: flag.read(values[flag.name]) for flag in every if flag.name in values}
                for parameter, every in flags().items()
            }
            return function(**own, **given)

        signature = inspect.signature(function)
        parameters = [one for name, one in signature.parameters.items() if name not in configs]
        parameters.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
        vars(command)["__signature__"] = signature.replace(parameters=parameters)
        vars(command)["field_options"] = cache(lambda: _options([flag for every in flags().values() for flag in every]))
        return command

    return decorate


class Command(PlainCommand):
    """A command with the flags that `with_fields` adds."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), *getattr(self.callback, "field_options", list)()]

    def invoke(self, ctx: Any) -> Any:
        own = {parameter.name for parameter in self.params}
        fields = {name: ctx.params.pop(name) for name in [*ctx.params] if name not in own}
        ctx.meta[GIVEN] = {name: value for name, value in fields.items() if value not in (None, [], ())}
        return super().invoke(ctx)


@dataclass(frozen=True)
class _Flag:
    """The flag of a field with `count` values of a `kind`: bool, int, float, str or a Literal."""

    name: str
    kind: Any
    count: int | None
    text: str
    default: Any

    def parameter(self) -> inspect.Parameter:
        """As typer reads it from the signature of a command."""
        choices = get_args(self.kind)
        notes = ["|".join(choices)] if choices else []
        if self.default not in (None, ()) and self.default is not False:
            notes.append(f"default: {_shown(self.default)}")
        text = options_as_flags(self.text[:1].upper() + self.text[1:])
        flag = as_flag(self.name)
        option = typer.Option(
            None,
            f"{flag}/--no-{flag[2:]}" if self.default is True else flag,
            help=f"{text}  [{'; '.join(notes)}]" if notes else text,
            metavar={1: None, 2: PAIRS.get(self.kind, ("",))[0], None: "NAME,…"}[self.count],
            rich_help_panel=PANELS.get(self.name, TRAINING),
        )
        kind: Any = {1: str if choices else self.kind, 2: str, None: list[str]}[self.count]
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)

    def read(self, value: Any) -> Any:
        """The value, from what typer makes of it."""
        if self.count == 1:
            return value
        if self.count is None:
            return [part.strip() for text in value for part in text.split(",")]
        try:
            pair = [self.kind(part) for part in value.split(",")]
        except ValueError:
            pair = []
        if len(pair) != 2 or (self.kind is int and min(pair) < 1):
            flag, example = as_flag(self.name), _shown(self.default or (512, 1024))
            raise InputError(f"{flag} {value!r}: expected {PAIRS[self.kind][1]}, as in {flag} {example}")
        return pair


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flags(config: "type[Config]") -> list[_Flag]:
    """Those fields that can be written on a command line: numbers, texts, choices, switches and tuples of them."""
    defaults = config.model_construct(version=config.VERSION).defaults()
    texts, found = documented(config), []
    for name, field in config.model_fields.items():
        kind = _bare(field.annotation)
        count: int | None = 1
        if get_origin(kind) is tuple:
            first, second = get_args(kind)
            kind, count = _bare(first), None if second is ... else 2
        if name != "version" and (kind in (bool, int, float, str) or get_origin(kind) is Literal):
            found.append(_Flag(name, kind, count, texts.get(name, ""), defaults.get(name)))
    return found


def documented(config: type) -> dict[str, str]:
    """What the docstring of a class says of each attribute."""
    section = (inspect.getdoc(config) or "").partition("Attributes:\n")[2]
    return {name: " ".join(text.split()) for name, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.M)}


def _bare(kind: Any) -> Any:
    """The type without its constraints, and without None."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return _bare(next(one for one in get_args(kind) if one is not NoneType))
    return kind


def _options(flags: list[_Flag]) -> list[Any]:
    """As typer makes them of a function that has them as its parameters."""

    def command() -> None: ...

    vars(command)["__signature__"] = inspect.Signature([flag.parameter() for flag in flags])
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return list(typer.main.get_command(app).params)
