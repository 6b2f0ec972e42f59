"""Ours beside the paper's: what a recipe gave so far, row by row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durm._words import metric_name
from durm.data import LOADERS, Sampled, base_name, settings_of, split_name
from durm.paper.recipe import SCALES, Recipe, Row, Scale
from durm.paper.reported import reported_cells
from durm.report.tables import Cell, Table
from durm.report.words import bounds, decimals, plain, signed
from durm.study.arms import compare_each, seeds_of_looks, spread, values_of
from durm.study.spec import Study
from durm.study.store import Store
from durm.study.summary import Results, read_results, summarize

OUR_CLASSES = {"agriculture": "agricultural"}
"""What the data call a class that has another name in the paper."""


@dataclass(frozen=True)
class Reproduction:
    """A recipe at a scale, in a folder of its own: `folder/row/` is the study of a row."""

    recipe: Recipe
    scale: Scale
    folder: Path

    def row_folder(self, row: Row) -> Path:
        return self.folder / row.id

    def data_root(self, rows: list[Row], given: Path | None) -> Path | None:
        """Where the rows' data lie. At smoke scale that is a folder of generated files, which is filled on the way."""
        if self.scale != "smoke":
            return given
        root = self.folder / "data"
        names = {base_name(name) for row in rows for name in self.recipe.study_of(row, self.scale).data}
        for loader in (LOADERS[name] for name in sorted(names)):
            if isinstance(loader, Sampled):
                loader.write_sample(root)
        return root

    def progress(self) -> tuple[int, int]:
        """How many trials are done, of all."""
        studies = [(self.row_folder(row), self.recipe.study_of(row, self.scale)) for row in self.recipe.rows]
        trials = [(Store(folder, study), trial) for folder, study in studies for trial in study.trials()]
        return sum(store.is_done(trial) for store, trial in trials), len(trials)

    def compared(self, rows: list[Row]) -> Iterator[dict[str, Any]]:
        """Each row: the paper's numbers for each C_d, and ours with n and verdict as far as they go."""
        for row in rows:
            folder = self.row_folder(row)
            study, results = self.recipe.study_of(row, self.scale), {}
            if (folder / "study.yaml").is_file():
                store = Store.open(folder)
                study, results = store.study, read_results(store)
            ours = summarize(study, results) if results else None
            found = {"row": row.id, "paper": paper_numbers(self.recipe, row), "ours": ours}
            held_out = [domain for name in settings_of(row.data) if (domain := split_name(name)[1]) is not None]
            if held_out:
                found["domains"] = {domain: paper_numbers(self.recipe, row, domain=domain) for domain in held_out}
            attacks = self.recipe.study_of(row, self.scale).attacks
            if attacks:
                found["attacks"] = {
                    key: {} if through == "dummy" else paper_numbers(self.recipe, row, attack=attack.label)
                    for attack in attacks
                    for key, through in zip(attack.keys, attack.through, strict=True)
                }
            if classes := paper_classes(self.recipe, row):
                found |= self._of_pixels(row, classes, study, results)
            yield found

    def _of_pixels(self, row: Row, classes: Mapping[str, Any], study: Study, results: Results) -> dict[str, Any]:
        """Of segmentation: the IoU of each class, the mean accuracy, and what only the benchmark's server can tell."""
        ours = _measured(study, results, {name: class_metric(name) for name in classes})
        found: dict[str, Any] = {
            "classes": {name: {"paper": paper, "ours": ours.get(name)} for name, paper in classes.items()}
        }
        if macc := paper_numbers(self.recipe, row, metric="macc"):
            found["macc"] = {"paper": macc, "ours": _measured(study, results, {"macc": "macc"}).get("macc")}
        if server := paper_numbers(self.recipe, row, split="test"):
            found["server"] = server
        return found


def paper_numbers(recipe: Recipe, row: Row, **which: str | None) -> dict[str, dict[str, float]]:
    """C_d → value and standard deviation, from the first of the recipe's tables that has the row.

    Of data with domains it is the mean over them, or what holds for the one that is held out, if `domain` names it;
    `attack`: what is left under it; `metric` and `split`: instead of those that the row names.
    """
    for table in recipe.tables:
        cells = _cells(table, row, which)
        if cells:
            return {str(cell["dummies"]): {key: cell[key] for key in ("value", "std") if key in cell} for cell in cells}
    return {}


def paper_classes(recipe: Recipe, row: Row) -> dict[str, dict[str, dict[str, float]]]:
    """Class → C_d → its IoU in the paper, for rows of segmentation."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for table in recipe.tables:
        for cell in _cells(table, row, {"metric": "iou", "derived": None}):
            found.setdefault(cell["class"], {})[str(cell["dummies"])] = {"value": cell["value"]}
    return found


def class_metric(name: str) -> str:
    """What the IoU of a class of the paper is called in results: `iou_traffic-light`."""
    return f"iou_{metric_name(OUR_CLASSES.get(name, name))}"


def _cells(table: int, row: Row, which: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Those of the row. What the paper derived from other cells is left out, unless the row asks for it."""
    where = {"data": row.data, "model": row.model, "method": row.method, "domain": None, "attack": None}
    return reported_cells(table, **{**where, **row.reported, **which})


