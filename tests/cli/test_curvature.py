"""`durm probe`: the table, the files, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.image
import pytest
import torch

from durm.curvature import ClassifierLoss, top_eigenvalues
from durm.report.curvature import draw_paths, flatness_table
from durm.training.inference import load_model
from tests.cli.calling import Answer, call, refusal

QUICK = ("--samples", 60, "--trace-samples", 2)


def lines(answer: Answer) -> list[str]:
    assert (answer.code, answer.err) == (0, ""), answer
    return answer.out.splitlines()


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that was trained for an epoch, with two dummies."""
    folder = tmp_path_factory.mktemp("probe") / "out"
    lines(call("train", "--epochs", 1, "--dummies", 2, "--label-smoothing", 0.1, "--quiet", "--out", folder))
    (found,) = (folder / "trials").iterdir()
    return found


@pytest.fixture(scope="module")
def written(trial: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("probe") / "made" / "here"
    return folder, lines(call("probe", trial, *QUICK, "--eigenvalues", 2, "--out", folder))


def test_the_table(written: tuple[Path, list[str]]) -> None:
    folder, printed = written
    record = json.loads((folder / "flatness.json").read_text())
    headings, rows = flatness_table(record)
    assert printed[0].split() == ["n", "=", "60", "training", "loss", "real", "loss"]
    assert headings == ["n = 60", "training loss", "real loss"]
    assert [row[0] for row in rows] == [
        *("weights", "loss", "norm of the gradient", "eigenvalue 1", "eigenvalue 2"),
        *("no larger one than, 99 % sure", "converged", "trace"),
        *("worst rise within 5 % of each filter", "mean rise within 5 % of each filter"),
    ]
    for (name, *cells), line in zip(rows, printed[1 : 1 + len(rows)], strict=True):
        assert line.startswith(name)
        assert all(cell in line for cell in cells)
    assert record["training"]["weights"] - record["real"]["weights"] == 2 * 129
    value, residual = (record["real"]["eigenvalues"][name][0] for name in ("values", "residuals"))
    assert f"{value:.4g} (residual {residual:.2g})".replace("-", "−") in rows[3]
    assert rows[6][1].startswith("yes, ")
    assert " ± " in rows[7][1]


def test_smallest_density_and_gauss_newton(trial: Path, tmp_path: Path) -> None:
    extra = ("--smallest", 1, "--density", 2, "--matrix", "ggn", "--max-products", 20, "--out", tmp_path)
    printed = "\n".join(lines(call("probe", trial, *QUICK, *extra)))
    assert "smallest eigenvalue 1" in printed
    assert "no smaller one than, 99 % sure" in printed
    assert {"density.svg", "density.png"} < {path.name for path in tmp_path.iterdir()}
    assert "eigenvalue, real logits" in (tmp_path / "density.svg").read_text()
    record = json.loads((tmp_path / "flatness.json").read_text())
    assert record["matrix"] == "ggn"
    assert record["real"]["smallest"]["values"][0] > -1e-4
    assert len(record["real"]["density"]["nodes"]) == 2


def test_the_numbers_are_those_of_the_model(trial: Path, written: tuple[Path, list[str]]) -> None:
    """On the training part: the same samples as for every other model, with the smoothing that it was trained with."""
    folder, _ = written
    record = json.loads((folder / "flatness.json").read_text())
    assert (record["data"], record["model"], record["dummies"], record["part"]) == ("digits", "cnn", 2, "train")
    assert record["checkpoint"] == str(trial / "checkpoint.pt")
    model, _, bundle = load_model(trial / "checkpoint.pt")
    every = call("probe", trial, "--samples", 10**6, "--trace-samples", 2, "--json")
    whole = json.loads("\n".join(lines(every)))
    inputs = bundle.input.normalise(bundle.train.inputs)
    assert whole["samples"] == len(inputs)
    for kind in ("training", "real"):
        loss = ClassifierLoss(model, inputs, bundle.train.labels, num_classes=10, kind=kind, label_smoothing=0.1)
        assert whole[kind]["loss"] == pytest.approx(loss.value(), rel=1e-6)
        assert whole[kind]["eigenvalues"]["values"] == pytest.approx(top_eigenvalues(loss).values, rel=1e-3)
    assert record["real"]["loss"] != whole["real"]["loss"]


def test_the_figure_is_written(written: tuple[Path, list[str]]) -> None:
    folder, printed = written
    files = ["flatness.json", "flatness.svg", "flatness.png"]
    assert printed[-3:] == [f"written: {folder / name}" for name in files]
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)
    groups = ElementTree.parse(folder / "flatness.svg").getroot().iter("{http://www.w3.org/2000/svg}g")
    panels = [group for group in groups if group.get("id", "").startswith("axes_")]
    random, gradient = ("".join(panel.itertext()) for panel in panels)
    assert "along a random direction" in random
    assert "along the gradient" in gradient
    assert "real logits" in random
    assert "all logits" in random
    pixels = matplotlib.image.imread(folder / "flatness.png")
    assert pixels.shape[:2] == (660, 2000)
    assert pixels.min() < 0.4


