"""What committed studies say, as evidence: their settings, and every number of every run, found by what they are.

A folder of results has a folder for each study, with study.yaml (what its arms change, its attacks), summary.json (its
settings, means over held-out domains, probes) and results.csv (all metrics of all trials). Beside them lie the records
of benchmarks. Nothing here goes by the name of a folder, so a study that is added tomorrow is found by its properties.
"""

import csv
import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durm.errors import InputError
from durm.study.spec import Arm, Study, read_study
from durm.training.method import parse_method

MOST_DUMMIES = 3
"""The paper's tables have C_d from 1 to 3. More of them are evidence about the number of dummies only."""

IMBALANCE = r"(?:^|:)longtail:([^:]+):"
SAMPLES = r"(?:^|:)subset:(?:[^:]*,)?samples=(\d+)"
"""Levels of data, told by their names."""

Row = Mapping[str, str]
Pair = tuple[Arm, Arm]
"""An arm with dummies, and the one that differs from it in nothing but having none."""


@dataclass(frozen=True)
class Setting:
    """Data, model and method of a study, with what its arms gave.

    Attributes:
        study: the name of the folder.
        parts: how results.csv calls it; data with domains have one part for each held-out domain, and their values are
            the means over these.
        spec: the whole study.
        looks: how often the study was looked at; 0 if it was planned with one look.
        rows: the lines of results.csv, by part and arm, and then by seed.
        summary: what summary.json has about it.
    """

    study: str
    data: str
    model: str
    method: str
    parts: tuple[str, ...]
    spec: Study
    looks: int
    rows: Mapping[tuple[str, str], Mapping[str, Row]]
    summary: Mapping[str, Any]

    @property
    def name(self) -> str:
        words = [self.data, self.model, *([self.method] if self.method != "erm" else [])]
        return ", ".join(words) + (f", mean of {len(self.parts)} domains" if self.has_domains else "")

    @property
    def has_domains(self) -> bool:
        return "domains" in self.summary

    @property
    def is_segmentation(self) -> bool:
        return "miou" in self.metrics

    @property
    def metric(self) -> str:
        """What the paper's tables would have of it."""
        return "miou" if self.is_segmentation else "accuracy"

    @property
    def metrics(self) -> list[str]:
        """The columns of results.csv that it has values in."""
        first: Row = next(iter(self._lines(self.parts[0], self.spec.arms[0].name).values()), {})
        return [name for name, value in first.items() if value]

    @property
    def imbalance(self) -> float | None:
        """100 of longtail:100:cifar10."""
        found = re.search(IMBALANCE, self.data)
        return float(found[1]) if found else None

    @property
    def objective(self) -> str:
        return parse_method(self.method)[0]

    def regularizers(self, arm: Arm) -> list[str]:
        """What an arm is trained with that Tables 7 and 14 add to plain ERM, and label smoothing.

        Momentum and L2 count where one of them stands alone: the usual recipe has both.
        """
        objective, averager = parse_method(self.method)
        train = {**self.spec.train.model_dump(), **arm.overrides}
        alone = train["optimizer"] == "sgd" and bool(train["momentum"]) != bool(train["weight_decay"])
        found = {
            "mixup": objective == "mixup",
            str(averager): averager is not None,
            "early stop": train["patience"] is not None,
            "label smoothing": train["label_smoothing"] > 0,
            "momentum": alone and bool(train["momentum"]),
            "L2": alone and bool(train["weight_decay"]),
        }
        return [name for name, there in found.items() if there]

    def pairs(self, most: int = MOST_DUMMIES) -> list[Pair]:
        """Every arm with up to so many dummies, with the arm that it is compared with."""
        arms = self.spec.arms
        return [
            (arm, baseline)
            for baseline in arms
            for arm in arms
            if baseline.dummies == 0 < arm.dummies <= most and other_overrides(arm) == other_overrides(baseline)
        ]

    def values(self, arm: str, metric: str) -> dict[str, float]:
        """Of each seed that has all parts, the mean over them; finite numbers only."""
        found = {}
        for seed in self._lines(self.parts[0], arm):
            cells = self._cells(arm, seed, metric)
            try:
                numbers = [float(cell) for cell in cells if cell]
            except ValueError:
                raise InputError(f"{self.study}/results.csv is damaged: {metric} is not always a number") from None
            if len(numbers) == len(cells) and all(map(math.isfinite, numbers)):
                found[seed] = statistics.fmean(numbers)
        return found

    def runs(self, arms: Sequence[str], seed: str) -> frozenset[tuple[str, ...]]:
        """The hashes of the weights: the same ones in two studies are one run. Those that are not known are left out.

        Of arms with dummies, if there are any: studies with new dummies may share the runs without.
        """
        dummies = {arm.name for arm in self.spec.arms if arm.dummies}
        found = {tuple(self._cells(arm, seed, "weights_sha256")) for arm in dummies.intersection(arms) or arms}
        return frozenset(hashes for hashes in found if all(hashes))

    def _cells(self, arm: str, seed: str, column: str) -> list[str]:
        return [self._lines(part, arm).get(seed, {}).get(column) or "" for part in self.parts]

    def _lines(self, part: str, arm: str) -> Mapping[str, Row]:
        return self.rows.get((part, arm), {})


