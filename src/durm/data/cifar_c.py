"""CIFAR-10-C and CIFAR-100-C (Hendrycks & Dietterich 2019): the test images of CIFAR, corrupted, as published.

CIFAR-10-C/fog.npy holds (5 · N, 32, 32, 3) bytes: the N = 10,000 test images at severity 1, then at 2, …, 5.
CIFAR-10-C/labels.npy holds their 5 · N classes. There are 19 such files.

`cifar10-c:fog` is all severities, `cifar10-c:fog:3` one of them. Training and validation images are those of CIFAR,
which has to be there too.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from durm.data import LOADERS, DataOptions, Loader, find_files, load, root_folder
from durm.data.bundle import DataBundle, Samples
from durm.data.reading import check_range
from durm.errors import InputError, unknown

SEVERITIES = 5
IMAGE = (32, 32, 3)


class Corrupted(Loader):
    """CIFAR-10-C, corrupted test images of CIFAR-10: cifar10-c:fog, or cifar10-c:fog:3 for one severity of five."""

    takes_path = True
    name = "cifar10-c"
    clean, folder = "cifar10", "CIFAR-10-C"

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        corruption, _, severity = path.partition(":")
        bundle = load(self.clean, seed=seed, options=options)
        test = self.read(corruption, severity, bundle.num_classes, options)
        what = f"severity {severity}" if severity else f"severities 1 … {SEVERITIES}"
        return replace(bundle, test=test, notes=[*bundle.notes, f"the test images have {corruption}, {what}"])

    def read(self, corruption: str, severity: str, num_classes: int, options: DataOptions) -> Samples:
        if severity not in ("", *map(str, range(1, SEVERITIES + 1))):
            raise InputError(
                f"data '{self.name}:{corruption}:{severity}': expected a severity of 1 … {SEVERITIES}, or none for all"
            )
        folder = find_files(self.name, options, {self.folder: ["labels.npy"]})
        known = sorted(file.stem for file in folder.glob("*.npy") if file.stem != "labels")
        if corruption not in known:
            where = root_folder(options) / self.folder
            raise unknown("corruption", corruption, known) if known else InputError(f"{where} has no corruptions in it")
        images, labels = (_array(folder / f"{name}.npy") for name in (corruption, "labels"))
        if images.dtype != np.uint8 or images.shape[1:] != IMAGE or len(images) % SEVERITIES:
            raise InputError(
                f"{folder / corruption}.npy has {images.dtype} of shape {images.shape}; expected bytes of shape "
                f"({SEVERITIES} · N, 32, 32, 3)"
            )
        if labels.shape != images.shape[:1]:
            raise InputError(
                f"{folder}/labels.npy has shape {labels.shape}; expected {images.shape[:1]}, as the images"
            )
        if severity:
            count = len(images) // SEVERITIES
            part = slice((int(severity) - 1) * count, int(severity) * count)
            images, labels = images[part], labels[part]
        classes = torch.from_numpy(labels.astype(np.int64))
        check_range(folder / "labels.npy", "class", classes, 0, num_classes - 1)
        return Samples(torch.from_numpy(images.transpose(0, 3, 1, 2).copy()), classes)


def _array(path: Path) -> np.ndarray:
    """A view of the file, of which only what is used is read. Never runs code."""
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be read as an array: {' '.join(str(error).split())[:200]}") from None
    return array


class Corrupted100(Corrupted):
    """CIFAR-100-C, corrupted test images of CIFAR-100: cifar100-c:fog, or cifar100-c:fog:3 for one severity of five."""

    name = "cifar100-c"
    clean, folder = "cifar100", "CIFAR-100-C"


for loader in (Corrupted(), Corrupted100()):
    LOADERS.register(loader.name)(loader)
