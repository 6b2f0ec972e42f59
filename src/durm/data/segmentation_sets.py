"""Data for semantic segmentation: a class for every pixel.

| | under the data root |
|---|---|
| cityscapes | cityscapes/{leftImg8bit,gtFine}/{train,val}/CITY/NAME_{leftImg8bit,gtFine_labelIds}.png |
| voc2012 | VOCdevkit/VOC2012/{JPEGImages,SegmentationClass}/, ImageSets/Segmentation/{train,val}.txt |
| loveda | LoveDA/{Train,Val}/{Urban,Rural}/{images_png,masks_png}/ |
| camvid | CamVid/{train,val,test}/, {train,val,test}annot/ and, if there are any, {train,val,test}.txt |

Where the labels of the published test set are secret, the published validation set is the test set.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from durm.data import LOADERS, DataOptions, torchvision_dataset
from durm.data.bundle import IGNORED
from durm.data.reading import FileLoader, PublishedFiles, ReadData, check_classes
from durm.data.segmentation_files import measure_scenes, read_scenes
from durm.data.segmentation_labels import Colour, LabelMap, read_classes
from durm.data.segmentation_pairs import Pairs, files_in, listed_pairs, pairs_below, pairs_in
from durm.errors import InputError


class Scenes(FileLoader):
    """What the loaders of images with masks have in common."""

    task = "segmentation"
    takes_image_size = True
    measure = staticmethod(measure_scenes)


class SegmentationFolder(Scenes):
    """Images and masks of the same names (images/, masks/), with train/, val/, test/ above them or split by seed.

    The ids in the masks are the classes, except 255 for pixels that do not count. `classes.txt`, if there is one, names
    the classes from 0 on, one a line. A number before a name is its id, from which the next lines count on; the name
    `ignore` is for ids that do not count.
    """

    takes_path = True

    def is_read(self, name: str, is_folder: bool) -> bool:
        return name in ("images", "masks", "train", "val", "test") if is_folder else name == "classes.txt"

    def read(self, source: Path, options: DataOptions) -> ReadData:
        where = f"data 'segmentation:{source}'"
        pairs, file = pairs_below(where, source), source / "classes.txt"
        names, label_map = read_classes(file) if file.exists() else ([], None)
        read = read_scenes(where, source, pairs, label_map, options.image_size, options.skip_bad)
        hint = f"; if {IGNORED} is one too, say so in classes.txt: `0 background` and `255 object`"
        check_classes(where, names or read.classes, "" if names else hint)
        return replace(read, classes=names or read.classes)


class PublishedScenes(Scenes, PublishedFiles):
    """A published data set.

    `classes` are their names and colours. `validation` is the share of training images that is split off where the
    published validation set is the test set.
    """

    validation = 0.05
    classes: Sequence[tuple[str, Colour]]
    label_map: LabelMap

    @property
    def mask_ids(self) -> Sequence[int]:
        """For each class the id that the benchmark's server expects in predictions."""
        return self.label_map.ids

    def pairs(self, where: str, folder: Path) -> tuple[Pairs, list[str]]:
        """The images and masks of each part, and notes on how they were chosen."""
        raise NotImplementedError

    def read(self, source: Path, options: DataOptions) -> ReadData:
        where = f"data {self.name!r}"
        pairs, notes = self.pairs(where, source)
        read = read_scenes(where, source, pairs, self.label_map, options.image_size, options.skip_bad)
        if "test" not in read.parts:
            read.parts["test"] = read.parts.pop("val")
            notes.append(
                "the published validation images are the test set: the labels of the published test images are secret"
            )
        names, palette = map(list, zip(*self.classes, strict=True))
        return replace(read, classes=names, notes=[*read.notes, *notes], palette=palette, mask_ids=list(self.mask_ids))


class Cityscapes(PublishedScenes):
    """Cityscapes: 3,475 street scenes, 19 classes of pixels; cityscapes/; register at cityscapes-dataset.com."""

    name = "cityscapes"
    published = (2975, 500, 19)
    folders = ("cityscapes",)
    needed = ("leftImg8bit/train/", "leftImg8bit/val/", "gtFine/train/", "gtFine/val/")

    def find(self, options: DataOptions) -> Path:
        try:
            return super().find(options)
        except InputError as error:
            raise InputError(f"{error}; to get the files, register at cityscapes-dataset.com") from None

    @cached_property
    def table(self) -> list[Any]:
        """The rows of torchvision's table that count in the benchmark, in its order."""
        table = torchvision_dataset("Cityscapes").classes
        return sorted((each for each in table if not each.ignore_in_eval), key=lambda each: each.train_id)

    @property
    def classes(self) -> list[tuple[str, Colour]]:  # type: ignore[override]
        return [(each.name, each.color) for each in self.table]

    @property
    def label_map(self) -> LabelMap:  # type: ignore[override]
        ids = tuple(each.id for each in self.table)
        return LabelMap(ids, tuple(sorted({*range(34), IGNORED} - {*ids})))

    def pairs(self, where: str, folder: Path) -> tuple[Pairs, list[str]]:
        ends, parts = ("_leftImg8bit", "_gtFine_labelIds"), ("train", "val")
        return {part: pairs_in(where, folder, f"leftImg8bit/{part}", f"gtFine/{part}", *ends) for part in parts}, []


def voc_colour(number: int) -> Colour:
    """The bits of the number, dealt out to red, green and blue in turn, which they fill from the highest bit on."""
    red, green, blue = (
        sum((number >> (3 * place + channel) & 1) << (7 - place) for place in range(8)) for channel in range(3)
    )
    return red, green, blue


