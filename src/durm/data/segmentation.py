"""Data for semantic segmentation: a class for every pixel.

| | under the data root |
|---|---|
| cityscapes | cityscapes/{leftImg8bit,gtFine}/{train,val}/CITY/NAME_{leftImg8bit,gtFine_labelIds}.png |
| voc2012 | VOCdevkit/VOC2012/{JPEGImages,SegmentationClass}/, ImageSets/Segmentation/{train,val}.txt |
| loveda | LoveDA/{Train,Val}/{Urban,Rural}/{images_png,masks_png}/ |
| camvid | CamVid/{train,val,test}/, {train,val,test}annot/ and, if there are any, {train,val,test}.txt |

Where the labels of the published test set are secret, the published validation set is the test set.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from durm._words import counted, metric_name, some
from durm.data import LOADERS, DataOptions, find_files, torchvision_dataset
from durm.data.bundle import IGNORED, DataBundle, Samples, split_by_seed, split_parts
from durm.data.pictures import MEMORY_LIMIT
from durm.data.scene_files import Coding, Pair, ReadScenes, measure_scenes, read_scenes
from durm.errors import InputError

Colour = tuple[int, int, int]
Pairs = dict[str, list[Pair]]
"""Part → the names of images and masks."""

OKABE_ITO: tuple[Colour, ...] = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167),
)  # fmt: skip
"""Colours that most people can tell apart; their black is left for pixels that do not count."""


class SegmentationFolder:
    """Images and masks of the same names (images/, masks/), with train/, val/, test/ above them or split by seed.

    The ids in the masks are the classes, except 255 for pixels that do not count. `classes.txt`, if there is one, names
    the classes from 0 on, one a line. A number before a name is its id, from which the next lines count on; the name
    `ignore` is for ids that do not count.
    """

    task = "segmentation"
    takes_path = True
    takes_image_size = True

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        read, names = _folder(Path(path).expanduser(), options.image_size, options.skip_bad, MEMORY_LIMIT)
        parts, notes = split_parts(read.parts, seed, "images")
        return _bundle(parts, names, generated_palette(len(names)), list(read.coding.ids), [*read.notes, *notes])


def _bundle(
    parts: Mapping[str, Samples], names: list[str], palette: list[Colour], mask_ids: list[int], notes: list[str]
) -> DataBundle:
    train, val, test = (parts[part] for part in ("train", "val", "test"))
    assert not isinstance(train.inputs, Tensor)
    return DataBundle(
        train, val, test, len(names), names, measure_scenes(train.inputs),
        task="segmentation", notes=notes, palette=palette, mask_ids=mask_ids,
    )  # fmt: skip


# What does not depend on the seed is kept: every trial of a study asks for it.


@lru_cache(maxsize=2)
def _folder(root: Path, size: int | None, skip_bad: bool, memory_limit: int) -> tuple[ReadScenes, list[str]]:
    """The scenes in the folder, and the names of their classes."""
    where = f"data 'segmentation:{root}'"
    pairs = _pairs_of(where, root)
    named = read_classes(root / "classes.txt") if (root / "classes.txt").exists() else None
    read = read_scenes(where, root, pairs, named[1] if named else None, size, skip_bad, memory_limit)
    names = named[0] if named else list(map(str, read.coding.ids))
    if len(names) < 2:
        hint = "" if named else f"; if {IGNORED} is one too, say so in classes.txt: `0 background` and `255 object`"
        raise InputError(f"{where} has one class only, {names[0]!r}; a classifier needs at least two{hint}")
    return _checked(where, read), names


def _checked(where: str, read: ReadScenes) -> ReadScenes:
    """Refuses too few training scenes: one must stay when one for each missing part has been split off."""
    count, needed = len(read.parts["train"]), 4 - len(read.parts)
    if count < needed:
        raise InputError(f"{where} has {counted(count, 'training image')}; expected at least {needed}")
    return read


def _pairs_of(where: str, root: Path) -> Pairs:
    """The pairs in images/ and masks/, or of the parts, which may stand above or below these; all are train if none."""
    if not root.exists():
        raise InputError(f"{where}: there is no such folder")
    if not root.is_dir():
        raise InputError(f"{where} is a file; expected a folder with images/ and masks/")
    for layout in ("{part}/{kind}", "{kind}/{part}"):
        folders = {
            part: [layout.format(part=part, kind=kind) for kind in ("images", "masks")]
            for part in ("train", "val", "test")
        }
        there = {part: pair for part, pair in folders.items() if (root / pair[0]).is_dir()}
        if "train" in there:
            return {part: pairs_in(where, root, *pair) for part, pair in there.items()}
        if there:
            raise InputError(f"{where} has no {folders['train'][0]}/ beside {next(iter(there.values()))[0]}/")
    return {"train": pairs_in(where, root, "images", "masks")}


def read_classes(path: Path) -> tuple[list[str], Coding]:
    """The names of the classes in a file such as `SegmentationFolder` describes, and their ids."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise InputError(f"{path} cannot be read: {reason}") from None
    meanings: dict[int, str] = {}
    following = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        first, *rest = line.split(maxsplit=1)
        known = first.isdecimal() and bool(rest)
        label, name = (int(first), rest[0].strip()) if known else (following, line.strip())
        if not 0 <= label <= 255:
            raise InputError(f"{path}, line {number}: id {label}; expected 0 to 255")
        if label in meanings:
            raise InputError(f"{path}, line {number}: id {label} is {meanings[label]!r} already")
        others = {metric_name(other): other for other in meanings.values()}
        if name != "ignore" and (other := others.get(metric_name(name))) is not None:
            alike = "" if other == name else f"; {other!r} and {name!r} are not told apart in results"
            raise InputError(f"{path}, line {number}: there are two classes {name!r}{alike}")
        meanings[label], following = name, label + 1
    classes = {label: name for label, name in meanings.items() if name != "ignore"}
    if not classes or len(classes) > IGNORED:
        raise InputError(f"{path} names {len(classes)} classes; expected 2 to {IGNORED}")
    ignored = {label for label, name in meanings.items() if name == "ignore"} | ({IGNORED} - meanings.keys())
    return list(classes.values()), Coding(tuple(classes), tuple(sorted(ignored)))


