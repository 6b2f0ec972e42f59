"""The examples run, and the two that should differ in two lines do."""

import difflib
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize("name", ["train_erm.py", "train_durm.py"])
def test_digits_are_learned(name: str) -> None:
    output = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True).stdout
    accuracy = re.fullmatch(r"test accuracy (\d+\.\d+) % of 899 digits\n", output)
    assert accuracy, output
    assert float(accuracy[1]) > 95


def test_they_differ_in_two_lines() -> None:
    erm, durm = (EXAMPLES.joinpath(name).read_text().splitlines() for name in ("train_erm.py", "train_durm.py"))
    changes = [line for line in difflib.ndiff(erm, durm) if line[0] in "+-"]
    assert changes == ["+ import durm", "+ model = durm.widen(model, dummies=2)"]
