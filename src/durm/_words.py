"""Words for numbers."""

from collections.abc import Sequence


def counted(count: int, noun: str) -> str:
    """`1 file`, `3 files`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are: `a, b, c and 2 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def metric_name(name: str) -> str:
    """The name of a class within that of a metric: `traffic-light` of `Traffic light`."""
    return name.lower().replace(" ", "-")
