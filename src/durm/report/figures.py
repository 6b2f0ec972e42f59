"""What the figures of a study have in common: their style, their files, and the quantities that are drawn as levels.

Colours mean arms, and are near those of Okabe and Ito, which the colour-blind can tell apart. On the page each of them,
and the ink, becomes a CSS variable, so that a figure follows the light or dark theme around it.
"""

import gc
import html
import io
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from durm.metrics.robust import attack_and_surface
from durm.study.records import Setting
from durm.training.result import Result

INK, FAINT, BAND = "#1a1a1b", "#8c8c8d", "#e4e4e5"
COLOURS = ("#55565a", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#8c564b", "#7f3fbf")
"""The first is the baseline's."""
VARIABLES = {INK: "ink", FAINT: "faint", BAND: "band", **{colour: f"c{index}" for index, colour in enumerate(COLOURS)}}
WIDTH, HEIGHT, FONT_SIZE = 5.0, 3.3, 9.5
"""In inches, and in points."""
MOST_SEEDS_DRAWN = 200
MOST_POINTS = 60
"""Of a curve; the last epoch is always among them."""
MOST_NAMES = 14
"""Of arms along an axis; of more, some are left out."""
LONGEST_NAME = 20
WIDE, TALL = 50, 38
"""So many characters find room along the axes."""
SAMPLES_IN_A_BIN = 10
DASHES = ("-", "--", ":", "-.")

_STYLE: Any = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.family": ["sans-serif"],
    **dict.fromkeys(("font.size", "figure.labelsize"), FONT_SIZE),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), FAINT),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.formatter.useoffset", "legend.frameon"), False),
    "legend.handlelength": 1.4,
    "legend.labelspacing": 0.3,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Draw within this, in the style of the house. Only what is drawn is searched for garbage."""
    gc.freeze()
    try:
        with matplotlib.rc_context(_STYLE):
            yield
    finally:
        gc.unfreeze()


Titles = dict[str, list[str]]
"""For each group of marks, by its id, what hovering over each of them says."""


@dataclass(frozen=True)
class Drawing:
    """A figure that can be written. The name keeps the ids of several figures on a page apart."""

    figure: Figure
    name: str
    titles: Titles = field(default_factory=dict)

    def svg(self) -> str:
        return with_titles(as_svg(self.figure, self.name), self.titles)

    def files(self) -> dict[str, bytes]:
        """The figure for papers and slides, by extension; the layout is that of the SVG, which was made before."""
        self.figure.set_layout_engine("none")
        return {"pdf": as_pdf(self.figure), "png": as_png(self.figure)}


def as_svg(figure: Figure, salt: str) -> str:
    """The salt keeps the ids of several figures on a page apart."""
    file = io.StringIO()
    canvas: Any = FigureCanvasSVG(figure)
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        canvas.print_svg(file, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return file.getvalue()


def as_png(figure: Figure, dpi: float = 200) -> bytes:
    """On white."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi, facecolor="white", metadata={"Software": None})
    return file.getvalue()


def as_pdf(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="pdf", metadata={"Creator": None, "Producer": None, "CreationDate": None})
    return file.getvalue()


def with_titles(svg: str, titles: Titles) -> str:
    """Each mark, a dot or a line, with a text that browsers show when the pointer is over it."""
    for name, texts in titles.items():
        begin = svg.find(f'<g id="{name}"')
        if begin < 0:
            continue
        end = _group_end(svg, begin)
        group = svg[begin:end]
        tag = "use" if "<use" in group else "path"
        first, *marks = re.split(rf"<{tag} ([^>]*)/>", group)
        titled = "".join(
            f"<{tag} {mark}><title>{html.escape(text)}</title></{tag}>{rest}"
            for mark, rest, text in zip(marks[::2], marks[1::2], texts, strict=True)
        )
        svg = svg[:begin] + first.replace(f' id="{name}"', "", 1) + titled + svg[end:]
    return svg


def _group_end(svg: str, begin: int) -> int:
    """Where the group that begins there ends."""
    depth = 0
    for found in re.compile(r"<g[ >]|</g>").finditer(svg, begin):
        depth += -1 if found[0] == "</g>" else 1
        if depth == 0:
            return found.start()
    return len(svg)


Series = tuple[Sequence[float], np.ndarray] | None
"""Epochs, and the values of each seed at them, `(seeds, epochs)`; of an arm without runs there are none."""


def runs_over_epochs(runs: Sequence[Result], take: Callable[[Result], Sequence[float]]) -> Series:
    """What `take` finds in each run at its validations, as far as all of them went; of many epochs only some."""
    if not runs:
        return None
    length = min(len(run.curves) for run in runs)
    every = math.ceil(length / MOST_POINTS)
    values = np.array([list(take(run))[:length][::-every][::-1] for run in runs], dtype=float)
    return [entry["epoch"] for entry in runs[0].curves[:length][::-every][::-1]], values


