"""Small images on disk: every one has pixels of its own, so that a test can tell which it has before it."""

from pathlib import Path

import numpy as np
from PIL import Image


def pixels(number: int, width: int = 8, height: int = 8) -> np.ndarray:
    """The RGB pixels of image `number`, of shape (height, width, 3)."""
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


def write(path: Path, number: int, width: int = 8, height: int = 8) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(number, width, height)).save(path)
    return path


def fill(root: Path, counts: dict[str, int]) -> str:
    """Writes so many images into each folder, numbered through from 0, and returns the name of the data set."""
    number = 0
    for folder, count in counts.items():
        for _ in range(count):
            write(root / folder / f"{number:04}.png", number)
            number += 1
    return f"folder:{root}"


def cut(path: Path) -> None:
    """Leaves the first half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