def generated_palette(classes: int) -> list[Colour]:
    """A colour for each class: those of Okabe and Ito, and with more than seven classes darker and darker ones."""
    rounds = -(-classes // len(OKABE_ITO))
    palette: list[Colour] = []
    for number in range(classes):
        red, green, blue = OKABE_ITO[number % len(OKABE_ITO)]
        light = 1 - 0.8 * (number // len(OKABE_ITO)) / rounds
        palette.append((round(red * light), round(green * light), round(blue * light)))
    return palette


# Which image has which mask.


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
    for path in sorted((root / folder).rglob("*")):
        inside = path.relative_to(root / folder)
        stem = inside.with_suffix("").as_posix()
        if not stem.endswith(end) or any(part.startswith(".") for part in inside.parts) or not path.is_file():
            continue
        name = path.relative_to(root).as_posix()
        other = files.setdefault(stem.removesuffix(end), name)
        if other != name:
            raise InputError(f"{root / other} and {root / name} differ in their suffix only; which one is meant?")
    return files


def _have(names: Sequence[str], noun: str) -> str:
    return f"{counted(len(names), noun)} {'has' if len(names) == 1 else 'have'}"


# Published data sets.


class PublishedScenes(ABC):
    """What they have in common.

    `folder` is where they lie under the root, and `needed` what must be in it. `validation` is the share of training
    images that is split off where the published validation set is the test set. `sample_sizes` are heights and widths
    of the images that `write_sample` makes, and `mask_mode` is Pillow's word for how masks are stored.
    """

    task = "segmentation"
    takes_path = False
    takes_image_size = True

    name: str
    folder: str
    needed: tuple[str, ...]
    validation = 0.05
    sample_sizes: tuple[tuple[int, int], ...] = ((48, 64),)
    mask_mode = "L"

    @abstractmethod
    def classes(self) -> list[tuple[str, Colour]]:
        """Their names and colours."""

    @abstractmethod
    def coding(self) -> Coding: ...

    def mask_ids(self) -> list[int]:
        """For each class the id that the benchmark's server expects in predictions."""
        return list(self.coding().ids)

    @abstractmethod
    def pairs(self, folder: Path) -> tuple[Pairs, list[str]]:
        """The images and masks of each part, and notes on how they were chosen."""

    @abstractmethod
    def sample_pairs(self) -> Pairs:
        """Names for the files of a tiny data set."""

    def find(self, options: DataOptions) -> Path:
        return find_files(self.name, options, {self.folder: self.needed})

    def checksums(self, folder: Path) -> dict[str, str]:
        """None: only the archives have them."""
        return {}

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        read = _published(self, self.find(options), options.image_size, options.skip_bad, MEMORY_LIMIT)
        parts, notes = dict(read.parts), list(read.notes)
        if "test" not in parts:
            parts["test"] = parts.pop("val")
            parts["train"], parts["val"] = split_by_seed(parts["train"], self.validation, seed, "val")
            notes += [
                "the published validation images are the test set: the labels of the published test images are secret",
                f"{100 * self.validation:.0f} % of the training images are the validation set, by seed",
            ]
        names, palette = zip(*self.classes(), strict=True)
        return _bundle(parts, list(names), list(palette), self.mask_ids(), notes)

    def write_sample(self, root: Path) -> None:
        """Eight training images and four of each other part: rectangles in the colours of the classes."""
        folder, palette = root / self.folder, [colour for _, colour in self.classes()]
        for number, (part, pairs) in enumerate(self.sample_pairs().items()):
            for index, pair in enumerate(pairs):
                size = self.sample_sizes[index % len(self.sample_sizes)]
                _write_scene(folder, pair, size, self.coding(), palette, self.mask_mode, seed=100 * number + index)
            self.write_list(folder, part, [Path(image).stem for image, _ in pairs])

    def write_list(self, folder: Path, part: str, stems: list[str]) -> None:
        """Writes the file that names the images of a part. Most data sets have none."""
        return


@lru_cache(maxsize=2)
def _published(
    loader: PublishedScenes, folder: Path, size: int | None, skip_bad: bool, memory_limit: int
) -> ReadScenes:
    where = f"data {loader.name!r}"
    pairs, notes = loader.pairs(folder)
    read = read_scenes(where, folder, pairs, loader.coding(), size, skip_bad, memory_limit)
    return _checked(where, ReadScenes(read.parts, read.coding, [*read.notes, *notes]))


class Cityscapes(PublishedScenes):
    """Cityscapes: 3,475 street scenes, 19 classes of pixels; cityscapes/; register at cityscapes-dataset.com."""

    name = "cityscapes"
    published = (2975, 500, 19)
    folder = "cityscapes"
    needed = tuple(f"{kind}/{part}/" for kind in ("leftImg8bit", "gtFine") for part in ("train", "val"))

    def find(self, options: DataOptions) -> Path:
        try:
            return super().find(options)
        except InputError as error:
            raise InputError(f"{error}; to get the files, register at cityscapes-dataset.com") from None

    def classes(self) -> list[tuple[str, Colour]]:
        return [(each.name, each.color) for each in self._classes()]

    def coding(self) -> Coding:
        ids = tuple(each.id for each in self._classes())
        return Coding(ids, tuple(sorted({*range(34), IGNORED} - {*ids})))

    def _classes(self) -> list[Any]:
        """The rows of torchvision's table that count in the benchmark, in its order."""
        table = torchvision_dataset("Cityscapes").classes
        return sorted((each for each in table if not each.ignore_in_eval), key=lambda each: each.train_id)

    def pairs(self, folder: Path) -> tuple[Pairs, list[str]]:
        where = f"data {self.name!r}"
        ends = ("_leftImg8bit", "_gtFine_labelIds")
        parts = ("train", "val")
        return {part: pairs_in(where, folder, f"leftImg8bit/{part}", f"gtFine/{part}", *ends) for part in parts}, []

    def sample_pairs(self) -> Pairs:
        return {
            part: [
                (f"leftImg8bit/{part}/{scene}_leftImg8bit.png", f"gtFine/{part}/{scene}_gtFine_labelIds.png")
                for scene in (f"{city}/{city}_{index:06}_000019" for index in range(count))
            ]
            for part, city, count in (("train", "aachen", 8), ("val", "munster", 4))
        }


class Voc2012(PublishedScenes):
    """Pascal VOC 2012: 2,913 photographs, or 12,031 with the augmented list, 21 classes of pixels; VOCdevkit/VOC2012/.

    The list `trainaug.txt` (or `train_aug.txt`), where it is there, has the images of SBD (Hariharan et al., 2011) too;
    their masks are in `SegmentationClassAug/`.
    """

    name = "voc2012"
    folder = "VOCdevkit/VOC2012"
    needed = ("JPEGImages/", "SegmentationClass/", "ImageSets/Segmentation/train.txt", "ImageSets/Segmentation/val.txt")
    sample_sizes = ((48, 64), (64, 48))
    mask_mode = "P"
    names = (
        "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
        "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
    )  # fmt: skip
    published_training = (1464, 10_582)
    published_validation = 1449

    def classes(self) -> list[tuple[str, Colour]]:
        return [(name, _voc_colour(number)) for number, name in enumerate(self.names)]

    def coding(self) -> Coding:
        return Coding(tuple(range(len(self.names))))

    def download(self, root: Path) -> None:
        torchvision_dataset("VOCSegmentation")(root, year="2012", image_set="train", download=True)

    def pairs(self, folder: Path) -> tuple[Pairs, list[str]]:
        lists = folder / "ImageSets" / "Segmentation"
        augmented = [lists / name for name in ("trainaug.txt", "train_aug.txt") if (lists / name).is_file()]
        train = augmented[0] if augmented else lists / "train.txt"
        images = files_in(folder, "JPEGImages")
        masks = files_in(folder, "SegmentationClass")
        more = {**files_in(folder, "SegmentationClassAug"), **masks} if augmented else masks
        where = f"data {self.name!r}"
        parts = {
            "train": listed_pairs(where, train, images, more),
            "val": listed_pairs(where, lists / "val.txt", images, masks),
        }
        counts = len(parts["train"]), len(parts["val"])
        notes = [f"the training images are those of {train.name}"]
        if counts[0] not in self.published_training or counts[1] != self.published_validation:
            notes.append(
                f"{counts[0]:,} training and {counts[1]:,} validation images; published are 1,464 (10,582 augmented) "
                "and 1,449"
            )
        return parts, notes

    def sample_pairs(self) -> Pairs:
        return {
            part: [
                (f"JPEGImages/{stem}.jpg", f"SegmentationClass/{stem}.png")
                for stem in (f"{year}_{index:06}" for index in range(count))
            ]
            for part, year, count in (("train", 2007, 8), ("val", 2008, 4))
        }

    def write_list(self, folder: Path, part: str, stems: list[str]) -> None:
        path = folder / "ImageSets" / "Segmentation" / f"{part}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(stems) + "\n")


def _voc_colour(number: int) -> Colour:
    """The bits of the number, dealt out to red, green and blue in turn, which they fill from the highest bit on."""
    red, green, blue = (
        sum((number >> (3 * place + channel) & 1) << (7 - place) for place in range(8)) for channel in range(3)
    )
    return red, green, blue


class LoveDa(PublishedScenes):
    """LoveDA: 4,191 aerial images of towns and countryside, 7 classes of pixels; LoveDA/{Train,Val}/."""

    name = "loveda"
    published = (2522, 1669, 7)
    folder = "LoveDA"
    regions = ("Urban", "Rural")
    needed = tuple(
        f"{part}/{region}/{kind}/"
        for part in ("Train", "Val")
        for region in ("Urban", "Rural")
        for kind in ("images_png", "masks_png")
    )
    archives = (("Train", "de2b196043ed9b4af1690b3f9a7d558f"), ("Val", "84cae2577468ff0b5386758bb386d31d"))

    def classes(self) -> list[tuple[str, Colour]]:
        return [
            ("background", (255, 255, 255)), ("building", (255, 0, 0)), ("road", (255, 255, 0)),
            ("water", (0, 0, 255)), ("barren", (159, 129, 183)), ("forest", (0, 255, 0)),
            ("agricultural", (255, 195, 128)),
        ]  # fmt: skip

    def coding(self) -> Coding:
        return Coding(tuple(range(1, 8)), ignored=(0,))

    def mask_ids(self) -> list[int]:
        """The server counts from 0, unlike the masks."""
        return list(range(7))

    def download(self, root: Path) -> None:
        import_module("durm._torchvision")  # before torchvision
        get = import_module("torchvision.datasets.utils").download_and_extract_archive
        for part, md5 in self.archives:
            if not (root / self.folder / part).is_dir():
                url = f"https://zenodo.org/records/5706578/files/{part}.zip?download=1"
                get(url, root / self.folder, filename=f"{part}.zip", md5=md5)

    def pairs(self, folder: Path) -> tuple[Pairs, list[str]]:
        return {
            part.lower(): [
                pair
                for region in self.regions
                for pair in pairs_in(
                    f"data {self.name!r}", folder, f"{part}/{region}/images_png", f"{part}/{region}/masks_png"
                )
            ]
            for part in ("Train", "Val")
        }, []

    def sample_pairs(self) -> Pairs:
        return {
            part.lower(): [
                (f"{part}/{region}/images_png/{index}.png", f"{part}/{region}/masks_png/{index}.png")
                for region in self.regions
                for index in range(count)
            ]
            for part, count in (("Train", 4), ("Val", 2))
        }


class CamVid(PublishedScenes):
    """CamVid: 701 frames of films from a car, 11 classes of pixels; CamVid/, as in the SegNet tutorial on GitHub."""

    name = "camvid"
    published = (468, 233, 11)
    folder = "CamVid"
    parts = ("train", "val", "test")
    needed = tuple(f"{part}{end}/" for part in ("train", "val", "test") for end in ("", "annot"))

    def classes(self) -> list[tuple[str, Colour]]:
        return [
            ("sky", (128, 128, 128)), ("building", (128, 0, 0)), ("pole", (192, 192, 128)), ("road", (128, 64, 128)),
            ("pavement", (60, 40, 222)), ("tree", (128, 128, 0)), ("sign", (192, 128, 128)), ("fence", (64, 64, 128)),
            ("car", (64, 0, 128)), ("pedestrian", (64, 64, 0)), ("bicyclist", (0, 128, 192)),
        ]  # fmt: skip

    def coding(self) -> Coding:
        return Coding(tuple(range(11)), ignored=(11,))

    def pairs(self, folder: Path) -> tuple[Pairs, list[str]]:
        where, found = f"data {self.name!r}", {}
        for part in self.parts:
            images, masks, path = part, f"{part}annot", folder / f"{part}.txt"
            if path.is_file():
                found[part] = listed_pairs(where, path, files_in(folder, images), files_in(folder, masks))
            else:
                found[part] = pairs_in(where, folder, images, masks)
        return found, []

    def sample_pairs(self) -> Pairs:
        return {
            part: [
                (f"{part}/{stem}.png", f"{part}annot/{stem}.png")
                for stem in (f"{film}_{index:05}" for index in range(count))
            ]
            for part, film, count in (("train", "0001TP", 8), ("val", "0016E5", 4), ("test", "Seq05VD", 4))
        }

    def write_list(self, folder: Path, part: str, stems: list[str]) -> None:
        """As in the tutorial, whose paths begin in a folder of its authors'."""
        lines = [f"/SegNet/CamVid/{part}/{stem}.png /SegNet/CamVid/{part}annot/{stem}.png" for stem in stems]
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")


def _write_scene(
    folder: Path,
    pair: Pair,
    size: tuple[int, int],
    coding: Coding,
    palette: Sequence[Colour],
    mode: str,
    seed: int,
) -> None:
    """An image of blocks of 16 × 16 noisy pixels in the colours of classes, over a black edge that does not count."""
    from PIL import Image

    random = np.random.default_rng(seed)
    rows, columns = size[0] // 16, size[1] // 16
    blocks = random.permutation((rows * columns * seed + np.arange(rows * columns)) % len(palette))
    labels = blocks.reshape(rows, columns).repeat(16, 0).repeat(16, 1)
    image = np.array(palette)[labels] + random.integers(-10, 11, (*labels.shape, 3))
    ids = np.array(coding.ids)[labels]
    image[-4:], ids[-4:] = 0, coding.ignored[0]
    for name in pair:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(folder / pair[0], quality=95)
    mask = Image.fromarray(ids.astype(np.uint8))
    if mode == "P":
        mask.putpalette([value for number in range(256) for value in _voc_colour(number)])
    mask.save(folder / pair[1])


LOADERS.register("segmentation")(SegmentationFolder())
LOADERS.register("cityscapes")(Cityscapes())
LOADERS.register("voc2012")(Voc2012())
LOADERS.register("loveda")(LoveDa())
LOADERS.register("camvid")(CamVid())