def other_overrides(arm: Arm) -> dict[str, Any]:
    """What an arm changes besides its dummies."""
    return {key: value for key, value in arm.overrides.items() if key != "dummies"}


def probe_values(setting: Setting, quantity: str, arm: str) -> dict[str, float]:
    """What probes say about the runs of an arm, one number for each seed; nothing where they were not there.

    This is the one place that knows how summary.json keeps them (see `durm.study.probes`): in each setting a list
    `probes` of {"quantity": "gradient_norm", "arms": [{"arm": "durm-2", "values": {"0": 1.5}}]}.
    """
    for entry in setting.summary.get("probes", []):
        for one in entry["arms"]:
            if (entry["quantity"], one["arm"]) == (quantity, arm):
                return {str(seed): float(value) for seed, value in one["values"].items()}
    return {}


def into_dummies(setting: Setting, attack: str, arm: str) -> dict[str, float]:
    """How many percent of the samples an attack brings into a dummy, by seed.

    A summary that keeps the mean over the seeds only, and no `into_dummies_values`, gives this one number; unless it is
    0, which it can be only if every seed is.
    """
    for entry in setting.summary.get("robustness", []):
        for one in entry["arms"]:
            if (entry["attack"], one["arm"]) == (attack, arm) and one["into_dummies"] is not None:
                known = {"mean": one["into_dummies"]} if one["into_dummies"] else dict.fromkeys(one["values"], 0.0)
                values: dict[str, float] = one.get("into_dummies_values", known)
                return values
    return {}


@dataclass(frozen=True)
class Benchmark:
    """A ratio of times with its 95 % interval, from a record of benchmarks/overhead.py."""

    file: str
    case: str
    ratio: float
    interval: tuple[float, float]
    pairs: int


@dataclass(frozen=True)
class Evidence:
    """All settings of all studies, and what the dummies cost."""

    settings: tuple[Setting, ...]
    benchmarks: tuple[Benchmark, ...] = ()


def read_evidence(folder: Path) -> Evidence:
    """What a folder of results holds.

    Raises:
        InputError: if there is no such folder, no study in it, or a file that cannot be read.
    """
    if not folder.is_dir():
        raise InputError(f"--results {folder}: there is no such folder")
    studies = sorted(path.parent for path in folder.glob("*/summary.json"))
    if not studies:
        raise InputError(
            f"--results {folder}: no folder in it has a summary.json; expected {folder}/STUDY/summary.json"
        )
    settings = [setting for study in studies for setting in _settings(study)]
    return Evidence(tuple(settings), tuple(case for path in sorted(folder.glob("*.json")) for case in _overhead(path)))


def _settings(folder: Path) -> list[Setting]:
    """The settings of a study. Those of single domains are left out, the means over the domains stand for them."""
    spec, rows = read_study(folder / "study.yaml"), _rows(folder / "results.csv")
    path = folder / "summary.json"
    summary = _json(path)
    try:
        looks = len(summary["looked_at"]) if len(summary["looked_at"]) > 1 or summary["max_seeds"] else 0
        found = []
        for entry in [*summary.get("averages", []), *summary["settings"]]:
            data, model, method = (entry["setting"][key] for key in ("data", "model", "method"))
            parts = [f"{data}:{domain}" for domain in entry["domains"]] if "domains" in entry else [data]
            names = tuple(f"{part} {model} {method}" for part in parts)
            for part in [*entry.get("probes", []), *entry.get("robustness", [])]:
                _ = [(one["arm"], dict(one["values"])) for one in part["arms"]]
            found.append(Setting(folder.name, data, model, method, names, spec, looks, rows, entry))
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{path} is damaged: it is not the summary of a study") from None
    averaged = {part for setting in found if setting.has_domains for part in setting.parts}
    return [setting for setting in found if setting.has_domains or not averaged & {*setting.parts}]


def _rows(path: Path) -> dict[tuple[str, str], dict[str, Row]]:
    rows: dict[tuple[str, str], dict[str, Row]] = {}
    try:
        for line in csv.DictReader(path.read_text().splitlines()):
            rows.setdefault((line["setting"], line["arm"]), {})[line["seed"]] = line
        return rows
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not a text'}") from None
    except (KeyError, csv.Error):
        raise InputError(f"{path} is damaged: expected the columns setting, arm, seed and metrics") from None


def _overhead(path: Path) -> list[Benchmark]:
    """The training steps with dummies against those without; nothing of records that are about something else."""
    record = _json(path)
    if not isinstance(record, dict) or "dummies" not in record:
        return []
    try:
        return [
            Benchmark(path.name, case["case"], case["ratio"], (case["low"], case["high"]), case["pairs"])
            for case in record["results"]
            if case["case"].endswith("training step")
        ]
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{path} is damaged: it is not the record of a benchmark") from None


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not a text'}") from None
    except ValueError as error:
        raise InputError(f"{path} is damaged: {' '.join(str(error).split())}") from None
