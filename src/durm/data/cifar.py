"""CIFAR-10 and CIFAR-100, from the official binary files or from the Python ones that torchvision downloads.

| | binary | Python |
|---|---|---|
| cifar10 | cifar-10-batches-bin/{data_batch_1…5,test_batch}.bin, batches.meta.txt | cifar-10-batches-py/ |
| cifar100 | cifar-100-binary/{train,test}.bin, fine_label_names.txt | cifar-100-python/ |

A binary record is the label (of CIFAR-100: the coarse and the fine one) and 3 × 32 × 32 bytes.
"""

import pickle
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from durm.data import LOADERS, DataOptions, find_files, torchvision_dataset
from durm.data.bundle import DataBundle, Samples, measure, split_by_seed
from durm.errors import InputError

PIXELS = 3 * 32 * 32
VALIDATION_SHARE = 0.1

TrainAndTest = tuple[tuple[str, ...], tuple[str, ...]]


class Cifar:
    """What the two have in common. The last of the `labels` bytes of a binary record is the class."""

    takes_path = False
    takes_image_size = False

    name: str
    torchvision: str
    published: tuple[int, int, int]
    classes: int
    labels: int
    binary: str
    binary_files: TrainAndTest
    binary_names: str
    python: str
    python_files: TrainAndTest
    python_names: str
    label_key: bytes
    names_key: bytes

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        learn, test, names = _read(self, self.find(options))
        train, val = split_by_seed(learn, VALIDATION_SHARE, seed, "val")
        assert isinstance(train.inputs, torch.Tensor)
        notes = ["10 % of the training images of each class are the validation set, by seed"]
        return DataBundle(
            train, val, test, self.classes, names, measure(train.inputs), augment="crop-flip", notes=notes
        )

    def find(self, options: DataOptions) -> Path:
        binary = [*chain(*self.binary_files), self.binary_names]
        python = [*chain(*self.python_files), self.python_names]
        return find_files(self.name, options, {self.binary: binary, self.python: python})

    def checksums(self, folder: Path) -> dict[str, str]:
        """Of the Python files. Of the binary version only the archive has one."""
        if folder.name == self.binary:
            return {}
        known = torchvision_dataset(self.torchvision)
        return {**dict(known.train_list), **dict(known.test_list), known.meta["filename"]: known.meta["md5"]}

    def download(self, root: Path) -> None:
        torchvision_dataset(self.torchvision)(root, download=True)

    def write_sample(self, root: Path) -> None:
        """A few images of every class in the binary layout: noise around a colour of the class."""
        random = np.random.default_rng(0)
        folder = root / self.binary
        folder.mkdir(parents=True, exist_ok=True)
        colours = random.integers(0, 256, (self.classes, 3, 1))
        for files, each in zip(self.binary_files, (4 * self.classes, 2 * self.classes), strict=True):
            labels = np.arange(each * len(files)) % self.classes
            images = colours[labels] + random.integers(-40, 40, (len(labels), 3, 1024))
            records = np.zeros((len(labels), self.labels + PIXELS), np.uint8)
            records[:, self.labels - 1] = labels
            records[:, self.labels :] = images.clip(0, 255).reshape(len(labels), -1)
            for file, chunk in zip(files, np.split(records, len(files)), strict=True):
                (folder / file).write_bytes(chunk.tobytes())
        names = "\n".join(f"class {label}" for label in range(self.classes))
        (folder / self.binary_names).write_text(names + "\n")


@lru_cache(maxsize=2)
def _read(cifar: Cifar, folder: Path) -> tuple[Samples, Samples, list[str]]:
    if folder.name == cifar.binary:
        lines = (folder / cifar.binary_names).read_text().splitlines()
        names = [line.strip() for line in lines if line.strip()]
        train, test = (_binary(cifar, folder, files) for files in cifar.binary_files)
    else:
        found = _unpickle(folder / cifar.python_names)[cifar.names_key]
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in found]
        train, test = (_python(cifar, folder, files) for files in cifar.python_files)
    if len(names) != cifar.classes:
        raise InputError(f"data {cifar.name!r}: {folder} names {len(names)} classes; expected {cifar.classes}")
    return train, test, names


