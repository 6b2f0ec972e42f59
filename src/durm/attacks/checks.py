"""Checks of settings that several attacks share, so that they are refused in the same words."""

from collections.abc import Sequence
from difflib import get_close_matches


def known(name: str, value: str, names: Sequence[str]) -> str:
    """`value`, if it is one of the names."""
    if value in names:
        return value
    close = get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, names))}{hint}")


def positive_or_none(name: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise ValueError(f"{name}={value}: expected a number above 0, or None")
    return value
