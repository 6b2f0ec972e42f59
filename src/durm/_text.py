"""Words for numbers, names as they may be printed, and rows as CSV."""

import csv
import io
import unicodedata
from collections.abc import Mapping, Sequence

_DIRECTION = {chr(code) for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
"""What changes the direction of the text after it, so that it reads as something else."""


def visible(text: object) -> str:
    r"""The text in one line that cannot steer a terminal: `\n`, `\x1b`, `\u202e` are shown in place of what they are.

    Names of files, arms and classes, and reasons of errors, come from elsewhere: printed as they are, they could forge
    a line, change colours, or not be printable at all.
    """
    return "".join(_escaped(letter) if _is_control(letter) else letter for letter in str(text))


def _is_control(letter: str) -> bool:
    """Control characters, separators of lines, directions, and bytes that are no text in a file's name (surrogates)."""
    return letter in _DIRECTION or unicodedata.category(letter) in ("Cc", "Zl", "Zp", "Cs")


def _escaped(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")


def pluralize(count: int, noun: str) -> str:
    """`1 file`, `3 files`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """`45 s`, `7 min`, `2 h 10 min`, `3 d 4 h`."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, days = round(seconds / 3600), minutes // 1440
    if not days:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"


def last_line(text: object, default: str = "") -> str:
    """Of a reason, which may be a traceback: what happened."""
    return (str(text).strip() or default).rpartition("\n")[2].strip()


def as_csv(rows: Sequence[Mapping[str, object]], columns: Sequence[str] | None = None) -> str:
    """The rows with a header; columns are those of all rows unless they are given."""
    names = list(dict.fromkeys(name for row in rows for name in row)) if columns is None else columns
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are: `a, b, c and 2 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def metric_name(name: str) -> str:
    """The name of a class within that of a metric: `traffic-light` of `Traffic light`."""
    return name.lower().replace(" ", "-")