def _binary(cifar: Cifar, folder: Path, files: tuple[str, ...]) -> Samples:
    images, labels = [], []
    for file in files:
        content = np.fromfile(folder / file, np.uint8)
        size = cifar.labels + PIXELS
        if len(content) == 0 or len(content) % size:
            raise InputError(f"data {cifar.name!r}: {folder / file} has {len(content)} bytes, no multiple of {size}")
        records = content.reshape(-1, size)
        labels.append(records[:, cifar.labels - 1])
        images.append(records[:, cifar.labels :])
    return _samples(cifar, folder, np.concatenate(images), np.concatenate(labels))


def _python(cifar: Cifar, folder: Path, files: tuple[str, ...]) -> Samples:
    batches = [_unpickle(folder / file) for file in files]
    try:
        images = np.concatenate([batch[b"data"] for batch in batches])
        labels = np.concatenate([np.asarray(batch[cifar.label_key]) for batch in batches])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"data {cifar.name!r}: a file in {folder} has not the content of {cifar.name}") from None
    return _samples(cifar, folder, images, labels)


def _samples(cifar: Cifar, folder: Path, images: np.ndarray, labels: np.ndarray) -> Samples:
    if images.ndim != 2 or images.shape[1] != PIXELS or len(images) != len(labels) or images.dtype != np.uint8:
        raise InputError(f"data {cifar.name!r}: the images in {folder} have not 3 × 32 × 32 bytes each")
    if labels.min() < 0 or labels.max() >= cifar.classes:
        raise InputError(
            f"data {cifar.name!r}: {folder} has the label {labels.max()}; there are {cifar.classes} classes"
        )
    return Samples(torch.from_numpy(images.reshape(-1, 3, 32, 32)), torch.from_numpy(labels.astype(np.int64)))


class _PlainData(pickle.Unpickler):
    """Reads arrays, lists, numbers and strings, and runs nothing: a pickle may name any function to be called."""

    allowed = (("numpy", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"))

    def find_class(self, module: str, name: str) -> Any:
        if (module.split(".")[0], name) in self.allowed:
            if hasattr(np, "_core"):  # numpy 2 has moved it, and complains about the old place
                module = module.replace("numpy.core", "numpy._core")
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _unpickle(path: Path) -> dict[bytes, Any]:
    try:
        with path.open("rb") as file:
            content = _PlainData(file, encoding="bytes").load()
    except Exception as error:  # a damaged pickle raises whatever it likes
        raise InputError(f"{path} cannot be read as a file of CIFAR: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}; expected the dictionary of a CIFAR file")
    return content


class Cifar10(Cifar):
    """CIFAR-10: 60,000 images of 32 × 32 pixels, 10 classes; cifar-10-batches-bin/ or cifar-10-batches-py/."""

    name = "cifar10"
    torchvision = "CIFAR10"
    published = (50_000, 10_000, 10)
    classes = 10
    labels = 1
    binary = "cifar-10-batches-bin"
    binary_files = (tuple(f"data_batch_{index}.bin" for index in range(1, 6)), ("test_batch.bin",))
    binary_names = "batches.meta.txt"
    python = "cifar-10-batches-py"
    python_files = (tuple(f"data_batch_{index}" for index in range(1, 6)), ("test_batch",))
    python_names = "batches.meta"
    label_key = b"labels"
    names_key = b"label_names"


class Cifar100(Cifar):
    """CIFAR-100: 60,000 images of 32 × 32 pixels, 100 classes; cifar-100-binary/ or cifar-100-python/."""

    name = "cifar100"
    torchvision = "CIFAR100"
    published = (50_000, 10_000, 100)
    classes = 100
    labels = 2
    binary = "cifar-100-binary"
    binary_files = (("train.bin",), ("test.bin",))
    binary_names = "fine_label_names.txt"
    python = "cifar-100-python"
    python_files = (("train",), ("test",))
    python_names = "meta"
    label_key = b"fine_labels"
    names_key = b"fine_label_names"


LOADERS.register("cifar10")(Cifar10())
LOADERS.register("cifar100")(Cifar100())
