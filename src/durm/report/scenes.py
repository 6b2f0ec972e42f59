"""Pictures of segmented scenes, as in Fig. 7 of the paper: what is there, what each arm sees, what the dummies take."""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from durm.data.bundle import IGNORED
from durm.report.figures import FAINT, INK, as_png, as_svg, drawing, short_name
from durm.study.scenes import Palette, Scene

WIDEST = 320
"""Pixels of a panel from left to right. Larger pictures are made smaller: many of them stand on a page."""
RED = "#e6000f"
LIGHT, DARK = "#d2d2d2", "#aaaaaa"
"""The stripes where nothing is labelled."""
STRIPE = 5
FADED = 0.65
"""So much of the classes' colours gives way to white where dummies are shown on top of them in red."""
COLOUR_MAP = "magma"
DECADES = 4
"""The scale of p_D goes at most so far down from its largest value."""

PANEL, GAP, HEADING, CAPTION, BAR, LETTER, LINE = 1.75, 0.06, 0.26, 0.24, 0.27, 0.075, 0.18
"""In inches: the width of a panel, what is between two, above the columns, below a panel, for the scale at the right,
for a letter beside it, for a line of the legend."""


def draw_scenes(
    scenes: Sequence[Scene], class_names: Sequence[str], palette: Palette, name: str = "scenes"
) -> tuple[str, bytes]:
    """The picture of `scene_figure` as SVG and as PNG. The name keeps the ids of several figures on a page apart."""
    figure = scene_figure(scenes, class_names, palette)
    with drawing():
        return as_svg(figure, name), as_png(figure, WIDEST / PANEL)


def scene_figure(scenes: Sequence[Scene], class_names: Sequence[str], palette: Palette) -> Figure:
    """A row for each scene: image, truth, each arm's prediction, then for arms with dummies what these take, and p_D.

    The prediction is the largest of the real logits; where a dummy's is larger still, the next column has a red spot on
    the faded prediction. Spots are drawn a little too large where the picture is made smaller, so that single pixels
    can be seen; the number below is exact, of all pixels with a label or without. p_D has one scale for all
    scenes and arms, which is logarithmic.
    """
    if not scenes:
        raise ValueError("there are no scenes to draw")
    with drawing():
        return _Sheet(scenes, class_names, np.array([list(colour) for colour in palette], np.uint8)).figure


class _Sheet:
    """The figure while it is drawn. All scenes have the columns of the first."""

    def __init__(self, scenes: Sequence[Scene], class_names: Sequence[str], palette: np.ndarray) -> None:
        self.colours = np.zeros((256, 3), np.uint8)  # of every value of a mask; those that are no class are black
        self.colours[: len(palette)] = palette
        self.first, self.norm = scenes[0], _mass_scale(scenes)
        legend = _legend(scenes, class_names, palette)
        taken = [f"{short_name(arm)}, {what}" for arm in self.first.hits for what in ("dummies red", "dummy mass")]
        headings = ["image", "truth", *map(short_name, self.first.predictions), *taken]  # as `_row` fills the columns
        self.ticks = _ticks(self.norm)
        bar = BAR + LETTER * max(map(len, self.ticks.values())) if self.first.hits else 0.0
        self.width = len(headings) * (PANEL + GAP) - GAP + bar
        heights = [PANEL * scene.image.shape[1] / scene.image.shape[2] for scene in scenes]
        columns = _columns([str(patch.get_label()) for patch in legend], self.width)
        below = LINE * math.ceil(len(legend) / columns) + 0.1
        self.height = HEADING + sum(heights) + CAPTION * len(scenes) + below
        self.figure = Figure(figsize=(self.width, self.height))
        top = self.height - HEADING
        for place, heading in enumerate(headings):
            middle = (place * (PANEL + GAP) + PANEL / 2) / self.width
            self.figure.text(middle, (top + 0.07) / self.height, heading, ha="center", va="bottom")
        for scene, height in zip(scenes, heights, strict=True):
            self._row(scene, top - height, height)
            top -= height + CAPTION
        if bar:
            self._scale(self.width - bar + 0.1, below + CAPTION, self.height - HEADING)
        self.figure.legend(
            handles=legend, loc="lower center", ncols=columns, frameon=False, fontsize=8.5,
            handlelength=1.3, handleheight=0.9, columnspacing=1.4, handletextpad=0.5, borderpad=0, borderaxespad=0,
        )  # fmt: skip

    def _row(self, scene: Scene, bottom: float, height: float) -> None:
        """The panels of one scene."""
        truth = _smaller(scene.truth, "nearest-exact").astype(int)
        seen = {arm: self.colours[_smaller(c, "nearest-exact").astype(int)] for arm, c in scene.predictions.items()}
        image = _smaller(scene.image, "area").round().astype(np.uint8).transpose(1, 2, 0)
        panels = [(image, ""), (_striped(self.colours[truth], truth == IGNORED), "")]
        panels += [(seen[arm], _right(scene, arm)) for arm in self.first.predictions]
        for arm in self.first.hits:
            hits, mass = scene.hits[arm], scene.mass[arm]
            faded = (255 * FADED + (1 - FADED) * seen[arm]).astype(np.uint8)
            faded[_smaller(hits, "max") > 0] = _channels(RED)
            panels.append((faded, f"{_percent(hits.double().mean().item())} of the pixels"))
            panels.append((_smaller(mass, "area"), f"mean {_percent(mass.double().mean().item())}"))
        for place, (pixels, caption) in enumerate(panels):
            axes = self._axes(place * (PANEL + GAP), bottom, PANEL, height)
            axes.imshow(pixels, interpolation="none", cmap=COLOUR_MAP, norm=None if pixels.ndim == 3 else self.norm)
            axes.set_aspect("auto")
            axes.text(0.5, -0.03 / height, caption, ha="center", va="top", fontsize=8, transform=axes.transAxes)

    def _scale(self, left: float, bottom: float, top: float) -> None:
        """What the colours of p_D mean, at the right of all rows, but no taller than is handsome."""
        tall = min(top - bottom, 2.4)
        axes = self._axes(left, (top + bottom - tall) / 2, 0.1, tall)
        axes.set_axis_on()
        bar = self.figure.colorbar(ScalarMappable(self.norm, COLOUR_MAP), cax=axes)
        bar.set_ticks(list(self.ticks))
        bar.set_ticklabels(list(self.ticks.values()))
        bar.minorticks_off()
        bar.outline.set(edgecolor=FAINT, linewidth=0.8)
        axes.tick_params(color=FAINT, labelcolor=INK, labelsize=8, width=0.8, length=2.5)

    def _axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """At a place in inches."""
        axes = self.figure.add_axes((left / self.width, bottom / self.height, width / self.width, height / self.height))
        axes.set_axis_off()
        return axes


