"""`durm theory`: the table, one number, the files, and what is refused."""

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.image
import pytest

from tests.cli.calling import Answer, call, refusal


def lines(answer: Answer) -> list[str]:
    assert (answer.code, answer.err) == (0, ""), answer
    return answer.out.splitlines()


def test_one_number() -> None:
    assert lines(call("theory", "--ratio", 2, "--steps", 10)) == ["0.88603342"]
    (printed,) = lines(call("theory", "--ratio", 1.5, "--steps", 100))
    assert round(float(printed), 3) == 0.956


def test_the_table() -> None:
    rows = [line.split() for line in lines(call("theory"))]
    minima, sizes = (row for row in rows if row and row[0] == "2")
    assert [f"{float(cell):.3f}" for cell in minima[1:3]] == ["0.500", "0.886"]
    assert [f"{float(cell):.3f}" for cell in sizes[1:3]] == ["0.295", "0.327"]  # 2/π · arctan(1/2) is 0.295
    assert ["closed", "form", "0.022356", "0.024856"] in rows
    assert any(row[:4] == ["simulated,", "n", "=", "1,000,000"] for row in rows)


def test_one_ratio_or_one_number_of_steps() -> None:
    by_ratio = json.loads(call("theory", "--ratio", 3, "--json").out)["theorem_2"]
    assert {row["ratio"] for row in by_ratio} == {3}
    assert len(by_ratio) > 3
    by_steps = json.loads(call("theory", "--steps", 7, "--json").out)["theorem_2"]
    assert {row["steps"] for row in by_steps} == {7}
    assert len(by_steps) > 3


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("theory") / "made" / "here"
    return folder, lines(call("theory", "--out", folder))


def test_the_numbers_are_written(written: tuple[Path, list[str]]) -> None:
    folder, printed = written
    files = ["theory.json", "theory.csv", "theory.svg", "theory.png"]
    assert printed[-4:] == [f"written: {folder / name}" for name in files]
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)
    numbers = json.loads((folder / "theory.json").read_text())
    with (folder / "theory.csv").open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert rows == numbers["theorem_2"]
    assert json.loads(call("theory", "--json").out) == {k: v for k, v in numbers.items() if k != "figure"}
    for panel, curves in numbers["figure"].items():
        assert panel in "abc"
        assert len(curves["y"]) == len(curves["values"]) == 4
        assert {len(y) for y in curves["y"]} == {len(curves["x"])}


def test_the_figure_is_written(written: tuple[Path, list[str]]) -> None:
    folder, _ = written
    image = ElementTree.parse(folder / "theory.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    panels = [group for group in image.iter(f"{space}g") if group.get("id", "").startswith("axes_")]
    assert len(panels) == 3
    texts = ["".join(panel.itertext()) for panel in panels]
    for text, label in zip(texts, ["distribution function F(g)", "− (1 − F(g))", "P(g₍₁₎ ≥ ĝ₍₁₎)"], strict=True):
        assert label in text
    assert "T = 10,000" in texts[2]
    marks = [element.get("id") for element in image.iter() if element.get("id")]
    assert len(marks) == len(set(marks))
    pixels = matplotlib.image.imread(folder / "theory.png")
    assert pixels.shape[:2] == (660, 3000)
    assert pixels.min() < 0.2  # ink
    assert (pixels[0, 0, :3] == 1).all()  # on white


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ratio", "0"], "durm: --ratio=0: expected a finite number above 0"),
        (["--ratio", "-2", "--steps", "10"], "durm: --ratio=-2: expected a finite number above 0"),
        (["--ratio", "nan"], "durm: --ratio=nan: expected a finite number above 0"),
        (["--steps", "0"], "durm: --steps=0: expected a whole number from 1 to 10^12"),
        (["--steps", "1.5"], "durm: --steps '1.5': "),
        (["--ratio", "two"], "durm: --ratio 'two': "),
    ],
)
def test_bad_input_is_refused(flags: list[str], message: str) -> None:
    assert refusal(call("theory", *flags)).startswith(message)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refusal(call("theory", "--out", tmp_path / "file" / "folder"))


def test_help() -> None:
    text = call("theory", "--help").out
    assert all(flag in text for flag in ("--ratio", "--steps", "--out", "--json"))
