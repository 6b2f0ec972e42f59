"""The examples run, and the two that should differ in two lines do."""

import difflib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def changes(before: str, after: str) -> list[str]:
    one, other = (EXAMPLES.joinpath(name).read_text().splitlines() for name in (before, after))
    return [line for line in difflib.ndiff(one, other) if line[0] in "+-"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("train_erm.py", marks=pytest.mark.slow),
        "train_durm.py",
        pytest.param("timm_erm.py", marks=pytest.mark.slow),
        pytest.param("timm_durm.py", marks=pytest.mark.slow),
    ],
)
def test_digits_are_learned(name: str) -> None:
    output = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=True).stdout
    accuracy = re.fullmatch(r"test accuracy (\d+\.\d+) % of 899 digits\n", output)
    assert accuracy, output
    assert float(accuracy[1]) > 95


def test_they_differ_in_two_lines() -> None:
    assert changes("train_erm.py", "train_durm.py") == ["+ import durm", "+ model = durm.widen(model, dummies=2)"]


def test_with_timm_the_head_the_loss_and_the_checkpoint_change() -> None:
    assert changes("timm_erm.py", "timm_durm.py") == [
        "- from timm.loss import SoftTargetCrossEntropy",
        "+ model = durm.widen(model, dummies=2)",
        "- criterion = SoftTargetCrossEntropy()",
        "+ criterion = durm.CrossEntropyLoss(num_classes=10)",
        "- best.load_state_dict(state)",
        "+ best.load_state_dict(durm.narrow_state_dict(state))",
    ]


@pytest.mark.parametrize(
    ("script", "arguments", "arms"),
    [
        (
            "plain_torch.py",
            "--seed {seed} --smoothing {smoothing} --epochs 3",
            ["a: smoothing=0", "b: smoothing=0.1"],
        ),
        ("scikit_learn.py", "{seed} {features}", ["sqrt: features=sqrt", "half: features=0.5"]),
        pytest.param(
            "hugging_face.py",
            "--seed {seed} --dropout {dropout} --folder {folder} --epochs 1",
            ["base: dropout=0.1", "none: dropout=0"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_scripts_are_judged_as_commands(script: str, arguments: str, arms: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "durm", "compare", "--command", f"{sys.executable} {script} {arguments}"]
    command += [part for arm in arms for part in ("--arm", arm)]
    command += [
        "--seeds",
        "2",
        "--metric",
        "accuracy",
        "--out",
        str(tmp_path),
        "--json",
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXAMPLES / "commands")
    assert found.returncode == 0, found.stderr
    summary = json.loads(found.stdout)
    assert summary["done"] == summary["trials"] == 4
    assert [arm["arm"] for arm in summary["settings"][0]["arms"]] == [arm.partition(":")[0] for arm in arms]
    means = [arm["mean"] for arm in summary["settings"][0]["arms"]]
    assert min(means) > (40 if script == "hugging_face.py" else 80)
    assert (tmp_path / "report.html").is_file()
