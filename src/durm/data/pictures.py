"""Pictures on disk, in any format that Pillow reads: brought to one size, and kept in memory if they fit there."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from durm._words import counted, some
from durm.data.bundle import Files, InputFormat, Samples, measure
from durm.errors import InputError

LARGEST_KEPT = 224
"""Images that are all of one size keep it up to this; others are brought to this size unless the study names one."""

MEMORY_LIMIT = 2**31
"""Bytes up to which decoded images are kept in memory."""

SAMPLES_TO_MEASURE = 2000
"""How many streamed images the mean and standard deviation are taken from."""


@dataclass(frozen=True)
class Pictures:
    """Labelled pictures by the name of their part, the names of their classes, and in words what was done to them."""

    parts: dict[str, Samples]
    classes: list[str]
    notes: list[str]


def read_pictures(
    where: str,
    root: Path,
    parts: Mapping[str, Sequence[tuple[Path, int]]],
    classes: list[str],
    size: int | None,
    skip_bad: bool,
    memory_limit: int,
    *,
    peek: bool = True,
) -> Pictures:
    """The pictures of each part with their labels, as uint8 of shape (3, size, size).

    Args:
        where: the data set, as error messages begin.
        root: the folder from which they name files.
        parts: name → files and labels.
        classes: their names.
        size: the side in pixels; None is that of all images if they have one in common, LARGEST_KEPT otherwise.
        skip_bad: leave out files that cannot be read.
        memory_limit: bytes of pixels above which pictures are read from disk when they are asked for.
        peek: open all files now. Otherwise those that are read from disk are trusted: a million take long to open.

    Raises:
        InputError: if there are files that are no pictures, or a part has none that can be read.
    """
    paths = [path for part in parts.values() for path, _ in part]
    candidates = paths
    if peek or size is None:
        sizes = _sizes(paths)
        candidates, size = list(sizes), size or _common_size(sizes)
    in_memory = len(candidates) * 3 * size * size <= memory_limit
    decoded = _decode_all(candidates, size, keep=in_memory) if in_memory or skip_bad else dict.fromkeys(candidates)
    bad = [path for path in paths if path not in decoded]
    if bad and not skip_bad:
        raise InputError(
            f"{where}: {counted(len(bad), 'file')} cannot be read as images: {_some(root, bad)}; "
            "remove them, or leave them out with --skip-bad"
        )
    samples = {}
    for name, part in parts.items():
        good = [(path, label) for path, label in part if path in decoded]
        if not good:
            raise InputError(f"{where} has no image in its {name} part that can be read")
        images = [decoded[path] for path, _ in good]
        inputs = (
            torch.stack([image for image in images if image is not None])
            if in_memory
            else ImageFiles([path for path, _ in good], size)
        )
        samples[name] = Samples(inputs, torch.tensor([label for _, label in good]))
    notes = [f"{len(decoded)} images of {size} × {size} pixels, {'in memory' if in_memory else 'read from disk'}"]
    if bad:
        notes.append(f"{counted(len(bad), 'file')} that cannot be read as images were left out")
    return Pictures(samples, classes, notes)


def check_parts(where: str, read: Pictures) -> Pictures:
    """Refuses pictures of train, val and test, or of train and what will be split off it, that are too few of a class.

    Gives back the others.
    """
    check_classes(where, read.classes)
    counts = torch.bincount(read.parts["train"].labels, minlength=len(read.classes)).tolist()
    needed = 4 - len(read.parts)  # one for each part that is split off the training images, and one that stays
    for name, count in zip(read.classes, counts, strict=True):
        if count < needed:
            raise InputError(f"{where}: class {name!r} has {count} training images; expected at least {needed}")
    return read


def check_classes(where: str, classes: Sequence[str]) -> None:
    if len(classes) < 2:
        raise InputError(f"{where} has one class only, {classes[0]!r}; a classifier needs at least two")


def measure_pictures(inputs: Tensor | Files) -> InputFormat:
    """The format of pictures in memory, or of those on disk as a sample of them has it."""
    if isinstance(inputs, Tensor):
        return measure(inputs)
    step = max(1, len(inputs) // SAMPLES_TO_MEASURE)
    return measure(torch.stack([inputs[index] for index in range(0, len(inputs), step)]))


@dataclass(frozen=True)
class ImageFiles:
    """Images on disk, decoded and brought to one size when asked for: uint8 of shape (3, size, size)."""

    paths: list[Path]
    size: int

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return decode(self.paths[index], self.size)

    def key(self, index: int) -> bytes:
        """The name of the file and of its folder."""
        return "/".join(self.paths[index].parts[-2:]).encode()


def decode(path: Path, size: int) -> Tensor:
    """The image as uint8 RGB of shape (3, size, size): the shorter side scaled to `size`, the middle cut out."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as file:
            image: Image.Image = file
            if image.mode.startswith("I;16"):  # of 16 bits the upper eight; Pillow would clip them at 255
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            picture = image.convert("RGB")
            if picture.size != (size, size):
                picture = ImageOps.fit(picture, (size, size), Image.Resampling.BILINEAR)
            return torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
    except Exception as error:  # Pillow's decoders raise nearly anything on broken files
        raise InputError(f"{path} cannot be read as an image: {_first_line(error)}") from None


def _sizes(paths: list[Path]) -> dict[Path, tuple[int, int]]:
    """Width and height of each image, from its header; files that are no images are missing."""
    from PIL import Image

    def size(path: Path) -> tuple[int, int] | None:
        try:
            with Image.open(path) as image:
                width, height = image.size
                return width, height
        except Exception:  # as in decode
            return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = zip(paths, pool.map(size, paths), strict=True)
        return {path: size for path, size in found if size is not None}


def _common_size(sizes: dict[Path, tuple[int, int]]) -> int:
    distinct = set(sizes.values())
    if len(distinct) == 1:
        ((width, height),) = distinct
        if width == height <= LARGEST_KEPT:
            return width
    return LARGEST_KEPT


def _decode_all(paths: list[Path], size: int, keep: bool) -> dict[Path, Tensor | None]:
    """The images that can be decoded: with their pixels, or without where these are not to be kept in memory."""

    def attempt(path: Path) -> tuple[bool, Tensor | None]:
        try:
            image = decode(path, size)
        except InputError:
            return False, None
        return True, image if keep else None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = zip(paths, pool.map(attempt, paths), strict=True)
        return {path: image for path, (good, image) in found if good}


def _some(root: Path, paths: list[Path]) -> str:
    return some([str(path.relative_to(root)) for path in paths])


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
