"""Data sets by name: `load("digits", seed=0)`, `load("folder:./my_images", seed=0)`.

One file for each family. A loader takes what comes after the colon, and the options below, and gives a `DataBundle`;
what is random about it is a function of the seed, so all arms of a study see the same split.
"""

import hashlib
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from durm._registry import Registry
from durm._text import some
from durm.data.bundle import DataBundle
from durm.errors import InputError


@dataclass(frozen=True)
class DataOptions:
    """Where data lie and how to read them.

    Attributes:
        root: the folder that holds the data sets which must be downloaded; None is `data` in the working folder.
        image_size: the side in pixels to which images are brought (images with masks: the shorter side); None keeps
            images that are all of one size, and images with masks.
        skip_bad: leave out files that cannot be read, instead of stopping at them.
        tokenizer: of Hugging Face, by which text is cut into the tokens of a pretrained model.
    """

    root: Path | None = None
    image_size: int | None = None
    skip_bad: bool = False
    tokenizer: str | None = None


class Loader(Protocol):
    """Loads one family of data sets. Its docstring's first line is what `durm data list` says of it."""

    task: Literal["classification", "segmentation"] = "classification"
    takes_path: bool = False
    takes_image_size: bool = False

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle: ...


@runtime_checkable
class Divided(Protocol):
    """A loader of data with domains. One of them is held out, and a name without one stands for all of them in turn.

    `held_out` splits what follows the colon into the rest and the domain, which is None if none is named; `domains`
    lists what can be held out.
    """

    def held_out(self, path: str) -> tuple[str, str | None]: ...

    def domains(self, path: str, options: DataOptions) -> list[str]: ...


@runtime_checkable
class Stored(Protocol):
    """A loader of files that lie under the root. `find` gives their folder, or an InputError with what is missing."""

    def find(self, options: DataOptions) -> Path: ...


@runtime_checkable
class Published(Stored, Protocol):
    """A loader of files of which more is known.

    `published` are the numbers of samples to learn from (training and validation) and to test on, and of classes;
    `checksums` gives the MD5 of those files in the folder whose published one is known.
    """

    published: tuple[int, int, int]

    def checksums(self, folder: Path) -> Mapping[str, str]: ...


@runtime_checkable
class Downloadable(Protocol):
    """A loader that can get its files, and verifies their checksums on the way. Only `durm.data.download` calls it."""

    def download(self, root: Path) -> None: ...


LOADERS: Registry[Loader] = Registry("data", "durm.data")
DEFAULT_ROOT = Path("data")
LARGEST_IMAGE_SIZE = 16_384
"""Pixels a side: an image of that size takes 0.8 GB as bytes, and four times that as numbers."""


def load(name: str, *, seed: int, options: DataOptions | None = None) -> DataBundle:
    """The data set of that name, split for that seed.

    Raises:
        InputError: if there is no such name, or what it stands for cannot be read.
    """
    loader, path = parse(name)
    options = options or DataOptions()
    if options.image_size is not None and not loader.takes_image_size:
        raise InputError(f"image size {options.image_size}: the samples of data {name!r} have a size of their own")
    if options.image_size is not None and options.image_size > LARGEST_IMAGE_SIZE:
        raise InputError(f"`image_size` {options.image_size}: expected at most {LARGEST_IMAGE_SIZE} pixels")
    return loader(path, seed, options)


def settings_of(name: str, options: DataOptions | None = None) -> list[str]:
    """The data that a name stands for: `pacs` is `pacs:art_painting`, …, one for each domain that can be held out."""
    loader, path = parse(name)
    if not isinstance(loader, Divided) or loader.held_out(path)[1] is not None:
        return [name]
    return [f"{name}:{domain}" for domain in loader.domains(path, options or DataOptions())]


def split_name(name: str) -> tuple[str, str | None]:
    """The data set and the domain that is held out: `pacs` and `sketch` of `pacs:sketch`; no domain for other data."""
    loader, path = parse(name)
    domain = loader.held_out(path)[1] if isinstance(loader, Divided) else None
    return (name, None) if domain is None else (name.removesuffix(f":{domain}"), domain)


