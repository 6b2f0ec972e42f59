"""Scenes on disk: images with masks, which have a label for every pixel."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from durm._memory import check_fits
from durm._text import pluralize, some
from durm.data import reading
from durm.data.bundle import IGNORED, InputFormat, LazyImages, Samples
from durm.data.image_files import ImageFiles, read_header, read_rgb, to_tensor
from durm.data.reading import ReadData, in_threads, read_all, readable
from durm.data.segmentation_labels import LabelMap, generated_palette
from durm.data.segmentation_pairs import Pair, Pairs
from durm.errors import InputError

SCENES_TO_MEASURE = 200
"""How many training images mean and standard deviation are taken from."""

MASKS_TO_COUNT = 200
"""How many masks the pixels of each class are counted in."""


def read_scenes(
    where: str, root: Path, parts: Pairs, label_map: LabelMap | None, size: int | None, skip_bad: bool
) -> ReadData:
    """The scenes of each part, whose classes are called by their ids.

    They are kept in memory up to MEMORY_LIMIT, and otherwise read from disk when they are asked for. Headers, and the
    pixels of what is kept, are checked at once; ids in the masks of others are checked when these are read. Error
    messages begin with `where`; files are named from `root` on. A label map of None takes the ids in the training masks
    for the classes, and 255 for pixels that do not count. The shorter side is scaled to `size`, if that is given.
    """
    pairs = [pair for part in parts.values() for pair in part]
    headers = read_all(read_header, [root / name for pair in pairs for name in pair])[0]
    bad = {pair: name for pair in pairs for name in pair if root / name not in headers}
    _refuse(where, parts, bad, skip_bad)
    sizes = {pair: _scaled(*_checked_size(root, pair, headers), size) for pair in pairs if pair not in bad}
    pixels = [width * height for width, height in sizes.values()]
    largest = max(pixels, default=0)
    check_fits(f"{where}: a scene of {largest:,} pixels", 5 * 3 * largest, "take a smaller `image_size`")
    kept = 4 * sum(pixels) <= reading.MEMORY_LIMIT
    if label_map is None:
        masks = [root / mask for image, mask in parts["train"] if (image, mask) in sizes]
        label_map = _found_label_map(where, root, masks, kept)
    read_pixels, read_labels = partial(read_image, size=size), partial(read_mask, label_map=label_map, size=size)
    identify = partial(_name_in, root)
    content: dict[Path, Tensor] = {}
    if kept or skip_bad:
        content = read_all(read_pixels, [root / image for image, _ in sizes], keep=kept)[0]
        content |= read_all(read_labels, [root / mask for _, mask in sizes], keep=kept)[0]
        bad |= {pair: name for pair in sizes for name in reversed(pair) if root / name not in content}
        _refuse(where, parts, bad, skip_bad)
    samples = {}
    for part, members in parts.items():
        good = [pair for pair in members if pair not in bad]
        images, masks = ([root / pair[kind] for pair in good] for kind in (0, 1))
        samples[part] = Samples(
            ImageFiles(images, read_pixels, identify, [content[path] for path in images] if kept else None),
            torch.zeros(len(good), dtype=torch.long),
            masks=ImageFiles(masks, read_labels, identify, [content[path] for path in masks] if kept else None),
        )
    train, needed = samples["train"].masks, 4 - len(samples)  # one for each part that is split off, and one that stays
    assert train is not None
    if len(train) < needed:
        raise InputError(f"{where} has {pluralize(len(train), 'training image')}; expected at least {needed}")
    if not any((train[index] != IGNORED).any() for index in range(len(train))):
        raise _unlabelled(where, len(train))
    good_sizes = {each for pair, each in sizes.items() if pair not in bad}
    place = "in memory" if kept else "read from disk"
    notes = [f"{len(sizes.keys() - bad.keys()):,} scenes of {_range_of(good_sizes)}, {place}"]
    if bad:
        notes.append(f"{pluralize(len(bad), 'scene')} with files that cannot be read as images were left out")
    ids = list(label_map.ids)
    return ReadData(samples, list(map(str, ids)), notes, palette=generated_palette(len(ids)), mask_ids=ids)


def scene_images(folder: Path, paths: list[Path]) -> ImageFiles:
    """Images in that folder, uint8 of shape (3, H, W), which are read when they are asked for."""
    return ImageFiles(paths, read_image, partial(_name_in, folder))


def _name_in(root: Path, path: Path) -> bytes:
    return path.relative_to(root).as_posix().encode()


def _unlabelled(where: str, masks: int) -> InputError:
    return InputError(f"{where}: no pixel of the {masks:,} training masks has a class; all are ignored")


def _range_of(sizes: Iterable[tuple[int, int]]) -> str:
    widths, heights = ([*{*side}] for side in zip(*sizes, strict=True))
    if len(widths) == len(heights) == 1:
        return f"{widths[0]} × {heights[0]} pixels"
    return f"{min(widths)} to {max(widths)} × {min(heights)} to {max(heights)} pixels"


def _refuse(where: str, parts: Pairs, bad: Mapping[Pair, str], skip_bad: bool) -> None:
    """Refuses bad files unless they are to be left out, and then parts that have no others."""
    if bad and not skip_bad:
        raise InputError(
            f"{where}: {pluralize(len(bad), 'file')} cannot be read as images: {some(list(bad.values()))}; "
            "remove them and their partners, or leave the pairs out with `skip_bad`"
        )
    for name, part in parts.items():
        if all(pair in bad for pair in part):
            raise InputError(f"{where} has no scene in its {name} part that can be read")


def _checked_size(root: Path, pair: Pair, headers: Mapping[Path, Any]) -> tuple[int, int]:
    """Width and height of the scene, if its mask is one and of that size."""
    image, mask = (root / name for name in pair)
    size: tuple[int, int] = headers[image][0]
    mask_size, mode, format = headers[mask]
    _check_mode(mask, mode)
    if format == "JPEG":
        raise InputError(f"{mask} is a JPEG, which blurs the ids of the pixels; expected a mask in PNG")
    if size != mask_size:
        mine, theirs = (f"{width} × {height}" for width, height in (mask_size, size))
        raise InputError(f"{mask} has {mine} pixels; expected {theirs}, as its image {image} has")
    return size


def _check_mode(path: Path, mode: str) -> None:
    if mode not in ("L", "P", "1", "I") and not mode.startswith("I;16"):
        raise InputError(
            f"{path} has colours ({mode}); expected the number of a class for each pixel, as a grey or palette PNG: "
            "to convert, set ids[(colours == colour).all(-1)] = number for each class in an array of uint8, and save "
            "it with Image.fromarray(ids).save(...)"
        )


def _found_label_map(where: str, root: Path, masks: list[Path], kept: bool) -> LabelMap:
    if not kept:
        raise InputError(
            f"{where} has too many masks to look for the classes in them; name these in {root / 'classes.txt'}, "
            "one a line"
        )
    found, _ = read_all(lambda path: np.unique(_ids(path)).tolist(), masks)
    ids = {each for values in found.values() for each in values} - {IGNORED}
    if not ids:
        raise _unlabelled(where, len(masks))
    if wide := [each for each in ids if not 0 <= each <= 255]:
        raise InputError(f"{where} has masks with the id {wide[0]}; expected ids from 0 to 255")
    return LabelMap(tuple(sorted(ids)))


def read_image(path: Path, size: int | None = None) -> Tensor:
    """The image as uint8 RGB of shape (3, H, W), the shorter side scaled to `size` (bilinear)."""
    picture = read_rgb(path)
    return to_tensor(picture.resize(_scaled(*picture.size, size), Image.Resampling.BILINEAR))


def read_mask(path: Path, label_map: LabelMap, size: int | None = None) -> Tensor:
    """The class of each pixel, or IGNORED: uint8 of shape (H, W), the shorter side scaled to `size` (nearest)."""
    labels = Image.fromarray(label_map.labels(_ids(path), path))
    return to_tensor(labels.resize(_scaled(*labels.size, size), Image.Resampling.NEAREST))


def _ids(path: Path) -> np.ndarray:
    """The numbers in a mask file, (H, W); of a file with a palette they are the places in it."""
    with readable(path, "an image"), Image.open(path) as file:
        _check_mode(path, file.mode)
        ids = np.array(file)
    return ids.astype(np.uint8) if ids.dtype == bool else ids


def _scaled(width: int, height: int, side: int | None) -> tuple[int, int]:
    """Width and height with the shorter of them `side` pixels long."""
    if side is None:
        return width, height
    shorter = min(width, height)
    return round(width * side / shorter), round(height * side / shorter)


def measure_scenes(images: Tensor | LazyImages) -> InputFormat:
    """The shape of the first image, and mean and standard deviation of each channel over the pixels of a sample."""

    def sums(index: int) -> Tensor:
        values = images[index].double().flatten(1)
        return torch.stack([torch.full((3,), values.shape[1]), values.sum(1), values.square().sum(1)])

    count, total, squares = torch.stack(in_threads(sums, _spread(len(images), SCENES_TO_MEASURE))).sum(0)
    mean = total / count
    std = ((squares - total * mean) / (count - 1).clamp(min=1)).clamp(min=0).sqrt()
    mean, std = (value.float().view(3, 1, 1) for value in (mean, torch.where(std > 0, std, 1.0)))
    return InputFormat(tuple(images[0].shape), mean, std, pixel_max=255.0)


@dataclass(frozen=True)
class PixelCounts:
    """Pixels of each class, and of none, in so many masks."""

    classes: list[int]
    ignored: int
    masks: int


def count_pixels(masks: LazyImages, num_classes: int, most: int = MASKS_TO_COUNT) -> PixelCounts:
    """In at most so many masks, spread evenly over all."""
    chosen = _spread(len(masks), most)
    counts = in_threads(lambda index: torch.bincount(masks[index].flatten(), minlength=256), chosen)
    total = torch.stack(counts).sum(0).tolist()
    return PixelCounts(total[:num_classes], total[IGNORED], len(chosen))


def _spread(count: int, most: int) -> list[int]:
    chosen = min(count, most)
    return [place * count // chosen for place in range(chosen)]