def over_epochs(
    series: Mapping[str, Series],
    label: str,
    corner: str,
    *,
    marks: Mapping[str, float] = {},
    whole: bool = False,
    arm: int | None = None,
) -> Figure:
    """For each arm the mean over the seeds, and a band of one standard deviation.

    `marks` are epochs that get a dashed line in the colour of the arm. Unless `whole`, a steep beginning is cut off.
    With `arm`, all series are of that arm: they have its colour, and differ in how they are dashed.
    """
    figure, axes = _blank("epoch", label)
    late: list[float] = []
    styles = [(arm_colour(index), "-") if arm is None else (arm_colour(arm), DASHES[index % len(DASHES)])
              for index in range(len(series))]  # fmt: skip
    for (name, found), (colour, dash) in zip(series.items(), styles, strict=True):
        if found is None:
            continue
        epochs, values = found
        mean, std = mean_and_std(values)
        axes.fill_between(epochs, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
        axes.plot(epochs, mean, color=colour, linestyle=dash, marker="o" if len(epochs) == 1 else None)
        late += [*(mean - std)[len(epochs) // 4 :], *(mean + std)[len(epochs) // 4 :]]
        if name in marks:
            axes.axvline(marks[name], color=colour, linewidth=0.9, linestyle="--")
    if not whole:
        cut_beginning(axes, late)
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    legend(axes, series, corner, styles)
    return figure


def cut_beginning(axes: Axes, late: Sequence[float]) -> None:
    """Limits by the later values: the first steep quarter would leave no room for the rest."""
    if late and max(late) > min(late):
        margin = 0.1 * (max(late) - min(late))
        axes.set_ylim(min(late) - margin, max(late) + margin)


def by_class(values: Mapping[str, np.ndarray], names: Sequence[str], label: str, corner: str) -> Figure:
    """For each class and arm the mean over the seeds, with a bar of one standard deviation; `(seeds, classes)` each."""
    figure, axes = _blank("", label)
    for index, found in enumerate(values.values()):
        places = np.arange(len(names)) + 0.12 * (index - (len(values) - 1) / 2)
        mean, std = mean_and_std(found)
        axes.vlines(places, mean - std, mean + std, color=arm_colour(index), linewidth=1.0, alpha=0.6)
        axes.plot(places, mean, "o", color=arm_colour(index), markersize=4)
    axes.set_xlim(-0.6, len(names) - 0.4)
    low, high = axes.get_ylim()
    room = 0.09 * len(values) * (high - low)  # for the legend
    axes.set_ylim(low - room if "lower" in corner else low, high + room if "upper" in corner else high)
    _names_along(axes, names)
    legend(axes, values, corner)
    return figure


def radius(setting: Setting) -> Drawing:
    """Accuracy against the radius of an attack, of the first one that drew such a curve; mean over the seeds."""
    entry = next(entry for entry in setting.robustness if any(arm.curve for arm in entry.arms))
    attack, through = attack_and_surface(entry.attack)
    label = f"accuracy under {attack} through {through} logits, %"
    figure, axes = _blank("radius ε, in 255ths of the range of pixels", label)
    for index, arm in enumerate(entry.arms):
        if arm.curve:
            radii, accuracies = zip(*arm.curve, strict=True)
            axes.plot([255 * eps for eps in radii], accuracies, "o-", color=arm_colour(index), markersize=3)
    legend(axes, [arm.arm for arm in entry.arms], "upper right")
    return Drawing(figure, f"radius{setting.setting}")


def calibration(results: Mapping[str, Sequence[Result]], name: str) -> Drawing:
    """How often the model is right against how sure it is, all seeds pooled."""
    figure, axes = _blank("confidence, %", "right, %")
    axes.plot([0, 100], [0, 100], color=FAINT, linewidth=0.8, linestyle="--")
    for index, runs in enumerate(results.values()):
        if not runs:
            continue
        bins = [run.reliability for run in runs]
        count, sure, right = np.sum([[one.count, one.confidence, one.correct] for one in bins], axis=0)
        seen = count >= SAMPLES_IN_A_BIN
        x, y = 100 * sure[seen] / count[seen], 100 * right[seen] / count[seen]
        axes.plot(x, y, "o-", color=arm_colour(index), markersize=3, linewidth=1.2)
    axes.set(xlim=(0, 101), ylim=(0, 101))
    legend(axes, results, "best")
    return Drawing(figure, f"calibration{name}")


def side_by_side(panels: Sequence[Callable[[Axes], None]], name: str) -> tuple[str, bytes]:
    """Panels in a row, as one SVG and one PNG. Each function draws on the axes that it is given."""
    figure = Figure(figsize=(WIDTH * len(panels), HEIGHT), layout="constrained")
    for place, draw in enumerate(panels, 1):
        draw(figure.add_subplot(1, len(panels), place))
    return as_svg(figure, name), as_png(figure)


def inline_svg(svg: str, alternative: str = "", style: str = "") -> str:
    """The figure without its file header, in the font of the page. A screen reader says the alternative text."""
    attributes = {"aria-label": " ".join(alternative.split()), "style": style}
    written = "".join(f' {name}="{html.escape(value)}"' for name, value in attributes.items() if value)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', lambda found: f'<svg {found[1]} role="img"{written}>', svg, count=1
    )
    return compact(svg).replace("xlink:href", "href")


def compact(svg: str) -> str:
    """The figure to 1/100 of a point, a mark a line, without ids that nothing refers to, fonts and empty groups."""
    svg = re.sub(r' id="[A-Za-z0-9_.]+_\d+"', "", svg)
    svg = re.sub(r"<(?:path|use|g|text)\b[^>]*>", lambda tag: _compact_tag(tag[0]), svg)
    while (fewer := re.sub(r"\n\s*<g(?:/>|>\s*</g>)", "", svg)) != svg:
        svg = fewer
    return re.sub(r"\n\s*(?=</?(?:g|defs)\b)|(?<=<g>)\s+|(?<=\n) +(?=<)", "", svg)


def _compact_tag(tag: str) -> str:
    tag = re.sub(r'\s+(")|\s+', lambda space: space[1] or " ", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"|font-family: [^;"]*;? ?', "", tag)
    return re.sub(r"(\.\d\d)\d+", r"\1", tag)


LEAST_SCALE, NARROW = 1.15, 72 * WIDTH
"""CSS pixels in a point, at least, of figures wider than this many points: below it nobody can read their words."""


def for_page(svg: str, alternative: str = "", *, of_arms: bool = True) -> str:
    """The figure with its colours as CSS variables.

    A wide one scrolls on a narrow screen, in its box. Without `of_arms` only ink and lines follow the theme: a class
    may have the colour of an arm, and must keep it.
    """
    box = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
    width = float(box[1]) if box else 0.0
    svg = inline_svg(svg, alternative, f"--least: {LEAST_SCALE * width:.0f}px" if width > NARROW else "")
    for colour, variable in VARIABLES.items():
        if of_arms or colour not in COLOURS:
            svg = svg.replace(colour, f"var(--{variable})")
    return svg


def _blank(x_label: str = "", y_label: str = "") -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    figure.supxlabel(wrapped(x_label, WIDE))  # those of the axes leave the figure if the axes are small
    figure.supylabel(wrapped(y_label, TALL), multialignment="center")
    axes = figure.add_subplot()
    axes.locator_params(nbins=5)
    axes.spines[:].set_in_layout(False)  # a quarter faster: there is nothing to find room for
    axes.xaxis.set_label_coords(0, 0)
    axes.yaxis.set_label_coords(0, 0)
    return figure, axes


def _names_along(axes: Axes, names: Sequence[str]) -> None:
    """Names below an axis, some of them left out if there are many. Where they are long they take turns on levels."""
    places = range(0, len(names), math.ceil(len(names) / MOST_NAMES))
    axes.set_xticks(places, [short_name(names[place]) for place in places])
    levels = math.ceil((2 + max(len(short_name(name)) for name in names)) * len(places) / WIDE)
    for index, tick in enumerate(axes.xaxis.get_major_ticks()):
        tick.set_pad(3.5 + 1.25 * FONT_SIZE * (index % levels))


def legend(
    axes: Axes,
    names: Iterable[str],
    corner: Any,
    styles: Sequence[tuple[str, Any]] | None = None,
    columns: int | None = None,
) -> None:
    """Also of arms that have no line. Of many there are two columns, of very many in a smaller font."""
    shown = [short_name(name) for name in names]
    styles = styles or [(arm_colour(index), "-") for index in range(len(shown))]
    handles = [Line2D([], [], color=colour, linestyle=dash, linewidth=2.5) for colour, dash in styles]
    columns = columns or (1 if len(shown) <= 10 else 2)
    size = min(FONT_SIZE, 100 * columns / max(1, len(shown)))
    axes.legend(handles, shown, loc=corner, ncols=columns, fontsize=size).set_in_layout(False)


def mean_and_std(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the seeds; of one seed the deviation is 0."""
    mean: np.ndarray = values.mean(0)
    return mean, values.std(0, ddof=1) if len(values) > 1 else np.zeros_like(mean)


def wrapped(label: str, width: int) -> str:
    """In two lines at most; a unit never stands alone in the second."""
    together = label.replace(", %", ",\xa0%")
    return textwrap.fill(together, width, max_lines=2, placeholder="…").replace("\xa0", " ")


def short_name(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def arm_colour(index: int) -> str:
    return COLOURS[index] if index < len(COLOURS) else COLOURS[1 + (index - 1) % (len(COLOURS) - 1)]
