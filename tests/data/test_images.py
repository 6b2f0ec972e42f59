"""Published image data sets, from files that the tests write byte by byte, with Pillow or with scipy."""

import gzip
import hashlib
import re
import struct
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat
from torch import Tensor

from durm.data import LOADERS, DataOptions, Published, load, torchvision_dataset, verify
from durm.data.bundle import DataBundle, Samples
from durm.errors import InputError
from tests.data.images import cut
from tests.data.samples import write_sample

NAMES = ["stl10", "oxford-pet", "flowers102", "imagenet", "fashion-mnist", "mnist"]


def sizes(data: DataBundle) -> tuple[int, int, int]:
    return len(data.train), len(data.val), len(data.test)


def pixels(samples: Samples) -> Tensor:
    assert isinstance(samples.inputs, Tensor)
    return samples.inputs


def write_jpeg(path: Path, number: int, width: int = 10, height: int = 8) -> None:
    """A JPEG of one colour, which tells the number: 16 · (number mod 16) red, 16 · (number div 16) green."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), (16 * (number % 16), 16 * (number // 16), 128)).save(path, quality=95)


def numbers(samples: Samples) -> list[int]:
    """The numbers of the images that `write_jpeg` wrote."""
    means = [samples.inputs[index].float().mean((1, 2)).tolist() for index in range(len(samples))]
    return [round(red / 16) + 16 * round(green / 16) for red, green, _ in means]


def refused(name: str, root: Path, **options: bool) -> str:
    """The sentence in which the data are refused: one line."""
    with pytest.raises(InputError) as error:
        load(name, seed=0, options=DataOptions(root, None if "mnist" in name else 8, **options))
    assert "\n" not in str(error.value)
    return str(error.value)


# STL-10.


def write_stl10(root: Path) -> dict[str, np.ndarray]:
    """Twenty training and ten test images; gives those, of shape (N, height, width, 3), by part."""
    folder = root / "stl10_binary"
    folder.mkdir()
    parts = {}
    for part, count in (("train", 20), ("test", 10)):
        images = np.random.default_rng(count).integers(0, 256, (count, 96, 96, 3), dtype=np.uint8)
        columns = [image[:, column, channel] for image in images for channel in range(3) for column in range(96)]
        (folder / f"{part}_X.bin").write_bytes(b"".join(column.tobytes() for column in columns))
        (folder / f"{part}_y.bin").write_bytes(bytes(index % 10 + 1 for index in range(count)))
        parts[part] = images
    (folder / "class_names.txt").write_text("".join(f"thing {label}\n" for label in range(10)))
    return parts


def test_stl10_is_read_column_by_column(tmp_path: Path) -> None:
    written = write_stl10(tmp_path)
    data = load("stl10", seed=0, options=DataOptions(tmp_path))
    assert np.array_equal(pixels(data.test).permute(0, 2, 3, 1).numpy(), written["test"])
    assert data.test.labels.tolist() == list(range(10))
    learnt = {image.numpy().tobytes(): label for image, label in zip(*learn(data), strict=True)}
    expected = {image.transpose(2, 0, 1).tobytes(): index % 10 for index, image in enumerate(written["train"])}
    assert learnt == expected


def learn(data: DataBundle) -> tuple[Tensor, list[int]]:
    """Training and validation samples together."""
    return torch.cat([pixels(data.train), pixels(data.val)]), torch.cat([data.train.labels, data.val.labels]).tolist()


def test_stl10_as_a_bundle(tmp_path: Path) -> None:
    write_stl10(tmp_path)
    data, other = (load("stl10", seed=seed, options=DataOptions(tmp_path)) for seed in (0, 1))
    assert sizes(data) == (10, 10, 10)  # of two images of a class one is for validation
    assert data.input.shape == (3, 96, 96)
    assert (data.num_classes, data.class_names[3], data.augment) == (10, "thing 3", "crop-flip")
    assert data.notes == ["10 % of the training images of each class are the validation set, by seed"]
    assert not torch.equal(pixels(data.val), pixels(other.val))
    assert torch.equal(pixels(data.test), pixels(other.test))


@pytest.mark.parametrize("size", [40, 96, 112])
def test_stl10_can_be_scaled(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_stl10(tmp_path)
    data = load("stl10", seed=0, options=DataOptions(tmp_path, size))
    assert data.input.shape == (3, size, size)
    expected = [
        np.array(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR)) for image in written["test"]
    ]
    assert np.array_equal(pixels(data.test).permute(0, 2, 3, 1).numpy(), np.stack(expected))

    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    later = load("stl10", seed=0, options=DataOptions(tmp_path, size))
    assert isinstance(later.train.inputs, Tensor) == (size == 96)
    for mine, theirs in ((data.train, later.train), (data.val, later.val), (data.test, later.test)):
        assert torch.equal(pixels(mine), torch.stack([theirs.inputs[index] for index in range(len(theirs))]))
    torch.testing.assert_close(data.input.mean, later.input.mean)


STL_DAMAGE: dict[str, tuple[str, bytes | None, str]] = {
    "cut": ("test_X.bin", bytes(27647), "test_X.bin has 27647 bytes, no multiple of 27648"),
    "empty": ("train_X.bin", b"", "train_X.bin has 0 bytes"),
    "labels": ("train_y.bin", bytes([1] * 19), "train_y.bin has 19 labels; expected 20"),
    "label 0": ("test_y.bin", bytes(10), "test_y.bin has the label 0; expected 1 … 10"),
    "label 11": ("test_y.bin", bytes([11] * 10), "test_y.bin has the label 11; expected 1 … 10"),
    "names": ("class_names.txt", b"one\ntwo", "class_names.txt names 2 classes; expected 10"),
    "missing": ("test_y.bin", None, "test_y.bin not found in {root}/stl10_binary"),
}


@pytest.mark.parametrize("what", STL_DAMAGE)
def test_damaged_files_of_stl10_are_named(what: str, tmp_path: Path) -> None:
    write_stl10(tmp_path)
    file, content, message = STL_DAMAGE[what]
    if content is None:
        (tmp_path / "stl10_binary" / file).unlink()
    else:
        (tmp_path / "stl10_binary" / file).write_bytes(content)
    assert message.format(root=tmp_path) in refused("stl10", tmp_path)


# Oxford-IIIT Pet.

BREEDS = ["Abyssinian", "great_pyrenees", *(f"Cat_of_Kind_{chr(65 + index)}" for index in range(35))]


def write_pets(root: Path) -> None:
    """Image n of breed b is number 37 · n + b; the first is for testing, three for training."""
    folder = root / "oxford-iiit-pet"
    (folder / "annotations").mkdir(parents=True)
    lists: dict[str, list[str]] = {"test.txt": [], "trainval.txt": []}
    for index, breed in enumerate(BREEDS):
        for number in range(4):
            write_jpeg(folder / "images" / f"{breed}_{number}.jpg", 37 * number + index, 10 + number, 9)
            lists["trainval.txt" if number else "test.txt"].append(f"{breed}_{number} {index + 1} 1 {index + 1}")
    for name, lines in lists.items():
        (folder / "annotations" / name).write_text("\n".join(lines) + "\n")


def test_pets(tmp_path: Path) -> None:
    write_pets(tmp_path)
    data = load("oxford-pet", seed=0, options=DataOptions(tmp_path, 8))
    assert sizes(data) == (74, 37, 37)
    assert numbers(data.test) == data.test.labels.tolist() == list(range(37))
    assert sorted(numbers(data.train) + numbers(data.val)) == list(range(37, 148))
    for part in (data.train, data.val):
        assert [number % 37 for number in numbers(part)] == part.labels.tolist()
    assert data.class_names[:3] == ["Abyssinian", "Great Pyrenees", "Cat Of Kind A"]
    assert (data.num_classes, data.augment, data.input.shape) == (37, "crop-flip", (3, 8, 8))
    assert data.notes == [
        "148 images of 8 × 8 pixels, in memory",
        "10 % of the training images of each class are the validation set, by seed",
    ]
    other = load("oxford-pet", seed=1, options=DataOptions(tmp_path, 8))
    assert numbers(data.val) != numbers(other.val)


def test_photographs_are_brought_to_224_pixels(tmp_path: Path) -> None:
    write_sample("imagenet", tmp_path)
    data = load("imagenet", seed=0, options=DataOptions(tmp_path))
    assert data.input.shape == (3, 224, 224)
    assert pixels(data.test).shape == (6, 3, 224, 224)


def test_a_bad_photograph_is_named_or_left_out(tmp_path: Path) -> None:
    write_pets(tmp_path)
    cut(tmp_path / "oxford-iiit-pet" / "images" / "Abyssinian_2.jpg")
    told = refused("oxford-pet", tmp_path)
    assert told.startswith("data 'oxford-pet': 1 file cannot be read as images: images/Abyssinian_2.jpg; ")
    data = load("oxford-pet", seed=0, options=DataOptions(tmp_path, 8, skip_bad=True))
    assert sizes(data) == (73, 37, 37)
    assert data.notes[1] == "1 file that cannot be read as images were left out"


def change_line(root: Path, line: str) -> None:
    path = root / "oxford-iiit-pet" / "annotations" / "trainval.txt"
    path.write_text("\n".join([line, *path.read_text().splitlines()[1:]]))


def leave_out_the_last_breed(root: Path) -> None:
    for path in (root / "oxford-iiit-pet" / "annotations").iterdir():
        path.write_text("\n".join(line for line in path.read_text().splitlines() if line.split()[1] != "37"))


PET_DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "breed": (
        lambda root: change_line(root, "Abyssinian_1 38 1 1"),
        "trainval.txt, line 1 is 'Abyssinian_1 38 1 1'; exp",
    ),
    "line": (lambda root: change_line(root, "Abyssinian_1"), "expected a file and a breed from 1 to 37"),
    "breeds": (leave_out_the_last_breed, "annotations names 36 breeds; expected 37"),
    "image": (
        lambda root: (root / "oxford-iiit-pet" / "images" / "Abyssinian_1.jpg").unlink(),
        "images/Abyssinian_1.jpg not found in {root}/oxford-iiit-pet",
    ),
    "list": (
        lambda root: (root / "oxford-iiit-pet" / "annotations" / "test.txt").unlink(),
        "annotations/test.txt not found in {root}/oxford-iiit-pet",
    ),
}


@pytest.mark.parametrize("what", PET_DAMAGE)
def test_damaged_lists_of_pets_are_named(what: str, tmp_path: Path) -> None:
    write_pets(tmp_path)
    damage, message = PET_DAMAGE[what]
    damage(tmp_path)
    assert message.format(root=tmp_path) in refused("oxford-pet", tmp_path)


# Flowers-102.


def write_flowers(root: Path, labels: np.ndarray | None = None, test: list[int] | None = None) -> None:
    """Images 1 … 204, whose labels run down from 102 to 1 twice: the first 102 for training, the last for testing."""
    folder = root / "flowers-102"
    for number in range(1, 205):
        write_jpeg(folder / "jpg" / f"image_{number:05}.jpg", number, 8, 8)
    default = 102 - np.arange(204, dtype=np.uint8) % 102
    savemat(folder / "imagelabels.mat", {"labels": (default if labels is None else labels)[None]})
    parts = {"trnid": range(1, 103), "valid": range(103, 113), "tstid": test or [204, *range(113, 204)]}
    savemat(folder / "setid.mat", {name: np.array([list(part)], np.uint16) for name, part in parts.items()})


def test_flowers(tmp_path: Path) -> None:
    write_flowers(tmp_path)
    data, other = (load("flowers102", seed=seed, options=DataOptions(tmp_path, 8)) for seed in (0, 1))
    assert numbers(data.train) == numbers(other.train) == list(range(1, 103))
    assert numbers(data.val) == numbers(other.val) == list(range(103, 113))
    assert numbers(data.test) == [204, *range(113, 204)]
    assert data.train.labels.tolist() == list(range(101, -1, -1))
    assert data.test.labels.tolist() == [0, *range(91, 0, -1)]
    assert (data.num_classes, len(data.class_names), data.augment) == (102, 102, "crop-flip")
    assert data.class_names[53] == "sunflower"
    assert data.notes == ["204 images of 8 × 8 pixels, in memory"]


def no_matlab(root: Path) -> None:
    (root / "flowers-102" / "setid.mat").write_bytes(b"no numbers" * 20)


FLOWER_DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "label": (
        lambda root: write_flowers(root, labels=np.full(204, 103)),
        "imagelabels.mat has the label 103; expected 1 … 102",
    ),
    "number": (lambda root: write_flowers(root, test=[205]), "setid.mat has the tstid image 205; expected 1 … 204"),
    "image": (
        lambda root: (root / "flowers-102" / "jpg" / "image_00007.jpg").unlink(),
        "jpg/image_00007.jpg not found in {root}/flowers-102",
    ),
    "no Matlab": (no_matlab, "setid.mat cannot be read as Matlab's numbers 'trnid'"),
    "another file": (
        lambda root: savemat(root / "flowers-102" / "imagelabels.mat", {"names": np.ones(3)}),
        "imagelabels.mat cannot be read as Matlab's numbers 'labels': it has none of that name",
    ),
    "empty": (
        lambda root: savemat(root / "flowers-102" / "setid.mat", {"trnid": np.ones((1, 0))}),
        "setid.mat: 'trnid' is empty",
    ),
    "class": (
        lambda root: write_flowers(root, labels=np.full(204, 1)),
        "class 'hard-leaved pocket orchid' has 0 training images; expected at least 1",
    ),
    "missing": (
        lambda root: (root / "flowers-102" / "setid.mat").unlink(),
        "setid.mat not found in {root}/flowers-102",
    ),
}


@pytest.mark.parametrize("what", FLOWER_DAMAGE)
def test_damaged_files_of_flowers_are_named(what: str, tmp_path: Path) -> None:
    write_flowers(tmp_path)
    damage, message = FLOWER_DAMAGE[what]
    damage(tmp_path)
    assert message.format(root=tmp_path) in refused("flowers102", tmp_path)


# ImageNet.

WNIDS = ["n02", "n10", "n11"]


def write_imagenet(root: Path, each: int = 4) -> None:
    """Image n of class c is number 3 · n + c modulo 256; two of each class are in val/."""
    for part, count in (("train", each), ("val", 2)):
        for label, wnid in enumerate(WNIDS):
            for number in range(count):
                write_jpeg(root / "imagenet" / part / wnid / f"{number:03}.JPEG", (3 * number + label) % 256)


def test_imagenet(tmp_path: Path) -> None:
    write_imagenet(tmp_path, each=150)
    data, other = (load("imagenet", seed=seed, options=DataOptions(tmp_path, 8)) for seed in (0, 1))
    assert sizes(data) == (444, 6, 6)
    assert numbers(data.test) == [0, 3, 1, 4, 2, 5]
    assert data.test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    known = sorted((3 * number + label) % 256 for label in range(3) for number in range(150))
    assert sorted(numbers(data.train) + numbers(data.val)) == known
    assert numbers(data.val) != numbers(other.val)
    assert data.class_names == WNIDS
    assert data.augment == "crop-flip"
    assert data.notes[1] == "1 % of the training images of each class are the validation set, by seed"


def test_many_photographs_are_read_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a bad one is found then, unless bad ones are to be left out: opening a million beforehand takes long."""
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    write_imagenet(tmp_path)
    data = load("imagenet", seed=0, options=DataOptions(tmp_path, 8))
    assert not isinstance(data.train.inputs, Tensor)
    assert sorted(numbers(data.train) + numbers(data.val)) == list(range(12))
    assert data.notes[0] == "18 images of 8 × 8 pixels, read from disk"

    bad = tmp_path / "imagenet" / "val" / "n10" / "000.JPEG"
    cut(bad)
    data = load("imagenet", seed=0, options=DataOptions(tmp_path, 16))
    with pytest.raises(InputError, match=f"{re.escape(str(bad))} cannot be read as an image"):
        numbers(data.test)
    data = load("imagenet", seed=0, options=DataOptions(tmp_path, 16, skip_bad=True))
    assert sizes(data) == (9, 3, 5)
    assert numbers(data.test) == [0, 3, 4, 2, 5]


