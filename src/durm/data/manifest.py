"""The content of a data set: every file with its size and SHA-256, and one hash of them all.

The hashes of files are kept in a cache, outside the data, and hold as long as size, mtime, ctime and inode of a file
stay; so the second manifest costs a listing. A file that was written a moment before it was hashed is not cached: it
could change again within the resolution of the clock.

    manifest_of("folder:./my_images").sha256

Data that come from no files, such as digits, have a hash of their samples. Pretrained weights and tokenizers, which
come from elsewhere, are no part of it.
"""

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from durm._files import atomic_write
from durm._text import some
from durm.data import DataOptions, base_data, load, parse, split_name
from durm.data.bundle import sample_keys

Files = Mapping[str, tuple[int, str]]
"""The path of each file from the root of the data on → size, SHA-256."""
State = tuple[int, int, int, int]
"""Size, mtime and ctime in nanoseconds, inode: what changes with the content of a file."""

FRESH_NANOSECONDS = 2 * 10**9
"""Files that were changed so recently may change again without a change of their times: FAT counts two seconds."""
UNREADABLE = "unreadable"
"""In place of the hash of a file that cannot be opened: loaders may leave it out."""
CHUNK = 2**20


@runtime_checkable
class FromFiles(Protocol):
    """A loader of what lies in one file or folder.

    `is_read` says whether what stands at the top of the folder under that name is part of the data.
    """

    def source(self, path: str, options: DataOptions) -> Path: ...

    def is_read(self, name: str, is_folder: bool) -> bool: ...


@dataclass(frozen=True)
class Manifest:
    """What data are made of. `sha256` is of the lines "SHA-256 SIZE PATH" of all files, ordered by path.

    Paths are written as in JSON, without the quotes. `read_files` gives the files; those of data in memory are none.
    """

    sha256: str
    files: int
    bytes: int
    read_files: Callable[[], Files] = dict


def manifest_of(name: str, options: DataOptions | None = None) -> Manifest:
    """The content of the data set that the name stands on: of `subset:…:pacs:sketch` that of `pacs`, all domains.

    Raises:
        InputError: if there are no such data, or they cannot be read.
    """
    options, base = options or DataOptions(), base_data(name)
    source = source_of(base, options)
    if source is None:
        return _of_samples(base, options)
    loader, _ = parse(base)
    assert isinstance(loader, FromFiles)
    return manifest_of_files(source, loader.is_read)


def source_of(name: str, options: DataOptions) -> Path | None:
    """The file or folder that the data lie in; None for those that lie in none, or are not there."""
    loader, path = parse(base_data(name))
    if not isinstance(loader, FromFiles):
        return None
    held_out = getattr(loader, "held_out", None)
    source = loader.source(held_out(path)[0] if held_out else path, options)
    return source if source.exists() else None


def content_name(name: str) -> str:
    """The data whose files these are: `pacs` for `pacs:sketch`, `cifar10` for `longtail:100:cifar10`."""
    return split_name(base_data(name))[0] if lies_in_files(name) else base_data(name)


def lies_in_files(name: str) -> bool:
    """Whether the data come from files, which may change at any time."""
    return isinstance(parse(base_data(name))[0], FromFiles)


def changes(before: Files, after: Files) -> str:
    """What was added, removed and changed, with the first names: `changed: a.png, b.png; removed: c.png`."""
    kinds = {
        "changed": sorted(path for path in before if path in after and before[path] != after[path]),
        "removed": sorted(path for path in before if path not in after),
        "added": sorted(path for path in after if path not in before),
    }
    return "; ".join(f"{kind}: {some(paths)}" for kind, paths in kinds.items() if paths)


def manifest_of_files(root: Path, is_read: Callable[[str, bool], bool] = lambda name, is_folder: True) -> Manifest:
    """The content of a file, or of all files below a folder but hidden ones and the folders of studies."""
    cache = Cache(root)
    known = cache.read_header()
    if known.keys() >= {"sha256", "files", "bytes"} and known.get("signature") == signature_of(root, is_read):

        def read_files() -> Files:
            return _manifest(root, dict(list_files(root, is_read)), cache)[0]

        return Manifest(known["sha256"], known["files"], known["bytes"], read_files)
    now, states = time.time_ns(), dict(list_files(root, is_read))
    files, total = _manifest(root, states, cache)
    manifest = Manifest(total, len(files), sum(size for size, _ in files.values()), lambda: files)
    settled = {path: state for path, state in states.items() if max(state[1:3]) < now - FRESH_NANOSECONDS}
    header = {"sha256": total, "files": manifest.files, "bytes": manifest.bytes}
    header["signature"] = _signature(states.items()) if len(settled) == len(states) else None
    cache.write(header, {path: (*state, files[path][1]) for path, state in settled.items()})
    return manifest


def list_files(root: Path, is_read: Callable[[str, bool], bool]) -> Iterator[tuple[str, State]]:
    """The files that count, with what changes when they do. Links are followed, but never into a folder above."""
    if root.is_dir():
        yield from _below(str(root), "", is_read, ())
    else:
        yield root.name, _state(root.stat())


