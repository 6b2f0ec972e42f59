"""Published image data sets, as they come out of their archives.

| | under the data root |
|---|---|
| stl10 | stl10_binary/{train,test}_{X,y}.bin, class_names.txt |
| oxford-pet | oxford-iiit-pet/images/BREED_NUMBER.jpg, annotations/{trainval,test}.txt |
| flowers102 | flowers-102/jpg/image_NUMBER.jpg, imagelabels.mat, setid.mat |
| imagenet | imagenet/{train,val}/WNID/NAME.JPEG |
| fashion-mnist | FashionMNIST/raw/{train,t10k}-{images-idx3,labels-idx1}-ubyte, or the same with .gz |
"""

import gzip
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from durm.data import LOADERS, DataOptions, find_files, root_folder, torchvision_dataset
from durm.data.bundle import DataBundle, Samples, measure, split_by_seed
from durm.data.pictures import MEMORY_LIMIT, Pictures, check_parts, measure_pictures, read_pictures
from durm.errors import InputError

PHOTOGRAPH_SIZE = 224
"""To which photographs of varying size are brought unless the study names one."""

CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")

Members = dict[str, list[tuple[Path, int]]]


class Photographs(ABC):
    """What the data sets of one file for each image have in common.

    `validation` is the share of the training images that is split off where no validation part is published; `peek`
    says whether files that are not kept in memory are opened beforehand.
    """

    takes_path = False
    takes_image_size = True

    name: str
    published: tuple[int, int, int]
    validation = 0.1
    peek = True

    @abstractmethod
    def find(self, options: DataOptions) -> Path: ...

    def checksums(self, folder: Path) -> dict[str, str]:
        """None: only the archives have them."""
        return {}

    @abstractmethod
    def members(self, folder: Path) -> tuple[Members, list[str]]:
        """The files of each part with their labels, and the names of the classes."""

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        size = options.image_size or PHOTOGRAPH_SIZE
        read = _photographs(self, self.find(options), size, options.skip_bad, MEMORY_LIMIT)
        train, val, notes = read.parts["train"], read.parts.get("val"), list(read.notes)
        if val is None:
            train, val = split_by_seed(train, self.validation, seed, "val")
            notes.append(_split_note(self.validation))
        return DataBundle(
            train, val, read.parts["test"], len(read.classes), read.classes, measure_pictures(train.inputs),
            augment="crop-flip", notes=notes,
        )  # fmt: skip


@lru_cache(maxsize=2)
def _photographs(loader: Photographs, folder: Path, size: int, skip_bad: bool, memory_limit: int) -> Pictures:
    parts, classes = loader.members(folder)
    where = f"data {loader.name!r}"
    read = read_pictures(where, folder, parts, classes, size, skip_bad, memory_limit, peek=loader.peek)
    return check_parts(where, read)


def _split_note(share: float) -> str:
    return f"{share:.0%} of the training images of each class are the validation set, by seed".replace("%", " %", 1)


