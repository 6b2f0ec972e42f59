"""Images of one's own: a folder for each class, in any format that Pillow reads."""

from functools import lru_cache
from pathlib import Path

from durm.data import LOADERS, DataOptions
from durm.data.bundle import DataBundle
from durm.data.image_files import read_pictures
from durm.data.reading import FileLoader, Members, ReadData, check_parts
from durm.errors import InputError


class Folder(FileLoader):
    """Class folders of images or sounds (folder/class/file), with train/, val/, test/ above them or split by seed."""

    takes_path = True
    takes_image_size = True
    augment = "crop-flip"

    def is_read(self, name: str, is_folder: bool) -> bool:
        return is_folder

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        if _holds_sounds(self.source(path, options)):
            return LOADERS["audio"](path, seed, options)
        return super().__call__(path, seed, options)

    def read(self, source: Path, options: DataOptions) -> ReadData:
        parts, classes = scan(source)
        where = f"data 'folder:{source}'"
        read = read_pictures(where, source, parts, classes, options.image_size, options.skip_bad)
        check_parts(where, read.parts, classes, "images")
        return read


@lru_cache(maxsize=2)
def _holds_sounds(root: Path) -> bool:
    from durm.data.audio import is_sound

    return all(is_sound(file) for part in scan(root)[0].values() for file, _ in part)


def scan(root: Path, family: str = "folder") -> tuple[Members, list[str]]:
    """The files of each part with their labels, and the class names; `train` holds all where there are no parts."""
    where = f"data '{family}:{root}'"
    things = "images" if family == "folder" else "sounds"
    check_folder(where, root, "a folder that has a folder for each class")
    folders = folders_in(root)
    tops = {name: root / name for name in ("train", "val", "test") if root / name in folders}
    if tops and len(tops) == len(folders) and "train" not in tops:
        raise InputError(f"{where} has no train/ next to {' and '.join(f'{name}/' for name in tops)}")
    tops = tops if "train" in tops else {"train": root}
    classes = sorted({folder.name for top in tops.values() for folder in folders_in(top)})
    if not classes:
        raise InputError(f"{where} has no class folders; expected {tops['train']}/CLASS/{things[:-1].upper()}")
    parts = {part: labelled_files(top, classes) for part, top in tops.items()}
    for part, members in parts.items():
        if not members:
            raise InputError(f"{where} has no {things} in {tops[part]}")
    return parts, classes


def check_folder(where: str, root: Path, expected: str) -> None:
    if not root.exists():
        raise InputError(f"{where}: there is no such folder")
    if not root.is_dir():
        raise InputError(f"{where} is a file; expected {expected}")


def labelled_files(top: Path, classes: list[str]) -> list[tuple[Path, int]]:
    """The files in the class folders there, at any depth, with the numbers of their classes."""
    return [(path, classes.index(folder.name)) for folder in folders_in(top) for path in files_below(folder)]


def folders_in(root: Path) -> list[Path]:
    """By name, without the hidden ones."""
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def files_below(folder: Path) -> list[Path]:
    """At any depth, without those that are hidden or in hidden folders."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in paths if not any(part[0] == "." for part in path.relative_to(folder).parts))


LOADERS.register("folder")(Folder())
