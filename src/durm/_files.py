"""Files that are there whole or not at all. Nothing else touches the disk on behalf of a study.

The functions at the end are the only ones that call the system; tests make each of them fail at each place.
"""

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from durm.errors import InputError

if TYPE_CHECKING:
    from filelock import FileLock

Stamp = tuple[int, int, int]
"""Size, time of change in ns and inode of a file: the same as long as nobody wrote it."""


class WriteError(OSError):
    """A file could not be written; what was there before is still there."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(f"cannot write {path}: {getattr(error, 'strerror', None) or error}")


class ReadError(OSError):
    """A file is there, and the system does not give its content. That says nothing about the content."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"cannot read {path}: {error.strerror or error}")


def atomic_write(path: Path, content: bytes | memoryview) -> None:
    """Writes a temporary file next to `path`, brings it to the disk, and puts it in the place of `path` in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write(temporary, content)
        _rename(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            _remove(temporary)
        raise WriteError(path, error) from None


def write_lines(path: Path, text: str, *, append: bool) -> None:
    """For a log: what is there of it at any time is of use, so it is neither whole nor brought to the disk at once."""
    try:
        _log(path, text, "a" if append else "w")
    except OSError as error:
        raise WriteError(path, error) from None


def make_folder(path: Path) -> None:
    """Makes the folder and those above it."""
    try:
        _make_folder(path)
    except OSError as error:
        raise WriteError(path, error) from None


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Writes each of the files, by their names, into a folder that is made if it is not there."""
    make_folder(folder)
    for name, content in files.items():
        atomic_write(folder / name, content)
    return [folder / name for name in files]


def read_bytes(path: Path) -> bytes | None:
    """The content of a file; None if there is none.

    Raises:
        ReadError: if there is one and it cannot be read.
    """
    try:
        return _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ReadError(path, error) from None


def read_text(path: Path, what: str = "") -> str:
    """The text of a file. `what` stands before its path in the error.

    Raises:
        InputError: if it cannot be read.
    """
    try:
        return io.TextIOWrapper(io.BytesIO(_read(path)), encoding="utf-8-sig").read()  # any kind of line ends
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"{what}{path} cannot be read: {reason}") from None


def stamp(path: Path) -> Stamp | None:
    """None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def remove(path: Path) -> None:
    """Removes a file, if it is there."""
    try:
        _remove(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise WriteError(path, error) from None


def mark_time(path: Path) -> None:
    """Gives a file the time of now. It is for the reader alone, so it is no error if that cannot be."""
    with contextlib.suppress(OSError):
        os.utime(path)


def set_aside(path: Path) -> Path:
    """Gives a damaged file, or whatever lies in its place, a name under which nothing reads it: NAME.damaged-1."""
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.damaged-{number}")):
        number += 1
    try:
        _rename(path, aside)
    except OSError as error:
        raise WriteError(aside, error) from None
    return aside


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Whether the lock of that file is ours, for as long as the context lasts. Without `wait` it may be another's.

    It is the kernel's, and goes when its holder does. A link in its place is not followed.

    Raises:
        WriteError: if there can be no such lock, as where a folder lies in its place.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=-1 if wait else 0)
    try:
        _lock(lock)
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        raise WriteError(path, error) from None
    try:
        yield True
    finally:
        lock.release()


# The system.


def _write(path: Path, content: bytes | memoryview) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        _sync(file.fileno())


def _sync(descriptor: int) -> None:
    os.fsync(descriptor)


def _rename(old: Path, new: Path) -> None:
    old.replace(new)


def _log(path: Path, text: str, mode: str) -> None:
    with path.open(mode) as file:
        file.write(text)


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _remove(path: Path) -> None:
    path.unlink()


def _lock(lock: "FileLock") -> None:
    lock.acquire()
