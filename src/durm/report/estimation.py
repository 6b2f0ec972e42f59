"""The two figures that come first: an estimation plot of one setting, a forest plot of several.

An estimation plot shows every run as a dot, none behind another, the runs of one seed joined by a line; below, aligned
with the arms, the differences of each seed with both intervals over the equivalence margin.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import blended_transform_factory

from durm.report.figures import (
    BAND,
    FAINT,
    FONT_SIZE,
    INK,
    MOST_SEEDS_DRAWN,
    Drawing,
    Titles,
    arm_colour,
    drawing,
    short_name,
    wrapped,
)
from durm.report.text import decimals, plain, signed, value_decimals
from durm.statistics.verdict import Comparison
from durm.study.records import ArmValues, Setting, Summary

MOST_ARMS = 8
"""Of more, the runs themselves are left out, and every arm is a row."""
MOST_ROWS = 60
DOT, SMALL_DOT, TINY_DOT = 4.7, 3.2, 2.2
"""Their width, in points."""
MOST_REACH = 3.0
"""Intervals and dots that reach further than so many times what nearly all do run out of the figure."""
ROW, ROWS_WIDTH = 0.27, 170.0
"""Height of a row, in inches; the least width of the axes with the rows, in points."""
Values = Sequence[float] | np.ndarray
RUNS_HEIGHT, DIFFERENCES_HEIGHT = 132.0, 108.0
"""Of the two axes, in points, at least."""
ROOM, APART = 0.29, 0.055
"""How far dots may be moved sideways, and how far two of one value are apart, where arms are 1 apart."""


def estimation_figure(setting: Setting, summary: Summary) -> Figure:
    """The estimation plot of one setting, on white, as a figure of its own: pyplot knows nothing of it."""
    with drawing():
        figure = estimation(setting, summary).figure
    figure.set_facecolor("white")
    return figure


def estimation(setting: Setting, summary: Summary) -> Drawing:
    """The runs of each arm, and below them the differences from the baseline. Draw within `figures.drawing`."""
    if len(setting.arms) > MOST_ARMS:
        return _rows_of(setting, summary)
    arms, titles = setting.arms, Titles()
    width = max(5.0, 1.6 * len(arms))
    compared = any(one.difference is not None for one in setting.comparisons)
    figure = Figure(figsize=(width, 4.8 if compared else 2.6), layout="constrained")
    above, *others = figure.subplots(2, 1, sharex=True, height_ratios=[1.15, 1]) if compared else [figure.add_subplot()]
    below = others[0] if others else above
    places = _draw_runs(above, arms, summary, titles)
    _draw_pairs(above, arms, places)
    above.set_ylabel(wrapped(f"test {summary.measured.axis}" if summary.trials else summary.measured.axis, 26))
    if compared:
        _draw_differences(below, setting, summary, titles)
        unit = summary.measured.unit_of_differences
        paired = "\n(same seed)" if all(one.paired for one in setting.comparisons) else ""
        below.set_ylabel(f"difference from {short_name(arms[0].arm)}{f', {unit}' if unit else ''}{paired}")
        above.tick_params(axis="x", length=0)
    below.set_xticks(range(len(arms)), [textwrap.fill(short_name(arm.arm), 14) for arm in arms])
    below.set_xlim(-0.5, len(arms) - 0.35)
    return Drawing(figure, f"estimation{setting.setting}", titles)


def _limit(axes: Axes, values: Sequence[float]) -> float:
    """Sets the limits so that all values are inside; gives their distance."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    margin = 0.07 * (high - low) or max(1e-9, abs(high)) * 1e-3
    axes.set_ylim(low - margin, high + margin)
    return high - low + 2 * margin


def _draw_runs(axes: Axes, arms: Sequence[ArmValues], summary: Summary, titles: Titles) -> list[dict[str, float]]:
    """The dots and means of each arm; gives where each seed's dot stands."""
    height = _limit(axes, [value for arm in arms for value in arm.values.values()]) * DOT / RUNS_HEIGHT  # of a dot
    digits, places = value_decimals(summary), []
    for index, arm in enumerate(arms):
        values = dict(list(arm.values.items())[:MOST_SEEDS_DRAWN])
        moved, share = swarm(list(values.values()), height)
        place = dict(zip(values, index + moved, strict=True))
        places.append(place)
        if not values:
            continue
        name = f"runs-{index}"
        titles[name] = [f"{arm.arm}, seed {seed}: {plain(value, digits)}" for seed, value in values.items()]
        _dots(axes, list(place.values()), list(values.values()), arm_colour(index), name, share * DOT)
        if arm.mean is not None:
            axes.plot([index - 0.3, index + 0.3], [arm.mean] * 2, color=arm_colour(index), linewidth=2.2, zorder=2)
            label = axes.text(index + 0.34, arm.mean, plain(arm.mean, digits), va="center")
            label.set_zorder(5)
    return places