def test_damaged_folders_of_imagenet_are_named(tmp_path: Path) -> None:
    told = refused("imagenet", tmp_path)
    assert told.startswith(f"data 'imagenet': train/, val/ not found in {tmp_path / 'imagenet'}; `data_root`")
    assert "`download`" not in told
    write_imagenet(tmp_path)
    cut(tmp_path / "imagenet" / "train" / "n02" / "001.JPEG")
    assert "1 file cannot be read as images: train/n02/001.JPEG" in refused("imagenet", tmp_path)
    for path in (tmp_path / "imagenet" / "train" / "n11").iterdir():
        path.unlink()
    assert "no valid file for the classes n11" in refused("imagenet", tmp_path)
    (tmp_path / "imagenet" / "train" / "n11").rmdir()
    assert "has n11 in one of train/ and val/ only" in refused("imagenet", tmp_path)
    (tmp_path / "imagenet" / "val").rename(tmp_path / "imagenet" / "away")
    write_jpeg(tmp_path / "imagenet" / "val" / "flat.JPEG", 0)
    told = refused("imagenet", tmp_path)
    assert "find any class folder" in told
    assert "expected" in told


# Fashion-MNIST.


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def write_fashion(root: Path, packed: str) -> dict[str, np.ndarray]:
    """Twenty training and ten test images; gives them by part. `packed` is in the names of the files to pack."""
    folder = root / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    parts = {}
    for part, count in (("train", 20), ("t10k", 10)):
        images = np.random.default_rng(count).integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for name, values in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            if packed in name:
                (folder / f"{name}.gz").write_bytes(gzip.compress(idx(values)))
            else:
                (folder / name).write_bytes(idx(values))
        parts[part] = images
    return parts


