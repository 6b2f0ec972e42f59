"""The figures of a study, as SVG: the same on the page and on disk.

Colours are near those of Okabe and Ito, which the colour-blind can tell apart. On the page each of them, and the ink,
becomes a CSS variable, so that a figure follows the light or dark theme around it.
"""

import gc
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

INK, FAINT, BAND = "#1a1a1b", "#8c8c8d", "#e4e4e5"
COLOURS = ("#55565a", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f3fbf")
"""The first is the baseline's."""
VARIABLES = {INK: "ink", FAINT: "faint", BAND: "band", **{colour: f"c{index}" for index, colour in enumerate(COLOURS)}}
MOST_SEEDS_DRAWN = 200
SAMPLES_IN_A_BIN = 10

_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": ["sans-serif"],
    "font.size": 9.5,
    "text.color": INK,
    "path.simplify": False,
}


_SHEET: ContextVar[Figure] = ContextVar("the figure that is drawn on, and wiped after each picture")


@contextmanager
def drawing() -> Iterator[None]:
    """Draw within this: in the style of the house, and fast, because a page of many settings has hundreds of figures.

    One sheet is used again and again, and garbage is not collected in between.
    """
    collects = gc.isenabled()
    gc.disable()
    sheet = Figure(figsize=(5.0, 3.3))
    sheet.patch.set_visible(False)
    sheet.add_axes((0.14, 0.15, 0.84, 0.82)).set_axis_off()
    token = _SHEET.set(sheet)
    try:
        with matplotlib.rc_context(_STYLE):
            yield
    finally:
        _SHEET.reset(token)
        if collects:
            gc.enable()


def pairs(setting: Mapping[str, Any], metric: str) -> str:
    """Each seed as a line from arm to arm, with the mean of each arm."""
    arms = [arm for arm in setting["arms"] if arm["n"]]
    panel = _Panel()
    seeds = list(arms[0]["values"] if arms else ())[:MOST_SEEDS_DRAWN]
    lines = np.array([[*(arm["values"].get(seed, np.nan) for arm in arms), np.nan] for seed in seeds])
    places = [*range(len(arms)), np.nan] * len(seeds)  # one line with gaps
    panel.axes.plot(places, lines.flatten(), "o-", color=FAINT, linewidth=0.8, markersize=2.5, alpha=0.8)
    for index, arm in enumerate(arms):
        panel.axes.plot([index - 0.2, index + 0.2], [arm["mean"]] * 2, color=_colour(index), linewidth=3)
    panel.axes.set_xlim(-0.4, max(len(arms) - 0.6, 0.4))
    panel.x_scale("", dict(enumerate(arm["arm"] for arm in arms)))
    panel.y_scale("test accuracy, %" if metric == "accuracy" else metric)
    return panel.svg(f"pairs{setting['setting']}")


def intervals(setting: Mapping[str, Any], metric: str, rope: float) -> str:
    """Each arm's difference from the baseline with its intervals, over the region of practical equivalence."""
    comparisons = [c for c in [*setting["comparisons"], *setting["derived"]["comparisons"]] if c["n"]]
    values = {arm["arm"]: arm["values"] for arm in [*setting["arms"], *setting["derived"]["arms"]]}
    names = {index: f"{c['arm']}: {c['verdict']}" for index, c in enumerate(comparisons, 1)}
    panel = _Panel(left=min(0.5, 0.03 + 0.0165 * max(map(len, names.values()), default=0)))
    axes = panel.axes
    axes.axvspan(-rope, rope, color=BAND, linewidth=0)
    axes.axvline(0, color=FAINT, linewidth=0.8)
    for index, comparison in enumerate(comparisons, 1):
        ours, theirs = values[comparison["arm"]], values[comparison["baseline"]]
        differences = [ours[seed] - theirs[seed] for seed in theirs if seed in ours][:MOST_SEEDS_DRAWN]
        colour = _colour(index)
        axes.plot(differences, [index - 0.22] * len(differences), "o", color=colour, markersize=2.5, alpha=0.5)
        for interval, width in ((comparison["ci_family"], 1.5), (comparison["ci"], 4)):
            if interval is not None and interval[0] <= interval[1]:
                axes.plot(interval, [index] * 2, color=colour, linewidth=width, solid_capstyle="butt")
        axes.plot(comparison["difference"], index, "o", color=colour, markersize=6)
    axes.set_ylim(len(names) + 0.6, 0.4)
    unit = "points of accuracy" if metric == "accuracy" else metric
    panel.x_scale(f"difference from {setting['arms'][0]['arm']}, {unit}")
    panel.y_scale("", names)
    return panel.svg(f"intervals{setting['setting']}")


