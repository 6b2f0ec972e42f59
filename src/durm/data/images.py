"""Published image data sets, as they come out of their archives.

| | under the data root |
|---|---|
| stl10 | stl10_binary/{train,test}_{X,y}.bin, class_names.txt |
| oxford-pet | oxford-iiit-pet/images/BREED_NUMBER.jpg, annotations/{trainval,test}.txt |
| flowers102 | flowers-102/jpg/image_NUMBER.jpg, imagelabels.mat, setid.mat |
| imagenet | imagenet/{train,val}/WNID/NAME.JPEG |
| mnist | MNIST/raw/, with the names of fashion-mnist |
| fashion-mnist | FashionMNIST/raw/{train,t10k}-{images-idx3,labels-idx1}-ubyte, or the same with .gz |
"""

import gzip
import math
import zlib
from abc import abstractmethod
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from durm.data import LOADERS, DataOptions, find_files, reading, root_folder, torchvision_dataset
from durm.data.bundle import Samples
from durm.data.image_files import ImageFiles, check_measurable, read_pictures, to_tensor
from durm.data.reading import Members, PublishedFiles, ReadData, TorchvisionFiles, check_parts, check_range, read_names
from durm.errors import InputError

PHOTOGRAPH_SIZE = 224
"""To which photographs of varying size are brought unless the study names one."""

CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


class Photographs(PublishedFiles):
    """A data set of one file for each image. `peek`: open them beforehand also if they are not kept in memory."""

    takes_image_size = True
    augment = "crop-flip"
    peek = True

    @abstractmethod
    def members(self, folder: Path) -> tuple[Members, list[str]]:
        """The files of each part with their labels, and the names of the classes."""

    def read(self, source: Path, options: DataOptions) -> ReadData:
        parts, classes = self.members(source)
        where, size = f"data {self.name!r}", options.image_size or PHOTOGRAPH_SIZE
        read = read_pictures(where, source, parts, classes, size, options.skip_bad, peek=self.peek)
        check_parts(where, read.parts, classes, "images")
        return read


class OxfordPet(Photographs, TorchvisionFiles):
    """Oxford-IIIT Pet: 7,349 photographs of 37 breeds of cats and dogs; oxford-iiit-pet/."""

    name = "oxford-pet"
    published = (3680, 3669, 37)
    torchvision = "OxfordIIITPet"
    folders = ("oxford-iiit-pet",)
    needed = ("images/", "annotations/trainval.txt", "annotations/test.txt")

    def members(self, folder: Path) -> tuple[Members, list[str]]:
        """A line is the file's stem, the breed from 1 to 37, the species and the breed within the species."""
        names: dict[int, str] = {}
        parts: Members = {}
        for part, file in (("train", "trainval.txt"), ("test", "test.txt")):
            path = folder / "annotations" / file
            parts[part] = []
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if not line.strip():
                    continue
                stem, label, *_ = (*line.split(), "")
                if label not in map(str, range(1, 38)):
                    raise InputError(f"{path}, line {number} is {line!r}; expected a file and a breed from 1 to 37")
                names[int(label) - 1] = stem.rpartition("_")[0].replace("_", " ").title()
                parts[part].append((folder / "images" / f"{stem}.jpg", int(label) - 1))
        if len(names) != 37:
            raise InputError(f"data {self.name!r}: {folder / 'annotations'} names {len(names)} breeds; expected 37")
        _check_files(self.name, folder, parts)
        return parts, [names[label] for label in range(37)]


class Flowers102(Photographs, TorchvisionFiles):
    """Flowers-102: 8,189 photographs of 102 kinds of flowers, most of them for testing; flowers-102/."""

    name = "flowers102"
    published = (2040, 6149, 102)
    torchvision = "Flowers102"
    folders = ("flowers-102",)
    needed = ("jpg/", "imagelabels.mat", "setid.mat")

    def checksums(self, folder: Path) -> dict[str, str]:
        """Of the labels and the parts. Of the images only the archive has one."""
        known = torchvision_dataset("Flowers102")._file_dict
        return dict(known[file] for file in ("label", "setid"))

    def members(self, folder: Path) -> tuple[Members, list[str]]:
        """Images are numbered from 1; `labels` has the kind of each, from 1 to 102, and `setid` those of each part."""
        labels = _matrix(folder / "imagelabels.mat", "labels")
        check_range(folder / "imagelabels.mat", "label", labels, 1, 102)
        parts: Members = {}
        for part, key in (("train", "trnid"), ("val", "valid"), ("test", "tstid")):
            numbers = _matrix(folder / "setid.mat", key)
            check_range(folder / "setid.mat", f"{key} image", numbers, 1, len(labels))
            parts[part] = [
                (folder / "jpg" / f"image_{number:05}.jpg", int(labels[number - 1]) - 1) for number in numbers.tolist()
            ]
        _check_files(self.name, folder, parts)
        names = getattr(torchvision_dataset("Flowers102"), "classes", None)  # older versions have none
        return parts, list(names) if names else [f"flower {label}" for label in range(1, 103)]


def _matrix(path: Path, key: str) -> Tensor:
    """The whole numbers of that name in a file of Matlab's."""
    from scipy.io import loadmat

    try:
        values: np.ndarray = np.asarray(loadmat(path)[key]).ravel().astype(np.int64)
    except Exception as error:  # a damaged file raises whatever it likes
        reason = "it has none of that name" if isinstance(error, KeyError) else " ".join(str(error).split())[:200]
        raise InputError(f"{path} cannot be read as Matlab's numbers {key!r}: {reason}") from None
    if not len(values):
        raise InputError(f"{path}: {key!r} is empty")
    return torch.from_numpy(values)


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
    folders = ("imagenet",)
    needed = ("train/", "val/")

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


