"""What the code of a study was when it was begun: code.json in its folder. Code that changed since is refused.

Of a function: its source, and that of the functions, classes and plain values of its own module that it uses. Of a
command: the content of the files that it names.
"""

import ast
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

from durm._files import atomic_write, locked, read_bytes
from durm._text import some
from durm.errors import InputError
from durm.study.code_study import CodeStudy
from durm.study.command_line import places, split_command
from durm.study.store import Store

FILE = "code.json"
SCHEMA_VERSION = 1
PLAIN = (bool, int, float, str, bytes, tuple, type(None))


class CodeChanged(InputError):
    """The code is not that which the study was begun with. A trial that finds this is not to blame."""


def record_code(store: Store, *, accept_new_code: bool = False) -> None:
    """Compares the code with that which the study was begun with, or records it if no trial is done.

    Raises:
        CodeChanged: if it is another one, unless that is accepted.
    """
    assert isinstance(store.study, CodeStudy)
    now = code_of(store.study)
    with locked(store.folder / ".lock", wait=True):
        before = read_code_record(store.folder)
        if before == now:
            return
        if before is not None and not accept_new_code and any(map(store.is_done, store.study.runs())):
            raise CodeChanged(_difference(store.folder, before, now))
        write_code_record(store.folder, now)


def write_code_record(folder: Path, code: dict[str, str]) -> None:
    text = json.dumps({"schema_version": SCHEMA_VERSION, "code": code}, indent=1)
    atomic_write(folder / FILE, text.encode())


def check_code_of(store: Store) -> str:
    """The hash of the code, if it is still that of the study. A function that was sent to a worker cannot change.

    Raises:
        CodeChanged: if it is not: a file was written since.
    """
    assert isinstance(store.study, CodeStudy)
    before = read_code_record(store.folder) or {}
    if store.study.run.command is not None and (now := code_of(store.study)) != before:
        raise CodeChanged(_difference(store.folder, before, now))
    return _hash(json.dumps(before, sort_keys=True))


def read_code_record(folder: Path) -> dict[str, str] | None:
    path = folder / FILE
    content = read_bytes(path)
    if content is None:
        return None
    try:
        return {str(name): str(value) for name, value in json.loads(content)["code"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"{path} is damaged, and the code cannot be compared with it; take another folder with `out`"
        ) from None


def code_of(study: CodeStudy) -> dict[str, str]:
    """What the trials depend on, by name, with its hash."""
    if study.run.command is not None:
        return dict(_files_of(study.run.command))
    return {} if study.function is None else function_code(study.function)


def _files_of(command: str) -> Iterator[tuple[str, str]]:
    words = split_command(command)
    for place, word in enumerate(words):
        path = Path(word)
        if places(word) or not path.is_file():
            continue
        content = path.read_bytes()
        if place > 0 or b"\0" not in content[:1024]:  # the program itself may be a binary, which upgrades replace
            yield word, hashlib.sha256(content).hexdigest()


def function_code(function: Callable[..., Any]) -> dict[str, str]:
    """The function, and what it uses of its own module: functions, classes and plain values, and theirs in turn."""
    found: dict[str, str] = {}
    while isinstance(function, partial):
        found["arguments"] = _hash(repr((function.args, sorted(function.keywords.items()))))
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function)
    _follow(getattr(function, "__qualname__", repr(function)), function, function.__module__, found)
    return found


def _follow(name: str, thing: Any, module: str, found: dict[str, str]) -> None:
    if name in found:
        return
    if isinstance(thing, PLAIN):
        found[name] = _hash(repr(thing))
        return
    if not (inspect.isfunction(thing) or inspect.isclass(thing) or inspect.ismethod(thing)):
        return
    if thing.__module__ != module:
        return
    thing = inspect.unwrap(thing) if inspect.isfunction(thing) else thing
    found[name] = _hash(_source(thing))
    functions = (
        [member for member in vars(thing).values() if inspect.isfunction(member)] if inspect.isclass(thing) else [thing]
    )
    for one in functions:
        for used, value in _used(one):
            _follow(used, value, module, found)


def _used(function: Any) -> Iterator[tuple[str, Any]]:
    """Names that the function takes from its module or from a function around it, with their values."""
    function = getattr(function, "__func__", function)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _names(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return {*code.co_names}.union(*map(_names, inner))


def _source(thing: Any) -> str:
    """Its source as a syntax tree, in which neither comments nor line ends count; without a source its instructions."""
    try:
        return ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(thing))))
    except (OSError, TypeError, SyntaxError):
        code = getattr(getattr(thing, "__func__", thing), "__code__", None)
        return thing.__qualname__ if code is None else repr((code.co_code, code.co_names, _constants(code)))


def _constants(code: CodeType) -> list[Any]:
    return [_constants(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _difference(folder: Path, before: dict[str, str], now: dict[str, str]) -> str:
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    return (
        f"the code of the study in {folder} has changed since it was begun: {some(changed)}; take another folder with "
        "`out`, or give `accept_new_code` to judge runs of both together"
    )
