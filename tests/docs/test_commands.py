"""The commands on the pages: all are parsed, and those that need no network, cluster or GPU run, on small data."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from PIL import Image
from scipy.io import wavfile

from durm.cli import app
from tests.docs.pages import PAGES, ROOT, blocks, commands, name

COMMANDS = [(page, words) for page in PAGES for words in commands(page)]
ELSEWHERE = re.compile(
    r"--pretrained|--download|--address|--executor|cuda|--data-root|--track mlflow|--open|…|hf:"
    r"|CKPT|CHECKPOINT|runs/one|runs/here|runs/both"
)
"""What needs a network, a cluster, a GPU, published data or runs of another page: it is parsed and does not run."""
SMALL = {"--epochs": "1", "--draws": "2", "--seeds": "2", "--max-seeds": "6", "--workers": "1", "--iterations": "2"}
TRAIN = """
import argparse, random
parser = argparse.ArgumentParser()
for name in ("seed", "lr", "smoothing"):
    parser.add_argument(f"--{name}", type=float, default=0)
options = parser.parse_args()
print({"accuracy": 90 + random.Random(options.seed).random() + options.lr}.__repr__().replace("'", '"'))
"""


def identify(case: tuple[Path, list[str]]) -> str:
    return f"{name(case[0])}: {' '.join(case[1])}"


@pytest.mark.parametrize("case", COMMANDS, ids=identify)
def test_every_command_is_understood(case: tuple[Path, list[str]]) -> None:
    command: Any = typer.main.get_command(app)
    _, *words = case[1]
    while words and not words[0].startswith("-") and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    words = ["--help"] if command.name in (None, "durm") else words
    if words != ["--help"]:
        command.make_context("durm", words)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all that the pages take for granted."""
    random = np.random.default_rng(0)
    for place in ("my_images", "shots/day", "shots/dusk", "shots/night"):
        for kind in ("cat", "dog"):
            (tmp_path / place / kind).mkdir(parents=True)
            for index in range(10):
                pixels = random.integers(0, 255, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / place / kind / f"{index}.png")
    for part in ("images", "masks"):
        (tmp_path / "streets" / part).mkdir(parents=True)
    for index in range(10):
        pixels = random.integers(0, 255, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "streets" / "images" / f"{index}.png")
        Image.fromarray(pixels[..., 0] % 3).save(tmp_path / "streets" / "masks" / f"{index}.png")
    for kind, hertz in (("low", 200), ("high", 2000)):
        (tmp_path / "sounds" / kind).mkdir(parents=True)
        for index in range(10):
            wave = 10_000 * np.sin(2 * np.pi * hertz * np.arange(4000) / 8000 + index)
            wavfile.write(tmp_path / "sounds" / kind / f"{index}.wav", 8000, wave.astype(np.int16))
    (tmp_path / "train.py").write_text(TRAIN)
    own = next(code for code in blocks(ROOT / "docs/how-to/own-model.md", "python") if "networks.py" in code)
    (tmp_path / "networks.py").write_text(own)
    rows = [f"{arm},{seed},{93 + random.random():.2f}" for seed in range(6) for arm in ("base", "trick")]
    (tmp_path / "results.csv").write_text("\n".join(["arm,seed,accuracy", *rows]))
    texts = [f'"{("good", "bad")[row % 2]} film {row}",{("yes", "no")[row % 2]},{row % 8 // 2}' for row in range(40)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label,domain", *texts]))
    for file in ("mine.npz", "known.npz", "unknown.npz"):
        x, y = random.random((80, 8, 8), dtype=np.float32), np.arange(80) % 4
        np.savez(tmp_path / file, x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])
    digits = next(code for code in blocks(ROOT / "docs/how-to/studies.md", "yaml") if "digits.yaml" in code)
    (tmp_path / "digits.yaml").write_text(digits.replace("seeds: 10", "seeds: 2").replace("epochs: 20", "epochs: 1"))
    (tmp_path / "study.yaml").write_text("data: digits\nmodel: mlp\ndummies: [0, 2]\nseeds: 2\ntrain: {epochs: 1}\n")
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copytree(ROOT / "results/studies/digits-dummies", tmp_path / "runs" / "demo")
    return tmp_path


def small(words: list[str]) -> list[str]:
    """The command with few seeds and steps."""
    words = [SMALL.get(words[index - 1], word) if index else word for index, word in enumerate(words)]
    if words[1] == "compare":
        words += [word for flag in ("--seeds", "--workers") if flag not in words for word in (flag, SMALL[flag])]
        owned = "--command" in words or "--iterations" in words or "--epochs" in words
        words += [] if owned else ["--epochs", "1"]
    if words[1] == "train" and "--epochs" not in words:
        words += ["--epochs", "1"]
    if "--until-decided" in words:
        words = [word for index, word in enumerate(words) if word != "--seeds" and words[index - 1] != "--seeds"]
    return words


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_run_in_the_order_of_their_page(page: Path, folder: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for words in commands(page):
        line = " ".join(words)
        if ELSEWHERE.search(line) or page.name == "cli.md":
            continue
        called = [sys.executable, "-m", *small(words)]
        called = [part for word in called for part in expanded(word, folder)]
        done = subprocess.run(called, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def expanded(word: str, folder: Path) -> list[str]:
    """As a shell does it."""
    found = sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word and "/" in word else []
    return found or [word]
