"""What a finished study, or a table of runs, says about the size of the next one."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from durm.errors import InputError
from durm.statistics.intervals import ALPHA
from durm.statistics.planning import pairs_needed, spread_range
from durm.study.csv_input import read_table
from durm.study.records import Summary
from durm.study.run_table import judge_table
from durm.study.store import read_summary


@dataclass(frozen=True)
class Pilot:
    """The spread of paired differences of one arm in one setting.

    Attributes:
        name: of setting and arm.
        n: pairs; 0 if the spread was given.
        spread: the standard deviation of a difference, with the step of the metric.
        added: the variance that the test samples add, which more seeds do not shrink.
        rope: the equivalence margin.
        arms: that are compared with the baseline.
    """

    name: str
    n: int
    spread: float
    added: float
    rope: float
    arms: int

    def describe(self, arms: int | None = None) -> str:
        """A line with the spread, and with how many pairs make half the interval as wide as the margin."""
        alpha = ALPHA / (arms or self.arms)
        spreads = [self.spread, *(spread_range(self.spread, self.n) if self.n else ())]
        needed = [pairs_needed(spread, self.rope, self.added, alpha) for spread in spreads]
        known = f"{self.name}: spread {self.spread:.3g}{f', from {self.n} pairs' if self.n else ''}"
        goal = f"half the interval as wide as the margin of ±{self.rope:g}"
        if needed[0] is None:
            why = ": the test set is too small" if self.added else ""
            return f"{known}; more seeds alone cannot make {goal}{why}"
        shown = ["more than 100,000" if one is None else f"{one:,}" for one in needed]
        between = f" ({shown[1]} to {shown[2]})" if len(shown) > 1 else ""
        return f"{known}; {shown[0]}{between} pairs make {goal}"


def read_pilots(path: Path, metric: str = "value", rope: float | None = None) -> list[Pilot]:
    """Every arm of every setting of a study's folder, of its summary.json, or of a CSV file.

    Raises:
        InputError: if it cannot be read, or no arm has two pairs.
    """
    if path.is_dir():
        path = path / "summary.json"
    summary = read_summary(path) if path.suffix == ".json" else judge_table(read_table(path), metric=metric, rope=rope)
    found = _pilots(summary, rope)
    if not found:
        raise InputError(f"{path}: no arm has two pairs whose differences vary")
    return found


def _pilots(summary: Summary, rope: float | None) -> list[Pilot]:
    pilots = []
    for setting in summary.averages or summary.settings:
        for one in setting.comparisons:
            ours, theirs = (setting.arm(name).values for name in (one.arm, one.baseline))
            differences = np.array([ours[seed] - theirs[seed] for seed in theirs if seed in ours])
            if not one.paired or len(differences) < 2:
                continue
            spread = math.sqrt(float(differences.var(ddof=1)) + one.step**2 / 6)
            added = max(0.0, (one.variance_samples or 0.0) - (one.variance_residual or 0.0))
            name = ", ".join([*setting.names, f"{one.arm} − {one.baseline}"])
            margin = summary.rope if rope is None else rope
            if spread > 0:
                pilots.append(Pilot(name, len(differences), spread, added, margin, len(setting.comparisons)))
    return pilots