def _draw_pairs(axes: Axes, arms: Sequence[ArmValues], places: Sequence[Mapping[str, float]]) -> None:
    seeds = list(dict.fromkeys(seed for place in places for seed in place))
    for seed in seeds:
        points = [(place[seed], arm.values[seed]) for arm, place in zip(arms, places, strict=True) if seed in place]
        if len(points) > 1:
            axes.plot(*zip(*points, strict=True), color=FAINT, linewidth=0.6, alpha=0.6, zorder=1)


def _draw_differences(axes: Axes, setting: Setting, summary: Summary, titles: Titles) -> None:
    rope, order = summary.rope, {arm.arm: index for index, arm in enumerate(setting.arms)}
    found = {c.arm: paired_differences(setting, c) for c in setting.comparisons if c.difference is not None}
    every = [value for differences in found.values() for value in differences.values()]
    every += [
        end for c in setting.comparisons if c.difference is not None for end in (c.difference, *(c.ci_family or ()))
    ]
    height = _limit(axes, [*every, -rope, rope]) * SMALL_DOT / DIFFERENCES_HEIGHT
    if rope > 0:
        axes.axhspan(-rope, rope, color=BAND, linewidth=0, zorder=0)
        place = blended_transform_factory(axes.transAxes, axes.transData)
        axes.text(0.01, rope, f"margin ±{rope:g}", va="bottom", transform=place, fontsize=FONT_SIZE - 1.5)
    axes.axhline(0, color=FAINT, linewidth=0.8, zorder=1)
    for comparison in setting.comparisons:
        if comparison.difference is None:
            continue
        index, differences = order[comparison.arm], found[comparison.arm]
        digits, colour = decimals(comparison.ci_family, rope), arm_colour(index)
        if differences:
            name = f"differences-{index}"
            titles[name] = [f"seed {seed}: {signed(value, digits)}" for seed, value in differences.items()]
            moved, share = swarm(list(differences.values()), height)
            _dots(axes, index - 0.1 + 0.7 * moved, list(differences.values()), colour, name, share * SMALL_DOT)
        _draw_intervals(axes, comparison, colour, index + 0.22)
        low, high = comparison.ci_family or (math.nan, math.nan)
        word = comparison.verdict or "not judged"
        text = f"{signed(comparison.difference, digits)} {word}\n[{signed(low, digits)}, {signed(high, digits)}]"
        place = blended_transform_factory(axes.transData, axes.transAxes)
        small = FONT_SIZE - 1.5
        axes.text(index, 1.0, text, ha="center", va="bottom", transform=place, fontsize=small)


def _dots(axes: Axes, x: Values, y: Values, colour: str, name: str, size: float) -> None:
    """A dot for each value, under a name by which `with_titles` finds them again."""
    axes.plot(x, y, "o", color=colour, markersize=size, markeredgewidth=0, zorder=3, gid=name)


def _draw_intervals(axes: Axes, comparison: Comparison, colour: str, place: float, *, upright: bool = True) -> None:
    """Thin: the interval that decides; thick: the 95 % interval; both with the mean difference."""
    plain_interval = comparison.ci_samples or comparison.ci
    for interval, width in ((comparison.ci_family, 1.4), (plain_interval, 3.6)):
        if interval is not None and interval[0] <= interval[1]:
            line = ([place] * 2, interval) if upright else (interval, [place] * 2)
            axes.plot(*line, color=colour, linewidth=width, solid_capstyle="butt", zorder=3)
    assert comparison.difference is not None
    x, y = (place, comparison.difference) if upright else (comparison.difference, place)
    axes.plot([x], [y], "o", color=colour, markersize=6, zorder=4)


def forest(summary: Summary) -> Drawing:
    """One row for each arm of each setting: both intervals over the margin, n and the word."""
    settings = summary.averages or summary.settings
    rows = [
        (" · ".join([*map(short_name, setting.names), short_name(one.arm)]), one)
        for setting in settings
        for one in setting.comparisons
        if one.difference is not None
    ]
    return _draw_rows(rows, summary, "forest")


def _rows_of(setting: Setting, summary: Summary) -> Drawing:
    rows = [(short_name(one.arm), one) for one in setting.comparisons if one.difference is not None]
    return _draw_rows(rows, summary, f"estimation{setting.setting}", setting)


