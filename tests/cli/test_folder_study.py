"""From a folder of images to a trained model, from a shell."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

COLOURS = {"blue": (60, 80, 170), "green": (60, 150, 80), "grey": (110, 110, 110), "red": (170, 80, 60)}


def write_images(root: Path, per_class: int) -> None:
    """Images of 16 × 16 pixels, of the colour of their class under so much noise that no pixel tells it alone."""
    random = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (root / name).mkdir(parents=True)
        noisy = np.clip(random.normal(colour, 70, (per_class, 16, 16, 3)), 0, 255).astype(np.uint8)
        for index, pixels in enumerate(noisy):
            Image.fromarray(pixels).save(root / name / f"{index}.png")


@pytest.mark.slow
def test_two_thousand_images_are_learnt_in_two_epochs(tmp_path: Path) -> None:
    write_images(tmp_path / "images", 500)
    flags = ["--model", "cnn", "--epochs", "2", "--json", "--out", str(tmp_path / "out")]
    shell = subprocess.run(
        [sys.executable, "-m", "durm", "train", "--data", f"folder:{tmp_path / 'images'}", *flags],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
    )
    assert (shell.returncode, shell.stderr) == (0, "")
    summary = json.loads(shell.stdout)
    assert summary["done"] == summary["trials"] == 1
    assert summary["settings"][0]["arms"][0]["mean"] > 80
    (result,) = (tmp_path / "out").glob("trials/*/result.json")
    content = json.loads(result.read_text())
    assert content["cost"]["steps"] == 2 * (1440 // 64)
    assert content["provenance"]["data_notes"][0] == "2000 images of 16 × 16 pixels, in memory"