@pytest.mark.parametrize("packed", ["ubyte", "images", "nothing"])
def test_fashion_mnist_plain_and_packed(packed: str, tmp_path: Path) -> None:
    written = write_fashion(tmp_path, packed)
    data = load("fashion-mnist", seed=0, options=DataOptions(tmp_path))
    assert sizes(data) == (10, 10, 10)
    assert np.array_equal(pixels(data.test)[:, 0].numpy(), written["t10k"])
    assert data.test.labels.tolist() == list(range(10))
    learnt = {image.numpy().tobytes(): label for image, label in zip(*learn(data), strict=True)}
    assert learnt == {image.tobytes(): index % 10 for index, image in enumerate(written["train"])}
    assert (data.num_classes, data.class_names[9], data.augment) == (10, "Ankle boot", "none")
    assert data.input.shape == (1, 28, 28)
    assert data.notes == ["10 % of the training images of each class are the validation set, by seed"]


def test_fashion_mnist_has_a_size_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="image size 32: the samples of data 'fashion-mnist' have a size of their own"):
        load("fashion-mnist", seed=0, options=DataOptions(tmp_path, 32))


IDX_DAMAGE: dict[str, tuple[str, bytes | None, str]] = {
    "magic": ("train-images-idx3-ubyte", b"\0\0\x08\x01" + bytes(20), "does not begin like an IDX file of bytes in 3"),
    "short": ("train-images-idx3-ubyte", b"\0\0\x08\x03\0", "does not begin like an IDX file"),
    "cut": (
        "train-images-idx3-ubyte",
        idx(np.zeros((20, 28, 28), np.uint8))[:-1],
        "has 15679 values; expected 20 × 28",
    ),
    "shape": ("t10k-images-idx3-ubyte", idx(np.zeros((10, 8, 8), np.uint8)), "shape (10, 8, 8); expected images of 28"),
    "labels": (
        "t10k-labels-idx1-ubyte",
        idx(np.zeros(9, np.uint8)),
        "t10k-labels-idx1-ubyte has 9 labels; expected 10",
    ),
    "label": ("t10k-labels-idx1-ubyte", idx(np.full(10, 10, np.uint8)), "has the label 10; expected 0 … 9"),
    "packed": (
        "train-labels-idx1-ubyte.gz",
        gzip.compress(bytes(50))[:20],
        "train-labels-idx1-ubyte.gz cannot be unpacked",
    ),
    "not packed": ("train-labels-idx1-ubyte.gz", b"plain", "train-labels-idx1-ubyte.gz cannot be unpacked"),
    "missing": ("t10k-labels-idx1-ubyte", None, "t10k-labels-idx1-ubyte not found in {root}/FashionMNIST/raw"),
}


