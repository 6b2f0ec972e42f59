"""Data sets by name: `load("digits", seed=0)`, `load("folder:./my_images", seed=0)`.

One file for each family. A loader takes what comes after the colon, and the options below, and gives a `DataBundle`;
what is random about it is a function of the seed, so all arms of a study see the same split.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from durm._registry import Registry
from durm.data.bundle import DataBundle
from durm.errors import InputError


@dataclass(frozen=True)
class DataOptions:
    """Where data lie and how to read them.

    Attributes:
        root: the folder that holds the data sets which must be downloaded; None is `data` in the working folder.
        image_size: the side in pixels to which images are brought; None keeps images that are all of one size.
        skip_bad: leave out files that cannot be read, instead of stopping at them.
    """

    root: Path | None = None
    image_size: int | None = None
    skip_bad: bool = False


class Loader(Protocol):
    """Loads one family of data sets. Its docstring's first line is what `durm data list` says of it."""

    __doc__: str | None
    takes_path: bool
    takes_image_size: bool

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle: ...


@runtime_checkable
class Sampled(Protocol):
    """A loader that can write a tiny data set in its own format: what smoke runs and tests read."""

    def write_sample(self, root: Path) -> None: ...


LOADERS: Registry[Loader] = Registry("data", "durm.data")
DEFAULT_ROOT = Path("data")


def load(name: str, *, seed: int, options: DataOptions | None = None) -> DataBundle:
    """The data set of that name, split for that seed.

    Raises:
        InputError: if there is no such name, or what it stands for cannot be read.
    """
    loader, path = parse(name)
    options = options or DataOptions()
    if options.image_size is not None and not loader.takes_image_size:
        raise InputError(f"image size {options.image_size}: the samples of data {name!r} have a size of their own")
    return loader(path, seed, options)


def find_files(name: str, options: DataOptions, layouts: Mapping[str, Sequence[str]]) -> Path:
    """The first folder under the root that holds all files of its layout (folder → files).

    Raises:
        InputError: if there is none, with what is missing where, and what to do about it.
    """
    root = (options.root or DEFAULT_ROOT).expanduser()
    for folder, files in layouts.items():
        if all((root / folder / file).is_file() for file in files):
            return root / folder
    begun = next((folder for folder in layouts if (root / folder).is_dir()), next(iter(layouts)))
    missing = [file for file in layouts[begun] if not (root / begun / file).is_file()]
    told = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    others = "".join(f" (or {folder}/)" for folder in layouts if folder != begun)
    where = f"{root / begun}{others}"
    raise InputError(f"data {name!r}: {told} not found in {where}; --data-root names the folder above it")


def parse(name: str) -> tuple[Loader, str]:
    """The loader that a name means, and the path that follows the colon."""
    family, colon, path = name.partition(":")
    loader = LOADERS[family]
    if loader.takes_path and not path:
        raise InputError(f"data {name!r} needs a path: {family}:PATH")
    if colon and not loader.takes_path:
        raise InputError(f"data {name!r}: {family!r} takes no path")
    return loader, path
