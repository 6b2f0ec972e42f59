"""The paper's numbers: complete, and what the paper derives from them follows, but for a list of contradictions."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from statistics import mean
from typing import Any

import pytest

Cell = dict[str, Any]

REPORTED = json.loads(resources.files("durm.replication").joinpath("reported.json").read_text(encoding="utf-8"))
TABLES: dict[str, dict[str, Any]] = REPORTED["tables"]
TEXT: dict[str, dict[str, Any]] = {entry["id"]: entry for entry in REPORTED["text"]}
CONTRADICTIONS: dict[str, dict[str, Any]] = {entry["id"]: entry for entry in REPORTED["contradictions"]}

# Which number a cell is: all its keys but the number.
IDENTITY = (
    *("data", "model", "method", "regularizer", "attack", "dummies"),
    *("domain", "class", "split", "metric"),
)
NAMES: dict[str, set[Any]] = {
    "data": {
        *("imagenet", "cifar10", "cifar100", "stl10", "oxford-pet", "flowers102", "thucnews", "urbansound8k"),
        *("cityscapes", "voc2012", "loveda"),
        *("vlcs", "officehome", "pacs", "terraincognita"),
        *("cifar10-lt-100", "cifar10-lt-50", "cifar10-lt-10"),
    },
    "model": {
        *("resnet18", "resnet50", "resnet101", "resnext50_32x4d", "vit_tiny_patch16_224"),
        *("swin_tiny_patch4_window7_224", "mobilevit_s", "mixer_b16_224", "transformer", "lstm"),
        *("fcn-resnet101", "segformer-mit_b0", "segformer-mit_b5", "deeplabv3-resnet101", "hrnet-w48"),
        *("pspnet-resnet18", "upernet-swin", "segmenter"),
    },
    "method": {"erm", "swad", "dann", "vrex", "rsc", "mmd", "fgsm-at", "pgd-at"},
    "regularizer": {"none", "early-stop", "l2", "momentum", "mixup", "ema", "swa"},
    "attack": {"fgsm", "pgd"},
    "dummies": {0, 1, 2, 3},
    "split": {"val", "test"},
    "metric": {"accuracy", "miou", "macc", "iou"},
    "derived": {"average", "gain"},
}

# What the tables' LaTeX holds, counted and added up apart from the file: values, their sum, deviations, their sum.
PRINTED = {
    "1": (36, 2947.16, 36, 15.69),
    "2": (32, 1640.80, 0, 0),
    "3": (42, 2499.01, 0, 0),
    "4": (48, 3083.27, 48, 35.41),
    "5": (8, 286.63, 8, 3.04),
    "6": (6, 428.38, 6, 2.91),
    "7": (14, 1153.22, 14, 4.09),
    "8": (126, 5909.35, 72, 30.63),
    "9": (240, 17531.66, 0, 0),
    "10": (264, 15700.39, 0, 0),
    "11": (240, 15413.39, 0, 0),
    "12": (16, 574.08, 0, 0),
    "13": (12, 858.24, 0, 0),
    "14": (28, 2307.24, 0, 0),
}
DUMMIES = {
    **{table: {0, 2} for table in ("1", "6")},
    **{table: {0, 1} for table in ("2", "3", "4", "9", "10", "11")},
    "7": {0, 3},
    **{table: {0, 1, 2, 3} for table in ("5", "8", "12", "13", "14")},
}
RECIPES = {
    "classification": ["1", "8"],
    "loveda": ["2"],
    "segmentation": ["3", "9", "10"],
    "ood": ["4", "11"],
    "adversarial": ["5", "12"],
    "longtail": ["6", "13"],
    "regularizers": ["7", "14"],
}

# A copied number must be the same; one computed from numbers of two decimals may be off by their rounding.
COPIED, COMPUTED = 1e-9, 0.015


@dataclass(frozen=True)
class Statement:
    """A number of the paper, and what it must be by the paper's other numbers."""

    id: str
    stated: float
    follows: float
    places: tuple[str, ...]
    tolerance: float = COMPUTED

    @property
    def holds(self) -> bool:
        return abs(self.stated - self.follows) <= self.tolerance


def identity(cell: Cell, *without: str) -> Cell:
    return {key: cell[key] for key in IDENTITY if key in cell and key not in without}


def name(cell: Cell, *without: str) -> str:
    return "-".join(str(value) for value in identity(cell, *without).values()).replace(" ", "-")