class OxfordPet(Photographs):
    """Oxford-IIIT Pet: 7,349 photographs of 37 breeds of cats and dogs; oxford-iiit-pet/."""

    name = "oxford-pet"
    published = (3680, 3669, 37)
    folder = "oxford-iiit-pet"
    lists = ("trainval.txt", "test.txt")

    def find(self, options: DataOptions) -> Path:
        files = ["images/", *(f"annotations/{file}" for file in self.lists)]
        return find_files(self.name, options, {self.folder: files})

    def download(self, root: Path) -> None:
        torchvision_dataset("OxfordIIITPet")(root, download=True)

    def members(self, folder: Path) -> tuple[Members, list[str]]:
        """A line is the file's stem, the breed from 1 to 37, the species and the breed within the species."""
        names: dict[int, str] = {}
        parts: Members = {}
        for part, file in zip(("train", "test"), self.lists, strict=True):
            path = folder / "annotations" / file
            parts[part] = []
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if not line.strip():
                    continue
                stem, label, *_ = (*line.split(), "")
                if label not in _BREEDS:
                    raise InputError(f"{path}, line {number} is {line!r}; expected a file and a breed from 1 to 37")
                names[int(label) - 1] = stem.rpartition("_")[0].replace("_", " ").title()
                parts[part].append((folder / "images" / f"{stem}.jpg", int(label) - 1))
        if len(names) != len(_BREEDS):
            raise InputError(f"data {self.name!r}: {folder / 'annotations'} names {len(names)} breeds; expected 37")
        _check_files(self.name, folder, parts)
        return parts, [names[label] for label in range(len(_BREEDS))]

    def write_sample(self, root: Path) -> None:
        """Four training images and a test image of 16 × 16 pixels of every breed."""
        folder = root / self.folder
        (folder / "annotations").mkdir(parents=True, exist_ok=True)
        stems = [f"Breed_{label:02}_{number}" for number in range(1, 6) for label in range(1, 38)]
        labels = [label for _ in range(5) for label in range(1, 38)]
        images = coloured_noise([label - 1 for label in labels], 16, 3)
        write_pictures([folder / "images" / f"{stem}.jpg" for stem in stems], images)
        lines = [f"{stem} {label} 1 {label}" for stem, label in zip(stems, labels, strict=True)]
        for file, part in zip(self.lists, (lines[37:], lines[:37]), strict=True):
            (folder / "annotations" / file).write_text("\n".join(part) + "\n")


_BREEDS = [str(label) for label in range(1, 38)]


class Flowers102(Photographs):
    """Flowers-102: 8,189 photographs of 102 kinds of flowers, most of them for testing; flowers-102/."""

    name = "flowers102"
    published = (2040, 6149, 102)
    folder = "flowers-102"
    sets = (("train", "trnid"), ("val", "valid"), ("test", "tstid"))

    def find(self, options: DataOptions) -> Path:
        return find_files(self.name, options, {self.folder: ["jpg/", "imagelabels.mat", "setid.mat"]})

    def checksums(self, folder: Path) -> dict[str, str]:
        """Of the labels and the parts. Of the images only the archive has one."""
        known = torchvision_dataset("Flowers102")._file_dict
        return dict(known[file] for file in ("label", "setid"))

    def download(self, root: Path) -> None:
        torchvision_dataset("Flowers102")(root, download=True)

    def members(self, folder: Path) -> tuple[Members, list[str]]:
        """Images are numbered from 1; `labels` has the kind of each, from 1 to 102, and `setid` those of each part."""
        labels = _matrix(folder / "imagelabels.mat", "labels")
        _check_range(folder / "imagelabels.mat", "label", labels, 1, 102)
        parts: Members = {}
        for part, key in self.sets:
            numbers = _matrix(folder / "setid.mat", key)
            _check_range(folder / "setid.mat", f"{key} image", numbers, 1, len(labels))
            parts[part] = [
                (folder / "jpg" / f"image_{number:05}.jpg", int(labels[number - 1]) - 1) for number in numbers.tolist()
            ]
        _check_files(self.name, folder, parts)
        names = getattr(torchvision_dataset("Flowers102"), "classes", None)  # older versions have none
        return parts, list(names) if names else [f"flower {label}" for label in range(1, 103)]

    def write_sample(self, root: Path) -> None:
        """Two training images, a validation image and a test image of 12 × 12 pixels of every kind."""
        from scipy.io import savemat

        folder = root / self.folder
        labels = np.tile(np.arange(1, 103), 4)
        numbers = np.arange(1, len(labels) + 1)
        write_pictures([folder / "jpg" / f"image_{n:05}.jpg" for n in numbers], coloured_noise(labels - 1, 12, 3))
        savemat(folder / "imagelabels.mat", {"labels": labels[None]})
        parts = {"trnid": numbers[:204], "valid": numbers[204:306], "tstid": numbers[306:]}
        savemat(folder / "setid.mat", {name: part[None] for name, part in parts.items()})


