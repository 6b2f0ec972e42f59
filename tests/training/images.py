"""A small set of images for tests of the loop: 60 images of 8 × 8 pixels in 3 classes, in memory or on disk."""

from pathlib import Path

import numpy as np
from PIL import Image


def write_folder(root: Path, per_class: int = 30) -> str:
    """Writes class folders of PNGs and returns the name of the data set."""
    random = np.random.default_rng(0)
    for label, name in enumerate(("blue", "green", "red")):
        folder = root / name
        folder.mkdir(parents=True)
        for index in range(per_class):
            pixels = random.integers(0, 160, (8, 8, 3))
            pixels[..., label] += 60
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{index:03}.png")
    return f"folder:{root}"