def _legend(scenes: Sequence[Scene], class_names: Sequence[str], palette: np.ndarray) -> list[Patch]:
    """The classes that are somewhere in the pictures, stripes if anything is not labelled, red if there are dummies."""
    shown = torch.cat([mask.flatten().unique() for s in scenes for mask in (s.truth, *s.predictions.values())])
    present = set(shown.tolist())
    patches = [
        Patch(facecolor=palette[number] / 255.0, edgecolor=FAINT, linewidth=0.5, label=name)
        for number, name in enumerate(class_names)
        if number in present
    ]
    if IGNORED in present:
        patches.append(Patch(facecolor=LIGHT, edgecolor=DARK, hatch="/////", linewidth=0, label="not labelled"))
    if scenes[0].hits:
        patches.append(Patch(facecolor=RED, label="taken by a dummy"))
    return patches


def _columns(names: Sequence[str], width: float) -> int:
    """In how many columns the names of a legend find room; it is filled column by column, as evenly as can be."""
    for lines in range(1, len(names)):
        columns = math.ceil(len(names) / lines)
        least, longer = divmod(len(names), columns)
        ends = np.cumsum([least + (column < longer) for column in range(columns)])
        longest = [max(map(len, part)) for part in np.split(np.array(names, object), ends[:-1])]
        if sum(0.5 + 0.07 * length for length in longest) <= width:
            return columns
    return 1


def _mass_scale(scenes: Sequence[Scene]) -> LogNorm:
    """From nearly the smallest to the largest p_D that is drawn."""
    masses = [_smaller(mass, "area").ravel() for scene in scenes for mass in scene.mass.values()]
    drawn = np.concatenate(masses or [np.ones(1)])
    high = max(float(drawn.max()), 1e-9)
    low = max(float(np.quantile(drawn, 0.02)), high / 10**DECADES)
    return LogNorm(min(low, high / 4), high, clip=True)  # a round number is always between


def _ticks(norm: LogNorm) -> dict[float, str]:
    """The round numbers on the scale, as they are written."""
    low, high = float(norm.vmin or 0), float(norm.vmax or 1)
    round_ones = [digit * 10.0**power for power in range(-12, 1) for digit in (1, 3)]
    return {tick: _percent(tick, short=True) for tick in round_ones if low <= tick <= high}


def _right(scene: Scene, arm: str) -> str:
    labelled = scene.truth != IGNORED
    right = (scene.predictions[arm] == scene.truth)[labelled].double()
    return f"{100 * right.mean().item():.1f} % right" if len(right) else ""


def _percent(share: float, *, short: bool = False) -> str:
    """With two digits; short, for round numbers, without noughts at the end."""
    value = 100 * share
    if short or value == 0:
        return f"{round(value, 12):g} %"
    return f"{value:.{max(0, 1 - math.floor(math.log10(value)))}f} %" if value > 1e-6 else "< 10⁻⁶ %"


def _striped(pixels: np.ndarray, where: np.ndarray) -> np.ndarray:
    rows, columns = np.indices(where.shape)
    stripes = (rows + columns) // STRIPE % 2 == 0
    pixels[where & stripes], pixels[where & ~stripes] = _channels(LIGHT), _channels(DARK)
    return pixels


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


def _smaller(pixels: Tensor, mode: str) -> np.ndarray:
    """(…, H, W) as floats, at most so wide as a panel; of the mode `max`, the largest value that a pixel stands for."""
    height, width = pixels.shape[-2:]
    size = (height, width) if width <= WIDEST else (max(1, round(height * WIDEST / width)), WIDEST)
    planes = pixels.float().reshape(1, -1, height, width)
    small = F.adaptive_max_pool2d(planes, size) if mode == "max" else F.interpolate(planes, size, mode=mode)
    found: np.ndarray = small.reshape(*pixels.shape[:-2], *size).numpy()
    return found