def measured(table: str, **wanted: str | int) -> list[Cell]:
    """The cells of a table that are no average and no gain, and that have all the wanted keys."""
    cells: list[Cell] = TABLES[table]["cells"]
    return [cell for cell in cells if "derived" not in cell and wanted.items() <= cell.items()]


def derived(table: str, kind: str) -> list[Cell]:
    return [cell for cell in TABLES[table]["cells"] if cell.get("derived") == kind]


def value(table: str, **wanted: str | int) -> float:
    (cell,) = measured(table, **wanted)
    return float(cell["value"])


def told(id: str) -> float:
    return float(TEXT[id]["value"])


def repeats() -> Iterator[Statement]:
    """Tables of the main text show parts of the appendix's; table 4 rounds the averages of table 11 anew."""
    for short, full in [("1", "8"), ("3", "9"), ("3", "10"), ("4", "11"), ("5", "12"), ("6", "13"), ("7", "14")]:
        of_full = {name(cell): cell["value"] for cell in TABLES[full]["cells"] if cell.get("derived") != "gain"}
        for cell in TABLES[short]["cells"]:
            if cell.get("derived") != "gain" and name(cell) in of_full:
                yield Statement(
                    f"repeat-{short}-{full}-{name(cell)}",
                    stated=cell["value"],
                    follows=of_full[name(cell)],
                    places=(f"table {short}", f"table {full}"),
                    tolerance=COMPUTED if short == "4" else COPIED,
                )


def repeated_deviations() -> Iterator[Statement]:
    """Only tables 1 and 8 both print deviations."""
    of_full = {name(cell): cell["std"] for cell in measured("8")}
    for cell in measured("1"):
        yield Statement(
            f"deviation-1-8-{name(cell)}", cell["std"], of_full[name(cell)], ("table 1", "table 8"), tolerance=COPIED
        )


def averages() -> Iterator[Statement]:
    """Mean IoU over the classes (tables 2, 9, 10), accuracy over the held-out domains (table 11)."""
    for table in TABLES:
        for cell in derived(table, "average"):
            parts = measured(table, **identity(cell, "metric"))
            follows = mean(part["value"] for part in parts)
            yield Statement(f"average-{table}-{name(cell)}", cell["value"], follows, (f"table {table}",))


def gains() -> Iterator[Statement]:
    """DuRM minus ERM: cell by cell in table 8, over three models in table 3."""
    for table in TABLES:
        for cell in derived(table, "gain"):
            durm = mean(part["value"] for part in measured(table, **identity(cell)))
            erm = mean(part["value"] for part in measured(table, **{**identity(cell), "dummies": 0}))
            yield Statement(f"gain-{table}-{name(cell)}", cell["value"], durm - erm, (f"table {table}",))


def table_8_comparisons() -> list[tuple[Cell, float]]:
    """Every DuRM cell of table 8, with the ERM accuracy beside it."""
    cells = [cell for cell in measured("8") if cell["dummies"] > 0]
    return [(cell, value("8", **{**identity(cell), "dummies": 0})) for cell in cells]


def sentences() -> Iterator[Statement]:
    """Numbers that the text repeats, counts or derives."""
    compared = table_8_comparisons()
    wins = sum(cell["value"] > erm for cell, erm in compared)
    yield Statement("text-wins", told("wins"), wins, ("section 3.1", "table 8"), COPIED)
    yield Statement("text-wins-out-of", told("wins-out-of"), len(compared), ("section 3.1", "table 8"), COPIED)

    gained = {name(cell): cell["value"] for cell in derived("8", "gain")}
    of_vit = gained["flowers102-vit_tiny_patch16_224-erm-2-accuracy"]
    places = ("appendix C.1", "table 8")
    yield Statement("text-gain-of-vit-on-flowers102", told("greatest-gain"), of_vit, places, COPIED)
    yield Statement("text-greatest-gain", told("greatest-gain"), max(gained.values()), places, COPIED)

    places = ("figure 2", "appendix C.6")
    yield Statement("text-toy-erm", told("toy-erm"), told("toy-erm-again"), places, COPIED)
    yield Statement("text-toy-durm", told("toy-durm"), told("toy-successful"), places, COPIED)
    better = max(told("toy-successful"), told("toy-failed"))
    yield Statement("text-toy-failed", told("toy-successful"), better, ("appendix C.6",), COPIED)

    for data, table in [("cityscapes", "9"), ("voc2012", "10")]:
        classes = {cell["class"] for cell in measured(table)}
        places = ("appendix C.2", f"table {table}")
        yield Statement(f"text-{data}-classes", told(f"{data}-classes"), len(classes), places, COPIED)

    places = ("appendix C.2", "table 9")
    fcn = {"model": "fcn-resnet101", "split": "val"}
    truck_erm, truck_durm = (value("9", **fcn, **{"class": "truck"}, dummies=dummies) for dummies in (0, 1))
    pole_erm, pole_durm = (value("9", **fcn, **{"class": "pole"}, dummies=dummies) for dummies in (0, 1))
    yield Statement("text-truck-erm", told("truck-erm"), truck_erm, places, COPIED)
    yield Statement("text-truck-durm", told("truck-durm"), truck_durm, places, COPIED)
    yield Statement("text-truck-gain", told("truck-gain"), truck_durm - truck_erm, places)
    yield Statement("text-pole-loss", told("pole-loss"), pole_erm - pole_durm, places)

    sizes = [int(cell["model"][-1]) for cell in measured("3") if cell["model"].startswith("segformer")]
    yield Statement("text-segformer-size", told("segformer-size"), min(sizes), ("section 3.1", "table 3"), COPIED)
    seeds = told("segmentation-seeds")
    yield Statement("text-segmentation-seeds", told("seeds"), seeds, ("section 3", "section 3.1"), COPIED)


