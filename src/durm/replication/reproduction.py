"""Ours next to the paper's: what a recipe gave so far, row by row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from durm._text import metric_name
from durm.data import base_name, settings_of, split_name
from durm.replication.recipe import SCALES, Recipe, Row, Scale
from durm.replication.reported import reported_cells
from durm.report.tables import Cell, Table
from durm.report.text import bounds, decimals, plain, signed
from durm.statistics.verdict import Comparison
from durm.study.arm_results import compare_each, describe, values_of
from durm.study.config import Study
from durm.study.records import ArmSummary, Group, Setting, Summary
from durm.study.store import Store
from durm.study.summary import Results, read_results, summarize
from durm.training.result import Record

OUR_CLASSES = {"agriculture": "agricultural"}
"""What the data call a class that has another name in the paper."""


class PaperNumber(Record):
    """A cell of a table of the paper."""

    value: float
    std: float | None = None


PaperNumbers = dict[str, PaperNumber]
"""C_d → what the paper has."""


class ComparedPart(Record):
    """One quantity of a row: the paper's numbers, and ours as far as they go."""

    paper: PaperNumbers
    ours: Group | None = None


class ComparedRow(Record):
    """A row of a recipe, ours next to theirs.

    Attributes:
        row: its id.
        paper: the paper's numbers.
        ours: what our study says; None before it was run.
        domains: the paper's numbers for each held-out domain.
        attacks: the same for each attack and surface.
        classes: of segmentation, the IoU of each class.
        macc: of segmentation, the mean class accuracy.
        server: the paper's numbers on a test set that only the benchmark's server can judge.
    """

    row: str
    paper: PaperNumbers
    ours: Summary | None = None
    domains: dict[str, PaperNumbers] = Field(default_factory=dict)
    attacks: dict[str, PaperNumbers] = Field(default_factory=dict)
    classes: dict[str, ComparedPart] = Field(default_factory=dict)
    macc: ComparedPart | None = None
    server: PaperNumbers = Field(default_factory=dict)


@dataclass(frozen=True)
class Reproduction:
    """A recipe at a scale, in a folder of its own: `folder/row/` is the study of a row."""

    recipe: Recipe
    scale: Scale
    folder: Path

    def row_folder(self, row: Row) -> Path:
        return self.folder / row.id

    def progress(self) -> tuple[int, int]:
        """How many trials are done, of all."""
        stores = [Store(self.row_folder(row), self.recipe.study_of(row, self.scale)) for row in self.recipe.rows]
        done = [store.is_done(trial) for store in stores for trial in store.study.trials()]
        return sum(done), len(done)

    def compared(self, rows: list[Row]) -> Iterator[ComparedRow]:
        """Each row: the paper's numbers for each C_d, and ours with n and verdict as far as they go."""
        for row in rows:
            folder, study = self.row_folder(row), self.recipe.study_of(row, self.scale)
            attacks, results = study.attacks, {}
            if (folder / "study.yaml").is_file():
                store = Store.open(folder)
                assert isinstance(store.study, Study)
                study, results = store.study, read_results(store)
            paper = partial(paper_numbers, self.recipe, row)
            held_out = [domain for name in settings_of(row.data) if (domain := split_name(name)[1]) is not None]
            classes = paper_classes(self.recipe, row)
            ours = _measured(study, results, {name: class_metric(name) for name in classes})
            macc = paper(metric="macc") if classes else {}
            our_macc = _measured(study, results, {"macc": "macc"}).get("macc")
            yield ComparedRow(
                row=row.id,
                paper=paper(),
                ours=summarize(study, results) if results else None,
                domains={domain: paper(domain=domain) for domain in held_out},
                attacks={
                    key: {} if through == "dummy" else paper(attack=attack.label)
                    for attack in attacks
                    for key, through in zip(attack.keys, attack.through, strict=True)
                },
                classes={name: ComparedPart(paper=theirs, ours=ours.get(name)) for name, theirs in classes.items()},
                macc=ComparedPart(paper=macc, ours=our_macc) if macc else None,
                server=paper(split="test") if classes else {},
            )