class Voc2012(PublishedScenes):
    """Pascal VOC 2012: 2,913 photographs, or 12,031 with the augmented list, 21 classes of pixels; VOCdevkit/VOC2012/.

    The list `trainaug.txt` (or `train_aug.txt`), where it is there, has the images of SBD (Hariharan et al., 2011) too;
    their masks are in `SegmentationClassAug/`.
    """

    name = "voc2012"
    lists = "ImageSets/Segmentation"
    folders = ("VOCdevkit/VOC2012",)
    needed = ("JPEGImages/", "SegmentationClass/", f"{lists}/train.txt", f"{lists}/val.txt")
    names = (
        "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
        "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
    )  # fmt: skip
    classes = tuple((name, voc_colour(number)) for number, name in enumerate(names))
    label_map = LabelMap(tuple(range(21)))

    def download(self, root: Path) -> None:
        torchvision_dataset("VOCSegmentation")(root, year="2012", image_set="train", download=True)

    def pairs(self, where: str, folder: Path) -> tuple[Pairs, list[str]]:
        lists = folder / self.lists
        names = ("trainaug.txt", "train_aug.txt", "train.txt")
        train = next(lists / name for name in names if (lists / name).is_file())
        images, masks = files_in(folder, "JPEGImages"), files_in(folder, "SegmentationClass")
        more = {} if train.name == "train.txt" else files_in(folder, "SegmentationClassAug")
        parts = {
            "train": listed_pairs(where, train, images, {**more, **masks}),
            "val": listed_pairs(where, lists / "val.txt", images, masks),
        }
        counts = len(parts["train"]), len(parts["val"])
        notes = [f"the training images are those of {train.name}"]
        if counts not in ((1464, 1449), (10_582, 1449)):
            notes.append(
                f"{counts[0]:,} training and {counts[1]:,} validation images; published are 1,464 (10,582 augmented) "
                "and 1,449"
            )
        return parts, notes


class LoveDa(PublishedScenes):
    """LoveDA: 4,191 aerial images of towns and countryside, 7 classes of pixels; LoveDA/{Train,Val}/."""

    name = "loveda"
    published = (2522, 1669, 7)
    folders = ("LoveDA",)
    needed = tuple(
        f"{part}/{region}/{kind}/"
        for part in ("Train", "Val")
        for region in ("Urban", "Rural")
        for kind in ("images_png", "masks_png")
    )
    archives = (("Train", "de2b196043ed9b4af1690b3f9a7d558f"), ("Val", "84cae2577468ff0b5386758bb386d31d"))
    classes = (
        ("background", (255, 255, 255)), ("building", (255, 0, 0)), ("road", (255, 255, 0)), ("water", (0, 0, 255)),
        ("barren", (159, 129, 183)), ("forest", (0, 255, 0)), ("agricultural", (255, 195, 128)),
    )  # fmt: skip
    label_map = LabelMap(tuple(range(1, 8)), ignored=(0,))
    mask_ids = range(7)  # the server counts from 0, unlike the masks

    def download(self, root: Path) -> None:
        import_module("durm._torchvision")  # before torchvision
        get, folder = import_module("torchvision.datasets.utils").download_and_extract_archive, root / self.folders[0]
        for part, md5 in self.archives:
            if not (folder / part).is_dir():
                url = f"https://zenodo.org/records/5706578/files/{part}.zip?download=1"
                get(url, folder, filename=f"{part}.zip", md5=md5)

    def pairs(self, where: str, folder: Path) -> tuple[Pairs, list[str]]:
        parts: Pairs = {"train": [], "val": []}
        for images, masks in zip(self.needed[::2], self.needed[1::2], strict=True):
            parts[images.partition("/")[0].lower()] += pairs_in(where, folder, images.rstrip("/"), masks.rstrip("/"))
        return parts, []


class CamVid(PublishedScenes):
    """CamVid: 701 frames of films from a car, 11 classes of pixels; CamVid/, as in the SegNet tutorial on GitHub."""

    name = "camvid"
    published = (468, 233, 11)
    folders = ("CamVid",)
    needed = ("train/", "trainannot/", "val/", "valannot/", "test/", "testannot/")
    classes = (
        ("sky", (128, 128, 128)), ("building", (128, 0, 0)), ("pole", (192, 192, 128)), ("road", (128, 64, 128)),
        ("pavement", (60, 40, 222)), ("tree", (128, 128, 0)), ("sign", (192, 128, 128)), ("fence", (64, 64, 128)),
        ("car", (64, 0, 128)), ("pedestrian", (64, 64, 0)), ("bicyclist", (0, 128, 192)),
    )  # fmt: skip
    label_map = LabelMap(tuple(range(11)), ignored=(11,))

    def pairs(self, where: str, folder: Path) -> tuple[Pairs, list[str]]:
        found: Pairs = {}
        for part in ("train", "val", "test"):
            masks, path = f"{part}annot", folder / f"{part}.txt"
            if path.is_file():
                found[part] = listed_pairs(where, path, files_in(folder, part), files_in(folder, masks))
            else:
                found[part] = pairs_in(where, folder, part, masks)
        return found, []


LOADERS.register("segmentation")(SegmentationFolder())
for loader in (Cityscapes(), Voc2012(), LoveDa(), CamVid()):
    LOADERS.register(loader.name)(loader)
