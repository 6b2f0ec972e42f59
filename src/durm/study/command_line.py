"""Command lines with places for the seed, the arm and its parameters: `python train.py {seed} {lr}`.

The text is split into words as a shell would, and no shell is run. Then `{seed}`, `{arm}`, `{folder}` and each
parameter are replaced inside the words; `{{` is `{` and `}}` is `}`.
"""

import json
import shlex
import shutil
from collections.abc import Mapping
from string import Formatter
from typing import Any

from durm.errors import InputError, did_you_mean

OWN = ("seed", "arm", "folder")
Arms = Mapping[str, Mapping[str, Any]]
"""name → parameters"""


def split_command(command: str) -> list[str]:
    """The words of a command, with their places."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"`command` {command!r}: {str(error).lower()}") from None
    if not words:
        raise InputError("`command` is empty; expected a program with its arguments")
    return words


def fill(words: list[str], values: Mapping[str, Any]) -> list[str]:
    return [
        "".join(literal + (as_text(values[name]) if name else "") for literal, name in _parts(word)) for word in words
    ]


def places(word: str) -> list[str]:
    """The names of the places in a word."""
    return [name for _, name in _parts(word) if name]


def check_command(command: str, arms: Arms) -> None:
    """Refuses a command that names a parameter which an arm does not have, or a program that is not there."""
    words = split_command(command)
    used = list(dict.fromkeys(name for word in words for name in places(word)))
    for arm, params in arms.items():
        if own := [name for name in params if name in OWN]:
            raise InputError(f"arm {arm!r}: the parameter {own[0]!r} has a name that durm fills itself; choose another")
        if missing := [name for name in used if name not in (*OWN, *params)]:
            hint = did_you_mean(missing[0], [*OWN, *params])
            raise InputError(f"`command` uses {{{missing[0]}}}, which arm {arm!r} does not have: {hint}")
    if not places(words[0]) and shutil.which(words[0]) is None:
        raise InputError(f"`command`: there is no program {words[0]!r}")


def unused_parameters(command: str, arms: Arms) -> list[str]:
    used = {name for word in split_command(command) for name in places(word)}
    return [name for name in dict.fromkeys(name for params in arms.values() for name in params) if name not in used]


def as_text(value: Any) -> str:
    """A value as it stands in a command: texts as they are, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parts(word: str) -> list[tuple[str, str]]:
    """Pieces of text, each with the name of the place that follows it, or nothing."""
    try:
        parts = list(Formatter().parse(word))
    except ValueError:
        raise InputError(f"`command`: {word!r} has a single brace; write {{{{ and }}}} for braces") from None
    found = []
    for literal, name, spec, conversion in parts:
        if name is None:
            found.append((literal, ""))
            continue
        if not name or spec or conversion:
            shown = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            raise InputError(f"`command`: {{{shown}}} is no name of a parameter; write {{{{ and }}}} for braces")
        found.append((literal, name))
    return found
