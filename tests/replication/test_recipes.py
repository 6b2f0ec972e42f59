"""Recipes: what they stand for, and that ours stands beside theirs."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from durm.data import parse, task_of
from durm.errors import InputError
from durm.models import check
from durm.replication.recipe import SCALES, Recipe, Scale, load_recipe, recipe_ids
from durm.replication.reproduction import PaperNumber, Reproduction, compared_table, paper_numbers
from durm.study.estimate import estimate_seconds
from durm.study.store import Store
from tests.cli.calling import call, refusal
from tests.data.samples import write_sample
from tests.study import synthetic


def recipe(**changes: Any) -> Recipe:
    values: dict[str, Any] = {
        "id": "made-up",
        "title": "of the tests",
        "tables": [8],
        "study": {"dummies": [0, 1], "seeds": 2, "train": {"epochs": 3, "lr": 0.1}},
        "scales": {"paper": {"train": {"epochs": 100}}, "cpu": {"seeds": 4}, "smoke": {}},
        "rows": [
            {"id": "first", "data": "digits", "model": "cnn"},
            {"id": "second", "data": "digits", "model": "mlp", "cpu": {"train": {"lr": 0.5}}},
            {
                "id": "other",
                "data": "digits",
                "model": "mlp",
                "study": {"arms": [{"name": "a"}, {"name": "b", "lr": 1}]},
            },
        ],
    }
    return Recipe.model_validate(values | changes)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", recipe_ids())
def test_every_row_of_every_recipe_is_a_study_of_known_parts(name: str, scale: Scale) -> None:
    made = load_recipe(name)
    assert len({row.id for row in made.rows}) == len(made.rows)
    for row in made.rows:
        study = made.study_of(row, scale)
        for data in study.data:
            parse(data)
        for model in study.model:
            check(model, task="segmentation" if task_of(row.data) == "segmentation" else "classification")


@pytest.mark.parametrize("name", recipe_ids())
def test_every_row_has_numbers_of_the_paper(name: str) -> None:
    made = load_recipe(name)
    for row in made.rows if made.tables else ():
        attacks: list[str | None] = [None]
        if name == "adversarial":  # the paper gives no accuracy without an attack
            attacks = ["fgsm", "pgd"] if row.method == "erm" else [row.method.removesuffix("-at")]
        assert all("0" in paper_numbers(made, row, attack=attack) for attack in attacks), row.id


def test_a_row_goes_before_the_scale_and_the_scale_before_the_recipe() -> None:
    made = recipe()
    first, second, other = made.rows
    paper = made.study_of(first, "paper")
    assert (paper.train.epochs, paper.train.lr, len(paper.seeds)) == (100, 0.1, 2)
    cpu = made.study_of(second, "cpu")
    assert (cpu.train.epochs, cpu.train.lr, len(cpu.seeds)) == (3, 0.5, 4)
    smoke = made.study_of(first, "smoke")
    assert (smoke.train.epochs, smoke.train.iterations, [arm.dummies for arm in smoke.arms]) == (None, 2, [0, 2])
    assert [arm.name for arm in made.study_of(other, "smoke").arms] == ["a", "b"]


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [(None, ["first", "second", "other"]), ("second,first", ["second", "first"]), ("*ir*,o*", ["first", "other"])],
)
def test_rows_are_chosen_by_pattern(pattern: str | None, ids: list[str]) -> None:
    assert [row.id for row in recipe().chosen(pattern)] == ids


def test_an_unknown_row_is_refused_with_the_closest() -> None:
    with pytest.raises(InputError, match="'secnod' is unknown: did you mean 'second'"):
        recipe().chosen("secnod")


def test_the_papers_numbers_are_found() -> None:
    made = load_recipe("classification")
    (row,) = made.chosen("cifar10-resnet18")
    assert paper_numbers(made, row) == {
        "0": PaperNumber(value=82.08, std=0.34),
        "1": PaperNumber(value=82.47, std=0.28),
        "2": PaperNumber(value=82.11, std=0.30),
        "3": PaperNumber(value=82.31, std=0.27),
    }


def test_ours_stands_beside_theirs(tmp_path: Path) -> None:
    """Eight seeds with differences of exactly 0.5, 0.6, 0.7, 0.8, each twice: the mean is 0.65."""
    made = load_recipe("classification")
    (row,) = made.chosen("cifar10-resnet18")
    ours = Reproduction(made, "cpu", tmp_path)
    store = Store.create(ours.row_folder(row), made.study_of(row, "cpu").model_copy(update={"seeds": (*range(8),)}))
    for trial in store.study.trials():
        value = 80.0 + (0.5 + 0.1 * (trial.seed % 4) if trial.dummies == 2 else 0)
        store.begin(trial)
        store.keep(trial, synthetic.result(trial, value))
    table = compared_table(list(ours.compared([row])))
    lines = {line[1]: line for line in table.texts()}
    assert lines["0"][2:6] == ["82.08 ± 0.34", "", "80.00 ± 0.00", "8"]
    assert lines["2"][2:7] == ["82.11 ± 0.30", "+0.03", "80.65 ± 0.12", "8", "+0.65"]
    assert lines["2"][-1] == "better"
    assert lines["3"][-1] == "equal"


def test_rows_that_were_not_run_show_the_paper_alone(tmp_path: Path) -> None:
    made = load_recipe("classification")
    rows = made.chosen("cifar100-resnet18")
    table = compared_table(list(Reproduction(made, "cpu", tmp_path).compared(rows)))
    assert table.texts()[0] == ["cifar100-resnet18", "0", "58.42 ± 0.33", "", "–", "–", "–", "–", "–"]


def test_an_estimate_grows_with_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty times the epochs and twice the seeds, by a clock on which a step takes a second; what is done is free."""
    monkeypatch.setattr("durm.study.estimate.time", SimpleNamespace(perf_counter=itertools.count().__next__))
    small = synthetic.store(tmp_path / "small", lambda trial: None, seeds=2, dummies=[0, 1], train={"epochs": 2})
    large = synthetic.store(tmp_path / "large", lambda trial: None, seeds=4, dummies=[0, 1], train={"epochs": 40})
    done = synthetic.store(tmp_path / "done", lambda trial: 90.0, seeds=2, dummies=[0, 1], train={"epochs": 2})
    assert estimate_seconds(done, None, 2) == 0
    one, two = estimate_seconds(small, None, 1), estimate_seconds(large, None, 1)
    assert one == pytest.approx(4 * (2 * 9 + 0.35 * (2 * 199 + 1000 + 598) / 64))
    assert two == pytest.approx(8 * (40 * 9 + 0.35 * (40 * 199 + 1000 + 598) / 64))
    assert estimate_seconds(small, None, 2) == pytest.approx(one / 2)


