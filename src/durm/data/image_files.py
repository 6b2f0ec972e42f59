"""Pictures on disk, in any format that Pillow reads: brought to one size, and kept in memory if they fit there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from durm._memory import check_fits
from durm._text import pluralize, some
from durm.data import reading
from durm.data.bundle import LazyImages
from durm.data.reading import Members, ReadData, make_parts, read_all, readable
from durm.errors import InputError

LARGEST_KEPT = 224
"""Images that are all of one size keep it up to this; others are brought to this size unless the study names one."""


def read_pictures(
    where: str, root: Path, members: Members, classes: list[str], size: int | None, skip_bad: bool, *, peek: bool = True
) -> ReadData:
    """The pictures of each part with their labels, as uint8 of shape (3, size, size).

    They are kept in memory up to MEMORY_LIMIT, and otherwise read from disk when they are asked for. Error messages
    begin with `where`, and name files from `root` on. A size of None is that of all images if they have one in common,
    LARGEST_KEPT otherwise. Without `peek`, files that are not kept are trusted: a million take long to open.
    """
    paths = [path for part in members.values() for path, _ in part]
    if size is not None:
        check_measurable(where, len(paths), size)
    headers: dict[Path, Any] = read_all(read_header, paths)[0] if peek or size is None else dict.fromkeys(paths)
    enlarged: list[str] = []
    if size is None:
        sides = {side for header in headers.values() for side in header[0]}
        size = min(LARGEST_KEPT, *sides) if len(sides) == 1 else LARGEST_KEPT
        if sides and max(sides) < size:
            enlarged.append(
                f"their sides are {min(sides)} to {max(sides)} pixels, so all are enlarged; `image_size` {max(sides)} "
                "would keep them small"
            )
    kept = len(headers) * 3 * size * size <= reading.MEMORY_LIMIT
    read = partial(decode, size=size)
    found: dict[Path, Any] = read_all(read, list(headers), keep=kept)[0] if kept or skip_bad else dict.fromkeys(headers)
    bad = [str(path.relative_to(root)) for path in paths if path not in found]
    if bad and not skip_bad:
        raise InputError(
            f"{where}: {pluralize(len(bad), 'file')} cannot be read as images: {some(bad)}; "
            "remove them, or leave them out with `skip_bad`"
        )

    def inputs(paths: list[Path]) -> Tensor | LazyImages:
        return torch.stack([found[path] for path in paths]) if kept else ImageFiles(paths, read, _folder_and_name)

    parts, notes = make_parts(where, members, found, "images", inputs)
    place = "in memory" if kept else "read from disk"
    return ReadData(parts, classes, [f"{len(found)} images of {size} × {size} pixels, {place}", *enlarged, *notes])


def check_measurable(where: str, samples: int, size: int) -> None:
    """Refuses images that are too large, before any is read, for the memory that their mean and spread take.

    Those are taken from up to 4,000 images of 3 · size² values, of one byte and again as 32-bit numbers.
    """
    measured = len(range(0, samples, max(1, samples // reading.SAMPLES_TO_MEASURE)))
    what = f"{where}: `image_size` {size} for {pluralize(measured, 'image')} at a time"
    check_fits(what, 5 * measured * 3 * size * size, "take a smaller one")


@dataclass(frozen=True)
class ImageFiles:
    """Images that are read when asked for, or have been and are `kept`; `identify` tells them apart."""

    files: Sequence[Any]
    read: Callable[[Any], Tensor]
    identify: Callable[[Any], bytes]
    kept: list[Tensor] | None = None

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        return self.read(self.files[index]) if self.kept is None else self.kept[index]

    def key(self, index: int) -> bytes:
        return self.identify(self.files[index])


def _folder_and_name(path: Path) -> bytes:
    return "/".join(path.parts[-2:]).encode()


def read_header(path: Path) -> tuple[tuple[int, int], str, str | None]:
    """Width and height, the mode and the format."""
    with readable(path, "an image"), Image.open(path) as file:
        return file.size, file.mode, file.format


def decode(path: Path, size: int) -> Tensor:
    """The image as uint8 RGB of shape (3, size, size): the shorter side scaled to `size`, the middle cut out."""
    with readable(path, "an image"):
        picture = read_rgb(path)
        if picture.size != (size, size):
            picture = ImageOps.fit(picture, (size, size), Image.Resampling.BILINEAR)
        return to_tensor(picture)


def read_rgb(path: Path) -> Image.Image:
    with readable(path, "an image"), Image.open(path) as file:
        image: Image.Image = file
        if image.mode.startswith("I;16"):  # of 16 bits the upper eight; Pillow would clip them at 255
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        return image.convert("RGB")


def to_tensor(picture: Image.Image) -> Tensor:
    """(H, W) of a picture with one channel, (3, H, W) of one with colours."""
    pixels = torch.from_numpy(np.array(picture))
    return pixels if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()
