"""The figures of a study, as SVG: the same on the page and on disk.

Colours are near those of Okabe and Ito, which the colour-blind can tell apart. On the page each of them, and the ink,
becomes a CSS variable, so that a figure follows the light or dark theme around it.
"""

import gc
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import imsave
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from durm.report.words import attack_and_surface, is_accuracy, is_percentage, measured

INK, FAINT, BAND = "#1a1a1b", "#8c8c8d", "#e4e4e5"
COLOURS = ("#55565a", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#8c564b", "#7f3fbf")
"""The first is the baseline's."""
VARIABLES = {INK: "ink", FAINT: "faint", BAND: "band", **{colour: f"c{index}" for index, colour in enumerate(COLOURS)}}
MOST_SEEDS_DRAWN = 200
MOST_POINTS = 60
"""Of a curve; the last epoch is always among them."""
MOST_NAMES = 14
"""Of arms along an axis; of more, some are left out."""
LONGEST_NAME = 20
CHARACTERS = 50
"""So many find room side by side."""
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
    arms = setting["arms"]
    names, levels = _along([arm["arm"] for arm in arms])
    panel = _Panel(bottom=0.1 + 0.05 * levels)
    seeds = list(dict.fromkeys(seed for arm in arms for seed in arm["values"]))[:MOST_SEEDS_DRAWN]
    lines = np.array([[*(arm["values"].get(seed, np.nan) for arm in arms), np.nan] for seed in seeds])
    places = [*range(len(arms)), np.nan] * len(seeds)  # one line with gaps
    panel.axes.plot(places, lines.flatten(), "o-", color=FAINT, linewidth=0.8, markersize=2.5, alpha=0.8)
    for index, arm in enumerate(arms):
        if arm["mean"] is not None:
            panel.axes.plot([index - 0.2, index + 0.2], [arm["mean"]] * 2, color=_colour(index), linewidth=3)
    margin = 0.4 if levels == 1 else 0.9
    panel.axes.set_xlim(-margin, max(len(arms) - 1 + margin, 0.4))
    panel.x_scale("", names, levels=levels)
    panel.y_scale(f"test {_briefly(metric)}, %" if is_percentage(metric) else metric)
    return panel.svg(f"pairs{setting['setting']}")


def intervals(setting: Mapping[str, Any], metric: str, rope: float) -> str:
    """Each arm's difference from the baseline with its intervals, over the region of practical equivalence."""
    comparisons = [*setting["comparisons"], *setting["derived"]["comparisons"]]
    values = {arm["arm"]: arm["values"] for arm in [*setting["arms"], *setting["derived"]["arms"]]}
    names = {index: f"{_short(c['arm'])}: {c['verdict']}" for index, c in enumerate(comparisons, 1)}
    panel = _Panel(
        left=min(0.6, 0.03 + 0.0165 * max(map(len, names.values()), default=0)), height=0.22 * max(15, len(names) + 3)
    )
    axes = panel.axes
    axes.axvspan(-rope, rope, color=BAND, linewidth=0)
    axes.axvline(0, color=FAINT, linewidth=0.8)
    for index, comparison in enumerate(comparisons, 1):
        if not comparison["n"]:
            continue
        ours, theirs = values[comparison["arm"]], values[comparison["baseline"]]
        differences = [ours[seed] - theirs[seed] for seed in theirs if seed in ours][:MOST_SEEDS_DRAWN]
        colour = _colour(index)
        axes.plot(differences, [index - 0.22] * len(differences), "o", color=colour, markersize=2.5, alpha=0.5)
        for interval, width in ((comparison["ci_family"], 1.5), (comparison["ci"], 4)):
            if interval is not None and interval[0] <= interval[1]:
                axes.plot(interval, [index] * 2, color=colour, linewidth=width, solid_capstyle="butt")
        axes.plot(comparison["difference"], index, "o", color=colour, markersize=6)
    axes.set_ylim(len(names) + 0.6, 0.4)
    unit = f"points of {_briefly(metric)}" if is_percentage(metric) else metric
    panel.x_scale(f"difference from {setting['arms'][0]['arm']}, {unit}")
    panel.y_scale("", names)
    return panel.svg(f"intervals{setting['setting']}")


def curves(results: Mapping[str, Sequence[Mapping[str, Any]]], key: str, label: str, name: str) -> str:
    """One quantity over the epochs: for each arm the mean over the seeds, and a band of one standard deviation."""
    series = {
        arm: runs_over_epochs(runs, lambda run: [entry[key] for entry in run["curves"]])
        for arm, runs in results.items()
    }
    return over_epochs(series, label, "upper right" if key.endswith("nll") else "lower right").svg(f"{key}{name}")


Series = tuple[Sequence[float], np.ndarray]
"""Epochs, and the values of each seed at them, `(seeds, epochs)`."""


def runs_over_epochs(
    runs: Sequence[Mapping[str, Any]], take: Callable[[Mapping[str, Any]], Sequence[float]]
) -> Series | None:
    """What `take` finds in each run at its validations, as far as all of them went; of many epochs only some."""
    if not runs:
        return None
    length = min(len(run["curves"]) for run in runs)
    every = math.ceil(length / MOST_POINTS)
    values = np.array([list(take(run))[:length][::-every][::-1] for run in runs], dtype=float)
    return [entry["epoch"] for entry in runs[0]["curves"][:length][::-every][::-1]], values


def over_epochs(
    series: Mapping[str, Series | None],
    label: str,
    corner: str,
    *,
    marks: Mapping[str, float] | None = None,
    whole: bool = False,
) -> "_Panel":
    """For each arm the mean over the seeds, and a band of one standard deviation.

    `marks` are epochs that get a dashed line in the colour of the arm. Unless `whole`, a steep beginning is cut off.
    """
    panel = _Panel()
    late: list[float] = []
    for index, (arm, found) in enumerate(series.items()):
        if found is None:
            continue
        epochs, values = found
        length = len(epochs)
        mean, std = values.mean(0), values.std(0, ddof=1) if len(values) > 1 else np.zeros(length)
        band = np.concatenate([mean - std, (mean + std)[::-1]])
        panel.axes.fill([*epochs, *epochs[::-1]], band, color=_colour(index), alpha=0.15, linewidth=0)
        panel.axes.plot(epochs, mean, color=_colour(index), marker="o" if length == 1 else None)
        late += [*(mean - std)[length // 4 :], *(mean + std)[length // 4 :]]
        if marks and arm in marks:
            panel.axes.axvline(marks[arm], color=_colour(index), linewidth=0.9, linestyle="--")
    if late and max(late) > min(late) and not whole:  # the first steep quarter would leave no room for the rest
        margin = 0.1 * (max(late) - min(late))
        panel.axes.set_ylim(min(late) - margin, max(late) + margin)
    panel.x_scale("epoch", integer=True)
    panel.y_scale(label)
    panel.names(series, corner)
    return panel


def by_class(values: Mapping[str, np.ndarray], names: Sequence[str], label: str, corner: str) -> "_Panel":
    """For each class and arm the mean over the seeds, with a bar of one standard deviation; `(seeds, classes)` each."""
    shown, levels = _along(names)
    panel = _Panel(bottom=0.1 + 0.05 * levels)
    for index, found in enumerate(values.values()):
        places = np.arange(len(names)) + 0.12 * (index - (len(values) - 1) / 2)
        mean, std = found.mean(0), found.std(0, ddof=1) if len(found) > 1 else np.zeros(len(names))
        panel.axes.vlines(places, mean - std, mean + std, color=_colour(index), linewidth=1.0, alpha=0.6)
        panel.axes.plot(places, mean, "o", color=_colour(index), markersize=4)
    panel.axes.set_xlim(-0.6, len(names) - 0.4)
    low, high = panel.axes.get_ylim()
    room = 0.09 * len(values) * (high - low)  # for the names
    panel.axes.set_ylim(low - room if "lower" in corner else low, high + room if "upper" in corner else high)
    panel.x_scale("", shown, levels=levels)
    panel.y_scale(label)
    panel.names(values, corner)
    return panel


def radius(setting: Mapping[str, Any]) -> str:
    """Accuracy against the radius of an attack, of the first one that drew such a curve; mean over the seeds."""
    entry = next(entry for entry in setting["robustness"] if any(arm["curve"] for arm in entry["arms"]))
    attack, through = attack_and_surface(entry["attack"])
    panel = _Panel()
    for index, arm in enumerate(entry["arms"]):
        if arm["curve"]:
            radii, accuracies = zip(*arm["curve"], strict=True)
            panel.axes.plot([255 * eps for eps in radii], accuracies, "o-", color=_colour(index), markersize=3)
    panel.x_scale("radius ε, in 255ths of the range of pixels")
    panel.y_scale(f"accuracy under {attack} through {through} logits, %")
    panel.names({arm["arm"]: [] for arm in entry["arms"]}, "upper right")
    return panel.svg(f"radius{setting['setting']}")


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


def beside(panels: Sequence[Callable[["_Panel"], None]], name: str) -> tuple[str, bytes]:
    """Panels in a row, as one SVG and one PNG. Each function draws on the panel that it is given."""
    width, height = 72 * 5.0, 72 * 3.3
    parts, pixels = [], []
    for index, draw in enumerate(panels):
        panel = _Panel()
        draw(panel)
        pixels.append(panel.pixels())
        place = f'<svg x="{width * index:g}" width="{width:g}" height="{height:g}" '
        parts.append(_bare(panel.svg(f"{name}{index}")).replace("<svg ", place, 1))
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * len(parts):g} {height:g}">\n'
    return f"{svg}{''.join(parts)}</svg>\n", _png(np.concatenate(pixels, axis=1))


def _png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    imsave(file, pixels, format="png", metadata={"Software": ""})
    return file.getvalue()


def for_page(svg: str, *, of_arms: bool = True) -> str:
    """The figure without its file header and without ids that nothing refers to, its colours as CSS variables.

    Without `of_arms` only ink and lines follow the theme: a class may have the colour of an arm, and must keep it.
    """
    svg = _bare(svg)
    for colour, variable in VARIABLES.items():
        if of_arms or colour not in COLOURS:
            svg = svg.replace(colour, f"var(--{variable})")
    return svg


def _bare(svg: str) -> str:
    """The element alone, to be put into a page or into another figure."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 role="img">', svg, count=1)
    svg = re.sub(r' id="[A-Za-z0-9_.]+_\d+"', "", svg)
    return svg.replace("xlink:href", "href")


class _Panel:
    """Axes with plain scales of our own. Matplotlib's take four times as long, and a page may have hundreds."""

    def __init__(self, left: float = 0.14, bottom: float = 0.15, height: float = 3.3) -> None:
        self.figure = _SHEET.get()
        self.figure.set_size_inches(5.0, height)
        (self.axes,) = self.figure.axes
        self.bottom = bottom * 3.3 / height
        self.lines: list[tuple[tuple[tuple[float, float], tuple[float, float]], str, float]] = []
        self._place(left)

    def _place(self, left: float) -> None:
        self.axes.set_position((left, self.bottom, 0.98 - left, 0.97 - self.bottom))

    def x_scale(
        self, label: str, names: Mapping[int, str] | None = None, *, integer: bool = False, levels: int = 1
    ) -> None:
        """Ticks and their texts, which take turns on several levels where one has not room for them."""
        axes, along = self.axes, self.axes.get_xaxis_transform()
        ticks = names or _ticks(*axes.get_xlim(), integer=integer)
        low, high = axes.get_xlim()
        self._line((0, 0), (1, 0))
        for position in ticks:
            place = (position - low) / (high - low)
            self._line((place, 0), (place, -0.017), width=0.8)
        for index, (position, text) in enumerate(ticks.items()):
            axes.text(position, -0.025 - 0.06 * (index % levels), text, ha="center", va="top", transform=along)
        height, whole = 0.03 * 3.3 / self.figure.get_figheight(), self.figure.transFigure
        axes.text(0.56, height, label, ha="center", va="bottom", transform=whole)

    def y_scale(self, label: str, names: Mapping[int, str] | None = None) -> None:
        axes, along = self.axes, self.axes.get_yaxis_transform()
        ticks = names or _ticks(*axes.get_ylim())
        if names is None:
            self._place(max(0.14, 0.055 + 0.0175 * max(map(len, ticks.values()), default=0)))
            low, high = axes.get_ylim()
            self._line((0, 0), (0, 1))
            for position in ticks:
                place = (position - low) / (high - low)
                self._line((0, place), (-0.013, place), width=0.8)
        for position, text in ticks.items():
            axes.text(-0.02, position, text, ha="right", va="center", transform=along)
        self.figure.text(0.01, 0.56, label, ha="left", va="center", rotation=90)

    def names(self, arms: Iterable[str], corner: str) -> None:
        """A legend: the arms' names behind a dash of their colours."""
        names = [_short(name) for name in arms]
        step = min(0.07, 0.9 / max(1, len(names)))
        left = 0.02 if "left" in corner else 0.9 - 0.021 * max(map(len, names), default=0)
        first = 0.95 if "upper" in corner else 0.03 + step * (len(names) - 1)
        inside = self.axes.transAxes
        for index, name in enumerate(names):
            y = first - step * index
            self._line((left, y + 0.02), (left + 0.05, y + 0.02), colour=_colour(index), width=2.5)
            self.axes.text(left + 0.07, y, name, va="baseline", transform=inside)

    def _line(
        self, start: tuple[float, float], end: tuple[float, float], colour: str = FAINT, width: float = 1.2
    ) -> None:
        """A straight line between two places of the axes, (0, 0) to (1, 1); all of them are drawn as one thing."""
        self.lines.append(((start, end), colour, width))

    def pixels(self) -> np.ndarray:
        """The picture on white, `(height, width, 3)`; to be called before `svg`, which wipes the sheet."""
        self._draw_lines()
        self.figure.set_dpi(200)
        canvas: Any = FigureCanvasAgg(self.figure)
        canvas.draw()
        colours = np.asarray(canvas.buffer_rgba()) / 255.0
        return colours[..., :3] * colours[..., 3:] + 1 - colours[..., 3:]

    def png(self) -> bytes:
        """The picture on white, as a file; to be called before `svg`."""
        return _png(self.pixels())

    def svg(self, salt: str) -> str:
        """The picture. The salt keeps the ids of several figures apart."""
        self._draw_lines()
        matplotlib.rcParams["svg.hashsalt"] = salt
        file = io.StringIO()
        canvas: Any = FigureCanvasSVG(self.figure)
        canvas.print_svg(file, metadata={"Date": None, "Creator": None})
        self._wipe()
        return file.getvalue()

    def _draw_lines(self) -> None:
        if not self.lines:
            return
        places, colours, widths = zip(*self.lines, strict=True)
        self.axes.add_collection(
            LineCollection(places, colors=colours, linewidths=widths, transform=self.axes.transAxes, clip_on=False),
            autolim=False,
        )
        self.lines = []

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
    if integer:
        found = [tick for tick in found if tick.is_integer()] or [float(round((low + high) / 2))]
    step = min((b - a for a, b in pairwise(found)), default=1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if any(abs(round(tick, decimals) - tick) > 1e-6 * step for tick in found):
        decimals += 1  # steps of 2.5
    return {tick: f"{tick:.{decimals}f}".replace("-", "−") for tick in found}


def _along(names: Sequence[str]) -> tuple[dict[int, str], int]:
    """Names for an axis, by their places, some of them left out if there are many; and on how many levels they fit."""
    short = [_short(name) for name in names]
    shown = {place: name for place, name in enumerate(short) if place % math.ceil(len(short) / MOST_NAMES) == 0}
    return shown, math.ceil((2 + max(map(len, short))) * len(shown) / CHARACTERS)


def _briefly(metric: str) -> str:
    return "accuracy" if is_accuracy(metric) else measured(metric)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _colour(index: int) -> str:
    return COLOURS[index] if index < len(COLOURS) else COLOURS[1 + (index - 1) % (len(COLOURS) - 1)]
