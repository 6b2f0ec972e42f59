"""What happened while training: at each validation, the difference of each arm from the baseline of the same seed.

Levels of several arms lie on each other, and the spread of the levels is mostly that of the seeds; differences of pairs
show what the arm does. With d_i(e) the difference of seed i at epoch e, the band is mean ± t(n − 1) · s/√n: the 95 %
interval over seeds at that epoch alone, without any correction.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from durm.metrics import Metric
from durm.report.figures import (
    FAINT,
    FONT_SIZE,
    HEIGHT,
    MOST_POINTS,
    TALL,
    WIDTH,
    Drawing,
    Titles,
    arm_colour,
    cut_beginning,
    legend,
    mean_and_std,
    short_name,
    wrapped,
)
from durm.report.text import decimals, signed
from durm.training.result import Result

Runs = Mapping[str, Mapping[str, Result]]
"""arm → seed → result; the baseline first."""
MOST_LINES = 30
"""Seeds of an arm that have a line of their own."""
LINE_POINTS = 20


def has_curves(runs: Runs, key: str) -> bool:
    """Whether every run has that quantity at each of its validations, and there is any."""
    found = [entry for of_arm in runs.values() for run in of_arm.values() for entry in run.curves or [{}]]
    return bool(found) and all(key in entry for entry in found)


def curves(runs: Runs, key: str, metric: Metric, rope: float, name: str, *, level: bool = True) -> Drawing:
    """The paired differences of the other arms; above them, small, the mean of the baseline, if `level` asks for it."""
    baseline, *others = runs
    differences = {arm: paired(runs[arm], runs[baseline], key) for arm in others}
    compared = any(len(seeds) for seeds, _, _ in differences.values())
    ratios = [1, 2.4][: level + compared] if compared else [1]
    figure = Figure(figsize=(WIDTH, HEIGHT + 0.5 * (len(ratios) - 1)), layout="constrained")
    panels = [figure.add_subplot()] if len(ratios) == 1 else figure.subplots(2, 1, sharex=True, height_ratios=ratios)
    above, below = panels[0], panels[-1]
    titles: Titles = {}
    if level or not compared:
        _draw_level(above, runs[baseline], key)
        above.set_ylabel(wrapped(f"{short_name(baseline)}: validation {metric.axis}", 18 if compared else TALL))
        above.locator_params(axis="y", nbins=3 if compared else 5)
    if compared:
        unit = metric.unit_of_differences
        _draw_differences(below, differences, decimals(None, rope), titles)
        below.set_ylabel(f"difference from {short_name(baseline)}{f', {unit}' if unit else ''}\n(same seed)")
        below.locator_params(axis="y", nbins=5)
        _draw_names(below, others)
    for axes in panels:
        axes.set_ylabel(axes.get_ylabel(), fontsize=FONT_SIZE - 1)
        axes.spines[:].set_in_layout(False)
    below.locator_params(axis="x", nbins=5, integer=True, min_n_ticks=1)
    below.set_xlabel("epoch")
    return Drawing(figure, f"{key}{name}", titles)


def paired(
    ours: Mapping[str, Result], theirs: Mapping[str, Result], key: str
) -> tuple[list[str], list[float], np.ndarray]:
    """Seeds, epochs, and ours − theirs at them, `(seeds, epochs)`; of the epochs that all runs were validated at."""
    seeds = [seed for seed in theirs if seed in ours]
    values = [({e["epoch"]: e[key] for e in run.curves}) for seed in seeds for run in (ours[seed], theirs[seed])]
    epochs = _subsample([epoch for epoch in values[0] if all(epoch in one for one in values)] if values else [])
    table = np.array([[one[epoch] for epoch in epochs] for one in values]).reshape(len(seeds), 2, len(epochs))
    return (seeds, epochs, table[:, 0] - table[:, 1]) if epochs else ([], [], np.zeros((0, 0)))


def band(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and half the 95 % interval, of differences `(seeds, epochs)`; of one seed the interval is nothing."""
    mean, std = mean_and_std(differences)
    n = len(differences)
    return mean, scipy.special.stdtrit(n - 1, 0.975) * std / np.sqrt(n) if n > 1 else 0 * mean


def _draw_level(axes: Axes, runs: Mapping[str, Result], key: str) -> None:
    seeds, epochs, values = paired(runs, runs, key)
    if seeds:
        found = [{e["epoch"]: e[key] for e in run.curves} for run in runs.values()]
        values = np.array([[one[epoch] for epoch in epochs] for one in found])
        mean, std = mean_and_std(values)
        axes.fill_between(epochs, mean - std, mean + std, color=arm_colour(0), alpha=0.15, linewidth=0)
        axes.plot(epochs, mean, color=arm_colour(0), marker="o" if len(epochs) == 1 else None)
        late = len(epochs) // 4
        cut_beginning(axes, [*(mean - std)[late:], *(mean + std)[late:]])


def _draw_names(axes: Axes, arms: Sequence[str]) -> None:
    """Above the curves, in room that is made for them."""
    columns = 3 if max(map(len, map(short_name, arms))) < 14 else 2
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.13 * (high - low) * -(-len(arms) // columns))
    styles = [(arm_colour(index), "-") for index in range(1, len(arms) + 1)]
    legend(axes, arms, "upper left", styles, columns)


def _draw_differences(
    axes: Axes, differences: Mapping[str, tuple[list[str], list[float], np.ndarray]], digits: int, titles: Titles
) -> None:
    axes.axhline(0, color=FAINT, linewidth=0.8)
    late: list[float] = []
    for index, (arm, (seeds, epochs, values)) in enumerate(differences.items(), 1):
        if not seeds:
            continue
        colour, name = arm_colour(index), f"seeds-{index}"
        some = _places(len(epochs), LINE_POINTS)
        lines = [np.column_stack([np.array(epochs)[some], row[some]]) for row in values[:MOST_LINES]]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=0.7, alpha=0.4, gid=name))
        titles[name] = [
            f"{arm}, seed {seed}: {signed(row[-1], digits)} at epoch {epochs[-1]:g}"
            for seed, row in zip(seeds[:MOST_LINES], values, strict=False)
        ]
        mean, half = band(values)
        axes.fill_between(epochs, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0)
        axes.plot(epochs, mean, color=colour, linewidth=1.8, marker="o" if len(epochs) == 1 else None)
        late += [*(mean - half)[len(epochs) // 4 :], *(mean + half)[len(epochs) // 4 :]]
    cut_beginning(axes, late)


def _subsample(epochs: list[float]) -> list[float]:
    return [epochs[place] for place in _places(len(epochs), MOST_POINTS)]


def _places(count: int, most: int) -> list[int]:
    """At most so many of `count` places, evenly, the last among them."""
    every = -(-count // most) or 1
    return list(range(count))[::-every][::-1]