def _below(folder: str, prefix: str, is_read: Any, above: tuple[Any, ...]) -> Iterator[tuple[str, State]]:
    try:
        entries = list(os.scandir(folder))
        here = os.stat(folder)
    except OSError:  # loaders pass over it too
        return
    place = (here.st_dev, here.st_ino)
    if place in above or (prefix and any(entry.name == "study.yaml" for entry in entries)):
        return
    for entry in entries:
        name = entry.name
        if name[0] == ".":
            continue
        is_folder = entry.is_dir()
        if is_read is not None and not is_read(name, is_folder):
            continue
        if is_folder:
            yield from _below(entry.path, f"{prefix}{name}/", None, (*above, place))
            continue
        with suppress(OSError):  # a link to nothing
            found = entry.stat()
            if stat.S_ISREG(found.st_mode):
                yield prefix + name, _state(found)


def _state(found: os.stat_result) -> State:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def signature_of(root: Path, is_read: Callable[[str, bool], bool]) -> str:
    """A hash of the listing, which changes with any file. The list itself, which may be long, is not held in memory."""
    return _signature(list_files(root, is_read))


def _signature(listed: Iterable[tuple[str, State]]) -> str:
    digest, rows = hashlib.sha256(), iter(listed)
    while part := [f"{path}\0{state}\n" for path, state in islice(rows, 1000)]:
        digest.update("".join(part).encode(errors="surrogateescape"))
    return digest.hexdigest()


class Cache:
    """The hashes of the files below one root: a line with the whole, and a line with each file and its state.

    Where nothing can be written it lasts as long as this process.
    """

    _unwritten: dict[Path, bytes] = {}  # noqa: RUF012  # of all caches of this process

    def __init__(self, root: Path) -> None:
        key = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]
        self.path = cache_folder() / "manifests" / f"{key}.json"

    def read_header(self) -> dict[str, Any]:
        return self._read(0)

    def read_entries(self) -> dict[str, Any]:
        return self._read(1)

    def _read(self, line: int) -> dict[str, Any]:
        """Nothing if it is damaged: then it is made again."""
        try:
            if (kept := self._unwritten.get(self.path)) is not None:
                found = json.loads(kept.split(b"\n")[line])
            else:
                with self.path.open("rb") as file:
                    found = json.loads([file.readline() for _ in range(line + 1)][-1])
        except (OSError, ValueError, IndexError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, header: Mapping[str, Any], entries: Mapping[str, Any]) -> None:
        content = f"{json.dumps(header)}\n{json.dumps(entries)}\n".encode()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(self.path, content)
            self._unwritten.pop(self.path, None)
        except OSError:
            self._unwritten[self.path] = content


def cache_folder() -> Path:
    """`DURM_CACHE`, or durm/ in the user's cache folder."""
    if own := os.environ.get("DURM_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "durm"


def _manifest(root: Path, states: Mapping[str, State], cache: Cache) -> tuple[dict[str, tuple[int, str]], str]:
    """The files by path, and the hash of all. Only those that are not in the cache as they are now are read."""
    known, hashes = cache.read_entries(), {}
    for path, state in states.items():
        found = known.get(path)
        if isinstance(found, list) and tuple(found[:4]) == state and len(found) == 5:
            hashes[path] = str(found[4])
    missing = [path for path in states if path not in hashes]
    base = root if root.is_dir() else root.parent
    hashes.update(zip(missing, _hash_files([f"{base}/{path}" for path in missing]), strict=True))
    files = {path: (states[path][0], hashes[path]) for path in sorted(states)}
    return files, overall_hash(files)


def overall_hash(files: Files) -> str:
    lines = [f"{sha256} {size} {json.dumps(path)[1:-1]}\n" for path, (size, sha256) in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _hash_files(paths: Sequence[str]) -> list[str]:
    """In threads: reading and hashing both let go of the interpreter."""
    workers = os.cpu_count() or 1
    if workers == 1 or len(paths) < 2:
        return list(map(hash_file, paths))
    with ThreadPoolExecutor(workers) as pool:
        parts = [paths[start : start + 64] for start in range(0, len(paths), 64)]
        return [one for part in pool.map(lambda part: list(map(hash_file, part)), parts) for one in part]


def hash_file(path: str) -> str:
    digest = hashlib.sha256()
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            while content := os.read(file, CHUNK):
                digest.update(content)
        finally:
            os.close(file)
    except OSError:
        return UNREADABLE
    return digest.hexdigest()


def _of_samples(name: str, options: DataOptions) -> Manifest:
    """A hash of the samples of all parts, which are those of seed 0."""
    bundle, digest, size = load(name, seed=0, options=options), hashlib.sha256(), 0
    for part in (bundle.train, bundle.val, bundle.test):
        for values in (part.inputs, part.labels):
            size += values.numel() * values.element_size() if isinstance(values, Tensor) else 0
        digest.update(part.labels.numpy().tobytes())
        for key in sample_keys(part):
            digest.update(key)
    return Manifest(digest.hexdigest(), 0, size)
