"""Words for numbers."""


def counted(count: int, noun: str) -> str:
    """`1 file`, `3 files`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