def claims() -> Iterator[Statement]:
    """Claims of the text that speak of every case, as the number which should be an extreme and the one that is."""
    for model in ("upernet-swin", "segmenter"):
        erm, durm = (
            {cell["class"]: cell["value"] for cell in measured("2", model=model, dummies=dummies)} for dummies in (0, 1)
        )
        gained = {label: durm[label] - erm[label] for label in erm}
        lesser, second = min(gained["background"], gained["barren"]), sorted(gained.values())[-2]
        yield Statement(f"claim-loveda-{model}", lesser, second, ("section 3.1", "table 2"), COPIED)

    for cell in measured("12", dummies=0):
        lowest = min(other["value"] for other in measured("12", method=cell["method"], attack=cell["attack"]))
        id = f"claim-adversarial-{cell['method']}-{cell['attack']}"
        yield Statement(id, cell["value"], lowest, ("appendix C.4", "table 12"), COPIED)

    for cell in measured("13", dummies=0):
        lowest = min(other["value"] for other in measured("13", data=cell["data"]))
        yield Statement(f"claim-longtail-{cell['data']}", cell["value"], lowest, ("section 3.1", "table 13"), COPIED)


def bold() -> Iterator[Statement]:
    """The only pairs whose bold number is the smaller (the file does not hold which numbers are bold)."""
    printed_bold: list[tuple[str, dict[str, str | int]]] = [
        ("9", {"model": "segformer-mit_b5", "split": "val", "class": "sky", "dummies": 1}),
        ("9", {"model": "segformer-mit_b0", "split": "test", "class": "terrain", "dummies": 0}),
        ("11", {"data": "officehome", "method": "swad", "domain": "Real World", "dummies": 1}),
        ("11", {"data": "terraincognita", "method": "swad", "domain": "location_100", "dummies": 0}),
    ]
    for table, wanted in printed_bold:
        (cell,) = measured(table, **wanted)
        best = max(other["value"] for other in measured(table, **identity(cell, "dummies")))
        id = f"bold-{table}-{name(cell, 'dummies')}"
        yield Statement(id, cell["value"], best, (f"table {table}",), COPIED)


GROUPS = {
    "repeats": list(repeats()),
    "repeated deviations": list(repeated_deviations()),
    "averages": list(averages()),
    "gains": list(gains()),
    "sentences": list(sentences()),
    "claims": list(claims()),
    "bold": list(bold()),
}
STATEMENTS = [statement for group in GROUPS.values() for statement in group]


def test_the_file_is_about_this_paper_and_has_all_its_tables() -> None:
    assert set(REPORTED) == {"paper", "tables", "text", "contradictions"}
    assert REPORTED["paper"] == "arXiv:2308.02287"
    assert list(TABLES) == [str(number) for number in range(1, 15)]
    assert {id: [number for number in TABLES if TABLES[number]["recipe"] == id] for id in RECIPES} == RECIPES
    for table in TABLES.values():
        assert table.keys() - {"note", "not_reported"} == {"title", "recipe", "cells"}


