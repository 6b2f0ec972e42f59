"""Whether something fits into memory, asked before it is allocated."""

import os
from pathlib import Path

from durm.errors import InputError

_LIMIT_OF_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def machine_bytes() -> int | None:
    """The memory of this machine, or of the container that this runs in; None where that is not known."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    try:
        return min(found, int(_LIMIT_OF_CONTAINER.read_text()))
    except (OSError, ValueError):  # there is none, or it says "max"
        return found


def check_fits(what: str, needed: int, hint: str = "") -> None:
    """Refuses what would take more bytes than the machine has.

    Raises:
        InputError: with what it is, how much it would take, how much there is, and the hint.
    """
    there = machine_bytes()
    if there is not None and needed > there:
        raise InputError(
            f"{what} would take {readable_bytes(needed)} of memory, and this machine has {readable_bytes(there)}"
            + (f"; {hint}" if hint else "")
        )


def readable_bytes(count: int) -> str:
    """`512 bytes`, `3.2 MB`, `1,200.0 TB`."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            return f"{count / 1000**power:,.1f} {unit}"
    return f"{count} bytes"
