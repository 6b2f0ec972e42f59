"""Checks of arguments that several rooms share, so that they are refused in the same words."""

import operator
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
