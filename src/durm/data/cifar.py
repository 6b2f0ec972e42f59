"""CIFAR-10 and CIFAR-100, from the official binary files or from the Python ones that torchvision downloads.

| | binary | Python |
|---|---|---|
| cifar10 | cifar-10-batches-bin/{data_batch_1…5,test_batch}.bin, batches.meta.txt | cifar-10-batches-py/ |
| cifar100 | cifar-100-binary/{train,test}.bin, fine_label_names.txt | cifar-100-python/ |

A binary record is the label (of CIFAR-100: the coarse and the fine one) and 3 × 32 × 32 bytes.
"""

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from durm.data import LOADERS, DataOptions, find_files, torchvision_dataset
from durm.data.bundle import Samples
from durm.data.reading import ReadData, TorchvisionFiles, read_names
from durm.errors import InputError

PIXELS = 3 * 32 * 32


class Cifar10(TorchvisionFiles):
    """CIFAR-10: 60,000 images of 32 × 32 pixels, 10 classes; cifar-10-batches-bin/ or cifar-10-batches-py/.

    `files` are those of training and of test images, which end in .bin in the binary version; `prefix` stands before
    the keys of the Python files. The last of the `labels` bytes of a binary record is the class.
    """

    augment = "crop-flip"
    name = "cifar10"
    torchvision = "CIFAR10"
    published = (50_000, 10_000, 10)
    labels = 1
    binary, python = "cifar-10-batches-bin", "cifar-10-batches-py"
    binary_names, python_names = "batches.meta.txt", "batches.meta"
    files: tuple[Sequence[str], Sequence[str]] = ([f"data_batch_{index}" for index in range(1, 6)], ["test_batch"])
    prefix = ""

    @property
    def classes(self) -> int:
        return self.published[2]

    def find(self, options: DataOptions) -> Path:
        files = [file for part in self.files for file in part]
        binary = [*(f"{file}.bin" for file in files), self.binary_names]
        return find_files(self.name, options, {self.binary: binary, self.python: [*files, self.python_names]})

    def checksums(self, folder: Path) -> dict[str, str]:
        """Of the Python files. Of the binary version only the archive has one."""
        if folder.name == self.binary:
            return {}
        known = torchvision_dataset(self.torchvision)
        return {**dict(known.train_list), **dict(known.test_list), known.meta["filename"]: known.meta["md5"]}

    def read(self, source: Path, options: DataOptions) -> ReadData:
        if source.name == self.binary:
            names = read_names(source / self.binary_names)
        else:
            found = _unpickle(source / self.python_names)[f"{self.prefix}label_names".encode()]
            names = [name.decode() if isinstance(name, bytes) else str(name) for name in found]
        if len(names) != self.classes:
            raise InputError(f"data {self.name!r}: {source} names {len(names)} classes; expected {self.classes}")
        train, test = (self.samples(source, files) for files in self.files)
        return ReadData({"train": train, "test": test}, names)

    def samples(self, folder: Path, files: Sequence[str]) -> Samples:
        try:
            parts = [self.records(folder, file) for file in files]
            images, labels = (np.concatenate(values) for values in zip(*parts, strict=True))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError):
            raise InputError(f"data {self.name!r}: a file in {folder} has not the content of {self.name}") from None
        if images.ndim != 2 or images.shape[1] != PIXELS or len(images) != len(labels) or images.dtype != np.uint8:
            raise InputError(f"data {self.name!r}: the images in {folder} have not 3 × 32 × 32 bytes each")
        if labels.min() < 0 or labels.max() >= self.classes:
            raise InputError(
                f"data {self.name!r}: {folder} has the label {labels.max()}; there are {self.classes} classes"
            )
        return Samples(torch.from_numpy(images.reshape(-1, 3, 32, 32)), torch.from_numpy(labels.astype(np.int64)))

    def records(self, folder: Path, file: str) -> tuple[np.ndarray, np.ndarray]:
        """The images and the labels in a file."""
        if folder.name == self.python:
            batch = _unpickle(folder / file)
            return batch[b"data"], np.asarray(batch[f"{self.prefix}labels".encode()])
        path, size = folder / f"{file}.bin", self.labels + PIXELS
        content = np.fromfile(path, np.uint8)
        if len(content) == 0 or len(content) % size:
            raise InputError(f"data {self.name!r}: {path} has {len(content)} bytes, no multiple of {size}")
        records = content.reshape(-1, size)
        return records[:, self.labels :], records[:, self.labels - 1]


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


class Cifar100(Cifar10):
    """CIFAR-100: 60,000 images of 32 × 32 pixels, 100 classes; cifar-100-binary/ or cifar-100-python/."""

    name = "cifar100"
    torchvision = "CIFAR100"
    published = (50_000, 10_000, 100)
    labels = 2
    binary, python = "cifar-100-binary", "cifar-100-python"
    binary_names, python_names = "fine_label_names.txt", "meta"
    files = (("train",), ("test",))
    prefix = "fine_"


for loader in (Cifar10(), Cifar100()):
    LOADERS.register(loader.name)(loader)
