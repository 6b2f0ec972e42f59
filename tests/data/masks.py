"""Small scenes on disk: images with masks of ids that a test chooses."""

from pathlib import Path

import numpy as np
from PIL import Image

from tests.data.images import write


def write_mask(path: Path, ids: np.ndarray | list[list[int]], mode: str = "L") -> Path:
    """A mask with these numbers, as Pillow stores them in that mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.array(ids)
    if mode in ("L", "P"):
        picture = Image.fromarray(values.astype(np.uint8))
        if mode == "P":
            picture.putpalette([7 * index % 256 for index in range(768)])
    elif mode == "1":
        picture = Image.fromarray(values.astype(bool))
    elif mode in ("I;16", "I"):
        picture = Image.fromarray(values.astype(np.uint16 if mode == "I;16" else np.int32))
    else:
        picture = Image.fromarray(values.astype(np.uint8)).convert(mode)
    picture.save(path)
    return path


def write_scene(root: Path, name: str, number: int, ids: np.ndarray | list[list[int]], mode: str = "L") -> None:
    """The image `number` of `tests.data.images` and a mask: test/7 is test/images/7.png and test/masks/7.png."""
    place = Path(name)
    height, width = np.array(ids).shape
    write(root / place.parent / "images" / f"{place.name}.png", number, width, height)
    write_mask(root / place.parent / "masks" / f"{place.name}.png", ids, mode)


def some_ids(number: int, classes: int = 3, height: int = 6, width: int = 8) -> np.ndarray:
    """Ids from 0 to classes - 1, all of them, and 255 for a corner."""
    ids = np.random.default_rng(number).integers(0, classes, (height, width))
    ids[0, :classes], ids[-1, -1] = range(classes), 255
    return ids


def fill_scenes(root: Path, counts: dict[str, int], classes: int = 3) -> str:
    """Writes so many scenes into each part, numbered through from 0, and returns the name of the data set."""
    number = 0
    for part, count in counts.items():
        for _ in range(count):
            write_scene(root, str(Path(part) / f"{number:04}"), number, some_ids(number, classes))
            number += 1
    return f"segmentation:{root}"