def curves(results: Mapping[str, Sequence[Mapping[str, Any]]], key: str, label: str, name: str) -> str:
    """One quantity over the epochs: for each arm the mean over the seeds, and a band of one standard deviation."""
    panel = _Panel()
    late: list[float] = []
    for index, runs in enumerate(results.values()):
        if not runs:
            continue
        length = min(len(run["curves"]) for run in runs)
        values = np.array([[entry[key] for entry in run["curves"][:length]] for run in runs])
        epochs = [entry["epoch"] for entry in runs[0]["curves"][:length]]
        mean, std = values.mean(0), values.std(0, ddof=1) if len(runs) > 1 else np.zeros(length)
        panel.axes.fill_between(epochs, mean - std, mean + std, color=_colour(index), alpha=0.15, linewidth=0)
        panel.axes.plot(epochs, mean, color=_colour(index), marker="o" if length == 1 else None)
        late += [*(mean - std)[length // 4 :], *(mean + std)[length // 4 :]]
    if late and max(late) > min(late):  # the first steep quarter would leave no room for the rest
        margin = 0.1 * (max(late) - min(late))
        panel.axes.set_ylim(min(late) - margin, max(late) + margin)
    panel.x_scale("epoch", integer=True)
    panel.y_scale(label)
    panel.names(results, "upper right" if key.endswith("nll") else "lower right")
    return panel.svg(f"{key}{name}")


def calibration(results: Mapping[str, Sequence[Mapping[str, Any]]], name: str) -> str:
    """How often the model is right against how sure it is, all seeds pooled."""
    panel = _Panel()
    panel.axes.plot([0, 100], [0, 100], color=FAINT, linewidth=0.8, linestyle="--")
    for index, runs in enumerate(results.values()):
        if not runs:
            continue
        count, sure, right = (
            np.sum([run["reliability"][part] for run in runs], axis=0) for part in ("count", "confidence", "correct")
        )
        seen = count >= SAMPLES_IN_A_BIN
        x, y = 100 * sure[seen] / count[seen], 100 * right[seen] / count[seen]
        panel.axes.plot(x, y, "o-", color=_colour(index), markersize=3, linewidth=1.2)
    panel.axes.set_xlim(0, 101)
    panel.axes.set_ylim(0, 101)
    panel.x_scale("confidence, %")
    panel.y_scale("right, %")
    panel.names(results, "upper left")
    return panel.svg(f"calibration{name}")


def for_page(svg: str) -> str:
    """The figure without its file header and without ids that nothing refers to, its colours as CSS variables."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 role="img">', svg, count=1)
    svg = re.sub(r' id="[A-Za-z0-9_.]+_\d+"', "", svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return svg.replace("xlink:href", "href")


class _Panel:
    """Axes with plain scales of our own. Matplotlib's take four times as long, and a page may have hundreds."""

    def __init__(self, left: float = 0.14) -> None:
        self.figure = _SHEET.get()
        (self.axes,) = self.figure.axes
        self.axes.set_position((left, 0.15, 0.98 - left, 0.82))

    def x_scale(self, label: str, names: Mapping[int, str] | None = None, *, integer: bool = False) -> None:
        axes, along = self.axes, self.axes.get_xaxis_transform()
        ticks = names or _ticks(*axes.get_xlim(), integer=integer)
        axes.plot([0, 1], [0, 0], color=FAINT, linewidth=1.2, transform=axes.transAxes, clip_on=False)
        axes.plot(list(ticks), [-0.008] * len(ticks), "|", color=FAINT, markersize=4, transform=along, clip_on=False)
        for position, text in ticks.items():
            axes.text(position, -0.025, text, ha="center", va="top", transform=along)
        axes.text(0.5, -0.1, label, ha="center", va="top", transform=axes.transAxes)

    def y_scale(self, label: str, names: Mapping[int, str] | None = None) -> None:
        axes, along = self.axes, self.axes.get_yaxis_transform()
        ticks = names or _ticks(*axes.get_ylim())
        if names is None:
            axes.plot([0, 0], [0, 1], color=FAINT, linewidth=1.2, transform=axes.transAxes, clip_on=False)
            axes.plot(
                [-0.006] * len(ticks), list(ticks), "_", color=FAINT, markersize=4, transform=along, clip_on=False
            )
        for position, text in ticks.items():
            axes.text(-0.02, position, text, ha="right", va="center", transform=along)
        self.figure.text(0.01, 0.56, label, ha="left", va="center", rotation=90)

    def names(self, arms: Iterable[str], corner: str) -> None:
        """The arms' names in their colours, as a legend."""
        names = list(arms)
        x, side = (0.98, "right") if "right" in corner else (0.02, "left")
        first = 0.95 if "upper" in corner else 0.03 + 0.07 * (len(names) - 1)
        for index, name in enumerate(names):
            y = first - 0.07 * index
            self.axes.text(x, y, name, color=_colour(index), ha=side, va="baseline", transform=self.axes.transAxes)

    def svg(self, salt: str) -> str:
        """The picture. The salt keeps the ids of several figures apart."""
        matplotlib.rcParams["svg.hashsalt"] = salt
        file = io.StringIO()
        canvas: Any = FigureCanvasSVG(self.figure)
        canvas.print_svg(file, metadata={"Date": None, "Creator": None})
        self._wipe()
        return file.getvalue()

    def _wipe(self) -> None:
        axes = self.axes
        for artist in (*axes.lines, *axes.texts, *axes.patches, *axes.collections, *self.figure.texts):
            artist.remove()
        axes.dataLim.set_points(Bbox.null().get_points())
        axes.ignore_existing_data_limits = True
        axes.set_xlim(0, 1, auto=True)
        axes.set_ylim(0, 1, auto=True)


def _ticks(low: float, high: float, *, integer: bool = False) -> dict[float, str]:
    """About five round numbers between the limits, and how they are written."""
    found = [float(tick) for tick in MaxNLocator(5, integer=integer).tick_values(low, high) if low <= tick <= high]
    step = min((b - a for a, b in pairwise(found)), default=1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if any(abs(round(tick, decimals) - tick) > 1e-6 * step for tick in found):
        decimals += 1  # steps of 2.5
    return {tick: f"{tick:.{decimals}f}".replace("-", "−") for tick in found}


def _colour(index: int) -> str:
    return COLOURS[index] if index < len(COLOURS) else COLOURS[1 + (index - 1) % (len(COLOURS) - 1)]