class Stl10(TorchvisionFiles):
    """STL-10: 13,000 photographs of 96 × 96 pixels, 10 classes; stl10_binary/."""

    takes_image_size = True
    augment = "crop-flip"
    name = "stl10"
    torchvision = "STL10"
    published = (5000, 8000, 10)
    files = ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")
    folders = ("stl10_binary",)
    needed = (*files, "class_names.txt")
    side = 96

    def checksums(self, folder: Path) -> dict[str, str]:
        known = torchvision_dataset("STL10")
        return {file: md5 for file, md5 in (*known.train_list, *known.test_list) if file in self.files}

    def read(self, source: Path, options: DataOptions) -> ReadData:
        names = read_names(source / "class_names.txt")
        if len(names) != 10:
            raise InputError(f"{source / 'class_names.txt'} names {len(names)} classes; expected 10")
        parts = {part: self.part(source, part) for part in ("train", "test")}
        size = options.image_size or self.side
        if size != self.side:
            check_measurable(f"data {self.name!r}", sum(map(len, parts.values())), size)
            kept = sum(map(len, parts.values())) * 3 * size * size <= reading.MEMORY_LIMIT
            for name, part in parts.items():
                scaled = ImageFiles(part.inputs, partial(_scale, size=size), _bytes)  # type: ignore[arg-type]
                inputs = torch.stack([scaled[index] for index in range(len(part))]) if kept else scaled
                parts[name] = Samples(inputs, part.labels)
        return ReadData(parts, names)

    def part(self, folder: Path, part: str) -> Samples:
        """An image is its three channels, each column by column; labels count from 1."""
        path, labels_path, size = folder / f"{part}_X.bin", folder / f"{part}_y.bin", 3 * self.side**2
        content, labels = (torch.from_numpy(np.fromfile(file, np.uint8)) for file in (path, labels_path))
        if len(content) == 0 or len(content) % size:
            raise InputError(f"{path} has {len(content)} bytes, no multiple of {size}")
        images = content.view(-1, 3, self.side, self.side).transpose(2, 3).contiguous()
        return _labelled(images, labels_path, labels, first=1)


def _labelled(images: Tensor, path: Path, labels: Tensor, first: int) -> Samples:
    """Samples of ten classes, whose labels in that file count from `first`."""
    if len(labels) != len(images):
        raise InputError(f"{path} has {len(labels)} labels; expected {len(images)}, as there are images")
    check_range(path, "label", labels, first, first + 9)
    return Samples(images, labels.long() - first)


def _scale(image: Tensor, size: int) -> Tensor:
    picture = Image.fromarray(image.permute(1, 2, 0).numpy())
    return to_tensor(picture.resize((size, size), Image.Resampling.BILINEAR))


def _bytes(image: Tensor) -> bytes:
    return image.contiguous().numpy().tobytes()


class FashionMnist(TorchvisionFiles):
    """Fashion-MNIST: 70,000 grey images of clothes, 28 × 28 pixels, 10 classes; FashionMNIST/raw/."""

    name = "fashion-mnist"
    torchvision = "FashionMNIST"
    published = (60_000, 10_000, 10)
    folder = "FashionMNIST/raw"
    files = tuple(f"{part}-{content}-ubyte" for part in ("train", "t10k") for content in ("images-idx3", "labels-idx1"))
    names: tuple[str, ...] = CLOTHES

    def find(self, options: DataOptions) -> Path:
        folder = root_folder(options) / self.folder
        return find_files(self.name, options, {self.folder: [self.packed(folder, file).name for file in self.files]})

    def packed(self, folder: Path, file: str) -> Path:
        """Where the file is: with .gz if there is one, because these have the known checksums."""
        return packed if (packed := folder / f"{file}.gz").is_file() else folder / file

    def checksums(self, folder: Path) -> dict[str, str]:
        """Of the packed files, if they are there."""
        known = torchvision_dataset(self.torchvision).resources
        return {file: md5 for file, md5 in known if (folder / file).is_file()}

    def read(self, source: Path, options: DataOptions) -> ReadData:
        paths = [self.packed(source, file) for file in self.files]
        return ReadData({"train": _grey_part(*paths[:2]), "test": _grey_part(*paths[2:])}, list(self.names))


class Mnist(FashionMnist):
    """MNIST: 70,000 grey images of handwritten digits, 28 × 28 pixels, 10 classes; MNIST/raw/."""

    name = "mnist"
    torchvision = "MNIST"
    folder = "MNIST/raw"
    names = tuple("0123456789")


def _grey_part(images_file: Path, labels_file: Path) -> Samples:
    images, labels = _idx(images_file, 3), _idx(labels_file, 1)
    if images.shape[1:] != (28, 28) or len(images) == 0:
        raise InputError(f"{images_file} has the shape {tuple(images.shape)}; expected images of 28 × 28 pixels")
    return _labelled(images.unsqueeze(1), labels_file, labels, first=0)


def _idx(path: Path, dimensions: int) -> Tensor:
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
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy())


for loader in (Stl10(), OxfordPet(), Flowers102(), ImageNet(), FashionMnist(), Mnist()):
    LOADERS.register(loader.name)(loader)
