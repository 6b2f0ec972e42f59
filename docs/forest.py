"""The ledger at a glance: a forest plot of all claims and settings, a small one of six tasks, and the README's table.

Everything here is computed from the entries of the ledger, the two sentences of advice too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from durm._text import pluralize
from durm.replication.claims import Entry
from durm.replication.finding import Finding, Part
from durm.report.figures import BAND, COLOURS, FAINT, INK, as_svg, drawing
from durm.report.text import bounds, decimals, signed
from durm.statistics.intervals import Interval

TASKS = {
    1: "ordinary classification",
    11: "training with another regularizer",
    8: "long-tailed classes",
    3: "segmentation",
    5: "held-out domains",
    6: "ordinary training under attack",
}
"""The claims of the README, one for each kind of task in the paper's tables, by number."""
WITH_SETTINGS = (1, 3, 5, 6, 7, 8, 11)
"""The gains of the paper's tables, whose settings are drawn one by one."""
WIDTH, ROW, LEFT, RIGHT, EDGE, GAP = 8.6, 0.15, 3.9, 1.7, 0.1, 0.5
"""In inches."""
WORDS = {"holds": COLOURS[3], "does not hold": COLOURS[2], "undecided": COLOURS[0], "not tested": FAINT}
LONGEST = 66
"""Characters of a row's name."""


@dataclass(frozen=True)
class Axis:
    """What lies beyond its reach, to either side, runs out of the figure."""

    label: str
    reach: float
    margin: float


POINTS = Axis("effect in points; diamonds: the paper's mean gains", 1.2, 0.1)
MARGINS = Axis("effect as a multiple of the claim's margin", 4.0, 1.0)


@dataclass(frozen=True)
class Row:
    """A line of the figure: a claim, or one of its settings (then `verdict` is empty)."""

    name: str
    effect: float
    interval: Interval | None
    text: str
    verdict: str = ""
    paper_gain: float | None = None


def forest_rows(entries: Sequence[Entry]) -> tuple[list[Row], list[Row]]:
    """The rows of effects in points, and those of claims in other units, as multiples of their margins."""
    in_points, others = [], []
    for entry in entries:
        found = entry.finding
        if found.effect is None or not found.margin or (found.counted == "setting" and found.unit != "%"):
            continue
        if found.unit == "points":
            in_points.append(_claim(entry, 1.0))
            in_points += [_setting(part) for part in found.parts] if entry.number in WITH_SETTINGS else []
        else:
            others.append(_claim(entry, found.margin))
    return in_points, others


def _claim(entry: Entry, scale: float) -> Row:
    found = entry.finding
    assert found.effect is not None
    around = None if found.interval is None else (found.interval[0] / scale, found.interval[1] / scale)
    gain = None if found.paper_gain is None else found.paper_gain / scale
    number = signed(found.effect, decimals(found.interval, 0.1))
    unit = "" if found.unit == "points" else f" {found.unit.partition(' ')[0]}"
    text = f"{number}{unit}, {found.verdict}"
    name = _short(f"{entry.number}. {entry.claim.statement}")
    return Row(name, found.effect / scale, around, text, found.verdict, gain)


def _setting(part: Part) -> Row:
    name = f"{part.what} ({', '.join(part.studies)})"
    name = name if len(name) <= LONGEST else _short(part.what)
    return Row(name, part.effect, part.interval, f"{signed(part.effect, decimals(part.interval, 0.1))}, n = {part.n}")


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1].rstrip()}…"


def forest_svg(entries: Sequence[Entry]) -> str:
    """The figure: claims bold with their colour of verdict, settings in grey, the paper's mean gains as diamonds."""
    in_points, others = forest_rows(entries)
    panels = [(rows, axis) for rows, axis in ((in_points, POINTS), (others, MARGINS)) if rows]
    heights = [ROW * len(rows) for rows, _ in panels]
    height = EDGE + sum(heights) + len(panels) * GAP
    with drawing():
        figure = Figure(figsize=(WIDTH, height), facecolor="white")
        top = height - EDGE
        for (rows, axis), tall in zip(panels, heights, strict=True):
            place = (LEFT / WIDTH, (top - tall) / height, 1 - (LEFT + RIGHT) / WIDTH, tall / height)
            _draw(figure.add_axes(place), rows, axis)
            top -= tall + GAP
        return as_svg(figure, "claims")