def _matrix(path: Path, key: str) -> np.ndarray:
    """The whole numbers of that name in a file of Matlab's."""
    from scipy.io import loadmat

    try:
        values: np.ndarray = np.asarray(loadmat(path)[key]).ravel().astype(np.int64)
    except Exception as error:  # a damaged file raises whatever it likes
        reason = "it has none of that name" if isinstance(error, KeyError) else " ".join(str(error).split())[:200]
        raise InputError(f"{path} cannot be read as Matlab's numbers {key!r}: {reason}") from None
    if not len(values):
        raise InputError(f"{path}: {key!r} is empty")
    return values


def _check_files(name: str, folder: Path, parts: Members) -> None:
    """Refuses a folder that lacks files it names."""
    files = [str(path.relative_to(folder)) for part in parts.values() for path, _ in part]
    find_files(name, DataOptions(folder.parent), {folder.name: files})


class ImageNet(Photographs):
    """ImageNet 2012: 1.3 million photographs, 1,000 classes; imagenet/{train,val}/WNID/; register at image-net.org."""

    name = "imagenet"
    published = (1_281_167, 50_000, 1000)
    validation = 0.01
    peek = False

    def find(self, options: DataOptions) -> Path:
        return find_files(self.name, options, {"imagenet": ["train/", "val/"]})

    def members(self, folder: Path) -> tuple[Members, list[str]]:
        """The published validation images are the test set: the labels of the true one are secret."""
        image_folder = torchvision_dataset("ImageFolder")
        try:
            train, test = (image_folder(folder / part) for part in ("train", "val"))
        except FileNotFoundError as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"data {self.name!r}: {reason}; expected {folder}/{{train,val}}/WNID/NAME.JPEG") from None
        if odd := sorted({*train.classes} ^ {*test.classes}):
            raise InputError(f"data {self.name!r}: {folder} has {odd[0]} in one of train/ and val/ only")
        parts = {"train": train.samples, "test": test.samples}
        return {name: [(Path(path), label) for path, label in part] for name, part in parts.items()}, train.classes

    def write_sample(self, root: Path) -> None:
        """Six training and two test images of 16 × 16 pixels of three classes."""
        wnids = ("n01440764", "n01443537", "n01484850")
        for part, each in (("train", 6), ("val", 2)):
            labels = list(range(3)) * each
            paths = [root / self.name / part / wnids[label] / f"{i}.JPEG" for i, label in enumerate(labels)]
            write_pictures(paths, coloured_noise(labels, 16, 3))


class Stl10:
    """STL-10: 13,000 photographs of 96 × 96 pixels, 10 classes; stl10_binary/."""

    takes_path = False
    takes_image_size = True

    name = "stl10"
    published = (5000, 8000, 10)
    folder = "stl10_binary"
    files = ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")
    size = 96

    def find(self, options: DataOptions) -> Path:
        return find_files(self.name, options, {self.folder: [*self.files, "class_names.txt"]})

    def checksums(self, folder: Path) -> dict[str, str]:
        known = torchvision_dataset("STL10")
        return {file: md5 for file, md5 in (*known.train_list, *known.test_list) if file in self.files}

    def download(self, root: Path) -> None:
        torchvision_dataset("STL10")(root, download=True)

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        learn, test, names = _stl10(self.find(options), options.image_size or self.size, MEMORY_LIMIT)
        train, val = split_by_seed(learn, 0.1, seed, "val")
        return DataBundle(
            train, val, test, len(names), names, measure_pictures(train.inputs),
            augment="crop-flip", notes=[_split_note(0.1)],
        )  # fmt: skip

    def write_sample(self, root: Path) -> None:
        """Six training and two test images of every class."""
        folder = root / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        for part, each in (("train", 6), ("test", 2)):
            labels = np.tile(np.arange(10), each)
            coloured_noise(labels, self.size, 3).transpose(0, 3, 2, 1).tofile(folder / f"{part}_X.bin")
            (labels + 1).astype(np.uint8).tofile(folder / f"{part}_y.bin")
        (folder / "class_names.txt").write_text("\n".join(f"class{label}" for label in range(10)) + "\n")


