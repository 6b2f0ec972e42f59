"""Errors that are the user's to mend, in words that say how."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """What was asked for cannot be done as it was asked: one sentence with the name, the value and what would be right.

    The command line prints it as one line and exits with 2; from Python it is a `ValueError`.
    """


def unknown(kind: str, name: object, known: Iterable[str], listed_by: str = "") -> InputError:
    """The error for a name that does not exist, with the closest ones that do, or the command that lists them all."""
    names = list(known)
    otherwise = f"{listed_by} lists all {len(names)}" if listed_by else f"there are {_listing(names)}"
    return InputError(f"{kind} {name!r} is unknown: {did_you_mean(name, names, otherwise)}")


def did_you_mean(name: object, known: Iterable[str], otherwise: str | None = None) -> str:
    """`did you mean 'vrex'?`, of the names that are close; otherwise all of them, or what is given."""
    names = list(known)
    if close := get_close_matches(str(name), names, n=3):
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"expected one of {', '.join(names)}" if otherwise is None else otherwise


def _listing(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:12])
    return shown if len(names) <= 12 else f"{shown}, … ({len(names)} in all)"
