"""Checks of arguments that several modules share, so that errors have the same words."""

import math
import operator
from collections.abc import Sequence
from difflib import get_close_matches
from typing import SupportsIndex


def whole_number(name: str, value: SupportsIndex, *, minimum: int) -> int:
    """`value` as an int, if it is a whole number (Python's or NumPy's) of at least `minimum`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: expected an int, not {type(value).__name__}") from None
    if number < minimum:
        raise ValueError(f"{name}={number}: expected an int of at least {minimum}")
    return number


def not_negative(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}={value}: expected a number of at least 0")


def positive_or_none(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < math.inf:
        raise ValueError(f"{name}={value}: expected a number above 0, or None")


def one_of(name: str, value: str, names: Sequence[str]) -> None:
    if value not in names:
        close = get_close_matches(str(value), names, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, names))}{hint}")
