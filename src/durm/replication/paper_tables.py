"""The paper's own tables as evidence: the mean gain of each, and its cells pooled by a meta-analysis.

A cell has the mean and the standard deviation of three seeds, with dummies and without. Its gain is the difference of
the means, with variance v = (s² + s₀²)/3; that the runs may be paired is not known. Over the k cells of a table:

- plain: the mean, every cell with the same weight, with Student's interval over the cells;
- fixed effects: weights w = 1/v, as if the true gain were the same in all cells; interval ± 1.96/√Σw;
- random effects (DerSimonian and Laird, 1986): the true gains differ with variance τ², estimated by moments,
  τ² = max(0, (Q − (k − 1))/(Σw − Σw²/Σw)) with Q = Σw(g − ḡ)²; weights w* = 1/(v + τ²). The interval is Hartung and
  Knapp's: ± t(k − 1) · √(Σw*(g − ḡ*)²/((k − 1)Σw*)), as τ² is itself uncertain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from durm.replication.reported import reported_cells
from durm.statistics.intervals import ALPHA, Interval, interval, quantile

SEEDS = 3
"""Of every cell that has a standard deviation."""
FIXED_QUANTILE = 1.96
NOT_A_SETTING = ("dummies", "value", "std")


@dataclass(frozen=True)
class CellGain:
    """A cell of a table minus the one without dummies; its standard error, where the table has deviations."""

    gain: float
    error: float | None


@dataclass(frozen=True)
class PooledTable:
    """What the cells of a table say together. The pooled numbers are None where the table has no deviations."""

    cells: int
    wins: int
    mean: float
    interval: Interval | None
    fixed: float | None = None
    fixed_interval: Interval | None = None
    random: float | None = None
    random_interval: Interval | None = None
    tau: float | None = None


def cell_gains(table: int, dummies: Sequence[int] = (1, 2, 3), **where: Any) -> list[CellGain]:
    """Of every cell with that many dummies and these properties."""
    cells = reported_cells(table, **where)
    without = {_setting(cell): cell for cell in cells if cell["dummies"] == 0}
    found = []
    for cell in cells:
        if cell["dummies"] in dummies:
            base = without[_setting(cell)]
            known = "std" in cell and "std" in base
            error = math.hypot(cell["std"], base["std"]) / math.sqrt(SEEDS) if known else None
            found.append(CellGain(round(cell["value"] - base["value"], 9), error))
    return found


def mean_gain(*gains: Sequence[CellGain]) -> float:
    """The mean over the cells of one table or several."""
    return float(np.mean([one.gain for several in gains for one in several]))


def pool(gains: Sequence[CellGain]) -> PooledTable:
    """The cells pooled."""
    g = np.array([one.gain for one in gains])
    k = len(g)
    wins, mean, plain = int((g > 0).sum()), float(g.mean()), interval(g)
    errors = [one.error for one in gains]
    if k < 2 or not all(errors):
        return PooledTable(k, wins, mean, plain)
    v = np.array(errors, float) ** 2
    fixed, total = _weighted(g, 1 / v)
    between = float((((g - fixed) ** 2) / v).sum()) - (k - 1)
    tau2 = max(0.0, between / (total - float((1 / v**2).sum()) / total))
    random, random_total = _weighted(g, 1 / (v + tau2))
    spread = float((((g - random) ** 2) / (v + tau2)).sum()) / ((k - 1) * random_total)
    return PooledTable(
        *(k, wins, mean, plain),
        *(fixed, _around(fixed, FIXED_QUANTILE / math.sqrt(total))),
        *(random, _around(random, quantile(k, ALPHA) * math.sqrt(spread))),
        math.sqrt(tau2),
    )


def pooled_tables() -> dict[str, PooledTable]:
    """The tables of the main text, and Table 8 for each number of dummies."""
    cells = {f"Table 8, C_d = {dummies}": cell_gains(8, [dummies]) for dummies in (1, 2, 3)}
    cells |= {
        "Table 3, validation mIoU, C_d = 1": cell_gains(3, [1], metric="miou", split="val"),
        "Table 4, C_d = 1": cell_gains(4, [1]),
        "Table 5, best of C_d 1 to 3": cell_gains(5),
        "Table 6, C_d = 2": cell_gains(6, [2]),
        "Table 7, C_d = 3": cell_gains(7, [3]),
    }
    return {name: pool(gains) for name, gains in cells.items()}


def _weighted(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The weighted mean, and the sum of the weights."""
    return float((weights * values).sum() / weights.sum()), float(weights.sum())


def _around(middle: float, half: float) -> Interval:
    return middle - half, middle + half


def _setting(cell: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((key, value) for key, value in cell.items() if key not in NOT_A_SETTING))