def _draw_rows(
    rows: Sequence[tuple[str, Comparison]], summary: Summary, salt: str, setting: Setting | None = None
) -> Drawing:
    shown, titles = rows[:MOST_ROWS], Titles()
    figure = Figure(figsize=(7.2, 0.9 + ROW * max(3, len(shown))), layout="constrained")
    axes = figure.add_subplot()
    axes.axvspan(-summary.rope, summary.rope, color=BAND, linewidth=0, zorder=0)
    axes.axvline(0, color=FAINT, linewidth=0.8, zorder=1)
    dots = [] if setting is None else [d for _, one in shown for d in paired_differences(setting, one).values()]
    limits = _limits([one for _, one in shown], summary.rope, dots)
    width = (limits[1] - limits[0]) * TINY_DOT / ROWS_WIDTH  # of a dot
    right = blended_transform_factory(axes.transAxes, axes.transData)
    for row, (_, one) in enumerate(shown):
        colour = arm_colour(row + 1) if setting is not None else INK
        if setting is not None and (differences := paired_differences(setting, one)):
            name = f"differences-{row}"
            titles[name] = [f"seed {seed}: {signed(value)}" for seed, value in differences.items()]
            inside = np.clip(list(differences.values()), *limits)  # those beyond stand at the edge
            moved, share = swarm(inside, width, room=0.16, apart=0.13)
            _dots(axes, inside, row + 0.29 + moved, colour, name, share * TINY_DOT)
        _draw_intervals(axes, one, colour, row, upright=False)
        digits = decimals(one.ci_family, summary.rope)
        low, high = one.ci_family or (math.nan, math.nan)
        text = f"{signed(one.difference, digits)} [{signed(low, digits)}, {signed(high, digits)}]  n = {one.n}"
        weight = "normal" if one.verdict in (None, "undecided") else "bold"
        text = f"{text}  {one.verdict or 'not judged'}"
        axes.text(1.02, row, text, transform=right, va="center", fontsize=FONT_SIZE - 1, fontweight=weight)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_yticks(range(len(shown)), [name for name, _ in shown])
    axes.set_xlim(limits)
    axes.tick_params(axis="y", length=0)
    axes.spines.left.set_visible(False)
    measured = summary.measured
    unit = f", {measured.unit_of_differences}" if measured.unit_of_differences else ""
    axes.set_xlabel(f"difference from the baseline in {measured.label}{unit}")
    return Drawing(figure, salt, titles)


def _limits(comparisons: Sequence[Comparison], rope: float, dots: Sequence[float] = ()) -> tuple[float, float]:
    """Wide enough for all but a few very wide intervals, beside which the rest would be dots."""
    ends = sorted(abs(end) for one in comparisons for end in one.ci_family or (one.difference or 0.0,))
    usual = max(ends[int(0.9 * (len(ends) - 1))] if ends else 0.0, 2 * rope, 1e-9)
    far = [end for end in (*ends, *map(abs, dots)) if end <= MOST_REACH * usual]
    middles = [abs(one.difference or 0.0) for one in comparisons]
    reach = 1.1 * max(usual, *far, *middles)
    return -reach, reach


def paired_differences(setting: Setting, comparison: Comparison) -> dict[str, float]:
    """By seed, of those that both arms have; none of arms that are not paired."""
    if not comparison.paired:
        return {}
    ours, theirs = setting.arm(comparison.arm).values, setting.arm(comparison.baseline).values
    common = [seed for seed in theirs if seed in ours][:MOST_SEEDS_DRAWN]
    return {seed: ours[seed] - theirs[seed] for seed in common}


def swarm(values: Values, height: float, room: float = ROOM, apart: float = APART) -> tuple[np.ndarray, float]:
    """How far each dot is moved sideways so that none covers another, and by how much all must be made smaller for it.

    Dots are ellipses, `height` tall and `apart` wide. From the smallest value on, each takes the free place that is
    nearest to the middle. If that needs more than `room` to a side, places and dots shrink by the same share.
    """
    offsets = np.zeros(len(values))
    order = np.argsort(values, kind="stable")
    for rank, dot in enumerate(order):
        below = order[:rank]
        near = below[np.asarray(values)[below] > values[dot] - height]
        tall = (np.asarray(values)[near] - values[dot]) / height
        for step in range(2 * len(values) + 1):
            offsets[dot] = apart / 2 * (-1) ** step * ((step + 1) // 2)  # 0, −½, +½, −1, …
            if not (((offsets[near] - offsets[dot]) / apart) ** 2 + tall**2 < 1 - 1e-9).any():
                break
    ordered = np.asarray(values)[order]
    for heap in np.split(order, 1 + np.flatnonzero(np.diff(ordered) >= height)) if len(values) else ():
        offsets[heap] -= (offsets[heap].max() + offsets[heap].min()) / 2  # heaps do not touch each other
    widest = np.abs(offsets).max(initial=0.0)
    share = min(1.0, room / widest) if widest else 1.0
    return share * offsets, share