def test_losses_that_are_not_finite_are_left_out_of_the_figure() -> None:
    path = {"direction": "random", "distances": [-1, 0, 1], "training": [None, 1.0, 900.0], "real": [None, 1.0, 2.0]}
    svg, _ = draw_paths({"paths": [path]})
    assert "random" in svg
    nothing = {"direction": "random", "distances": [1], "training": [None], "real": [None]}
    draw_paths({"paths": [nothing]})


def test_parts_filters_and_chunks(trial: Path) -> None:
    def record(*flags: object) -> dict:
        return json.loads("\n".join(lines(call("probe", trial, *QUICK, "--json", *flags))))

    train, test, head, chunked = (
        record(),
        record("--part", "test"),
        record("--only", "10.*,nothing"),
        record("--chunk", 25),
    )
    assert train["real"]["loss"] != test["real"]["loss"]
    assert (head["training"]["weights"], head["real"]["weights"]) == (12 * 129, 10 * 129)
    assert chunked["real"]["eigenvalues"]["values"] == pytest.approx(train["real"]["eigenvalues"]["values"], rel=1e-3)
    short = record("--max-products", 2, "--radius", 0)
    assert short["real"]["eigenvalues"]["converged"] is False
    assert (short["real"]["eigenvalues"]["products"], short["real"]["stability"]["worst"]) == (2, 0)


def test_a_model_without_dummies(tmp_path: Path) -> None:
    lines(call("train", "--epochs", 1, "--quiet", "--out", tmp_path / "out"))
    (trial,) = (tmp_path / "out" / "trials").iterdir()
    printed = lines(call("probe", trial / "checkpoint.pt", *QUICK, "--max-products", 1))
    assert "NO, 1 products" in "\n".join(printed)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--samples", "0"], "--samples 0: expected at least 1"),
        (["--part", "trian"], "--part 'trian': expected 'train', 'val' or 'test'"),
        (["--eigenvalues", "0"], "--eigenvalues 0: expected an int of at least 1"),
        (["--eigenvalues", "3", "--max-products", "2"], "--max-products 2: expected an int of at least 3"),
        (["--tolerance", "0"], "--tolerance 0.0: expected a number above 0"),
        (["--trace-samples", "1"], "--trace-samples 1: expected an int of at least 2"),
        (["--radius", "-1"], "--radius -1.0: expected a number of at least 0"),
        (["--chunk", "0"], "--chunk 0: expected an int of at least 1"),
        (["--only", "fc.*"], "--only ['fc.*'] fits none of the parameters, which are 0.weight, 1.weight, 1.bias and 5"),
        (["--smallest", "-1"], "--smallest -1: expected an int of at least 0"),
        (["--density", "-1"], "--density -1: expected an int of at least 0"),
        (["--matrix", "fisher"], "--matrix 'fisher': expected one of 'hessian', 'ggn'"),
        (["--radius", "wide"], "--radius 'wide': "),
    ],
)
def test_bad_input_is_refused(trial: Path, flags: list[str], message: str) -> None:
    assert refusal(call("probe", trial, *flags)).startswith(f"durm: {message}")


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert "there is no such file" in refusal(call("probe", tmp_path / "nothing.pt"))
    torch.save({"weights": torch.zeros(3)}, tmp_path / "other.pt")
    assert "other.pt" in refusal(call("probe", tmp_path / "other.pt"))
    assert "Missing argument 'checkpoint'" in refusal(call("probe"))


def test_segmentation_is_refused(trial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, description, bundle = load_model(trial / "checkpoint.pt")
    scenes = replace(bundle, task="segmentation")
    monkeypatch.setattr("durm.training.inference.load_model", lambda *_, **__: (model, description, scenes))
    assert "this model was trained for segmentation" in refusal(call("probe", trial))


def test_help() -> None:
    text = call("probe", "--help").out
    flags = "samples part only chunk data-root eigenvalues tolerance max-products trace-samples radius out quiet json"
    assert all(f"--{flag}" in text for flag in flags.split())