@lru_cache(maxsize=1)
def _stl10(folder: Path, size: int, memory_limit: int) -> tuple[Samples, Samples, list[str]]:
    lines = (folder / "class_names.txt").read_text(errors="replace").splitlines()
    names = [line.strip() for line in lines if line.strip()]
    if len(names) != 10:
        raise InputError(f"{folder / 'class_names.txt'} names {len(names)} classes; expected 10")
    train, test = (_stl10_part(folder, part) for part in ("train", "test"))
    if size != Stl10.size:
        in_memory = (len(train) + len(test)) * 3 * size * size <= memory_limit
        train, test = (_scaled(part, size, in_memory) for part in (train, test))
    return train, test, names


def _stl10_part(folder: Path, part: str) -> Samples:
    """An image is its three channels, each column by column; labels count from 1."""
    side, images_file, labels_file = Stl10.size, folder / f"{part}_X.bin", folder / f"{part}_y.bin"
    content, labels = np.fromfile(images_file, np.uint8), np.fromfile(labels_file, np.uint8)
    if len(content) == 0 or len(content) % (3 * side * side):
        raise InputError(f"{images_file} has {len(content)} bytes, no multiple of {3 * side * side}")
    images = content.reshape(-1, 3, side, side)
    if len(labels) != len(images):
        raise InputError(f"{labels_file} has {len(labels)} labels; expected {len(images)}, as there are images")
    _check_range(labels_file, "label", labels, 1, 10)
    upright = torch.from_numpy(images).transpose(2, 3).contiguous()
    return Samples(upright, torch.from_numpy(labels.astype(np.int64) - 1))


def _scaled(samples: Samples, size: int, in_memory: bool) -> Samples:
    assert isinstance(samples.inputs, Tensor)
    images = ScaledImages(samples.inputs, size)
    if not in_memory:
        return Samples(images, samples.labels)
    kept = torch.empty((len(images), 3, size, size), dtype=torch.uint8)
    for index in range(len(images)):
        kept[index] = images[index]
    return Samples(kept, samples.labels)


@dataclass(frozen=True)
class ScaledImages:
    """Square images in memory, scaled when asked for: uint8 of shape (3, size, size)."""

    images: Tensor
    size: int

    def __len__(self) -> int:
        return len(self.images)

    def key(self, index: int) -> bytes:
        return self.images[index].contiguous().numpy().tobytes()

    def __getitem__(self, index: int) -> Tensor:
        from PIL import Image

        picture = Image.fromarray(self.images[index].permute(1, 2, 0).numpy())
        scaled = picture.resize((self.size, self.size), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(scaled)).permute(2, 0, 1).contiguous()