def _measured(study: Study, results: Results, metrics: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """For each name, what its metric is in every arm, and by how much that differs from the baseline's.

    The metrics are judged as one family, so that the intervals allow for their number.
    """
    (setting, *_), (_, *others) = study.settings, study.arms
    results_of = {
        arm.name: {str(s): result for s in study.seeds if (result := results.get((*setting, arm.name, s))) is not None}
        for arm in study.arms
    }
    values = {
        (name, arm): values_of(found, metric) for name, metric in metrics.items() for arm, found in results_of.items()
    }
    measured = [name for name in metrics if any(values[name, arm.name] for arm in study.arms)]
    comparisons = compare_each(measured, study.arm_names, values, study.rope, seeds_of_looks(study))
    return {
        name: {
            "arms": [
                {"arm": arm.name, "dummies": arm.dummies, **spread(of), "values": of}
                for arm in study.arms
                if (of := values[name, arm.name])
            ],
            "comparisons": [comparisons[name, arm.name] for arm in others],
        }
        for name in measured
    }


def compared_table(rows: list[dict[str, Any]]) -> Table:
    """Ours beside theirs, one line for each row and C_d; of data with domains, for each of these and for their mean.

    Of segmentation there are lines for each class, for the mean accuracy, and for the paper's test set.
    """
    lines = []
    for row in rows:
        for name, paper, setting in _parts(row):
            arms = {str(arm["dummies"]): arm for arm in setting["arms"]} if setting else {}
            judged = {c["arm"]: c for c in setting["comparisons"]} if setting else {}
            for dummies in sorted({*paper, *arms}, key=int):
                cells = [name, dummies, *_theirs(paper, dummies)]
                arm = arms.get(dummies)
                cells += _ours(arm, judged.get(arm["arm"]), row["ours"]["rope"]) if arm else ["–"] * 5
                lines.append([Cell(cell) for cell in cells])
    headings = ["row", "C_d", "paper", "its gain", "ours", "n", "difference", "interval", "verdict"]
    return Table(headings, lines)


def _parts(row: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]:
    """The name, the paper's numbers and our setting of each part of a row, the row itself last."""
    ours, domains = row["ours"] or {"settings": [], "averages": []}, row.get("domains", {})
    for domain, paper in domains.items():
        found = (setting for setting in ours["settings"] if setting["setting"]["data"].endswith(f":{domain}"))
        yield f"{row['row']}, {domain}", paper, next(found, None)
    (attacked, *_) = ours["settings"] or [{"robustness": [], "arms": []}]
    dummies = {arm["arm"]: arm["dummies"] for arm in attacked["arms"]}
    for key, paper in row.get("attacks", {}).items():
        entry = next((entry for entry in attacked["robustness"] if entry["attack"] == key), None)
        if entry is not None:
            arms = [{**arm, "dummies": dummies[arm["arm"]]} for arm in entry["arms"] if arm["n"]]
            entry = {"arms": arms, "comparisons": entry["comparisons"]}
        yield f"{row['row']}, {key.replace('_', ' through ')}", paper, entry
    for name, part in row.get("classes", {}).items():
        yield f"{row['row']}, {name}", part["paper"], part["ours"]
    if "macc" in row:
        yield f"{row['row']}, mean accuracy", row["macc"]["paper"], row["macc"]["ours"]
    if "server" in row:
        yield f"{row['row']}, test (server)", row["server"], None
    means = (average for average in ours["averages"] if len(average["domains"]) == len(domains))
    yield row["row"], row["paper"], next(means if domains else iter(ours["settings"]), None)


def _theirs(paper: Mapping[str, Mapping[str, float]], dummies: str) -> list[str]:
    if dummies not in paper:
        return ["–", "–"]
    cell = paper[dummies]
    value = plain(cell["value"]) + (f" ± {cell['std']:.2f}" if "std" in cell else "")
    gain = signed(cell["value"] - paper["0"]["value"]) if dummies != "0" and "0" in paper else ""
    return [value, gain]


def _ours(arm: Mapping[str, Any], comparison: Mapping[str, Any] | None, rope: float) -> list[str]:
    value = plain(arm["mean"]) + (f" ± {arm['std']:.2f}" if arm["std"] is not None else "")
    if comparison is None:
        return [value, str(arm["n"]), "", "", "" if arm["dummies"] else "baseline"]
    digits = decimals(comparison, rope)
    return [
        *(value, str(arm["n"]), signed(comparison["difference"], digits)),
        *(bounds(comparison["ci_family"], digits), comparison["verdict"]),
    ]


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
