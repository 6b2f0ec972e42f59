"""Folders of images: formats, layouts, sizes, files that are none, and reading from disk instead of memory."""

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from durm.data import DataOptions, load
from durm.data.bundle import DataBundle, Samples
from durm.data.image_files import decode
from durm.errors import InputError
from tests.data.images import cut, fill, pixels, write


def images(samples: Samples) -> list[Tensor]:
    return [samples.inputs[index] for index in range(len(samples))]


def numbers(samples: Samples, total: int) -> list[int]:
    """Which of the images 0 … total - 1 of 8 × 8 pixels the samples are."""
    known = {pixels(number).transpose(2, 0, 1).tobytes(): number for number in range(total)}
    return [known[image.contiguous().numpy().tobytes()] for image in images(samples)]


def sizes(data: DataBundle) -> tuple[int, int, int]:
    return len(data.train), len(data.val), len(data.test)


# Formats. Four colours in large blocks survive every format; JPEG and lossy formats come close to them.

COLOURS = np.array([[200, 30, 60], [10, 220, 40], [70, 80, 240], [250, 250, 250]], dtype=np.uint8)
BLOCKS = COLOURS[np.add.outer(np.arange(32) // 16 * 2, np.arange(32) // 16)]

FORMATS: dict[str, tuple[str, str, dict]] = {
    "png": ("x.png", "RGB", {}),
    "upper case": ("x.PNG", "RGB", {}),
    "no suffix": ("x", "RGB", {"format": "PNG"}),
    "palette png": ("x.png", "P", {}),
    "rgba png": ("x.png", "RGBA", {}),
    "bmp": ("x.bmp", "RGB", {}),
    "gif": ("x.gif", "P", {}),
    "webp": ("x.webp", "RGB", {"lossless": True}),
    "tiff": ("x.tiff", "RGB", {}),
    "jpeg": ("x.jpg", "RGB", {"quality": 95}),
    "cmyk jpeg": ("x.jpg", "CMYK", {"quality": 95}),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_pixels(name: str, tmp_path: Path) -> None:
    file, mode, options = FORMATS[name]
    picture = Image.fromarray(BLOCKS)
    picture = picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=4) if mode == "P" else picture.convert(mode)
    picture.save(tmp_path / file, **options)
    image = decode(tmp_path / file, 32)
    assert image.shape == (3, 32, 32)
    assert image.dtype == torch.uint8
    allowed = 8 if "jpeg" in name else 0
    assert np.abs(image.permute(1, 2, 0).numpy().astype(int)[4:12, 4:12] - COLOURS[0].astype(int)).max() <= allowed
    assert np.abs(image.permute(1, 2, 0).numpy().astype(int)[20:28, 4:12] - COLOURS[2].astype(int)).max() <= allowed


def test_transparent_pixels_keep_their_colour(tmp_path: Path) -> None:
    picture = Image.fromarray(BLOCKS).convert("RGBA")
    picture.putalpha(7)
    picture.save(tmp_path / "x.png")
    assert np.array_equal(decode(tmp_path / "x.png", 32).permute(1, 2, 0).numpy(), BLOCKS)


@pytest.mark.parametrize(("mode", "step"), [("L", 1), ("LA", 1), ("1", 255), ("I;16", 257)])
def test_grey_images_have_three_equal_channels(mode: str, step: int, tmp_path: Path) -> None:
    """Of 16 bits the upper eight are taken, not whatever is left after clipping at 255."""
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    if mode == "I;16":
        picture = Image.fromarray(ramp.astype(np.uint16) * step)
    elif mode == "1":
        ramp = (ramp > 127).astype(np.uint8) * 255
        picture = Image.fromarray(ramp).convert("1")
    else:
        picture = Image.fromarray(ramp).convert(mode)
    picture.save(tmp_path / "x.png")
    assert Image.open(tmp_path / "x.png").mode == mode
    for channel in decode(tmp_path / "x.png", 16):
        assert np.array_equal(channel.numpy(), ramp)


# Sizes.


def test_the_middle_of_an_oblong_image_is_cut_out(tmp_path: Path) -> None:
    wide, high = write(tmp_path / "wide.png", 0, 16, 8), write(tmp_path / "high.png", 1, 8, 16)
    assert np.array_equal(decode(wide, 8).permute(1, 2, 0).numpy(), pixels(0, 16, 8)[:, 4:12])
    assert np.array_equal(decode(high, 8).permute(1, 2, 0).numpy(), pixels(1, 8, 16)[4:12])


@pytest.mark.parametrize(
    ("shapes", "image_size", "size"),
    [
        ([(8, 8)], None, 8),
        ([(8, 8)], 20, 20),
        ([(8, 8), (9, 9)], None, 224),
        ([(8, 8), (9, 9)], 16, 16),
        ([(12, 8)], None, 224),
        ([(224, 224)], None, 224),
        ([(225, 225)], None, 224),
    ],
)
def test_images_of_one_size_keep_it_and_others_are_brought_to_one(
    shapes: list[tuple[int, int]], image_size: int | None, size: int, tmp_path: Path
) -> None:
    for number in range(6):
        width, height = shapes[number % len(shapes)]
        write(tmp_path / "ab"[number % 2] / f"{number}.png", number, width, height)
    data = load(f"folder:{tmp_path}", seed=0, options=DataOptions(image_size=image_size))
    assert data.input.shape == (3, size, size)
    assert all(image.shape == (3, size, size) for part in (data.train, data.val, data.test) for image in images(part))
    assert f"6 images of {size} × {size} pixels" in data.notes[0]


# Layouts.


def test_train_val_and_test_are_taken_as_they_are(tmp_path: Path) -> None:
    name = fill(tmp_path, {"train/a": 4, "train/b": 3, "val/a": 1, "val/b": 2, "test/b": 2, "test/a": 1})
    for seed in (0, 1):
        data = load(name, seed=seed)
        assert numbers(data.train, 13) == [0, 1, 2, 3, 4, 5, 6]
        assert numbers(data.val, 13) == [7, 8, 9]
        assert numbers(data.test, 13) == [12, 10, 11]
        assert data.train.labels.tolist() == [0, 0, 0, 0, 1, 1, 1]
        assert data.test.labels.tolist() == [0, 1, 1]
        assert data.class_names == ["a", "b"]
        assert data.augment == "crop-flip"


def test_without_a_test_folder_val_is_the_test_set(tmp_path: Path) -> None:
    data = load(fill(tmp_path, {"train/a": 20, "train/b": 20, "val/a": 3, "val/b": 3}), seed=0)
    assert sizes(data) == (36, 4, 6)
    assert numbers(data.test, 46) == list(range(40, 46))
    assert any("val/ is the test set" in note for note in data.notes)


def test_without_a_val_folder_it_is_split_off_by_seed(tmp_path: Path) -> None:
    name = fill(tmp_path, {"train/a": 20, "train/b": 20, "test/a": 3, "test/b": 3})
    first, other = load(name, seed=0), load(name, seed=1)
    assert sizes(first) == sizes(other) == (36, 4, 6)
    assert sorted(numbers(first.train, 46) + numbers(first.val, 46)) == list(range(40))
    assert numbers(first.val, 46) != numbers(other.val, 46)
    assert numbers(first.test, 46) == numbers(other.test, 46) == list(range(40, 46))


@pytest.mark.parametrize("top", ["", "train/"])
def test_class_folders_alone_are_split_by_seed(top: str, tmp_path: Path) -> None:
    name = fill(tmp_path, {f"{top}a": 50, f"{top}b": 100})
    first, again, other = (load(name, seed=seed) for seed in (0, 0, 1))
    assert sizes(first) == (108, 12, 30)
    for part, counts in ((first.train, [36, 72]), (first.val, [4, 8]), (first.test, [10, 20])):
        assert torch.bincount(part.labels).tolist() == counts
        assert [number >= 50 for number in numbers(part, 150)] == part.labels.bool().tolist()
    mine, same, others = (
        [numbers(part, 150) for part in (data.train, data.val, data.test)] for data in (first, again, other)
    )
    assert sorted(chain(*mine)) == list(range(150))
    assert mine == same
    assert all(one != two for one, two in zip(mine, others, strict=True))
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_nested_files_belong_to_the_class_above_them(tmp_path: Path) -> None:
    data = load(fill(tmp_path, {"a/one/two": 3, "a": 2, "b/three": 4, "b": 1}), seed=0)
    assert sizes(data) == (6, 2, 2)
    assert data.class_names == ["a", "b"]
    for part in (data.train, data.val, data.test):
        assert [int(number >= 5) for number in numbers(part, 10)] == part.labels.tolist()


@pytest.mark.parametrize("hidden", [".DS_Store", "a/.DS_Store", "a/._0000.png", ".git/x/y.png", "a/.cache/x.png"])
def test_hidden_files_are_ignored(hidden: str, tmp_path: Path) -> None:
    name = fill(tmp_path, {"a": 5, "b": 5})
    path = tmp_path / hidden
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"no image")
    data = load(name, seed=0)
    assert sum(sizes(data)) == 10
    assert data.class_names == ["a", "b"]


def test_one_pixel_changes_the_fingerprint(tmp_path: Path) -> None:
    one, same, changed = (fill(tmp_path / name, {"a": 5, "b": 5}) for name in ("one", "same", "changed"))
    content = pixels(3)
    content[7, 7, 2] ^= 1
    Image.fromarray(content).save(tmp_path / "changed" / "a" / "0003.png")
    assert load(one, seed=0).fingerprint == load(same, seed=0).fingerprint != load(changed, seed=0).fingerprint


# LazyImages that are no images.


def text(path: Path) -> None:
    path.write_text("This is not an image.")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def half_a_png(path: Path) -> None:
    Image.fromarray(pixels(99, 64, 64)).save(path, format="PNG")
    cut(path)


def half_a_jpeg(path: Path) -> None:
    Image.fromarray(pixels(99, 64, 64)).save(path, format="JPEG")
    cut(path)


def a_changed_png(path: Path) -> None:
    Image.fromarray(pixels(99)).save(path, format="PNG")
    content = bytearray(path.read_bytes())
    content[60] ^= 255
    path.write_bytes(content)


def a_header(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n")


BAD: dict[str, Callable[[Path], None]] = {
    "text": text,
    "empty": empty,
    "half a PNG": half_a_png,
    "half a JPEG": half_a_jpeg,
    "changed PNG": a_changed_png,
    "header": a_header,
}


def read_all(name: str) -> list[Tensor]:
    """A streamed image may be found out only when it is read."""
    data = load(name, seed=0, options=DataOptions(image_size=8))
    return images(data.train) + images(data.val)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_named_or_left_out(
    kind: str, streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streamed:
        monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    name = fill(tmp_path, {"train/a": 5, "train/b": 5, "test/a": 1, "test/b": 1})
    BAD[kind](tmp_path / "train" / "a" / "bad.png")
    with pytest.raises(InputError, match=r"train/a/bad\.png") as refusal:
        read_all(name)
    assert "cannot be read as" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    data = load(name, seed=0, options=DataOptions(image_size=8, skip_bad=True))
    assert sizes(data) == (8, 2, 2)
    assert data.notes[0].startswith("12 images of 8 × 8 pixels")
    assert re.fullmatch(r"1 files? that cannot be read as (an )?images? (was|were) left out", data.notes[1])
    assert all(image.shape == (3, 8, 8) for part in (data.train, data.val, data.test) for image in images(part))


def test_bad_files_of_all_kinds_are_counted_and_three_of_them_named(tmp_path: Path) -> None:
    name = fill(tmp_path, {"a": 5, "b": 5})
    for number, write_bad in enumerate(BAD.values()):
        write_bad(tmp_path / "ab"[number % 2] / f"bad{number}.png")
    with pytest.raises(InputError, match=r"6 files cannot be read as images: .+, .+, .+ and 3 more; .+`skip_bad`"):
        load(name, seed=0, options=DataOptions(image_size=8))
    data = load(name, seed=0, options=DataOptions(image_size=8, skip_bad=True))
    assert sum(sizes(data)) == 10
    assert any("6 files" in note for note in data.notes)


@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("write_bad", [text, half_a_png])
@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_part_without_one_good_image_is_refused(
    part: str, write_bad: Callable[[Path], None], skip_bad: bool, tmp_path: Path
) -> None:
    name = fill(tmp_path, {f"{folder}/{label}": 3 for folder in ("train", "val", "test") for label in "ab"})
    for path in (tmp_path / part).rglob("*.png"):
        write_bad(path)
    with pytest.raises(InputError, match=re.escape(f"data 'folder:{tmp_path}'")) as refusal:
        load(name, seed=0, options=DataOptions(image_size=8, skip_bad=skip_bad))
    assert part in str(refusal.value)


# Folders that are no data set.


def nothing(root: Path) -> None: ...


LAYOUTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda root: root.rmdir(), "there is no such folder"),
    "file": (lambda root: (root.rmdir(), root.write_text("x")), "is a file; expected a folder that has a folder for"),
    "empty": (nothing, "has no class folders; expected {root}/CLASS/IMAGE"),
    "images without classes": (lambda root: fill(root, {"": 4}), "has no class folders; expected {root}/CLASS/IMAGE"),
    "empty train": (lambda root: (root / "train").mkdir(), "has no class folders; expected {root}/train/CLASS/IMAGE"),
    "empty classes": (lambda root: ((root / "a").mkdir(), (root / "b").mkdir()), "has no images in {root}"),
    "empty test": (
        lambda root: (fill(root, {"train/a": 3, "train/b": 3}), (root / "test").mkdir()),
        "has no images in {root}/test",
    ),
    "one class": (lambda root: fill(root, {"a": 9}), "has one class only, 'a'; a classifier needs at least two"),
    "one empty class": (
        lambda root: (fill(root, {"a": 9}), (root / "b").mkdir()),
        "class 'b' has 0 training images; expected at least 3",
    ),
    "too few to split twice": (
        lambda root: fill(root, {"a": 9, "b": 2}),
        "class 'b' has 2 training images; expected at least 3",
    ),
    "too few to split": (
        lambda root: fill(root, {"train/a": 9, "train/b": 1, "test/a": 1}),
        "class 'b' has 1 training images; expected at least 2",
    ),
    "class of the test set only": (
        lambda root: fill(root, {"train/a": 9, "train/b": 9, "test/c": 1}),
        "class 'c' has 0 training images; expected at least 2",
    ),
    "no training part": (
        lambda root: fill(root, {"val/a": 9, "val/b": 9, "test/a": 9, "test/b": 9}),
        "has no train/",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_that_is_no_data_set_is_refused(layout: str, tmp_path: Path) -> None:
    make, message = LAYOUTS[layout]
    root = tmp_path / "root"
    root.mkdir()
    make(root)
    with pytest.raises(InputError, match=re.escape(message.format(root=root))) as refusal:
        load(f"folder:{root}", seed=0)
    assert f"data 'folder:{root}'" in str(refusal.value)


# Reading from disk.


@pytest.mark.parametrize("counts", [{"a": 12, "b": 18}, {"train/a": 8, "train/b": 9, "val/a": 3, "val/b": 4}])
def test_streamed_images_are_those_in_memory(
    counts: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = fill(tmp_path, counts)
    kept = load(name, seed=3)
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    read = load(name, seed=3)
    for part in ("train", "val", "test"):
        mine, theirs = getattr(kept, part), getattr(read, part)
        assert isinstance(mine.inputs, Tensor)
        assert not isinstance(theirs.inputs, Tensor)
        assert len(mine.inputs) == len(theirs.inputs) == len(theirs.labels)
        assert torch.equal(mine.inputs, torch.stack(images(theirs)))
        assert torch.equal(mine.labels, theirs.labels)
    assert torch.equal(kept.input.mean, read.input.mean)
    assert torch.equal(kept.input.std, read.input.std)
    assert kept.class_names == read.class_names
    assert "in memory" in kept.notes[0]
    assert "read from disk" in read.notes[0]


def test_many_streamed_images_are_measured_by_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    monkeypatch.setattr("durm.data.reading.SAMPLES_TO_MEASURE", 5)
    data = load(fill(tmp_path, {"train/a": 10, "train/b": 10, "val/a": 1, "val/b": 1, "test/a": 1}), seed=0)
    chosen = np.stack([pixels(number) for number in (0, 4, 8, 12, 16)]).astype(float)
    np.testing.assert_allclose(data.input.mean.flatten().numpy(), chosen.mean((0, 1, 2)), rtol=1e-5)


def test_loading_draws_nothing_from_the_global_generator(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    load(fill(tmp_path, {"a": 5, "b": 5}), seed=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("sides", "size", "noted"), [((8, 28), None, True), ((8, 28), 28, False), ((8, 300), None, False)]
)
def test_small_images_of_several_sizes_are_noted_as_enlarged(
    sides: tuple[int, int], size: int | None, noted: bool, tmp_path: Path
) -> None:
    for number in range(12):
        side = sides[number % 4 // 2]
        write(tmp_path / f"class{number % 2}" / f"{number}.png", number, side, side)
    data = load(f"folder:{tmp_path}", seed=0, options=DataOptions(image_size=size))
    told = "their sides are 8 to 28 pixels, so all are enlarged; `image_size` 28 would keep them small"
    assert (told in data.notes) == noted
    assert data.input.shape == (3, size or 224, size or 224)