class FashionMnist:
    """Fashion-MNIST: 70,000 grey images of clothes, 28 × 28 pixels, 10 classes; FashionMNIST/raw/."""

    takes_path = False
    takes_image_size = False

    name = "fashion-mnist"
    published = (60_000, 10_000, 10)
    folder = "FashionMNIST/raw"
    files = tuple(f"{part}-{content}-ubyte" for part in ("train", "t10k") for content in ("images-idx3", "labels-idx1"))

    def find(self, options: DataOptions) -> Path:
        folder = root_folder(options) / self.folder
        return find_files(self.name, options, {self.folder: [self.packed(folder, file) for file in self.files]})

    def packed(self, folder: Path, file: str) -> str:
        """The name under which the file lies there: with .gz if it does, because these have the known checksums."""
        return f"{file}.gz" if (folder / f"{file}.gz").is_file() else file

    def checksums(self, folder: Path) -> dict[str, str]:
        """Of the packed files, if they are there."""
        known = torchvision_dataset("FashionMNIST").resources
        return {file: md5 for file, md5 in known if (folder / file).is_file()}

    def download(self, root: Path) -> None:
        torchvision_dataset("FashionMNIST")(root, download=True)

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        folder = self.find(options)
        learn, test = _fashion_mnist(*(folder / self.packed(folder, file) for file in self.files))
        train, val = split_by_seed(learn, 0.1, seed, "val")
        assert isinstance(train.inputs, Tensor)
        return DataBundle(train, val, test, 10, list(CLOTHES), measure(train.inputs), notes=[_split_note(0.1)])

    def write_sample(self, root: Path) -> None:
        """Six training and two test images of every class, packed."""
        folder = root / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        for part, each in (("train", 6), ("t10k", 2)):
            labels = np.tile(np.arange(10, dtype=np.uint8), each)
            for content, values in (("images-idx3", coloured_noise(labels, 28, 1)[..., 0]), ("labels-idx1", labels)):
                header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
                (folder / f"{part}-{content}-ubyte.gz").write_bytes(gzip.compress(header + values.tobytes(), mtime=0))


@lru_cache(maxsize=1)
def _fashion_mnist(*paths: Path) -> tuple[Samples, Samples]:
    train_images, train_labels, test_images, test_labels = paths
    return _grey_part(train_images, train_labels), _grey_part(test_images, test_labels)


def _grey_part(images_file: Path, labels_file: Path) -> Samples:
    images, labels = _idx(images_file, 3), _idx(labels_file, 1)
    if images.shape[1:] != (28, 28) or len(images) == 0:
        raise InputError(f"{images_file} has the shape {images.shape}; expected images of 28 × 28 pixels")
    if len(labels) != len(images):
        raise InputError(f"{labels_file} has {len(labels)} labels; expected {len(images)}, as there are images")
    _check_range(labels_file, "label", labels, 0, 9)
    return Samples(torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels.astype(np.int64)))


def _idx(path: Path, dimensions: int) -> np.ndarray:
    """The bytes in an IDX file: 0, 0, 8 for bytes, the number of dimensions; each of them in four bytes; the values."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be unpacked: {error}") from None
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < start:
        raise InputError(f"{path} does not begin like an IDX file of bytes in {dimensions} dimensions")
    shape = np.frombuffer(content, ">u4", dimensions, 4).tolist()
    if len(content) - start != math.prod(shape):
        raise InputError(f"{path} has {len(content) - start} values; expected {' × '.join(map(str, shape))}")
    values: np.ndarray = np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
    return values


def _check_range(path: Path, what: str, values: np.ndarray, first: int, last: int) -> None:
    wrong = values[(values < first) | (values > last)]
    if len(wrong):
        raise InputError(f"{path} has the {what} {wrong[0]}; expected {first} … {last}")


def coloured_noise(labels: Sequence[int] | np.ndarray, side: int, channels: int) -> np.ndarray:
    """Images for samples, of shape (N, side, side, channels): noise around a colour of the class.

    Colours depend on the number of classes alone, noise on that of the images: two parts of a data set differ in it.
    """
    colours = np.random.default_rng(0).integers(0, 256, (max(labels) + 1, 1, 1, channels))
    noise = np.random.default_rng(len(labels)).integers(-40, 40, (len(labels), side, side, channels))
    images: np.ndarray = (colours[labels] + noise).clip(0, 255).astype(np.uint8)
    return images


def write_pictures(paths: Sequence[Path], images: np.ndarray) -> None:
    from PIL import Image

    for folder in {path.parent for path in paths}:
        folder.mkdir(parents=True, exist_ok=True)
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)


LOADERS.register("stl10")(Stl10())
LOADERS.register("oxford-pet")(OxfordPet())
LOADERS.register("flowers102")(Flowers102())
LOADERS.register("imagenet")(ImageNet())
LOADERS.register("fashion-mnist")(FashionMnist())
