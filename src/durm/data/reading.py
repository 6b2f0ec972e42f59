"""What loaders of files have in common: they read them once, split them by seed, and check what they have read."""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from durm._text import pluralize
from durm.data import DataOptions, Loader, find_files, torchvision_dataset
from durm.data.bundle import DataBundle, InputFormat, LazyImages, MappedRows, Samples, measure, split_parts
from durm.data.bundle import ReadData as ReadData
from durm.data.manifest import signature_of
from durm.data.shared import measured, read_shared
from durm.errors import InputError

MEMORY_LIMIT = 2**31
"""Bytes up to which decoded images are kept in memory."""

SAMPLES_TO_MEASURE = 2000
"""How many streamed images the mean and standard deviation are taken from."""

Members = dict[str, list[tuple[Path, int]]]
"""The files of each part with their labels."""


def measure_inputs(inputs: Tensor | LazyImages, pixel_max: float | None = None) -> InputFormat:
    """The format of inputs in memory, or of those on disk as a sample of them has it."""
    if isinstance(inputs, Tensor):
        return measure(inputs, pixel_max)
    if isinstance(inputs, MappedRows):
        return measured(inputs, partial(measure, pixel_max=pixel_max), f"pixels {pixel_max}")
    step = max(1, len(inputs) // SAMPLES_TO_MEASURE)
    return measure(torch.stack([inputs[index] for index in range(0, len(inputs), step)]), pixel_max)


class FileLoader(Loader):
    """A loader of files. What `read` gives does not depend on the seed, and is kept for the next trial of a study.

    `validation` is the share of the training samples that is split off where there is no validation part, and `things`
    is what notes call the samples.
    """

    validation = 0.1
    things = "images"
    augment = "none"
    measure: Callable[[Tensor | LazyImages], InputFormat] = staticmethod(measure_inputs)

    @abstractmethod
    def read(self, source: Path, options: DataOptions) -> ReadData: ...

    def source(self, path: str, options: DataOptions) -> Path:
        """The file or folder to read."""
        return Path(path).expanduser()

    def is_read(self, name: str, is_folder: bool) -> bool:
        """Whether what stands at the top of the folder under that name is part of the data."""
        return True

    def kept(self, path: str, options: DataOptions) -> ReadData:
        """What was read before, unless a file has changed since."""
        source = self.source(path, options)
        signature = signature_of(source, self.is_read) if source.exists() else ""
        return _read(self, source, options, signature, MEMORY_LIMIT)

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        read = self.kept(path, options)
        parts, notes = dict(read.parts), list(read.notes)
        if "test" not in parts and "val" in parts:
            parts["test"] = parts.pop("val")
            notes.append("there is no test/: val/ is the test set")
        parts, split = split_parts(parts, seed, self.things, self.validation)
        train, val, test = (parts[part] for part in ("train", "val", "test"))
        return DataBundle(
            train, val, test, len(read.classes), read.classes, read.format or self.measure(train.inputs),
            task=self.task, augment=self.augment, notes=[*notes, *split], palette=read.palette, mask_ids=read.mask_ids,
        )  # fmt: skip


@lru_cache(maxsize=4)
def _read(loader: FileLoader, source: Path, options: DataOptions, signature: str, memory_limit: int) -> ReadData:
    def read() -> ReadData:
        return loader.read(source, options)

    kind = type(loader)
    if not kind.__module__.startswith("durm.data.") or options.tokenizer is not None:  # what may change unseen
        return read()
    described = f"{kind.__module__}.{kind.__name__} {options.image_size} {options.skip_bad} {memory_limit}"
    return read_shared(read, source, loader.is_read, signature, described)


class PublishedFiles(FileLoader):
    """A published data set under the data root: `folders` are those it may lie in, `needed` is what must be there."""

    name: str
    folders: Sequence[str]
    needed: Sequence[str]

    def source(self, path: str, options: DataOptions) -> Path:
        return self.find(options)

    def find(self, options: DataOptions) -> Path:
        return find_files(self.name, options, dict.fromkeys(self.folders, self.needed))

    def checksums(self, folder: Path) -> Mapping[str, str]:
        """None: only the archives have them."""
        return {}


class TorchvisionFiles(PublishedFiles):
    """One that torchvision downloads, by its class of that name."""

    torchvision: str

    def download(self, root: Path) -> None:
        torchvision_dataset(self.torchvision)(root, download=True)


def check_classes(where: str, classes: Sequence[str], hint: str = "") -> None:
    if len(classes) < 2:
        raise InputError(f"{where} has one class only, {classes[0]!r}; a classifier needs at least two{hint}")


def check_parts(where: str, parts: Mapping[str, Samples], classes: Sequence[str], things: str) -> None:
    """Refuses too few of a class: each part that is to be split off the training samples needs one, and one stays."""
    check_classes(where, classes)
    needed = 4 - len(parts)
    counts = torch.bincount(parts["train"].labels, minlength=len(classes)).tolist()
    for name, count in zip(classes, counts, strict=True):
        if count < needed:
            raise InputError(f"{where}: class {name!r} has {count} training {things}; expected at least {needed}")


def check_range(path: Path, what: str, values: Tensor, first: int, last: int) -> None:
    wrong = values[(values < first) | (values > last)]
    if len(wrong):
        raise InputError(f"{path} has the {what} {wrong[0]}; expected {first} … {last}")


def read_names(path: Path) -> list[str]:
    """The names in a file, one a line."""
    return [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]


class Unreadable(InputError):
    """The file is damaged, or no image or sound: what `skip_bad` leaves out."""


@contextmanager
def readable(path: Path, kind: str) -> Iterator[None]:
    """Whatever goes wrong within, because the file is not of that kind, is `Unreadable` in one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # decoders raise nearly anything on broken files
        reason = " ".join(str(error).split()).removeprefix(f"Error opening {str(path)!r}: ").rstrip(".")
        raise Unreadable(f"{path} cannot be read as {kind}: {reason or type(error).__name__}") from None


def in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


def read_all(
    function: Callable[[Path], Any], paths: Sequence[Path], keep: bool = True
) -> tuple[dict[Path, Any], list[Unreadable]]:
    """What the function makes of files that it can read, if it is to be kept, and what is wrong with the others."""

    def attempt(path: Path) -> Any:
        try:
            made = function(path)
        except Unreadable as error:
            return error
        return made if keep else None

    found = dict(zip(paths, in_threads(attempt, paths), strict=True))
    errors = [error for error in found.values() if isinstance(error, Unreadable)]
    return {path: made for path, made in found.items() if not isinstance(made, Unreadable)}, errors


def make_parts(
    where: str, members: Mapping[str, Sequence[tuple[Path, int]]], found: Mapping[Path, Any], things: str,
    inputs: Callable[[list[Path]], Tensor | LazyImages],
) -> tuple[dict[str, Samples], list[str]]:  # fmt: skip
    """The samples of each part whose files were found readable, and a note on the others."""
    parts = {}
    for name, part in members.items():
        good = [(path, label) for path, label in part if path in found]
        if not good:
            raise InputError(f"{where} has no {things[:-1]} in its {name} part that can be read")
        parts[name] = Samples(inputs([path for path, _ in good]), torch.tensor([label for _, label in good]))
    bad = sum(path not in found for part in members.values() for path, _ in part)
    return parts, [f"{pluralize(bad, 'file')} that cannot be read as {things} were left out"] if bad else []
