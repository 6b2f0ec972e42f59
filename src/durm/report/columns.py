"""Tables of texts that fit a width: the least important columns are left out, and a line below says which."""

from collections.abc import Iterator
from itertools import groupby

from durm._text import pluralize

FIRST_TO_GO = ("p (Holm)", "std", "into dummies %", "margin", "n")
"""These go in this order; then all that are not named here, the last column first; then those below."""
LAST_TO_GO = ("mean", "effect", "difference", "interval")
"""In this order. The first column, `arm` and `verdict` stay."""
ABOVE, SHORTER = "keys above their rows", "shorter names"
"""What is tried before the mean goes, and before the difference goes."""
SHORTEST_NAME = 12
GAP = 2

Lines = list[list[str]]
"""Headings, then rows."""


def fit(lines: Lines, width: int) -> Iterator[list[str]]:
    """Lines of padded cells, to be joined by two spaces: the first column to the left, the others to the right.

    A table without verdicts is turned if that makes it fit: its columns become rows. In one with verdicts, what stands
    before the arm (an attack, a setting) becomes a line above its rows before a mean, a difference or an interval goes.
    Numbers are never cut; names are, in the middle. What does not fit even so is wider.
    """
    turned = [list(column) for column in zip(*lines, strict=True)]
    if "verdict" not in lines[0] and not fits(lines, width) and fits(turned, width):
        lines = turned
    keys: Lines = [[] for _ in lines]
    left_out = []
    for step in _steps(lines[0]):
        if fits(lines, width):
            break
        if step == ABOVE:
            arm = lines[0].index("arm")
            keys, lines = [row[:arm] for row in lines], [row[arm:] for row in lines]
        elif step == SHORTER:
            lines = _with_short_names(lines, width)
        else:
            lines = _without(lines, step)
            left_out.append(step)
    headings, *rows = _padded(lines)
    yield headings
    for key, group in groupby(zip(keys[1:], rows, strict=True), lambda pair: pair[0]):
        if key:
            yield [", ".join(filter(None, key))]
        yield from (row for _, row in group)
    if left_out:
        named = f"(columns left out: {', '.join(left_out)})"
        yield [named if len(named) <= width else f"({pluralize(len(left_out), 'column')} left out)"]


def fits(lines: Lines, width: int) -> bool:
    return sum(_widths(lines)) + GAP * (len(lines[0]) - 1) <= width


def _steps(headings: list[str]) -> list[str]:
    """What is done in turn until the table fits: the heading of a column that goes, or one of the two above."""
    arm = headings.index("arm") if "arm" in headings else 0
    known = ("verdict", *LAST_TO_GO)
    others = [heading for heading in headings[arm + 1 :] if heading not in known]
    named = [heading for heading in FIRST_TO_GO if heading in others]
    rest = [heading for heading in reversed(others) if heading not in FIRST_TO_GO]
    last = [heading for heading in LAST_TO_GO if heading in headings]
    place = 1 if "mean" in last else 0
    return [*named, *rest, *([ABOVE] if arm else []), *last[:place], SHORTER, *last[place:]]


def _without(lines: Lines, heading: str) -> Lines:
    """Of columns with equal headings the last one goes."""
    place = max(place for place, name in enumerate(lines[0]) if name == heading)
    return [[*row[:place], *row[place + 1 :]] for row in lines]


def _with_short_names(lines: Lines, width: int) -> Lines:
    """`a-long-name-of-an-arm` as `a-long…an-arm`, unless two names would be the same."""
    longest = _widths(lines)[0]
    others = sum(_widths(lines)[1:]) + GAP * (len(lines[0]) - 1)
    room = max(SHORTEST_NAME, width - others)
    names = [row[0] for row in lines]
    short = [name if len(name) <= room else f"{name[: room - room // 2]}…{name[1 - room // 2 :]}" for name in names]
    if room >= longest or len({*short}) < len({*names}):
        return lines
    return [[name, *row[1:]] for name, row in zip(short, lines, strict=True)]


def _padded(lines: Lines) -> Lines:
    first, *others = _widths(lines)
    return [
        [row[0].ljust(first), *(cell.rjust(size) for cell, size in zip(row[1:], others, strict=True))] for row in lines
    ]


def _widths(lines: Lines) -> list[int]:
    return [max(map(len, column)) for column in zip(*lines, strict=True)]