def find_files(name: str, options: DataOptions, layouts: Mapping[str, Sequence[str]]) -> Path:
    """The first folder under the root that holds all files of its layout (folder → files; `train/` is a folder).

    Raises:
        InputError: if there is none, with what is missing where, and what to do about it.
    """

    def is_there(path: Path, file: str) -> bool:
        return path.is_dir() if file.endswith("/") else path.is_file()

    root = root_folder(options)
    missing = {
        folder: [file for file in files if not is_there(root / folder / file, file)]
        for folder, files in layouts.items()
    }
    if whole := [folder for folder in layouts if not missing[folder]]:
        return root / whole[0]
    begun = next((folder for folder in layouts if (root / folder).is_dir()), next(iter(layouts)))
    others = "".join(f" (or {folder}/)" for folder in layouts if folder != begun)
    hint = f"; to download: durm data check {name} `download` `data_root` {shlex.quote(str(root))}"
    raise InputError(
        f"data {name!r}: {some(missing[begun])} not found in {root / begun}{others}; `data_root` names the folder "
        f"above it{hint if name in LOADERS.names() and isinstance(LOADERS[name], Downloadable) else ''}"
    )


def root_folder(options: DataOptions) -> Path:
    """The folder above all published data sets."""
    return (options.root or DEFAULT_ROOT).expanduser()


def download(name: str, options: DataOptions) -> None:
    """Gets the files of a data set, and puts them under the root.

    Raises:
        InputError: if it has no download, or the download does not succeed.
    """
    loader, _ = parse(name)
    if not isinstance(loader, Downloadable):
        raise InputError(f"data {name!r} has no download: {describe(loader)}")
    root = root_folder(options)
    try:
        with redirect_stdout(sys.stderr):  # older versions of torchvision print what they are at
            loader.download(root)
    except Exception as error:  # networks and archives that are cut off raise nearly anything
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"data {name!r} could not be downloaded into {root}: {reason}") from None


def torchvision_dataset(name: str) -> Any:
    """The class of that name in `torchvision.datasets`, which takes a second to import."""
    import_module("durm._torchvision")  # before torchvision
    return getattr(import_module("torchvision.datasets"), name)


def verify(loader: Published, folder: Path) -> list[str]:
    """The files in the folder whose checksums are not those of the published ones."""
    return [
        file
        for file, expected in loader.checksums(folder).items()
        if hashlib.md5((folder / file).read_bytes(), usedforsecurity=False).hexdigest() != expected
    ]


def describe(loader: Loader) -> str:
    """What it loads, in one line."""
    return (loader.__doc__ or "").strip().splitlines()[0]


def base_data(name: str) -> str:
    """The data that a name stands on: `arrays:toy.npz` of `longtail:100:arrays:toy.npz`."""
    family, _, path = name.partition(":")
    return base_data(path.partition(":")[2]) if family in ("longtail", "subset") else name


def base_name(name: str) -> str:
    """The data set that a name stands on: `cifar10` of `longtail:100:cifar10`."""
    return base_data(name).partition(":")[0]


def known_classes(name: str) -> int | None:
    """How many classes the data have, if the name or what is published about them says so. Nothing is read."""
    if found := re.search(r"(?:^|:)subset:(?:[^:]*,)?classes=(\d+)", name):
        return int(found[1])
    loader: Any = LOADERS[base_name(name)]
    if isinstance(loader, Published):
        return loader.published[2]
    known = getattr(loader, "classes", None)
    return known if isinstance(known, int) else None


def task_of(name: str) -> str:
    """What the data set is for: `classification` or `segmentation`. Nothing is read."""
    family = base_name(name)
    task: str = getattr(LOADERS[family], "task", "classification") if family else "classification"
    return task


def parse(name: str) -> tuple[Loader, str]:
    """The loader that a name means, and the path, or the domain, that follows the colon."""
    family, colon, path = name.partition(":")
    loader = LOADERS[family]
    if loader.takes_path and not path:
        raise InputError(f"data {name!r} needs a path: {family}:PATH")
    if isinstance(loader, Divided):
        if colon and not path:
            raise InputError(f"data {name!r} names no domain after its colon")
    elif colon and not loader.takes_path:
        raise InputError(f"data {name!r}: {family!r} takes no path")
    return loader, path