@pytest.mark.parametrize("what", IDX_DAMAGE)
def test_damaged_files_of_fashion_mnist_are_named(what: str, tmp_path: Path) -> None:
    write_fashion(tmp_path, "nothing")
    file, content, message = IDX_DAMAGE[what]
    path = tmp_path / "FashionMNIST" / "raw" / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    told = refused("fashion-mnist", tmp_path)
    assert file in told
    assert message.format(root=tmp_path) in told


# All of them.


@pytest.mark.parametrize("name", NAMES)
def test_the_sample_can_be_loaded(name: str, tmp_path: Path) -> None:
    write_sample(name, tmp_path)
    data = load(name, seed=0, options=DataOptions(tmp_path, None if "mnist" in name else 8))
    for part in (data.train, data.val, data.test):
        assert part.labels.unique().numel() == data.num_classes == len(data.class_names)
    images = [image.numpy().tobytes() for image in chain(*(pixels(part) for part in (data.train, data.val, data.test)))]
    assert len({*images}) == len(images)


@pytest.mark.parametrize("name", [*NAMES, "cifar10", "cifar100"])
def test_what_is_missing_ends_with_the_command_that_gets_it(name: str, tmp_path: Path) -> None:
    told = refused_without_size(name, tmp_path / "my data")
    assert str(tmp_path / "my data") in told
    command = f"; to download: durm data check {name} `download` `data_root` '{tmp_path}/my data'"
    assert told.endswith(command) == (name != "imagenet")