def paper_numbers(recipe: Recipe, row: Row, **which: str | None) -> PaperNumbers:
    """From the first of the recipe's tables that has the row.

    Of data with domains it is the mean over them, or what holds for the one that is held out, if `domain` names it;
    `attack`: what is left under it; `metric` and `split`: instead of those that the row names.
    """
    for table in recipe.tables:
        if cells := _cells(table, row, which):
            return {str(cell["dummies"]): PaperNumber(value=cell["value"], std=cell.get("std")) for cell in cells}
    return {}


def paper_classes(recipe: Recipe, row: Row) -> dict[str, PaperNumbers]:
    """Class → C_d → its IoU in the paper, for rows of segmentation."""
    found: dict[str, PaperNumbers] = {}
    for table in recipe.tables:
        for cell in _cells(table, row, {"metric": "iou", "derived": None}):
            found.setdefault(cell["class"], {})[str(cell["dummies"])] = PaperNumber(value=cell["value"])
    return found


def class_metric(name: str) -> str:
    """What the IoU of a class of the paper is called in results: `iou_traffic-light`."""
    return f"iou_{metric_name(OUR_CLASSES.get(name, name))}"


def _cells(table: int, row: Row, which: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Those of the row. What the paper derived from other cells is left out, unless the row asks for it."""
    where = {"data": row.data, "model": row.model, "method": row.method, "domain": None, "attack": None}
    return reported_cells(table, **{**where, **row.reported, **which})


def _measured(study: Study, results: Results, metrics: Mapping[str, str]) -> dict[str, Group]:
    """For each name, what its metric is in every arm, and by how much that differs from the baseline's.

    The metrics are judged as one family, so that the intervals allow for their number.
    """
    setting = study.setting_names[0]
    arms = study.arms_of(setting)
    keys = {arm: {str(seed): (*setting, arm, seed) for seed in study.seeds} for arm in arms}
    found = {arm: {seed: results[key] for seed, key in keys[arm].items() if key in results} for arm in arms}
    values = {(name, arm): values_of(found[arm], metric) for name, metric in metrics.items() for arm in arms}
    measured = [name for name in metrics if any(values[name, arm] for arm in arms)]
    comparisons = compare_each(measured, [*arms], values, study.rope)
    return {
        name: Group(
            arms=[
                ArmSummary(arm=label, dummies=arm.dummies, **describe(of))
                for label, arm in arms.items()
                if (of := values[name, label])
            ],
            comparisons=[comparisons[name, arm] for arm in [*arms][1:]],
        )
        for name in measured
    }


def compared_table(rows: list[ComparedRow]) -> Table:
    """Ours next to theirs, one line for each row and C_d; of data with domains, for each of these and for their mean.

    Of segmentation there are lines for each class, for the mean accuracy, and for the paper's test set.
    """
    lines = []
    for row in rows:
        rope = row.ours.rope if row.ours else 0.0
        for name, paper, ours in _parts(row):
            arms = {str(arm.dummies): arm for arm in ours.arms} if ours else {}
            judged = {c.arm: c for c in ours.comparisons} if ours else {}
            for dummies in sorted({*paper, *arms}, key=int):
                measured = ["–"] * 5
                if arm := arms.get(dummies):
                    measured = _ours(arm, judged.get(arm.arm), rope)
                lines.append([Cell(text) for text in (name, dummies, *_theirs(paper, dummies), *measured)])
    headings = ["row", "C_d", "paper", "its gain", "ours", "n", "difference", "interval", "verdict"]
    return Table(headings, lines)


def _parts(row: ComparedRow) -> Iterator[tuple[str, PaperNumbers, Group | Setting | None]]:
    """The name, the paper's numbers and ours of each part of a row, the row itself last."""
    settings, averages = (row.ours.settings, row.ours.averages) if row.ours else ([], [])
    for domain, paper in row.domains.items():
        found = (setting for setting in settings if setting.setting["data"].endswith(f":{domain}"))
        yield f"{row.row}, {domain}", paper, next(found, None)
    for key, paper in row.attacks.items():
        ours = _under_attack(settings[0], key) if settings else None
        yield f"{row.row}, {key.replace('_', ' through ')}", paper, ours
    for name, part in row.classes.items():
        yield f"{row.row}, {name}", part.paper, part.ours
    if row.macc is not None:
        yield f"{row.row}, mean accuracy", row.macc.paper, row.macc.ours
    if row.server:
        yield f"{row.row}, test (server)", row.server, None
    means = (average for average in averages if len(average.domains or ()) == len(row.domains))
    yield row.row, row.paper, next(means if row.domains else iter(settings), None)


def _under_attack(setting: Setting, attack: str) -> Group | None:
    entry = next((entry for entry in setting.robustness if entry.attack == attack), None)
    if entry is None:
        return None
    arms = [
        ArmSummary(arm=arm.arm, dummies=setting.arm(arm.arm).dummies, n=arm.n, mean=arm.mean, std=arm.std)
        for arm in entry.arms
        if arm.n
    ]
    return Group(arms=arms, comparisons=entry.comparisons)


def _theirs(paper: PaperNumbers, dummies: str) -> list[str]:
    if dummies not in paper:
        return ["–", "–"]
    cell = paper[dummies]
    gain = signed(cell.value - paper["0"].value) if dummies != "0" and "0" in paper else ""
    return [_with_std(cell.value, cell.std), gain]


def _ours(arm: ArmSummary, comparison: Comparison | None, rope: float) -> list[str]:
    measured = [_with_std(arm.mean, arm.std), str(arm.n)]
    if comparison is None:
        return [*measured, "", "", "" if arm.dummies else "baseline"]
    digits, interval = decimals(comparison.ci_family, rope), comparison.ci_family
    return [
        *measured,
        signed(comparison.difference, digits),
        bounds(interval, digits),
        comparison.verdict or "not judged",
    ]


def _with_std(value: float | None, std: float | None) -> str:
    return plain(value) + ("" if std is None else f" ± {std:.2f}")


def default_folder(recipe: Recipe, scale: Scale) -> Path:
    return Path("runs") / "reproduce" / recipe.id / scale


def listing(recipes: list[Recipe]) -> list[dict[str, Any]]:
    """Every recipe: what it is, what it needs, and how much of it has been run in the default folders."""
    found = []
    for recipe in recipes:
        runs = {scale: Reproduction(recipe, scale, default_folder(recipe, scale)).progress() for scale in SCALES}
        found.append(
            {
                "id": recipe.id,
                "title": recipe.title,
                "tables": list(recipe.tables),
                "figures": list(recipe.figures),
                "rows": [row.id for row in recipe.rows],
                "needs": sorted({base_name(row.data) for row in recipe.rows}),
                "done": {scale: {"trials": total, "done": done} for scale, (done, total) in runs.items()},
            }
        )
    return found


def listing_lines(recipes: list[dict[str, Any]]) -> Iterator[str]:
    """The listing for people."""
    for recipe in recipes:
        done = ", ".join(f"{scale} {run['done']}/{run['trials']}" for scale, run in recipe["done"].items())
        parts = [f"{kind} {', '.join(map(str, recipe[kind]))}" for kind in ("tables", "figures") if recipe[kind]]
        yield f"{recipe['id']}: {recipe['title']}" + (f" ({'; '.join(parts)})" if parts else "")
        yield f"  needs  {', '.join(recipe['needs'])}"
        yield f"  rows   {', '.join(recipe['rows'])}"
        yield f"  run    {done} trials"