def tasks_svg(entries: Sequence[Entry]) -> str:
    """The figure of the README: the six tasks of its table, with the paper's mean gains as diamonds."""
    found = {entry.number: entry for entry in entries}
    rows = [
        replace(_claim(found[number], 1.0), name=task)
        for number, task in TASKS.items()
        if found[number].finding.effect is not None
    ]
    width, height, left, right, below = 7.4, 0.55 + 0.27 * len(rows), 2.55, 1.6, 0.5
    with drawing():
        figure = Figure(figsize=(width, height), facecolor="white")
        place = (left / width, below / height, 1 - (left + right) / width, 1 - (below + 0.05) / height)
        _draw(figure.add_axes(place), rows, POINTS, font=8.5)
        return as_svg(figure, "tasks")


def _draw(axes: Axes, rows: Sequence[Row], axis: Axis, font: float = 6.5) -> None:
    """Settings have letters that are half a point smaller than those of claims, and numbers half a point larger."""
    reach = axis.reach
    axes.axvspan(-axis.margin, axis.margin, color=BAND, linewidth=0, zorder=0)
    axes.axvline(0, color=FAINT, linewidth=0.8, zorder=1)
    for place, row in enumerate(rows):
        colour = WORDS[row.verdict] if row.verdict else FAINT
        wide, size = (2.0, 5.5) if row.verdict else (0.9, 3.0)
        if row.interval is not None:
            low, high = (min(max(end, -reach), reach) for end in row.interval)
            axes.plot([low, high], [place] * 2, color=colour, linewidth=wide, solid_capstyle="butt", zorder=2)
        mark = "s" if row.verdict else "o"
        if abs(row.effect) > reach:
            mark = ">" if row.effect > 0 else "<"
        at = min(max(row.effect, -reach), reach)
        axes.plot([at], [place], mark, color=colour, markersize=size, zorder=3, clip_on=False)
        if row.paper_gain is not None:
            axes.plot([row.paper_gain], [place], "D", color="white", markeredgecolor=INK, markersize=4, zorder=4)
        ink, weight, size = (INK, "bold", font) if row.verdict else ("#6b6b6c", "normal", font - 0.5)
        style: Any = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": size, "color": ink}
        axes.text(-0.02, place, row.name, ha="right", fontweight=weight, **style)
        axes.text(1.02, place, row.text, **style)
    axes.set(xlim=(-reach, reach), ylim=(len(rows) - 0.5, -0.5), yticks=[])
    axes.tick_params(axis="x", labelsize=font + 0.5)
    axes.spines.left.set_visible(False)
    axes.set_xlabel(axis.label, fontsize=font + 0.5)


# The part of the README.


def readme_part(entries: Sequence[Entry]) -> str:
    """A table of six rows, and who should use it."""
    lines = ["| task | effect | 95 % interval | n | verdict | the paper's gain |", "|---|---|---|---|---|---|"]
    found = {entry.number: entry.finding for entry in entries}
    for number, task in TASKS.items():
        one = found[number]
        digits = decimals(one.interval, 0.1)
        effect = "–" if one.effect is None else f"{signed(one.effect, digits)} {one.unit}"
        n = f"{one.n} pairs, {pluralize(one.settings, 'setting')}"
        cells = [task, effect, bounds(one.interval, digits), n, one.verdict, signed(one.paper_gain, 2)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *advice({TASKS[number]: found[number] for number in TASKS})])


def advice(found: dict[str, Finding]) -> list[str]:
    """Two sentences, from the verdicts alone."""
    gains = [task for task, one in found.items() if one.verdict == "holds"]
    unclear = [task for task, one in found.items() if one.verdict in ("undecided", "not tested")]
    missing = [task for task, one in found.items() if one.verdict == "does not hold"]
    return [*_use(gains, unclear), *_do_not_bother(missing, found)]


def _use(gains: Sequence[str], unclear: Sequence[str]) -> Iterator[str]:
    if gains:
        yield f"**Use it if** your task is one of these: {', '.join(gains)}. There the paper's gain was seen."
    elif unclear:
        yield (
            f"**Use it if** your task is one that these runs leave open ({', '.join(unclear)}) and you compare it on "
            "your own data: no task here shows the paper's gain."
        )
    else:
        yield "**Use it if** you have compared it on your own data: no task here shows the paper's gain."


def _do_not_bother(missing: Sequence[str], found: dict[str, Finding]) -> Iterator[str]:
    if missing:
        harmed = [task for task in missing if found[task].parts and all(map(_below_zero, found[task].parts))]
        worse = f", and with {' and '.join(harmed)} every setting lost accuracy" if harmed else ""
        yield (
            f"**Do not bother if** it is {_either(missing)}: there the gain, if there is any, is smaller than the "
            f"paper's{worse}."
        )


def _below_zero(part: Part) -> bool:
    return part.interval is not None and part.interval[1] < 0


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
