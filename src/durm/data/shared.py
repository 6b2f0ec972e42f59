"""Decoded samples in a memory-mapped file, which all trials and worker processes of a machine share.

What a loader has read is written once to the cache folder, and from then on mapped: a process holds no copy of its own,
and nothing is decoded again. An entry is named after the hash of the content of all files (see `durm.data.manifest`),
the options, the code that reads them and the libraries that decode them, so that it can never be out of date. It is
compared with its checksum when it is opened. Where nothing can be written, every process has its own copy.
"""

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.lib import format as npy
from torch import Tensor

from durm._files import atomic_write
from durm.data.bundle import InputFormat, MappedRows, ReadData, Samples
from durm.data.manifest import Cache, cache_folder, hash_file, manifest_of_files, signature_of
from durm.data.npz import read_npz

SMALLEST = 2**24
"""Bytes from which on samples are shared; a copy of less costs little."""
LARGEST_TOTAL = 20 * 2**30
"""Bytes of all entries, beyond which those that were not used for the longest time are removed."""
LIBRARIES = ("torch", "numpy", "pillow", "scipy", "soundfile", "torchvision")


def read_shared(
    read: Callable[[], ReadData], source: Path, is_read: Callable[[str, bool], bool], signature: str, options: str
) -> ReadData:
    """What `read` gives, with its inputs mapped if they are tensors that are worth it.

    `signature` is that of the files in `source`, and `options` whatever else the result depends on.
    """
    known = Cache(source).read_header()
    if signature and known.get("signature") == signature:
        found = _open(_entry(known.get("sha256"), options))
        if found is not None:
            return found
    data = read()
    size = _size(data)
    if not signature or size < SMALLEST:
        return data
    content = manifest_of_files(source, is_read).sha256
    if Cache(source).read_header().get("signature") != signature or signature_of(source, is_read) != signature:
        return data  # a file changed a moment ago, or meanwhile
    entry = _entry(content, options)
    try:
        _make_room(entry.parent, size)
        _write(entry, data)
    except OSError:  # no space, no permission; or another process was faster
        pass
    return _open(entry) or data


def measured(rows: MappedRows, measure: Callable[[Tensor], InputFormat], name: str) -> InputFormat:
    """The format of these rows, which takes a copy of them in 32 bit: by one process at a time, and once.

    `name` tells what is measured from what else might be.
    """
    described = f"{name} {torch.get_num_threads()} {torch.backends.cpu.get_cpu_capability()}"  # they set the last bits
    digest = hashlib.sha256(described.encode())
    digest.update(rows.indices.numpy().tobytes())
    path = rows.folder / f"format-{digest.hexdigest()[:32]}.npz"
    with _one_at_a_time(rows.folder / "format.lock"):
        with suppress(OSError, ValueError, KeyError):
            kept = read_npz(path)
            pixel_max = float(kept["pixel_max"])
            mean, std = (torch.from_numpy(kept[name]) for name in ("mean", "std"))
            return InputFormat(rows.shape, mean, std, pixel_max=None if np.isnan(pixel_max) else pixel_max)
        found = measure(rows.whole())
        content = io.BytesIO()
        pixel_max = float("nan") if found.pixel_max is None else found.pixel_max
        np.savez(content, mean=found.mean.numpy(), std=found.std.numpy(), pixel_max=np.float64(pixel_max))
        with suppress(OSError):
            atomic_write(path, content.getvalue())
    return found


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire()
    except (OSError, NotImplementedError):  # the entry was removed, or the disk has no locks
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _entry(content: Any, options: str) -> Path:
    name = hashlib.sha256(f"{content}\n{options}\n{_reader()}".encode()).hexdigest()[:32]
    return cache_folder() / "samples" / name


