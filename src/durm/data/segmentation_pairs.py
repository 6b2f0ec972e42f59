"""Which image has which mask."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from durm._text import pluralize, some
from durm.data.folder import check_folder, files_below
from durm.errors import InputError

Pair = tuple[str, str]
"""The names of an image and of its mask, as paths from the folder of the data set."""

Pairs = dict[str, list[Pair]]
"""Part → the names of images and masks."""


def pairs_below(where: str, root: Path) -> Pairs:
    """The pairs in images/ and masks/, or of the parts, which may stand above or below these; all are train if none."""
    check_folder(where, root, "a folder with images/ and masks/")
    for layout in ("{part}/{kind}", "{kind}/{part}"):
        folders = {
            part: [layout.format(part=part, kind=kind) for kind in ("images", "masks")]
            for part in ("train", "val", "test")
        }
        there = {part: pair for part, pair in folders.items() if (root / pair[0]).is_dir()}
        if "train" in there:
            return {part: pairs_in(where, root, *pair) for part, pair in there.items()}
        if there:
            raise InputError(f"{where} has no {folders['train'][0]}/ next to {next(iter(there.values()))[0]}/")
    return {"train": pairs_in(where, root, "images", "masks")}


def pairs_in(where: str, root: Path, images: str, masks: str, image_end: str = "", mask_end: str = "") -> list[Pair]:
    """The images and masks in two folders that have the same names, apart from suffixes and these ends."""
    for folder in (images, masks):
        if not (root / folder).is_dir():
            raise InputError(f"{where}: there is no {root / folder}")
    found, known = files_in(root, images, image_end), files_in(root, masks, mask_end)
    if not found:
        raise InputError(f"{where} has no images in {root / images}")
    if alone := [name for stem, name in found.items() if stem not in known]:
        expected = f"{masks}/{Path(alone[0]).relative_to(images).with_suffix('')}".removesuffix(image_end) + mask_end
        raise InputError(
            f"{where}: {_have(alone, 'image')} no mask: {some(alone)}; expected masks such as {expected}.png"
        )
    if alone := [name for stem, name in known.items() if stem not in found]:
        raise InputError(f"{where}: {_have(alone, 'mask')} no image in {root / images}: {some(alone)}")
    return [(name, known[stem]) for stem, name in found.items()]


def listed_pairs(where: str, path: Path, images: Mapping[str, str], masks: Mapping[str, str]) -> list[Pair]:
    """The images and masks that a file names, one pair a line: a stem, or paths of which the first has that stem."""
    stems = [Path(line.split()[0]).stem for line in path.read_text(errors="replace").splitlines() if line.strip()]
    if not stems:
        raise InputError(f"{where}: {path} names no images")
    for kind, known in (("image", images), ("mask", masks)):
        if missing := [stem for stem in stems if stem not in known]:
            raise InputError(f"{where}: {path} names {some(missing)}, of which there is no {kind}")
    return [(images[stem], masks[stem]) for stem in stems]


def files_in(root: Path, folder: str, end: str = "") -> dict[str, str]:
    """The files below the folder, by their paths in it without suffix and `end`; those of another end are left out."""
    files: dict[str, str] = {}
    for path in files_below(root / folder):
        stem = path.relative_to(root / folder).with_suffix("").as_posix()
        if not stem.endswith(end):
            continue
        name = path.relative_to(root).as_posix()
        other = files.setdefault(stem.removesuffix(end), name)
        if other != name:
            raise InputError(f"{root / other} and {root / name} differ in their suffix only; which one is meant?")
    return files


def _have(names: Sequence[str], noun: str) -> str:
    return f"{pluralize(len(names), noun)} {'has' if len(names) == 1 else 'have'}"
