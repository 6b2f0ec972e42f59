"""Images of one's own: a folder for each class, in any format that Pillow reads."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from durm.data import LOADERS, DataOptions
from durm.data.bundle import DataBundle, Files, InputFormat, Samples, measure, split_by_seed
from durm.errors import InputError

LARGEST_KEPT = 224
"""Images that are all of one size keep it up to this; others are brought to this size unless the study names one."""

MEMORY_LIMIT = 2**31
"""Bytes up to which decoded images are kept in memory."""

SAMPLES_TO_MEASURE = 2000
"""How many streamed images the mean and standard deviation are taken from."""


class Folder:
    """Class folders of images (folder/class/image), with train/, val/, test/ above them or split by seed."""

    takes_path = True
    takes_image_size = True

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        root = Path(path).expanduser()
        read = _read(root, options.image_size, options.skip_bad, MEMORY_LIMIT)
        parts, notes = dict(read.parts), list(read.notes)
        if "test" not in parts and "val" in parts and "train" in parts:
            parts["test"] = parts.pop("val")
            notes.append("there is no test/: val/ is the test set")
        if "test" not in parts:
            parts["train"], parts["test"] = split_by_seed(parts["train"], 0.2, seed, "test")
            notes.append("20 % of each class are the test set, by seed")
        if "val" not in parts:
            parts["train"], parts["val"] = split_by_seed(parts["train"], 0.1, seed, "val")
            notes.append("10 % of the training images of each class are the validation set, by seed")
        input = _measure(parts["train"].inputs)
        train, val, test = (parts[part] for part in ("train", "val", "test"))
        return DataBundle(train, val, test, len(read.classes), read.classes, input, augment="crop-flip", notes=notes)


@dataclass(frozen=True)
class ImageFiles:
    """Images on disk, decoded and brought to one size when asked for: uint8 of shape (3, size, size)."""

    paths: list[Path]
    size: int

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return decode(self.paths[index], self.size)


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


@dataclass(frozen=True)
class _Read:
    parts: dict[str, Samples]
    classes: list[str]
    notes: list[str]


@lru_cache(maxsize=2)
def _read(root: Path, image_size: int | None, skip_bad: bool, memory_limit: int) -> _Read:
    """Everything about the folder that does not depend on the seed. Kept: every trial of a study asks for it."""
    members, classes = _scan(root)
    paths = [path for part in members.values() for path, _ in part]
    sizes = _sizes(paths)
    size = image_size or _common_size(sizes)
    in_memory = len(sizes) * 3 * size * size <= memory_limit
    decoded = _decode_all(list(sizes), size, keep=in_memory) if in_memory or skip_bad else dict.fromkeys(sizes)
    bad = [path for path in paths if path not in decoded]
    if bad and not skip_bad:
        raise InputError(
            f"data 'folder:{root}': {_files(len(bad))} cannot be read as images: {_some(root, bad)}; "
            "remove them, or leave them out with --skip-bad"
        )
    parts = {}
    for name, part in members.items():
        good = [(path, label) for path, label in part if path in decoded]
        if not good:
            raise InputError(f"data 'folder:{root}' has no image in its {name} part that can be read")
        images = [decoded[path] for path, _ in good]
        inputs = (
            torch.stack([image for image in images if image is not None])
            if in_memory
            else ImageFiles([path for path, _ in good], size)
        )
        parts[name] = Samples(inputs, torch.tensor([label for _, label in good]))
    notes = [f"{len(decoded)} images of {size} × {size} pixels, {'in memory' if in_memory else 'read from disk'}"]
    if bad:
        notes.append(f"{_files(len(bad))} that cannot be read as images were left out")
    _check_classes(root, parts, classes)
    return _Read(parts, classes, notes)


def _scan(root: Path) -> tuple[dict[str, list[tuple[Path, int]]], list[str]]:
    """The files of each part with their labels, and the class names; `train` holds all where there are no parts."""
    where = f"data 'folder:{root}'"
    if not root.exists():
        raise InputError(f"{where}: there is no such folder")
    if not root.is_dir():
        raise InputError(f"{where} is a file; expected a folder that has a folder for each class")
    folders = _folders(root)
    tops = {name: root / name for name in ("train", "val", "test") if root / name in folders}
    if tops and len(tops) == len(folders) and "train" not in tops:
        raise InputError(f"{where} has no train/ beside {' and '.join(f'{name}/' for name in tops)}")
    tops = tops if "train" in tops else {"train": root}
    classes = sorted({folder.name for top in tops.values() for folder in _folders(top)})
    if not classes:
        raise InputError(f"{where} has no class folders; expected {tops['train']}/CLASS/IMAGE")
    parts = {
        part: [
            (path, classes.index(folder.name))
            for folder in _folders(top)
            for path in sorted(path for path in folder.rglob("*") if path.is_file() and not _hidden(path, folder))
        ]
        for part, top in tops.items()
    }
    for part, members in parts.items():
        if not members:
            raise InputError(f"{where} has no images in {tops[part]}")
    return parts, classes


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


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


def _check_classes(root: Path, parts: dict[str, Samples], classes: list[str]) -> None:
    where = f"data 'folder:{root}'"
    if len(classes) < 2:
        raise InputError(f"{where} has one class only, {classes[0]!r}; a classifier needs at least two")
    counts = torch.bincount(parts["train"].labels, minlength=len(classes)).tolist()
    needed = 4 - len(parts)  # one for each part that is split off the training images, and one that stays
    for name, count in zip(classes, counts, strict=True):
        if count < needed:
            raise InputError(f"{where}: class {name!r} has {count} training images; expected at least {needed}")


def _measure(inputs: Tensor | Files) -> InputFormat:
    if isinstance(inputs, Tensor):
        return measure(inputs)
    step = max(1, len(inputs) // SAMPLES_TO_MEASURE)
    return measure(torch.stack([inputs[index] for index in range(0, len(inputs), step)]))


def _files(count: int) -> str:
    return f"{count} file{'s' if count > 1 else ''}"


def _some(root: Path, paths: list[Path]) -> str:
    shown = ", ".join(str(path.relative_to(root)) for path in paths[:3])
    return f"{shown} and {len(paths) - 3} more" if len(paths) > 3 else shown


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


LOADERS.register("folder")(Folder())