@cache
def _reader() -> str:
    """A hash of the code of this package, and the versions of what it decodes with."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    versions = []
    for name in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    return " ".join([digest.hexdigest(), *versions])


def _size(data: ReadData) -> int:
    """The bytes of all inputs; 0 if they are no tensors of one kind, or come with domains or masks."""
    parts = list(data.parts.values())
    if any(part.domains is not None or part.masks is not None for part in parts):
        return 0
    inputs = [part.inputs for part in parts if isinstance(part.inputs, Tensor)]
    if len(inputs) < len(parts) or len({(rows.dtype, rows.shape[1:]) for rows in inputs}) != 1:
        return 0
    return sum(rows.numel() * rows.element_size() for rows in inputs)


def _write(entry: Path, data: ReadData) -> None:
    """Inputs of all parts in one file, everything else in another, and last of all what it is."""
    inputs = [part.inputs.contiguous().numpy() for part in data.parts.values() if isinstance(part.inputs, Tensor)]
    shape = (sum(map(len, inputs)), *inputs[0].shape[1:])
    small = {"labels": torch.cat([part.labels for part in data.parts.values()])}
    meta: dict[str, Any] = {name: getattr(data, name) for name in ("classes", "notes", "palette", "mask_ids")}
    meta["parts"] = {name: len(part) for name, part in data.parts.items()}
    if (given := data.format) is not None:
        meta["format"] = {name: getattr(given, name) for name in ("shape", "vocabulary", "pixel_max")}
        tensors = {"mean": given.mean, "std": given.std, "embedding": given.embedding}
        small |= {name: value for name, value in tensors.items() if value is not None}
    entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(dir=entry.parent, prefix=".new-"))
    try:
        with (folder / "inputs.npy").open("wb") as file:  # not mapped: a full disk would kill the process
            header = {"descr": npy.dtype_to_descr(inputs[0].dtype), "fortran_order": False, "shape": shape}
            npy.write_array_header_2_0(file, header)
            for part in inputs:
                file.write(part.data.cast("B"))
            file.flush()
            os.fsync(file.fileno())
        with (folder / "rest.npz").open("wb") as file:
            np.savez(file, **{name: value.numpy() for name, value in small.items()})  # type: ignore[arg-type]
        meta["sha256"] = {name: hash_file(str(folder / name)) for name in ("inputs.npy", "rest.npz")}
        atomic_write(folder / "meta.json", json.dumps(meta).encode())
        folder.rename(entry)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _open(entry: Path) -> ReadData | None:
    """What was written, mapped; nothing if it is not there or damaged, in which case it is removed."""
    try:
        meta = json.loads((entry / "meta.json").read_bytes())
        if any(hash_file(str(entry / name)) != expected for name, expected in meta["sha256"].items()):
            raise ValueError("damaged")
        # Copy on write: no process can change what the others see.
        base = torch.from_numpy(np.load(entry / "inputs.npy", mmap_mode="c", allow_pickle=False))
        small = {name: torch.from_numpy(values) for name, values in read_npz(entry / "rest.npz").items()}
        format = None
        if "format" in meta:
            own = {**meta["format"], "shape": tuple(meta["format"]["shape"]), "embedding": small.get("embedding")}
            format = InputFormat(mean=small["mean"], std=small["std"], **own)
        counts = list(meta["parts"].values())
        rows = torch.arange(len(base)).split(counts)
        labels = small["labels"].split(counts)
        parts = {
            name: Samples(MappedRows(base, own, entry), part_labels)
            for name, own, part_labels in zip(meta["parts"], rows, labels, strict=True)
        }
        palette = [(int(red), int(green), int(blue)) for red, green, blue in meta["palette"]]
        data = ReadData(parts, meta["classes"], meta["notes"], format, palette, meta["mask_ids"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        shutil.rmtree(entry, ignore_errors=True)
        return None
    with suppress(OSError):
        os.utime(entry / "meta.json")
    return data


def _make_room(folder: Path, needed: int) -> None:
    """Removes what was not used for the longest time, if all would take too much. Who has mapped it keeps it.

    Raises:
        OSError: if the disk is nearly full.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    sizes, used = {}, {}
    for path in folder.glob("*/meta.json"):
        with suppress(OSError):
            sizes[path.parent], used[path.parent] = (path.parent / "inputs.npy").stat().st_size, path.stat().st_mtime
    for path in sorted(used, key=lambda path: used[path]):
        if sum(sizes.values()) + needed > LARGEST_TOTAL:
            shutil.rmtree(path, ignore_errors=True)
            del sizes[path]
    if shutil.disk_usage(folder).free < 2 * needed:
        raise OSError("the disk is nearly full")