# The command.


def test_without_an_id_the_recipes_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = call("reproduce", "--json")
    listed = {entry["id"]: entry for entry in json.loads(answer.out)}
    assert set(listed) == set(recipe_ids())
    assert "cifar10" in listed["classification"]["needs"]
    assert listed["classification"]["done"]["smoke"]["done"] == 0
    printed = call("reproduce")
    assert (printed.code, printed.err) == (0, "")
    assert "cifar10-resnet18" in printed.out


def test_a_smoke_run_goes_from_files_to_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_sample("cifar10", tmp_path / "data")
    arguments = ["reproduce", "classification", "--scale", "smoke", "--rows", "cifar10-resnet18", "--quiet"]
    answer = call(*arguments)
    assert answer.code == 0, answer
    lines = {line.split()[1]: line.split() for line in answer.out.splitlines()[1:5]}
    assert lines["0"][:5] == ["cifar10-resnet18", "0", "82.08", "±", "0.34"]
    assert lines["2"][-1] == "undecided"
    folder = tmp_path / "runs/reproduce/classification/smoke"
    assert (folder / "cifar10-resnet18/report.html").is_file()
    kept = json.loads((folder / "reproduction.json").read_text())
    assert kept["rows"][0]["ours"]["done"] == 2
    results = {path: path.stat().st_mtime_ns for path in folder.glob("*/trials/*/result.json")}
    assert len(results) == 2
    assert call(*arguments).out == answer.out
    assert {path: path.stat().st_mtime_ns for path in results} == results
    (classification,) = [e for e in json.loads(call("reproduce", "--json").out) if e["id"] == "classification"]
    assert classification["done"]["smoke"]["done"] == 2


def test_an_estimate_runs_nothing(tmp_path: Path) -> None:
    write_sample("cifar10", tmp_path / "data")
    answer = call("reproduce", "classification", "--scale", "smoke", "--rows", "cifar10-resnet18",
                  "--estimate", "--out", tmp_path, "--data-root", tmp_path / "data")  # fmt: skip
    assert (answer.code, answer.out) == (0, "")
    assert "on this machine" in answer.err
    assert not list(tmp_path.glob("*/trials/*"))


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["clasification"], ["'clasification'", "'classification'"]),
        (["classification", "--scale", "papr"], ["--scale", "'papr'", "'paper'"]),
        (["classification", "--rows", "cifar11*"], ["--rows", "'cifar11*'"]),
        (["classification", "--rows", "cifar10-resnet18", "--data-root", "nowhere"], ["data_batch_1.bin", "nowhere"]),
        (["classification", "--scale", "smoke", "--rows", "cifar10-resnet18"], ["data_batch_1.bin", "data/"]),
        (["classification", "--scale", "smoke", "--seeds", "0"], ["--seeds", "0"]),
        (["classification", "--scale", "smoke", "--rows", "cifar10-resnet18", "--workers", "0"], ["--workers", "0"]),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: list[str], fragments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = refusal(call("reproduce", *arguments))
    assert all(fragment in line for fragment in fragments), line


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("gradient-variance", {"gradient_variance", "class_variance", "class_accuracy", "training_dummy_mass"}),
        ("flat-path", {"distance", "gradient_norm"}),
        ("gradient-fraction", {"dummy_fraction-durm-2", "training_dummy_mass"}),
    ],
)
def test_recipes_of_figures_draw_them(tmp_path: Path, name: str, figures: set[str]) -> None:
    write_sample("cifar10", tmp_path / "data")
    done = call("reproduce", name, "--scale", "smoke", "--out", tmp_path, "--data-root", tmp_path / "data", "-q")
    assert done.code == 0
    folder = tmp_path / "cifar10-resnet18"
    assert {path.stem for path in (folder / "figures").glob("*.png")} >= figures
    assert all((folder / "figures" / f"{figure}.svg").is_file() for figure in figures)
    assert "What the probes saw" in (folder / "report.html").read_text()


def test_the_recipe_of_the_theory_is_what_the_command_theory_gives(tmp_path: Path) -> None:
    assert call("reproduce", "theory", "--out", str(tmp_path), "--json").code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"theory.json", "theory.csv", "theory.svg", "theory.png"}
