"""Scenes on disk: images with masks, which have a label for every pixel.

A mask file holds a number for each pixel, its id; a `Coding` says which ids are which classes, and which do not count.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from durm._words import counted, some
from durm.data.bundle import IGNORED, Files, InputFormat, Samples
from durm.data.scenes import to_tensor
from durm.errors import InputError

SCENES_TO_MEASURE = 200
"""How many training images mean and standard deviation are taken from."""

MASKS_TO_COUNT = 200
"""How many masks the pixels of each class are counted in."""

Pair = tuple[str, str]
"""The names of an image and of its mask, as paths from the folder of the data set."""

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Coding:
    """What the ids in mask files mean: `ids[c]` is class c, those in `ignored` do not count, there are no others."""

    ids: tuple[int, ...]
    ignored: tuple[int, ...] = (IGNORED,)

    def labels(self, ids: np.ndarray, path: Path) -> np.ndarray:
        """The class of each pixel, or IGNORED, as uint8; `path` is where the ids are from."""
        narrow = ids.astype(np.uint8, copy=False)
        wrong = ids[(narrow != ids) | ~self._known[narrow]]
        if len(wrong):
            count, told = len(self.ids), _numbers(self.ids)
            beside = f", and {_numbers(self.ignored)} for pixels that do not count" if self.ignored else ""
            raise InputError(
                f"{path} has pixels of the id {wrong[0]}; there are {count} classes, with the ids {told}{beside}"
            )
        labels: np.ndarray = self._table[narrow]
        return labels

    @cached_property
    def _table(self) -> np.ndarray:
        table = np.full(256, IGNORED, np.uint8)
        table[list(self.ids)] = range(len(self.ids))
        return table

    @cached_property
    def _known(self) -> np.ndarray:
        known = np.zeros(256, bool)
        known[[*self.ids, *self.ignored]] = True
        return known


def _numbers(ids: Sequence[int]) -> str:
    ordered = sorted(ids)
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))


@dataclass(frozen=True)
class ReadScenes:
    """Scenes by the name of their part, what their masks mean, and in words what was done to them."""

    parts: dict[str, Samples]
    coding: Coding
    notes: list[str]


def read_scenes(
    where: str,
    root: Path,
    parts: Mapping[str, Sequence[Pair]],
    coding: Coding | None,
    size: int | None,
    skip_bad: bool,
    memory_limit: int,
) -> ReadScenes:
    """The scenes of each part: kept in memory if they fit there, otherwise read from disk when they are asked for.

    What the headers of the files say is checked at once, and so are the pixels of those that are kept. Ids in the masks
    of the others are checked when these are read.

    Args:
        where: the data set, as error messages begin.
        root: the folder from which files are named.
        parts: name → images and masks; one of them is `train`.
        coding: None takes the ids in the training masks for the classes, and 255 for pixels that do not count.
        size: to which the shorter side is scaled, in pixels; None leaves the scenes as they are.
        skip_bad: leave out pairs of which a file cannot be read.
        memory_limit: bytes of pixels up to which they are kept.

    Raises:
        InputError: if a file is no image, or not a mask that fits its image; if a part has no scene that can be read;
            if no pixel of the training part has a class.
    """
    pairs = [pair for part in parts.values() for pair in part]
    headers = _headers(root, [name for pair in pairs for name in pair])
    bad = {pair: name for pair in pairs for name in pair if name not in headers}
    _refuse(where, parts, bad, skip_bad)
    sizes = {pair: _size(root, pair, *(headers[name] for name in pair)) for pair in pairs if pair not in bad}
    pixels = sum(width * height for width, height in (_scaled(*each, size) for each in sizes.values()))
    kept = 4 * pixels <= memory_limit
    if coding is None:
        coding = _found_coding(where, root, [mask for image, mask in parts["train"] if (image, mask) in sizes], kept)
    content: dict[Pair, tuple[Tensor, Tensor]] = {}
    if kept or skip_bad:
        content, broken = _content(root, list(sizes), coding, size, kept)
        bad |= broken
        _refuse(where, parts, bad, skip_bad)
    samples = {}
    for name, part in parts.items():
        good = [pair for pair in part if pair not in bad]
        images: Files = SceneImages(root, [image for image, _ in good], size)
        masks: Files = SceneMasks(root, [mask for _, mask in good], size, coding)
        if kept:
            images = KeptFiles(images, [content[pair][0] for pair in good])
            masks = KeptFiles(masks, [content[pair][1] for pair in good])
        samples[name] = Samples(images, torch.zeros(len(good), dtype=torch.long), masks=masks)
    train = samples["train"].masks
    assert train is not None
    if not any((train[index] != IGNORED).any() for index in range(len(train))):
        raise _unlabelled(where, len(train))
    good_sizes = {_scaled(*each, size) for pair, each in sizes.items() if pair not in bad}
    place = "in memory" if kept else "read from disk"
    notes = [f"{len(sizes.keys() - bad.keys()):,} scenes of {_sizes_told(good_sizes)}, {place}"]
    if bad:
        notes.append(f"{counted(len(bad), 'scene')} with files that cannot be read as images were left out")
    return ReadScenes(samples, coding, notes)


def _unlabelled(where: str, masks: int) -> InputError:
    return InputError(f"{where}: no pixel of the {masks:,} training masks has a class; all are ignored")


def _sizes_told(sizes: Iterable[tuple[int, int]]) -> str:
    widths, heights = ([*{*side}] for side in zip(*sizes, strict=True))
    if len(widths) == len(heights) == 1:
        return f"{widths[0]} × {heights[0]} pixels"
    return f"{min(widths)} to {max(widths)} × {min(heights)} to {max(heights)} pixels"


def _refuse(where: str, parts: Mapping[str, Sequence[Pair]], bad: Mapping[Pair, str], skip_bad: bool) -> None:
    """Refuses bad files unless they are to be left out, and then parts that have no others."""
    if bad and not skip_bad:
        raise InputError(
            f"{where}: {counted(len(bad), 'file')} cannot be read as images: {some(list(bad.values()))}; "
            "remove them and their partners, or leave the pairs out with --skip-bad"
        )
    for name, part in parts.items():
        if all(pair in bad for pair in part):
            raise InputError(f"{where} has no scene in its {name} part that can be read")


@dataclass(frozen=True)
class _Header:
    size: tuple[int, int]
    mode: str
    format: str | None


def _headers(root: Path, names: Sequence[str]) -> dict[str, _Header]:
    """What the files say of themselves; those that are no images are missing."""
    from PIL import Image

    def header(name: str) -> _Header | None:
        try:
            with Image.open(root / name) as image:
                return _Header(image.size, image.mode, image.format)
        except Exception:  # Pillow's decoders raise nearly anything on broken files
            return None

    found = zip(names, _in_threads(header, names), strict=True)
    return {name: header for name, header in found if header is not None}


def _size(root: Path, pair: Pair, image: _Header, mask: _Header) -> tuple[int, int]:
    """Width and height of the scene, if its mask is one and of that size."""
    path = root / pair[1]
    _check_mode(path, mask.mode)
    if mask.format == "JPEG":
        raise InputError(f"{path} is a JPEG, which blurs the ids of the pixels; expected a mask in PNG")
    if image.size != mask.size:
        mine, theirs = (f"{width} × {height}" for width, height in (mask.size, image.size))
        raise InputError(f"{path} has {mine} pixels; expected {theirs}, as its image {root / pair[0]} has")
    return image.size


def _check_mode(path: Path, mode: str) -> None:
    if mode not in ("L", "P", "1", "I") and not mode.startswith("I;16"):
        raise InputError(
            f"{path} has colours ({mode}); expected the number of a class for each pixel, as a grey or palette PNG: "
            "to convert, set ids[(colours == colour).all(-1)] = number for each class in an array of uint8, and save "
            "it with Image.fromarray(ids).save(...)"
        )


def _found_coding(where: str, root: Path, masks: Sequence[str], kept: bool) -> Coding:
    if not kept:
        raise InputError(
            f"{where} has too many masks to look for the classes in them; name these in {root / 'classes.txt'}, "
            "one a line"
        )

    def found(name: str) -> set[int]:
        try:
            return set(np.unique(_ids(root / name)).tolist())
        except _Unreadable:
            return set()

    ids = set[int]().union(*_in_threads(found, masks)) - {IGNORED}
    if not ids:
        raise _unlabelled(where, len(masks))
    if wide := [each for each in ids if not 0 <= each <= 255]:
        raise InputError(f"{where} has masks with the id {wide[0]}; expected ids from 0 to 255")
    return Coding(tuple(sorted(ids)))


def _content(
    root: Path, pairs: Sequence[Pair], coding: Coding, size: int | None, keep: bool
) -> tuple[dict[Pair, tuple[Tensor, Tensor]], dict[Pair, str]]:
    """The pixels of all pairs, if they are to be kept, and the files that cannot be read."""

    def read(pair: Pair) -> tuple[Tensor, Tensor] | str | None:
        name = pair[0]
        try:
            image = read_image(root / name, size)
            name = pair[1]
            mask = read_mask(root / name, coding, size)
        except _Unreadable:
            return name
        return (image, mask) if keep else None

    found = list(zip(pairs, _in_threads(read, pairs), strict=True))
    content = {pair: pixels for pair, pixels in found if isinstance(pixels, tuple)}
    return content, {pair: name for pair, name in found if isinstance(name, str)}


@dataclass(frozen=True)
class SceneImages:
    """Images on disk, uint8 of shape (3, H, W), the shorter side scaled to `size`."""

    root: Path
    names: list[str]
    size: int | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Tensor:
        return read_image(self.root / self.names[index], self.size)

    def key(self, index: int) -> bytes:
        return self.names[index].encode()


@dataclass(frozen=True)
class SceneMasks:
    """Masks on disk as classes, uint8 of shape (H, W), the shorter side scaled to `size`."""

    root: Path
    names: list[str]
    size: int | None
    coding: Coding

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Tensor:
        return read_mask(self.root / self.names[index], self.coding, self.size)

    def key(self, index: int) -> bytes:
        return self.names[index].encode()


@dataclass(frozen=True)
class KeptFiles:
    """Files whose content is in memory."""

    files: Files
    content: list[Tensor]

    def __len__(self) -> int:
        return len(self.content)

    def __getitem__(self, index: int) -> Tensor:
        return self.content[index]

    def key(self, index: int) -> bytes:
        return self.files.key(index)


class _Unreadable(InputError):
    """The file is no image, or damaged: what `skip_bad` leaves out."""


def read_image(path: Path, size: int | None = None) -> Tensor:
    """The image as uint8 RGB of shape (3, H, W), the shorter side scaled to `size` (bilinear)."""
    from PIL import Image

    try:
        with Image.open(path) as file:
            image: Image.Image = file
            if image.mode.startswith("I;16"):  # of 16 bits the upper eight; Pillow would clip them at 255
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
            picture = image.convert("RGB")
    except Exception as error:  # as in _headers
        raise _Unreadable(f"{path} cannot be read as an image: {_first_line(error)}") from None
    return to_tensor(picture.resize(_scaled(*picture.size, size), Image.Resampling.BILINEAR))


def read_mask(path: Path, coding: Coding, size: int | None = None) -> Tensor:
    """The class of each pixel, or IGNORED: uint8 of shape (H, W), the shorter side scaled to `size` (nearest)."""
    from PIL import Image

    labels = Image.fromarray(coding.labels(_ids(path), path))
    return to_tensor(labels.resize(_scaled(*labels.size, size), Image.Resampling.NEAREST))


def _ids(path: Path) -> np.ndarray:
    """The numbers in a mask file, (H, W); of a file with a palette they are the places in it."""
    from PIL import Image

    try:
        with Image.open(path) as file:
            _check_mode(path, file.mode)
            ids = np.array(file)
    except InputError:
        raise
    except Exception as error:  # as in _headers
        raise _Unreadable(f"{path} cannot be read as an image: {_first_line(error)}") from None
    return ids.astype(np.uint8) if ids.dtype == bool else ids


def _scaled(width: int, height: int, side: int | None) -> tuple[int, int]:
    """Width and height with the shorter of them `side` pixels long."""
    if side is None:
        return width, height
    shorter = min(width, height)
    return round(width * side / shorter), round(height * side / shorter)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _in_threads(function: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


def measure_scenes(images: Files) -> InputFormat:
    """The shape of the first image, and mean and standard deviation of each channel over the pixels of a sample."""

    def sums(index: int) -> Tensor:
        values = images[index].double().flatten(1)
        return torch.stack([torch.full((3,), values.shape[1]), values.sum(1), values.square().sum(1)])

    count, total, squares = torch.stack(_in_threads(sums, _spread(len(images), SCENES_TO_MEASURE))).sum(0)
    mean = total / count
    std = ((squares - total * mean) / (count - 1).clamp(min=1)).clamp(min=0).sqrt()
    mean, std = (value.float().view(3, 1, 1) for value in (mean, torch.where(std > 0, std, 1.0)))
    return InputFormat(tuple(images[0].shape), mean, std, white=255.0)


@dataclass(frozen=True)
class PixelCounts:
    """Pixels of each class, and of none, in so many masks."""

    classes: list[int]
    ignored: int
    masks: int


def count_pixels(masks: Files, num_classes: int, most: int = MASKS_TO_COUNT) -> PixelCounts:
    """In at most so many masks, spread evenly over all."""
    chosen = _spread(len(masks), most)
    counts = _in_threads(lambda index: torch.bincount(masks[index].flatten(), minlength=256), chosen)
    total = torch.stack(counts).sum(0).tolist()
    return PixelCounts(total[:num_classes], total[IGNORED], len(chosen))


def _spread(count: int, most: int) -> list[int]:
    chosen = min(count, most)
    return [place * count // chosen for place in range(chosen)]
