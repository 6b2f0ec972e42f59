"""What committed studies say, as evidence: their settings, and every number of every run, found by what they are.

A folder of results has a folder for each study, in it or in `studies`, with study.yaml (what its arms change, its
attacks), summary.json (its settings, means over held-out domains, probes) and results.csv (all metrics of all trials).
Next to them are the records of benchmarks. No claim goes by the name of a folder, so a study that is added tomorrow is
found by its properties.
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

from durm._files import read_text
from durm.errors import InputError
from durm.methods import Method
from durm.study.arm import AXES, Arm
from durm.study.config import Study
from durm.study.reading import read_study
from durm.study.records import Setting as SettingSummary
from durm.study.store import read_summary
from durm.training.trial import TrainSpec

MOST_DUMMIES = 3
"""The paper's tables have C_d from 1 to 3. More of them are evidence about the number of dummies only."""

IMBALANCE = r"(?:^|:)longtail:([^:]+):"
SAMPLES = r"(?:^|:)subset:(?:[^:]*,)?samples=(\d+)"
"""Levels of data, as their names have them."""

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
        analyses: how many interim analyses the study had; 0 if it was planned with one analysis.
        rows: the lines of results.csv, by part and arm, and then by seed.
        summary: what summary.json has about it.
    """

    study: str
    data: str
    model: str
    method: str
    parts: tuple[str, ...]
    spec: Study
    analyses: int
    rows: Mapping[tuple[str, str], Mapping[str, Row]]
    summary: SettingSummary

    @property
    def name(self) -> str:
        words = [self.data, self.model, *([self.method] if self.method != "erm" else [])]
        return ", ".join(words) + (f", mean of {len(self.parts)} domains" if self.has_domains else "")

    @property
    def has_domains(self) -> bool:
        return self.summary.domains is not None

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
        first: Row = next(iter(self.rows.get((self.parts[0], self.arms[0].name), {}).values()), {})
        return [name for name, value in first.items() if value]

    @property
    def imbalance(self) -> float | None:
        """100 of longtail:100:cifar10."""
        found = re.search(IMBALANCE, self.data)
        return float(found[1]) if found else None

    @property
    def objective(self) -> str:
        return self._method.objective.name

    @property
    def _method(self) -> Method:
        return self.spec.method_called(self.method)

    @property
    def arms(self) -> list[Arm]:
        """Those of the study, called as they are in this setting."""
        return [arm.model_copy(update={"name": arm.label(self._method)}) for arm in self.spec.arms]

    def regularizers(self, arm: Arm) -> list[str]:
        """What an arm is trained with that Tables 7 and 14 add to plain ERM, and label smoothing.

        Momentum and L2 count where one of them stands alone: the usual recipe has both.
        """
        values = arm.apply(self.data, self.model, self._method, self.spec.train, self.spec.versions)
        objective, averager = values["method"].name, values["average"] and values["average"].name
        train: TrainSpec = values["train"]
        alone = train.optimizer == "sgd" and bool(train.momentum) != bool(train.weight_decay)
        found = {
            "mixup": objective == "mixup",
            str(averager): averager is not None,
            "early stop": train.patience is not None,
            "label smoothing": train.label_smoothing > 0,
            "momentum": alone and bool(train.momentum),
            "L2": alone and bool(train.weight_decay),
        }
        return [name for name, there in found.items() if there]

    def pairs(self, most: int = MOST_DUMMIES) -> list[Pair]:
        """Every arm with up to so many dummies, with the arm that it is compared with."""
        arms = self.arms
        return [
            (arm, baseline)
            for baseline in arms
            for arm in arms
            if baseline.dummies == 0 < arm.dummies <= most and other_overrides(arm) == other_overrides(baseline)
        ]

    def values(self, arm: str, metric: str) -> dict[str, float]:
        """Of each seed that has all parts, the mean over them; finite numbers only."""
        found = {}
        for seed in self.rows.get((self.parts[0], arm), {}):
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
        dummies = {arm.name for arm in self.arms if arm.dummies}
        found = {tuple(self._cells(arm, seed, "weights_sha256")) for arm in dummies.intersection(arms) or arms}
        return frozenset(hashes for hashes in found if all(hashes))

    def _cells(self, arm: str, seed: str, column: str) -> list[str]:
        return [self.rows.get((part, arm), {}).get(seed, {}).get(column) or "" for part in self.parts]


def other_overrides(arm: Arm) -> dict[str, Any]:
    """What an arm changes besides its dummies."""
    return {key: value for key, value in arm.overrides.items() if key != "dummies"}


def probe_values(setting: Setting, quantity: str, arm: str) -> dict[str, float]:
    """What probes say about the runs of an arm, one number for each seed; nothing where they were not there."""
    entries = [entry for entry in setting.summary.probes if entry.quantity == quantity]
    return next((one.values for entry in entries for one in entry.arms if one.arm == arm), {})


def into_dummies(setting: Setting, attack: str, arm: str) -> dict[str, float]:
    """How many percent of the samples an attack brings into a dummy, by seed.

    A summary that keeps the mean over the seeds only, and no `into_dummies_values`, gives this one number; unless it is
    0, which it can be only if every seed is.
    """
    entries = [entry for entry in setting.summary.robustness if entry.attack == attack]
    for one in (one for entry in entries for one in entry.arms if one.arm == arm and one.into_dummies is not None):
        known = {"mean": one.into_dummies} if one.into_dummies else dict.fromkeys(one.values, 0.0)
        return one.into_dummies_values or known
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


def study_folders(folder: Path) -> list[Path]:
    """The studies of a folder of results, by name: those in it, and those in `studies`, next to the files that they are
    run from. One in `studies` supersedes its older namesake.
    """
    found = {path.parent.name: path.parent for path in sorted(folder.glob("*/summary.json"))}
    found |= {path.parent.name: path.parent for path in folder.glob("studies/*/summary.json")}
    return [found[name] for name in sorted(found)]


def read_evidence(folder: Path) -> Evidence:
    """What a folder of results holds.

    Raises:
        InputError: if there is no such folder, no study in it, or a file that cannot be read.
    """
    if not folder.is_dir():
        raise InputError(f"`results` {folder}: there is no such folder")
    studies = study_folders(folder)
    if not studies:
        raise InputError(
            f"`results` {folder}: no folder in it has a summary.json; expected {folder}/STUDY/summary.json"
        )
    settings = [setting for study in studies for setting in _settings(study)]
    return Evidence(tuple(settings), tuple(case for path in sorted(folder.glob("*.json")) for case in _overhead(path)))


def _settings(folder: Path) -> list[Setting]:
    """The settings of a study. Those of single domains are left out, the means over the domains stand for them."""
    spec, rows = read_study(folder / "study.yaml", of_folder=True), _rows(folder / "results.csv")
    summary = read_summary(folder / "summary.json")
    analyses = summary.analyses if summary.analyses > 1 or summary.max_seeds else 0
    found = []
    for entry in summary.sections:
        if not entry.setting or not {*entry.setting} <= {*AXES}:
            raise InputError(f"{folder / 'summary.json'} is damaged: it is not the summary of a study")
        data, model, method = entry.key
        parts = [data] if entry.domains is None else [f"{data}:{domain}" for domain in entry.domains]
        names = tuple(f"{part} {model} {method}" for part in parts)
        found.append(Setting(folder.name, data, model, method, names, spec, analyses, rows, entry))
    averaged = {part for setting in found if setting.has_domains for part in setting.parts}
    return [setting for setting in found if setting.has_domains or not averaged & {*setting.parts}]


def _rows(path: Path) -> dict[tuple[str, str], dict[str, Row]]:
    rows: dict[tuple[str, str], dict[str, Row]] = {}
    try:
        for line in csv.DictReader(read_text(path).splitlines()):
            rows.setdefault((line["setting"], line["arm"]), {})[line["seed"]] = line
        return rows
    except (KeyError, csv.Error):
        raise InputError(f"{path} is damaged: expected the columns setting, arm, seed and metrics") from None


def _overhead(path: Path) -> list[Benchmark]:
    """The training steps with dummies against those without; nothing of records that are about something else."""
    try:
        record = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is damaged: {' '.join(str(error).split())}") from None
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