def refused_without_size(name: str, root: Path) -> str:
    with pytest.raises(InputError) as error:
        load(name, seed=0, options=DataOptions(root))
    return str(error.value)


# Checksums.


def checksum(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_the_checksums_of_stl10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_stl10(tmp_path)
    loader, folder = LOADERS["stl10"], tmp_path / "stl10_binary"
    assert isinstance(loader, Published)
    files = ["train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin"]
    assert verify(loader, folder) == files
    known = [[file, checksum(folder / file)] for file in files]
    monkeypatch.setattr(torchvision_dataset("STL10"), "train_list", [*known[:2], ["unlabeled_X.bin", "unread"]])
    monkeypatch.setattr(torchvision_dataset("STL10"), "test_list", known[2:])
    assert verify(loader, folder) == []
    (folder / "test_y.bin").write_bytes(bytes(10))
    assert verify(loader, folder) == ["test_y.bin"]


def test_the_checksums_of_flowers_are_of_labels_and_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_flowers(tmp_path)
    loader, folder = LOADERS["flowers102"], tmp_path / "flowers-102"
    assert isinstance(loader, Published)
    assert verify(loader, folder) == ["imagelabels.mat", "setid.mat"]
    known = {"label": "imagelabels.mat", "setid": "setid.mat"}
    monkeypatch.setattr(
        torchvision_dataset("Flowers102"),
        "_file_dict",
        {"image": ("x.tgz", "unread"), **{key: (file, checksum(folder / file)) for key, file in known.items()}},
    )
    assert verify(loader, folder) == []


def test_the_checksums_of_fashion_mnist_are_of_packed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fashion(tmp_path, "images")
    loader, folder = LOADERS["fashion-mnist"], tmp_path / "FashionMNIST" / "raw"
    assert isinstance(loader, Published)
    files = ["train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"]
    assert list(loader.checksums(folder)) == verify(loader, folder) == files
    known = [(files[0], checksum(folder / files[0])), (files[1], "other"), ("train-labels-idx1-ubyte.gz", "not there")]
    monkeypatch.setattr(torchvision_dataset("FashionMNIST"), "resources", known)
    assert verify(loader, folder) == files[1:]


@pytest.mark.parametrize(("name", "folder"), [("oxford-pet", "oxford-iiit-pet"), ("cifar10", "cifar-10-batches-bin")])
def test_some_have_no_checksums(name: str, folder: str, tmp_path: Path) -> None:
    loader = LOADERS[name]
    assert isinstance(loader, Published)
    assert (loader.checksums(tmp_path / folder), verify(loader, tmp_path / folder)) == ({}, [])


def test_the_checksums_of_cifar_are_of_the_python_files(tmp_path: Path) -> None:
    loader, folder = LOADERS["cifar100"], tmp_path / "cifar-100-python"
    assert isinstance(loader, Published)
    folder.mkdir()
    for file in ("train", "test", "meta"):
        (folder / file).write_bytes(b"other")
    assert verify(loader, folder) == ["train", "test", "meta"]
