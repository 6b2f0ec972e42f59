"""Files that are there whole or not at all."""

import contextlib
import os
from pathlib import Path


class WriteError(OSError):
    """A file could not be written; what was there before is still there."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"cannot write {path}: {error.strerror or error}")


def write_whole(path: Path, content: bytes) -> None:
    """Writes a temporary file beside `path`, brings it to the disk, and puts it in the place of `path` in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise WriteError(path, error) from None


def make_folder(path: Path) -> None:
    """Makes the folder and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(path, error) from None
