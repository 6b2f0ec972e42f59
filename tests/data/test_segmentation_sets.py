"""Data sets for segmentation: layouts, classes and their ids, parts, and what follows from them for the rest."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from PIL import Image

from durm.data import LOADERS, DataOptions, Downloadable, Published, Stored, load, task_of
from durm.data.bundle import IGNORED, DataBundle, Samples, joined, sample_keys
from durm.data.segmentation_files import count_pixels
from durm.data.segmentation_labels import generated_palette, read_classes
from durm.errors import InputError
from tests.cli.calling import call, refusal
from tests.data.images import pixels
from tests.data.masks import fill_scenes, some_ids, write_mask, write_scene
from tests.data.samples import write_sample

PUBLISHED = ["cityscapes", "voc2012", "loveda", "camvid"]


def sample(name: str, root: Path) -> DataOptions:
    write_sample(name, root)
    return DataOptions(root)


def sizes(data: DataBundle) -> tuple[int, int, int]:
    return len(data.train), len(data.val), len(data.test)


def masks(samples: Samples) -> list[torch.Tensor]:
    assert samples.masks is not None
    return [samples.masks[index] for index in range(len(samples))]


def keys(samples: Samples) -> list[str]:
    assert not isinstance(samples.inputs, torch.Tensor)
    return [samples.inputs.key(index).decode() for index in range(len(samples))]


def refused(name: str, options: DataOptions | None = None) -> str:
    with pytest.raises(InputError) as error:
        load(name, seed=0, options=options)
    assert "\n" not in str(error.value)
    return str(error.value)


# All published data sets.


@pytest.mark.parametrize(
    ("name", "parts", "classes"),
    [("cityscapes", (7, 1, 4), 19), ("voc2012", (7, 1, 4), 21), ("loveda", (7, 1, 4), 7), ("camvid", (8, 4, 4), 11)],
)
def test_a_sample_in_the_published_layout(name: str, parts: tuple[int, int, int], classes: int, tmp_path: Path) -> None:
    data = load(name, seed=0, options=sample(name, tmp_path))
    assert sizes(data) == parts
    assert (data.task, data.num_classes, data.input.shape) == ("segmentation", classes, (3, 48, 64))
    assert data.input.pixel_max == 255
    assert len(data.class_names) == len(set(data.class_names)) == classes
    assert len(data.palette) == len(set(data.palette)) == len(data.mask_ids) == len(set(data.mask_ids)) == classes
    for part in (data.train, data.val, data.test):
        assert part.labels.tolist() == [0] * len(part)
        for index, mask in enumerate(masks(part)):
            assert part.inputs[index].shape == (3, *mask.shape)
            assert part.inputs[index].dtype == mask.dtype == torch.uint8
    for part in (data.train, data.test):
        assert part.masks is not None
        counts = count_pixels(part.masks, classes)
        assert min(counts.classes) > 0
        assert sum(counts.classes) + counts.ignored == sum(mask.numel() for mask in masks(part))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_sample_can_be_learned_from(name: str, tmp_path: Path) -> None:
    """Every pixel has the colour of its class, within the noise."""
    data = load(name, seed=0, options=sample(name, tmp_path))
    palette = torch.tensor(data.palette).float()
    image, mask = data.train.inputs[0].float(), masks(data.train)[0]
    nearest = torch.cdist(image.flatten(1).T, palette).argmin(1).view(mask.shape)
    assert (nearest == mask)[mask != IGNORED].float().mean() > 0.95


@pytest.mark.parametrize("name", ["cityscapes", "voc2012", "loveda"])
def test_where_test_labels_are_secret_the_validation_set_is_the_test_set(name: str, tmp_path: Path) -> None:
    options = sample(name, tmp_path)
    data, again, other = (load(name, seed=seed, options=options) for seed in (0, 0, 3))
    assert data.notes[-2:] == [
        "the published validation images are the test set: the labels of the published test images are secret",
        "5 % of the training images are the validation set, by seed",
    ]
    assert keys(data.test) == keys(other.test)
    assert keys(data.val) == keys(again.val) != keys(other.val)
    assert sorted(keys(data.train) + keys(data.val)) == sorted(keys(other.train) + keys(other.val))
    assert data.fingerprint == again.fingerprint != other.fingerprint


def test_the_parts_of_camvid_are_the_published_ones(tmp_path: Path) -> None:
    data = load("camvid", seed=0, options=sample("camvid", tmp_path))
    assert [key.split("/")[0] for part in (data.train, data.val, data.test) for key in keys(part)] == (
        ["train"] * 8 + ["val"] * 4 + ["test"] * 4
    )
    assert data.notes == ["16 scenes of 64 × 48 pixels, in memory"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_images_can_be_scaled(name: str, tmp_path: Path) -> None:
    data = load(name, seed=0, options=replace(sample(name, tmp_path), image_size=24))
    assert data.input.shape == (3, 24, 32)
    assert {tuple(mask.shape) for mask in masks(data.train)} <= {(24, 32), (32, 24)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_mask_of_another_data_set_is_refused(name: str, tmp_path: Path) -> None:
    options = sample(name, tmp_path)
    path = next(path for path in sorted(tmp_path.rglob("*.png")) if "annot" in str(path) or "labelIds" in path.name
                or "masks_png" in str(path) or "SegmentationClass" in str(path))  # fmt: skip
    with Image.open(path) as file:
        width, height = file.size
    write_mask(path, [[77] * width] * height)
    classes = load(name, seed=0, options=sample(name, tmp_path / "other")).num_classes
    assert f"{path} has pixels of the id 77; there are {classes} classes" in refused(name, options)


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_loaders_offer(name: str) -> None:
    loader = LOADERS[name]
    assert isinstance(loader, Stored)
    assert isinstance(loader, Published) == (name != "voc2012")  # which has two training lists
    assert isinstance(loader, Downloadable) == (name in ("voc2012", "loveda"))
    assert "not found in" in refused(name, DataOptions(Path("nowhere")))


# Each of them.


def test_cityscapes_has_the_ids_of_its_scripts(tmp_path: Path) -> None:
    """From the table of cityscapesScripts: id → name, of the 19 that count."""
    data = load("cityscapes", seed=0, options=sample("cityscapes", tmp_path))
    assert dict(zip(data.mask_ids, data.class_names, strict=True)) == {
        7: "road", 8: "sidewalk", 11: "building", 12: "wall", 13: "fence", 17: "pole", 19: "traffic light",
        20: "traffic sign", 21: "vegetation", 22: "terrain", 23: "sky", 24: "person", 25: "rider", 26: "car",
        27: "truck", 28: "bus", 31: "train", 32: "motorcycle", 33: "bicycle",
    }  # fmt: skip
    assert data.palette[0] == (128, 64, 128)
    assert data.palette[18] == (119, 11, 32)


def test_cityscapes_leaves_the_other_ids_out(tmp_path: Path) -> None:
    options = sample("cityscapes", tmp_path)
    city = tmp_path / "cityscapes" / "gtFine" / "val" / "munster"
    ids = np.zeros((48, 64), dtype=np.uint8)
    ids[0, :34] = range(34)
    write_mask(city / "munster_000000_000019_gtFine_labelIds.png", ids)
    (city / "munster_000000_000019_gtFine_polygons.json").write_text("{}")
    write_mask(city / "munster_000000_000019_gtFine_color.png", ids, "RGB")
    data = load("cityscapes", seed=0, options=options)
    expected = [IGNORED] * 34
    for label, number in enumerate(data.mask_ids):
        expected[number] = label
    assert masks(data.test)[0][0, :34].tolist() == expected
    assert (masks(data.test)[0][1:] == IGNORED).all()


def test_cityscapes_says_where_it_is_from(tmp_path: Path) -> None:
    assert refused("cityscapes", DataOptions(tmp_path)).endswith("register at cityscapes-dataset.com")
    told = refusal(call("data", "check", "cityscapes", "--download", "--data-root", tmp_path))
    assert "has no download" in told
    assert "register at cityscapes-dataset.com" in told


def test_cityscapes_with_missing_partners(tmp_path: Path) -> None:
    options = sample("cityscapes", tmp_path)
    scene = "train/aachen/aachen_000002_000019"
    mask = tmp_path / "cityscapes" / "gtFine" / f"{scene}_gtFine_labelIds.png"
    aside = shutil.move(mask, tmp_path)
    assert refused("cityscapes", options) == (
        f"data 'cityscapes': 1 image has no mask: leftImg8bit/{scene}_leftImg8bit.png; "
        f"expected masks such as gtFine/{scene}_gtFine_labelIds.png"
    )
    shutil.move(aside, mask)
    (tmp_path / "cityscapes" / "leftImg8bit" / f"{scene}_leftImg8bit.png").unlink()
    assert f"1 mask has no image in {tmp_path}/cityscapes/leftImg8bit/train: " in refused("cityscapes", options)


def test_voc_has_the_colours_of_its_development_kit(tmp_path: Path) -> None:
    data = load("voc2012", seed=0, options=sample("voc2012", tmp_path))
    assert data.palette[:5] == [(0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0), (0, 0, 128)]
    assert dict(zip(data.class_names, data.palette, strict=True)) | {
        "cow": (64, 128, 0), "person": (192, 128, 128), "tvmonitor": (0, 64, 128),
    } == dict(zip(data.class_names, data.palette, strict=True))  # fmt: skip
    assert data.mask_ids == list(range(21))
    assert [mask.shape for mask in masks(data.test)] == [(48, 64), (64, 48)] * 2


@pytest.mark.parametrize("name", ["trainaug.txt", "train_aug.txt"])
def test_voc_with_the_augmented_list(name: str, tmp_path: Path) -> None:
    """Published masks go before the augmented ones; lines may be stems or pairs of paths."""
    options = sample("voc2012", tmp_path)
    folder = tmp_path / "VOCdevkit" / "VOC2012"
    shutil.copy(folder / "JPEGImages" / "2007_000000.jpg", folder / "JPEGImages" / "2010_000001.jpg")
    for stem in ("2007_000000", "2010_000001"):
        write_mask(folder / "SegmentationClassAug" / f"{stem}.png", [[20] * 64] * 48)
    stems = ["2007_000000", "2007_000001", "2010_000001"]
    lines = stems if name == "trainaug.txt" else [f"/JPEGImages/{s}.jpg /SegmentationClassAug/{s}.png" for s in stems]
    (folder / "ImageSets" / "Segmentation" / name).write_text("\n".join(lines) + "\n")
    data = load("voc2012", seed=0, options=options)
    both = joined(data.train, data.val)
    named = dict(zip(keys(both), masks(both), strict=True))
    assert sorted(named) == [f"JPEGImages/{stem}.jpg" for stem in stems]
    assert (named["JPEGImages/2010_000001.jpg"] == 20).all()
    assert not (named["JPEGImages/2007_000000.jpg"] == 20).all()
    assert f"the training images are those of {name}" in data.notes
    assert "3 training and 4 validation images; published are 1,464 (10,582 augmented) and 1,449" in data.notes


def test_voc_with_a_list_that_names_what_is_not_there(tmp_path: Path) -> None:
    options = sample("voc2012", tmp_path)
    folder = tmp_path / "VOCdevkit" / "VOC2012"
    path = folder / "ImageSets" / "Segmentation" / "train.txt"
    (folder / "SegmentationClass" / "2007_000003.png").unlink()
    assert refused("voc2012", options) == f"data 'voc2012': {path} names 2007_000003, of which there is no mask"
    path.write_text("2007_000001\nelsewhere\n")
    assert refused("voc2012", options) == f"data 'voc2012': {path} names elsewhere, of which there is no image"
    path.write_text("\n")
    assert refused("voc2012", options) == f"data 'voc2012': {path} names no images"


def test_loveda_counts_from_one_and_its_server_from_zero(tmp_path: Path) -> None:
    options = sample("loveda", tmp_path)
    ids = np.zeros((48, 64), dtype=np.uint8)
    ids[0, :8] = range(8)
    write_mask(tmp_path / "LoveDA" / "Val" / "Urban" / "masks_png" / "0.png", ids)
    data = load("loveda", seed=0, options=options)
    assert masks(data.test)[0][0, :9].tolist() == [IGNORED, 0, 1, 2, 3, 4, 5, 6, IGNORED]
    assert data.class_names == ["background", "building", "road", "water", "barren", "forest", "agricultural"]
    assert data.mask_ids == [0, 1, 2, 3, 4, 5, 6]
    assert [key.split("/")[1] for key in keys(data.test)] == ["Urban", "Urban", "Rural", "Rural"]


def test_camvid_has_twelve_ids_of_which_the_last_does_not_count(tmp_path: Path) -> None:
    options = sample("camvid", tmp_path)
    ids = np.full((48, 64), 11, dtype=np.uint8)
    ids[0, :12] = range(12)
    write_mask(tmp_path / "CamVid" / "testannot" / "Seq05VD_00000.png", ids)
    data = load("camvid", seed=0, options=options)
    assert masks(data.test)[0][0, :12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, IGNORED]
    assert data.class_names[3] == "road"


def test_the_lists_of_camvid_choose_the_frames(tmp_path: Path) -> None:
    """Lines of the tutorial, or stems as in other copies; without a list all frames are taken."""
    options = sample("camvid", tmp_path)
    folder = tmp_path / "CamVid"
    (folder / "train.txt").write_text("0001TP_00003\n0001TP_00001\n")
    (folder / "val.txt").unlink()
    (folder / "test.txt").write_text("/x/test/Seq05VD_00002.png /x/testannot/Seq05VD_00002.png\n")
    data = load("camvid", seed=0, options=options)
    assert keys(data.train) == ["train/0001TP_00003.png", "train/0001TP_00001.png"]
    assert keys(data.val) == [f"val/0016E5_0000{index}.png" for index in range(4)]
    assert keys(data.test) == ["test/Seq05VD_00002.png"]


# Folders of one's own.


@pytest.mark.parametrize("layout", ["{part}/{kind}", "{kind}/{part}"])
def test_parts_are_taken_as_they_are(layout: str, tmp_path: Path) -> None:
    fill_scenes(tmp_path / "first", {"train": 4, "val": 2, "test": 3})
    for path in sorted((tmp_path / "first").rglob("*.png")):
        place = tmp_path / "data" / layout.format(part=path.parts[-3], kind=path.parts[-2])
        place.mkdir(parents=True, exist_ok=True)
        path.rename(place / path.name)
    data = load(f"segmentation:{tmp_path / 'data'}", seed=0)
    assert sizes(data) == (4, 2, 3)
    assert data.class_names == ["0", "1", "2"]
    assert data.mask_ids == [0, 1, 2]
    assert data.palette == generated_palette(3)
    for first, part in ((0, data.train), (4, data.val), (6, data.test)):
        for index, mask in enumerate(masks(part)):
            assert np.array_equal(mask.numpy(), some_ids(first + index))
            assert np.array_equal(part.inputs[index].permute(1, 2, 0).numpy(), pixels(first + index, 8, 6))
    assert data.notes == ["9 scenes of 8 × 6 pixels, in memory"]


def test_without_parts_they_are_split_by_seed(tmp_path: Path) -> None:
    name = fill_scenes(tmp_path, {"": 20})
    data, other = (load(name, seed=seed) for seed in (0, 1))
    assert sizes(data) == sizes(other) == (14, 2, 4)
    assert sorted(keys(data.train) + keys(data.val) + keys(data.test)) == [f"images/{n:04}.png" for n in range(20)]
    assert keys(data.test) != keys(other.test)
    assert data.notes[1:] == [
        "20 % of the images are the test set, by seed",
        "10 % of the training images are the validation set, by seed",
    ]
    for part in (data.train, data.val, data.test):
        for key, mask in zip(keys(part), masks(part), strict=True):
            assert np.array_equal(mask.numpy(), some_ids(int(Path(key).stem)))


def test_files_may_lie_deeper_and_have_other_suffixes(tmp_path: Path) -> None:
    name = fill_scenes(tmp_path, {"": 4})
    for kind, suffix in (("images", "JPG"), ("masks", "tif")):
        folder = tmp_path / kind / "town"
        folder.mkdir()
        with Image.open(tmp_path / kind / "0002.png") as file:
            file.save(folder / f"0002.{suffix}")
        (tmp_path / kind / "0002.png").unlink()
    (tmp_path / "images" / ".DS_Store").write_text("x")
    data = load(name, seed=0)
    assert "images/town/0002.JPG" in keys(data.train) + keys(data.val) + keys(data.test)


def test_scenes_of_different_sizes(tmp_path: Path) -> None:
    name = fill_scenes(tmp_path, {"train": 3, "test": 1})
    write_scene(tmp_path, "train/wide", 9, some_ids(9, 3, 5, 20))
    data = load(name, seed=0)
    assert data.notes[0] == "5 scenes of 8 to 20 × 5 to 6 pixels, in memory"


@pytest.mark.parametrize(
    ("content", "names", "ids", "ignored"),
    [
        ("cat\ndog\n", ["cat", "dog"], (0, 1), (255,)),
        ("\n  cat \n\ndog", ["cat", "dog"], (0, 1), (255,)),
        ("0 ignore\n1 building\n2 road\n", ["building", "road"], (1, 2), (0, 255)),
        ("ignore\nbuilding\nwide road\n", ["building", "wide road"], (1, 2), (0, 255)),
        ("cat\n7 dog\ncow\n200 ignore\n", ["cat", "dog", "cow"], (0, 7, 8), (200, 255)),
        ("0 background\n255 object\n", ["background", "object"], (0, 255), ()),
        ("0\tbackground\n255\twide object\n", ["background", "wide object"], (0, 255), ()),
        ("1\n2\n", ["1", "2"], (0, 1), (255,)),
        ("4 ignore\n5 ignore\na\n0 b\n", ["a", "b"], (6, 0), (4, 5, 255)),
    ],
)
def test_a_file_of_classes_by_hand(
    content: str, names: list[str], ids: tuple[int, ...], ignored: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / "classes.txt"
    path.write_text(content)
    found, coding = read_classes(path)
    assert found == names
    assert (coding.ids, coding.ignored) == (ids, ignored)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\n300 b\n", ", line 2: id 300; expected 0 to 255"),
        ("255 a\nb\n", ", line 2: id 256; expected 0 to 255"),
        ("a\n0 b\n", ", line 2: id 0 is 'a' already"),
        ("a\n\na\n", ", line 3: there are two classes 'a'"),
        (
            "Bus stop\nbus-stop\n",
            ", line 2: there are two classes 'bus-stop'; 'Bus stop' and 'bus-stop' have one name in results",
        ),
        ("", " names 0 classes; expected 2 to 255"),
        ("ignore\n", " names 0 classes; expected 2 to 255"),
        ("".join(f"class{number}\n" for number in range(256)), " names 256 classes; expected 2 to 255"),
        (b"\xff\xfe", " cannot be read: not UTF-8 text"),
    ],
)
def test_a_wrong_file_of_classes(content: str | bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as error:
        read_classes(path)
    assert str(error.value) == f"{path}{message}"


def test_named_classes_need_not_occur(tmp_path: Path) -> None:
    name = fill_scenes(tmp_path, {"train": 4, "test": 1})
    (tmp_path / "classes.txt").write_text("2 two\n1 one\n0 ignore\n9 nine\n")
    data = load(name, seed=0)
    assert (data.class_names, data.mask_ids) == (["two", "one", "nine"], [2, 1, 9])
    ids = some_ids(4)
    expected = np.select([ids == 2, ids == 1], [0, 1], IGNORED)
    assert np.array_equal(masks(data.test)[0].numpy(), expected)


def test_masks_of_0_and_255_need_names(tmp_path: Path) -> None:
    for number in range(5):
        write_scene(tmp_path, str(number), number, [[0, 255], [255, 0]])
    name = f"segmentation:{tmp_path}"
    assert refused(name) == (
        f"data '{name}' has one class only, '0'; a classifier needs at least two; "
        "if 255 is one too, say so in classes.txt: `0 background` and `255 object`"
    )
    (tmp_path / "classes.txt").write_text("0 background\n255 object\n")
    data = load(name, seed=0)
    assert masks(data.train)[0].tolist() == [[0, 1], [1, 0]]
    assert data.mask_ids == [0, 255]


def only_test(root: Path) -> None:
    fill_scenes(root, {"test": 3})


LAYOUTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda root: root.rmdir(), ": there is no such folder"),
    "file": (
        lambda root: (root.rmdir(), root.write_text("x")),
        " is a file; expected a folder with images/ and masks/",
    ),
    "empty": (lambda root: None, ": there is no {root}/images"),
    "no masks": (lambda root: (root / "images").mkdir(), ": there is no {root}/masks"),
    "no files": (
        lambda root: ((root / "images").mkdir(), (root / "masks").mkdir()),
        " has no images in {root}/images",
    ),
    "no training part": (only_test, " has no train/images/ next to test/images/"),
    "one class": (
        lambda root: fill_scenes(root, {"": 5}, classes=1),
        " has one class only, '0'; a classifier needs at least two; if 255",
    ),
    "one named class": (
        lambda root: (fill_scenes(root, {"": 5}, classes=1), (root / "classes.txt").write_text("sky")),
        " has one class only, 'sky'; a classifier needs at least two",
    ),
    "too few to split twice": (
        lambda root: fill_scenes(root, {"": 2}),
        " has 2 training images; expected at least 3",
    ),
    "too few to split": (
        lambda root: fill_scenes(root, {"train": 1, "test": 2}),
        " has 1 training image; expected at least 2",
    ),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_folders_that_are_no_data_set(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    change, message = LAYOUTS[kind]
    change(root)
    assert refused(f"segmentation:{root}").startswith(f"data 'segmentation:{root}'{message.format(root=root)}")


def test_a_class_of_the_test_set_only_is_refused(tmp_path: Path) -> None:
    name = fill_scenes(tmp_path, {"train": 4})
    write_scene(tmp_path, "test/1", 1, [[0, 1], [2, 5]])
    told = refused(name)
    assert told.startswith(
        f"{tmp_path}/test/masks/1.png has pixels of the id 5; there are 3 classes, with the ids 0 to 2"
    )


@pytest.mark.parametrize("classes", [1, 7, 8, 19, 150, 255])
def test_generated_colours_differ(classes: int) -> None:
    palette = generated_palette(classes)
    assert len(set(palette)) == len(palette) == classes
    assert (0, 0, 0) not in palette
    assert palette[:7] == generated_palette(7)[:classes]


# Samples with masks.


def test_parts_of_scenes_keep_their_masks(tmp_path: Path) -> None:
    data = load(fill_scenes(tmp_path, {"train": 6, "val": 2, "test": 1}), seed=0)
    both = joined(data.val, data.train.subset(torch.tensor([4, 0])))
    assert [Path(key).stem for key in keys(both)] == ["0006", "0007", "0004", "0000"]
    for key, mask in zip(keys(both), masks(both), strict=True):
        assert np.array_equal(mask.numpy(), some_ids(int(Path(key).stem)))
    assert sample_keys(both)[0] == b"val/images/0006.png val/masks/0006.png"


def test_the_fingerprint_sees_which_scenes_are_where(tmp_path: Path) -> None:
    data = load(fill_scenes(tmp_path, {"train": 6, "val": 2, "test": 1}), seed=0)
    other = replace(data, train=data.train.subset(torch.tensor([0, 1, 2, 3, 5, 4])))
    assert data.fingerprint != other.fingerprint


# Subsets and long tails of scenes.


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("camvid", "segmentation"),
        ("segmentation:./here", "segmentation"),
        ("subset:samples=5:segmentation:./here", "segmentation"),
        ("longtail:100:camvid", "segmentation"),
        ("digits", "classification"),
        ("subset:samples=5:longtail:3:digits", "classification"),
        ("pacs:photo", "classification"),
        ("subset:samples=5", "classification"),
    ],
)
def test_the_task_follows_from_the_name(name: str, task: str) -> None:
    assert task_of(name) == task


def test_a_name_that_does_not_exist_has_no_task() -> None:
    with pytest.raises(InputError, match="did you mean 'camvid'"):
        task_of("camvit")


def test_a_subset_has_so_many_images(tmp_path: Path) -> None:
    name = fill_scenes(tmp_path, {"train": 30, "test": 3})
    whole = load(name, seed=0)

    def learned(seed: int, text: str) -> list[str]:
        data = load(f"subset:{text}:{name}", seed=seed)
        assert (data.task, data.palette, data.mask_ids) == ("segmentation", whole.palette, whole.mask_ids)
        assert keys(data.test) == keys(whole.test)
        both = joined(data.train, data.val)
        for key, mask in zip(keys(both), masks(both), strict=True):
            assert np.array_equal(mask.numpy(), some_ids(int(Path(key).stem)))
        return sorted(keys(both))

    ten = learned(0, "samples=10")
    assert len(ten) == 10
    assert ten == learned(5, "samples=10")
    assert ten != learned(0, "samples=10,draw=1")
    assert set(learned(0, "samples=5")) < set(ten)
    data = load(f"subset:samples=10:{name}", seed=0)
    assert sizes(data) == (9, 1, 3)
    assert data.notes[0].startswith("10 of 30 training images, draw 0, sha256 ")


def test_what_cannot_be_done_with_scenes(tmp_path: Path) -> None:
    name = fill_scenes(tmp_path, {"train": 6, "test": 3})
    assert refused(f"subset:samples=7:{name}") == "a subset of 7 images: the data have 6 for training"
    assert refused(f"subset:classes=2:{name}").startswith(
        "a subset of 2 classes: an image of segmentation data has many"
    )
    assert refused(f"longtail:10:{name}") == (
        f"data 'longtail:10:{name}': an image of {name} has many classes, and no tail can be cut off"
    )


# The command line.


def test_check_counts_the_pixels(tmp_path: Path) -> None:
    for number in range(5):
        write_scene(tmp_path, f"train/{number}", number, [[0, 0, 0, 1], [1, 0, 0, 255]])
    write_scene(tmp_path, "val/1", 9, [[0, 1]])
    write_scene(tmp_path, "test/1", 9, [[0, 1]])
    (tmp_path / "classes.txt").write_text("sky\nroad\n")
    answer = call("data", "check", f"segmentation:{tmp_path}")
    lines = dict(line.split(": ", 1) for line in answer.out.splitlines())
    assert lines["task"] == "segmentation"
    assert lines["shape"] == "[3, 2, 4]"
    assert lines["pixels"] == "sky 25 (71.4 %), road 10 (28.6 %)"
    assert lines["ignored"] == "5 (12.5 % of all)"
    assert lines["counted"] == "in 5 of 5 training masks"
    facts = json.loads(call("data", "check", f"segmentation:{tmp_path}", "--json").out)
    assert (facts["pixels"], facts["ignored"]) == ({"sky": 25, "road": 10}, 5)


def test_check_compares_with_what_is_published(tmp_path: Path) -> None:
    options = sample("camvid", tmp_path)
    answer = call("data", "check", "camvid", "--data-root", options.root)
    assert "counts: not as published: train and val 12 of 468, test 4 of 233" in answer.out


def test_the_list_tells_the_task(tmp_path: Path) -> None:
    sample("loveda", tmp_path)
    rows = json.loads(call("data", "list", "--json", "--data-root", tmp_path).out)
    tasks = {name: row["task"] for name, row in rows.items()}
    assert {name for name, task in tasks.items() if task == "segmentation"} == {*PUBLISHED, "segmentation:PATH"}
    assert rows["loveda"]["found"] is True
    assert rows["cityscapes"]["found"] is False


def test_voc_is_downloaded_by_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from durm.data import torchvision_dataset

    torchvision_dataset("VOCSegmentation")

    def download(url: str, root: Path, filename: str, md5: str) -> None:
        assert url.endswith(filename)
        assert md5 == "6cd6e144f989b92b3379bac3b3de84fd"
        sample("voc2012", Path(root))

    monkeypatch.setattr("torchvision.datasets.voc.download_and_extract_archive", download)
    answer = call("data", "check", "voc2012", "--download", "--data-root", tmp_path)
    assert answer.code == 0, answer
    assert "train: 7" in answer.out


def test_loveda_is_downloaded_from_zenodo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from durm.data import torchvision_dataset

    torchvision_dataset("VOCSegmentation")
    asked = []

    def download(url: str, root: Path, filename: str, md5: str) -> None:
        asked.append((url, filename, len(md5)))
        sample("loveda", tmp_path / "aside")
        part = filename.removesuffix(".zip")
        shutil.copytree(tmp_path / "aside" / "LoveDA" / part, Path(root) / part)

    monkeypatch.setattr("torchvision.datasets.utils.download_and_extract_archive", download)
    for _ in range(2):
        answer = call("data", "check", "loveda", "--download", "--data-root", tmp_path)
        assert answer.code == 0, answer
    place = "https://zenodo.org/records/5706578/files"
    assert asked == [(f"{place}/{part}.zip?download=1", f"{part}.zip", 32) for part in ("Train", "Val")]


def test_a_download_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from durm.data import torchvision_dataset

    torchvision_dataset("VOCSegmentation")

    def download(*arguments: object, **options: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("torchvision.datasets.voc.download_and_extract_archive", download)
    told = refusal(call("data", "check", "voc2012", "--download", "--data-root", tmp_path))
    assert told.startswith(f"durm: data 'voc2012' could not be downloaded into {tmp_path}: ")
