"""What the numbers in masks mean: classes, their names and colours.

A mask file holds a number for each pixel, its id; a `LabelMap` says which ids are which classes, and which do not
count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from durm._files import read_text
from durm._text import metric_name
from durm.data.bundle import IGNORED
from durm.errors import InputError

Colour = tuple[int, int, int]

OKABE_ITO: tuple[Colour, ...] = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167),
)  # fmt: skip
"""Colours that most people can tell apart; their black is left for pixels that do not count."""


@dataclass(frozen=True)
class LabelMap:
    """What the ids in mask files mean: `ids[c]` is class c, those in `ignored` do not count, there are no others."""

    ids: tuple[int, ...]
    ignored: tuple[int, ...] = (IGNORED,)

    def labels(self, ids: np.ndarray, path: Path) -> np.ndarray:
        """The class of each pixel, or IGNORED, as uint8; `path` is where the ids are from."""
        narrow = ids.astype(np.uint8, copy=False)
        labels: np.ndarray = self._table[narrow]
        wrong = ids[(narrow != ids) | (labels < 0)]
        if len(wrong):
            others = f", and {_numbers(self.ignored)} for pixels that do not count" if self.ignored else ""
            raise InputError(
                f"{path} has pixels of the id {wrong[0]}; there are {len(self.ids)} classes, with the ids "
                f"{_numbers(self.ids)}{others}"
            )
        return labels.astype(np.uint8)

    @cached_property
    def _table(self) -> np.ndarray:
        """Id → class, or IGNORED; −1 where there is no such id."""
        table = np.full(256, -1, np.int16)
        table[list(self.ignored)] = IGNORED
        table[list(self.ids)] = range(len(self.ids))
        return table


def _numbers(ids: Sequence[int]) -> str:
    ordered = sorted(ids)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))


def read_classes(path: Path) -> tuple[list[str], LabelMap]:
    """The names of the classes in a file such as `SegmentationFolder` describes, and their ids."""
    meanings: dict[int, str] = {}
    following = 0
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        first, *rest = line.split(maxsplit=1)
        known = first.isdecimal() and bool(rest)
        label, name = (int(first), rest[0].strip()) if known else (following, line.strip())
        if not 0 <= label <= 255:
            raise InputError(f"{path}, line {number}: id {label}; expected 0 to 255")
        if label in meanings:
            raise InputError(f"{path}, line {number}: id {label} is {meanings[label]!r} already")
        others = {metric_name(other): other for other in meanings.values()}
        if name != "ignore" and (other := others.get(metric_name(name))) is not None:
            alike = "" if other == name else f"; {other!r} and {name!r} have one name in results"
            raise InputError(f"{path}, line {number}: there are two classes {name!r}{alike}")
        meanings[label], following = name, label + 1
    classes = {label: name for label, name in meanings.items() if name != "ignore"}
    if not classes or len(classes) > IGNORED:
        raise InputError(f"{path} names {len(classes)} classes; expected 2 to {IGNORED}")
    ignored = {label for label, name in meanings.items() if name == "ignore"} | ({IGNORED} - meanings.keys())
    return list(classes.values()), LabelMap(tuple(classes), tuple(sorted(ignored)))


def generated_palette(classes: int) -> list[Colour]:
    """A colour for each class: those of Okabe and Ito, and with more than seven classes darker and darker ones."""
    rounds = -(-classes // len(OKABE_ITO))
    palette: list[Colour] = []
    for number in range(classes):
        red, green, blue = OKABE_ITO[number % len(OKABE_ITO)]
        light = 1 - 0.8 * (number // len(OKABE_ITO)) / rounds
        palette.append((round(red * light), round(green * light), round(blue * light)))
    return palette
