"""Images of one's own: a folder for each class, in any format that Pillow reads."""

from functools import lru_cache
from pathlib import Path

from durm.data import LOADERS, DataOptions
from durm.data.bundle import DataBundle, split_parts
from durm.data.pictures import MEMORY_LIMIT, Pictures, check_parts, measure_pictures, read_pictures
from durm.errors import InputError


class Folder:
    """Class folders of images or sounds (folder/class/file), with train/, val/, test/ above them or split by seed."""

    takes_path = True
    takes_image_size = True

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        root = Path(path).expanduser()
        if _holds_sounds(root):
            from durm.data.audio import SoundFolder

            return SoundFolder()(path, seed, options)
        read = _read(root, options.image_size, options.skip_bad, MEMORY_LIMIT)
        parts, notes = split_parts(read.parts, seed, "images")
        train, val, test = (parts[part] for part in ("train", "val", "test"))
        return DataBundle(
            train, val, test, len(read.classes), read.classes, measure_pictures(train.inputs),
            augment="crop-flip", notes=[*read.notes, *notes],
        )  # fmt: skip


@lru_cache(maxsize=2)
def _holds_sounds(root: Path) -> bool:
    from durm.data.audio import is_sound

    return all(is_sound(file) for part in scan(root)[0].values() for file, _ in part)


@lru_cache(maxsize=2)
def _read(root: Path, image_size: int | None, skip_bad: bool, memory_limit: int) -> Pictures:
    """Everything about the folder that does not depend on the seed. Kept: every trial of a study asks for it."""
    parts, classes = scan(root)
    where = f"data 'folder:{root}'"
    return check_parts(where, read_pictures(where, root, parts, classes, image_size, skip_bad, memory_limit))


def scan(root: Path, family: str = "folder") -> tuple[dict[str, list[tuple[Path, int]]], list[str]]:
    """The files of each part with their labels, and the class names; `train` holds all where there are no parts."""
    where = f"data '{family}:{root}'"
    things = "images" if family == "folder" else "sounds"
    if not root.exists():
        raise InputError(f"{where}: there is no such folder")
    if not root.is_dir():
        raise InputError(f"{where} is a file; expected a folder that has a folder for each class")
    folders = folders_in(root)
    tops = {name: root / name for name in ("train", "val", "test") if root / name in folders}
    if tops and len(tops) == len(folders) and "train" not in tops:
        raise InputError(f"{where} has no train/ beside {' and '.join(f'{name}/' for name in tops)}")
    tops = tops if "train" in tops else {"train": root}
    classes = sorted({folder.name for top in tops.values() for folder in folders_in(top)})
    if not classes:
        raise InputError(f"{where} has no class folders; expected {tops['train']}/CLASS/{things[:-1].upper()}")
    parts = {part: labelled_files(top, classes) for part, top in tops.items()}
    for part, members in parts.items():
        if not members:
            raise InputError(f"{where} has no {things} in {tops[part]}")
    return parts, classes


def labelled_files(top: Path, classes: list[str]) -> list[tuple[Path, int]]:
    """The files in the class folders there, at any depth, with the numbers of their classes."""
    return [
        (path, classes.index(folder.name))
        for folder in folders_in(top)
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and not _hidden(path, folder))
    ]


def folders_in(root: Path) -> list[Path]:
    """By name, without the hidden ones."""
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


LOADERS.register("folder")(Folder())
