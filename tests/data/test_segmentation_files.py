"""Scenes on disk: what ids mean, formats, sizes, what is measured, and files that are refused or left out."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from durm.data import DataOptions, load
from durm.data.bundle import IGNORED
from durm.data.segmentation_files import (
    count_pixels,
    measure_scenes,
    read_image,
    read_mask,
    scene_images,
)
from durm.data.segmentation_labels import LabelMap
from durm.errors import InputError
from tests.data.images import cut, pixels, write
from tests.data.masks import fill_scenes, some_ids, write_mask, write_scene

IDS = [[0, 1, 2], [2, 1, 0]]


def refused(name: str, **options: bool) -> str:
    """The sentence in which the data are refused: one line."""
    with pytest.raises(InputError) as error:
        load(name, seed=0, options=DataOptions(**options))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    return str(error.value)


def content(files: Sequence[Tensor]) -> list[Tensor]:
    return [files[index] for index in range(len(files))]


# What ids mean.


def test_a_coding_by_hand() -> None:
    """Ids 7, 11 and 26 are the classes 0, 1 and 2; 0 and 255 do not count."""
    coding = LabelMap((7, 11, 26), ignored=(0, 255))
    ids = np.array([[0, 7, 11], [26, 255, 7]], dtype=np.uint8)
    assert coding.labels(ids, Path("x")).tolist() == [[255, 0, 1], [2, 255, 0]]


@pytest.mark.parametrize(
    ("coding", "ids", "message"),
    [
        (
            LabelMap((0, 1, 2)),
            [[0, 3]],
            "a.png has pixels of the id 3; there are 3 classes, with the ids 0 to 2, and 255",
        ),
        (
            LabelMap((1, 4), (0,)),
            [[2, 0]],
            "of the id 2; there are 2 classes, with the ids 1, 4, and 0 for pixels that do",
        ),
        (LabelMap((0, 255), ()), [[7, 0]], "a.png has pixels of the id 7; there are 2 classes, with the ids 0, 255"),
        (LabelMap((0, 1, 2)), [[0, 257]], "of the id 257; there are 3 classes"),
        (LabelMap((0, 1, 2)), [[-1, 1]], "of the id -1; there are 3 classes"),
    ],
)
def test_an_unknown_id_is_named(coding: LabelMap, ids: list[list[int]], message: str) -> None:
    wide = np.array(ids)
    for values in (wide, wide.astype(np.uint8)) if 0 <= wide.min() <= wide.max() < 256 else (wide,):
        with pytest.raises(InputError) as error:
            coding.labels(values, Path("a.png"))
        assert message in str(error.value)


@pytest.mark.parametrize(("mode", "suffix"), [("L", "png"), ("P", "png"), ("I;16", "png"), ("I", "tif")])
def test_masks_of_all_modes_are_read(mode: str, suffix: str, tmp_path: Path) -> None:
    path = write_mask(tmp_path / f"x.{suffix}", [[0, 1, 2], [2, 255, 0]], mode)
    with Image.open(path) as file:
        assert file.mode == mode
    mask = read_mask(path, LabelMap((0, 1, 2)))
    assert mask.dtype == torch.uint8
    assert mask.tolist() == [[0, 1, 2], [2, 255, 0]]


def test_a_mask_of_two_colours_is_of_zeros_and_ones(tmp_path: Path) -> None:
    path = write_mask(tmp_path / "x.png", [[0, 1], [1, 0]], "1")
    assert read_mask(path, LabelMap((0, 1))).tolist() == [[0, 1], [1, 0]]


# Sizes.


@pytest.mark.parametrize(("width", "height", "size"), [(9, 6, (4, 6)), (6, 9, (6, 4)), (7, 5, (4, 6)), (5, 5, (4, 4))])
def test_the_shorter_side_is_scaled(width: int, height: int, size: tuple[int, int], tmp_path: Path) -> None:
    path = write(tmp_path / "x.png", 3, width, height)
    ids = some_ids(3, 3, height, width)
    mask_path = write_mask(tmp_path / "y.png", ids)
    image, mask = read_image(path, 4), read_mask(mask_path, LabelMap((0, 1, 2)), 4)
    assert image.shape == (3, *size)
    assert mask.shape == size
    expected = Image.fromarray(pixels(3, width, height)).resize(size[::-1], Image.Resampling.BILINEAR)
    assert np.array_equal(image.permute(1, 2, 0).numpy(), np.array(expected))
    nearest = Image.fromarray(ids.astype(np.uint8)).resize(size[::-1], Image.Resampling.NEAREST)
    assert np.array_equal(mask.numpy(), np.array(nearest))


def test_without_a_size_scenes_stay_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "x.png", 3, 7, 5)
    assert np.array_equal(read_image(path).permute(1, 2, 0).numpy(), pixels(3, 7, 5))


@pytest.mark.parametrize("mode", ["L", "P", "I;16"])
def test_grey_images_have_three_channels(mode: str, tmp_path: Path) -> None:
    ramp = np.arange(0, 240, 10).reshape(4, 6)
    if mode == "P":
        Image.fromarray(ramp.astype(np.uint8)).convert("P").save(tmp_path / "x.png")
    else:
        write_mask(tmp_path / "x.png", ramp * 256 if mode == "I;16" else ramp, mode)
    for channel in read_image(tmp_path / "x.png"):
        assert np.array_equal(channel.numpy(), ramp)


# What is measured.


def test_mean_and_deviation_over_images_of_different_sizes(tmp_path: Path) -> None:
    write(tmp_path / "a.png", 1, 7, 5)
    write(tmp_path / "b.png", 2, 4, 9)
    every = np.concatenate([pixels(1, 7, 5).reshape(-1, 3), pixels(2, 4, 9).reshape(-1, 3)]).astype(float)
    format = measure_scenes(scene_images(tmp_path, [tmp_path / "a.png", tmp_path / "b.png"]))
    assert format.shape == (3, 5, 7)
    assert format.pixel_max == 255
    assert format.mean.shape == format.std.shape == (3, 1, 1)
    np.testing.assert_allclose(format.mean.flatten(), every.mean(0), rtol=1e-6)
    np.testing.assert_allclose(format.std.flatten(), every.std(0, ddof=1), rtol=1e-6)


def test_a_channel_that_is_constant_is_divided_by_one(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), (5, 6, 7)).save(tmp_path / "a.png")
    format = measure_scenes(scene_images(tmp_path, [tmp_path / "a.png"]))
    assert format.mean.flatten().tolist() == [5, 6, 7]
    assert format.std.flatten().tolist() == [1, 1, 1]


def test_pixels_are_counted_by_hand(tmp_path: Path) -> None:
    write_mask(tmp_path / "0.png", [[0, 0, 1], [255, 2, 2]])
    write_mask(tmp_path / "1.png", [[2, 2, 2], [2, 2, 2]])
    masks = [read_mask(tmp_path / f"{index}.png", LabelMap((0, 1, 2))) for index in range(2)]
    counts = count_pixels(masks, 3)
    assert (counts.classes, counts.ignored, counts.masks) == ([2, 1, 8], 1, 2)
    first = count_pixels(masks, 3, most=1)
    assert (first.classes, first.ignored, first.masks) == ([2, 1, 2], 1, 1)


# In memory or from disk.


def test_scenes_from_disk_are_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = fill_scenes(tmp_path, {"train": 6, "test": 2})
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    kept = load(name, seed=0)
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 4 * 8 * 48 - 1)
    streamed = load(name, seed=0)
    assert kept.notes[0] == "8 scenes of 8 × 6 pixels, in memory"
    assert streamed.notes[0] == "8 scenes of 8 × 6 pixels, read from disk"
    assert kept.fingerprint == streamed.fingerprint
    for mine, theirs in ((kept.train, streamed.train), (kept.val, streamed.val), (kept.test, streamed.test)):
        assert mine.masks is not None
        assert theirs.masks is not None
        assert not isinstance(mine.inputs, Tensor)
        assert not isinstance(theirs.inputs, Tensor)
        for one, other in ((mine.inputs, theirs.inputs), (mine.masks, theirs.masks)):
            assert all(torch.equal(a, b) for a, b in zip(content(one), content(other), strict=True))
            assert [one.key(index) for index in range(len(one))] == [other.key(index) for index in range(len(other))]
    assert torch.equal(kept.input.mean, streamed.input.mean)


# Files that are refused.


def repaint(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """Does something to the mask 0003, in train/."""
    return lambda root: change(root / "train" / "masks" / "0003.png")


def as_jpeg(path: Path) -> None:
    Image.open(path).save(path, format="JPEG")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "unknown id": (
        repaint(lambda path: write_mask(path, [[3] * 8] * 6) and None),
        "{root}/train/masks/0003.png has pixels of the id 3; there are 3 classes, with the ids 0 to 2, and 255 for",
    ),
    "other size": (
        repaint(lambda path: write_mask(path, [[0] * 6] * 8) and None),
        "{root}/train/masks/0003.png has 6 × 8 pixels; expected 8 × 6, as its image {root}/train/images/0003.png has",
    ),
    "colours": (
        repaint(lambda path: write_mask(path, [[0] * 8] * 6, "RGB") and None),
        "{root}/train/masks/0003.png has colours (RGB); expected the number of a class for each pixel, as a grey or",
    ),
    "transparent": (
        repaint(lambda path: write_mask(path, [[0] * 8] * 6, "LA") and None),
        "{root}/train/masks/0003.png has colours (LA); expected the number of a class",
    ),
    "jpeg": (repaint(as_jpeg), "{root}/train/masks/0003.png is a JPEG, which blurs the ids of the pixels; expected a"),
    "no mask": (
        lambda root: (root / "train" / "masks" / "0003.png").unlink(),
        "data 'segmentation:{root}': 1 image has no mask: train/images/0003.png; expected masks such as "
        "train/masks/0003.png",
    ),
    "no images": (
        lambda root: [(root / "train" / "images" / f"000{number}.png").unlink() for number in range(5)],
        "data 'segmentation:{root}': 5 masks have no image in {root}/train/images: train/masks/0000.png, "
        "train/masks/0001.png, train/masks/0002.png and 2 more",
    ),
    "two images": (
        lambda root: write(root / "train" / "images" / "0003.bmp", 3),
        "{root}/train/images/0003.bmp and {root}/train/images/0003.png differ in their suffix only",
    ),
    "no labels": (
        lambda root: [write_mask(root / "train" / "masks" / f"000{n}.png", [[255] * 8] * 6) for n in range(6)],
        "data 'segmentation:{root}': no pixel of the 6 training masks has a class; all are ignored",
    ),
    "empty": (
        lambda root: [path.unlink() for path in root.rglob("test/*/*.png")],
        "data 'segmentation:{root}' has no images in {root}/test/images",
    ),
}


@pytest.mark.parametrize(
    ("kind", "named"),
    [(kind, named) for kind in REFUSED for named in (True, False) if named or kind != "unknown id"],
)
def test_files_that_do_not_fit_are_refused(kind: str, named: bool, tmp_path: Path) -> None:
    """Whether the classes have names or are found; of those that are found, no training mask has another."""
    change, message = REFUSED[kind]
    name = fill_scenes(tmp_path, {"train": 6, "test": 2})
    if named:
        (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    change(tmp_path)
    for skip_bad in (False, True):
        assert refused(name, skip_bad=skip_bad).startswith(message.format(root=tmp_path))


def test_an_unknown_id_is_found_when_a_mask_is_read_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    name = fill_scenes(tmp_path, {"train": 6, "test": 2})
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    write_mask(tmp_path / "train" / "masks" / "0003.png", [[9] * 8] * 6)
    data = load(name, seed=0)
    assert data.train.masks is not None
    assert data.val.masks is not None
    with pytest.raises(InputError, match=r"0003\.png has pixels of the id 9; there are 3 classes"):
        content(data.train.masks) + content(data.val.masks)


def test_large_data_need_names_for_their_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    told = refused(fill_scenes(tmp_path, {"train": 6, "test": 2}))
    assert told.endswith(
        f"too many masks to look for the classes in them; name these in {tmp_path}/classes.txt, one a line"
    )


# Files that cannot be read.


def text(path: Path) -> None:
    path.write_text("This is not an image.")


def half(path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 3, (64, 64), dtype=np.uint8)).save(path)
    cut(path)


def read_all(name: str) -> None:
    """A scene that is read from disk may be found out only then."""
    data = load(name, seed=0)
    for part in (data.train, data.val):
        assert part.masks is not None
        assert [(part.inputs[index], part.masks[index]) for index in range(len(part))]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["images", "masks"])
@pytest.mark.parametrize("write_bad", [text, half])
def test_a_bad_file_is_named_or_its_pair_left_out(
    write_bad: Callable[[Path], None], kind: str, streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streamed:
        monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    name = fill_scenes(tmp_path, {"train": 5, "test": 2})
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    write_scene(tmp_path, "train/bad", 99, some_ids(0, 3, 64, 64))
    write_bad(tmp_path / "train" / kind / "bad.png")
    with pytest.raises(InputError, match=rf"train/{kind}/bad\.png") as error:
        read_all(name)
    assert "cannot be read as" in str(error.value)
    data = load(name, seed=0, options=DataOptions(skip_bad=True))
    assert (len(data.train) + len(data.val), len(data.test)) == (5, 2)
    assert data.notes[0].startswith("7 scenes of 8 × 6 pixels")
    assert data.notes[1] == "1 scene with files that cannot be read as images were left out"


def test_bad_files_are_counted_and_three_of_them_named(tmp_path: Path) -> None:
    name = fill_scenes(tmp_path, {"train": 6, "test": 2})
    for number in range(4):
        text(tmp_path / "train" / ("images" if number % 2 else "masks") / f"000{number}.png")
    assert refused(name) == (
        f"data '{name}': 4 files cannot be read as images: train/masks/0000.png, train/images/0001.png, "
        "train/masks/0002.png and 1 more; remove them and their partners, or leave the pairs out with `skip_bad`"
    )


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("write_bad", [text, half])
def test_a_part_without_one_good_scene_is_refused(part: str, write_bad: Callable[[Path], None], tmp_path: Path) -> None:
    name = fill_scenes(tmp_path, {})
    for number in range(4):
        write_scene(tmp_path, f"{'test' if number == 3 else 'train'}/{number}", number, some_ids(number, 3, 64, 64))
    for path in (tmp_path / part / "images").iterdir():
        write_bad(path)
    assert refused(name, skip_bad=True) == f"data '{name}' has no scene in its {part} part that can be read"


def test_masks_are_ignored_where_they_say_so(tmp_path: Path) -> None:
    data = load(fill_scenes(tmp_path, {"train": 4}), seed=0)
    assert data.train.masks is not None
    for mask in content(data.train.masks):
        assert (mask == IGNORED).nonzero().tolist() == [[5, 7]]