@pytest.mark.parametrize("table", TABLES)
def test_cells_are_numbers_under_known_names(table: str) -> None:
    for cell in TABLES[table]["cells"]:
        assert {"data", "method", "dummies", "metric", "value"} <= cell.keys()
        assert cell.keys() <= {*IDENTITY, "value", "std", "derived"}
        assert all(cell[key] in known for key, known in NAMES.items() if key in cell), cell
        assert all(type(cell[key]) is float for key in ("value", "std") if key in cell), cell
        assert -100 <= cell["value"] <= 100 if cell.get("derived") == "gain" else 0 <= cell["value"] <= 100, cell
        assert cell.get("std", 0) >= 0, cell
        assert "model" in cell or cell.get("derived") == "gain", cell


@pytest.mark.parametrize("table", TABLES)
def test_no_cell_stands_twice(table: str) -> None:
    keys = [
        (name(cell), cell.get("derived")) for cell in TABLES[table]["cells"] + TABLES[table].get("not_reported", [])
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("table", TABLES)
def test_the_cells_add_up_to_what_is_printed(table: str) -> None:
    cells = TABLES[table]["cells"]
    values, deviations = [cell["value"] for cell in cells], [cell["std"] for cell in cells if "std" in cell]
    number_of_values, sum_of_values, number_of_deviations, sum_of_deviations = PRINTED[table]
    assert (len(values), len(deviations)) == (number_of_values, number_of_deviations)
    assert sum(values) == pytest.approx(sum_of_values, rel=0, abs=1e-6)
    assert sum(deviations) == pytest.approx(sum_of_deviations, rel=0, abs=1e-6)


@pytest.mark.parametrize("table", TABLES)
def test_tables_show_the_dummies_they_are_known_for(table: str) -> None:
    assert {cell["dummies"] for cell in TABLES[table]["cells"]} == DUMMIES[table]


def test_only_the_mean_accuracies_of_the_test_servers_are_missing() -> None:
    assert [table for table in TABLES if "not_reported" in TABLES[table]] == ["3"]
    missing = TABLES["3"]["not_reported"]
    assert len(missing) == 2 * (3 * 2 + 1)
    assert {(cell["split"], cell["metric"]) for cell in missing} == {("test", "macc")}
    assert all(cell.keys() <= {*IDENTITY, "derived"} for cell in missing)


@pytest.mark.parametrize("cell", [cell for cell in measured("5") if cell["dummies"] > 0], ids=name)
def test_table_5_shows_the_best_of_three(cell: Cell) -> None:
    assert cell["value"] == max(other["value"] for other in measured("12", **identity(cell, "dummies")))


def test_numbers_of_the_text_say_what_and_where() -> None:
    assert len(TEXT) == len(REPORTED["text"])
    for entry in TEXT.values():
        assert entry.keys() == {"id", "what", "value", "where"}
        assert type(entry["value"]) in (int, float)
        assert entry["where"].split()[0] in {"section", "figure", "appendix"}


def test_wins_of_table_8() -> None:
    """39 wins, as the paper says, but out of 54: 9, 15 and 15 of 18 with one, two and three dummies."""
    compared = table_8_comparisons()
    wins = [cell["dummies"] for cell, erm in compared if cell["value"] > erm]
    assert len(compared) == 54
    assert [wins.count(dummies) for dummies in (1, 2, 3)] == [9, 15, 15]
    assert len(wins) == 39


def test_nothing_stated_is_left_unchecked() -> None:
    assert {group: len(statements) for group, statements in GROUPS.items()} == {
        "repeats": 36 + 12 + 12 + 48 + 8 + 6 + 14,
        "repeated deviations": 36,
        "averages": 4 + 12 + 12 + 48,
        "gains": 54 + 6,
        "sentences": 15,
        "claims": 2 + 4 + 3,
        "bold": 4,
    }
    assert len({statement.id for statement in STATEMENTS}) == len(STATEMENTS)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.id)
def test_what_the_paper_states_follows_or_is_listed_as_a_contradiction(statement: Statement) -> None:
    assert statement.holds == (statement.id not in CONTRADICTIONS), statement


@pytest.mark.parametrize("id", CONTRADICTIONS)
def test_a_listed_contradiction_is_one(id: str) -> None:
    """So that the list cannot rot: what stands on it is a statement that fails, by these numbers, in these places."""
    (statement,) = [statement for statement in STATEMENTS if statement.id == id]
    contradiction = CONTRADICTIONS[id]
    assert contradiction.keys() == {"id", "what", "places", "values"}
    assert not statement.holds
    assert contradiction["values"] == pytest.approx([statement.stated, statement.follows], rel=0, abs=1e-6)
    assert contradiction["places"] == list(statement.places)
    assert contradiction["what"].endswith(".")


def test_every_contradiction_has_its_own_id() -> None:
    assert len(CONTRADICTIONS) == len(REPORTED["contradictions"])
