"""Pictures of segmented scenes, as in Fig. 7 of the paper: what is there, what each arm sees, what the dummies take."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor, nn

from durm.data.bundle import IGNORED, DataBundle, Samples
from durm.evaluation.segmentation import Size, real_classes, segment
from durm.heads import dummies
from durm.report.figures import FAINT, INK, _short, drawing
from durm.scores import dummy_hits, dummy_mass

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

Palette = Sequence[Sequence[int]]
"""Red, green and blue of each class, 0 to 255."""


@dataclass(frozen=True)
class Scene:
    """An image and what models make of it.

    Attributes:
        image: raw, uint8 (3, H, W).
        truth: the classes, (H, W); `IGNORED` where there is none.
        predictions: for each arm the class of each pixel, (H, W).
        hits: for each arm with dummies, where one of them has the largest logit; bool (H, W).
        mass: for each arm with dummies p_D, (H, W).
    """

    image: Tensor
    truth: Tensor
    predictions: Mapping[str, Tensor]
    hits: Mapping[str, Tensor] = field(default_factory=dict)
    mass: Mapping[str, Tensor] = field(default_factory=dict)


def picture_scene(
    models: Mapping[str, nn.Module],
    samples: Samples,
    index: int,
    bundle: DataBundle,
    *,
    device: torch.device | None = None,
    window: Size | None = None,
    stride: Size | None = None,
) -> Scene:
    """One sample as the models of several arms see it. They are left in eval mode.

    `window` and `stride` are those of `durm.evaluation.segmentation.segment`.
    """
    if samples.masks is None:
        raise ValueError("these samples have no masks, so there is no truth to picture")
    raw, classes = samples.inputs[index], bundle.num_classes
    image = bundle.input.normalise(raw).to(device or torch.device("cpu"))
    logits = {arm: segment(model, image, window=window, stride=stride).cpu() for arm, model in models.items()}
    widened = [arm for arm, model in models.items() if dummies(model)]
    return Scene(
        image=raw,
        truth=samples.masks[index],
        predictions={arm: real_classes(z, classes) for arm, z in logits.items()},
        hits={arm: dummy_hits(logits[arm], classes, dim=0) for arm in widened},
        mass={arm: dummy_mass(logits[arm], classes, dim=0) for arm in widened},
    )


def draw_scenes(
    scenes: Sequence[Scene], class_names: Sequence[str], palette: Palette, name: str = "scenes"
) -> tuple[str, bytes]:
    """The picture of `scene_figure` as SVG and as PNG. The name keeps the ids of several figures on a page apart."""
    figure = scene_figure(scenes, class_names, palette)
    svg, png = io.StringIO(), io.BytesIO()
    with drawing():
        matplotlib.rcParams["svg.hashsalt"] = name
        vector: Any = FigureCanvasSVG(figure)
        vector.print_svg(svg, metadata={"Date": None, "Creator": None})
        figure.set_dpi(WIDEST / PANEL)
        figure.patch.set(visible=True, facecolor="white")
        raster: Any = FigureCanvasAgg(figure)
        raster.print_png(png, metadata={"Software": ""})
    return svg.getvalue(), png.getvalue()


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
        self.colours = _by_class(palette)
        self.first, self.norm = scenes[0], _mass_scale(scenes)
        legend = _legend(scenes, class_names, palette)
        headings = self._headings()
        self.ticks = _ticks(self.norm)
        bar = BAR + LETTER * max(map(len, self.ticks.values())) if self.first.hits else 0.0
        self.width = len(headings) * (PANEL + GAP) - GAP + bar
        heights = [PANEL * scene.image.shape[1] / scene.image.shape[2] for scene in scenes]
        columns = _columns([str(patch.get_label()) for patch in legend], self.width)
        below = LINE * math.ceil(len(legend) / columns) + 0.1
        self.height = HEADING + sum(heights) + CAPTION * len(scenes) + below
        self.figure = Figure(figsize=(self.width, self.height))
        self.figure.patch.set_visible(False)
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

    def _headings(self) -> list[str]:
        """As `_row` fills the columns."""
        taken = [f"{_short(arm)}, {what}" for arm in self.first.hits for what in ("dummies red", "dummy mass")]
        return ["image", "truth", *map(_short, self.first.predictions), *taken]

    def _row(self, scene: Scene, bottom: float, height: float) -> None:
        """The panels of one scene."""
        truth = _smaller_classes(scene.truth)
        panels = [(_smaller_image(scene.image), ""), (_striped(self.colours[truth], truth == IGNORED), "")]
        for arm in self.first.predictions:
            panels.append((self.colours[_smaller_classes(scene.predictions[arm])], _right(scene, arm)))
        for arm in self.first.hits:
            hits, mass = scene.hits[arm], scene.mass[arm]
            faded = _faded(self.colours[_smaller_classes(scene.predictions[arm])])
            faded[_smaller_hits(hits)] = _channels(RED)
            panels.append((faded, f"{_percent(hits.double().mean().item())} of the pixels"))
            panels.append((_smaller_mass(mass), f"mean {_percent(mass.double().mean().item())}"))
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
    masses = [_smaller_mass(mass).ravel() for scene in scenes for mass in scene.mass.values()]
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


def _by_class(palette: np.ndarray) -> np.ndarray:
    """A colour for every value of a mask, (256, 3); values that are no class are black."""
    colours = np.zeros((256, 3), np.uint8)
    colours[: len(palette)] = palette
    return colours


def _striped(pixels: np.ndarray, where: np.ndarray) -> np.ndarray:
    rows, columns = np.indices(where.shape)
    stripes = (rows + columns) // STRIPE % 2 == 0
    pixels[where & stripes], pixels[where & ~stripes] = _channels(LIGHT), _channels(DARK)
    return pixels


def _faded(pixels: np.ndarray) -> np.ndarray:
    faded: np.ndarray = (255 * FADED + (1 - FADED) * pixels).astype(np.uint8)
    return faded


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


def _smaller_image(image: Tensor) -> np.ndarray:
    """(h, w, 3)."""
    small = F.interpolate(image[None].float(), _size(image), mode="area")[0]
    pixels: np.ndarray = small.round().byte().permute(1, 2, 0).numpy()
    return pixels


def _smaller_classes(mask: Tensor) -> np.ndarray:
    small: np.ndarray = F.interpolate(mask[None, None].float(), _size(mask), mode="nearest-exact")[0, 0].long().numpy()
    return small


def _smaller_hits(hits: Tensor) -> np.ndarray:
    """Where there is a hit at all."""
    small: np.ndarray = (F.adaptive_max_pool2d(hits[None].float(), _size(hits))[0] > 0).numpy()
    return small


def _smaller_mass(mass: Tensor) -> np.ndarray:
    small: np.ndarray = F.interpolate(mass[None, None].float(), _size(mass), mode="area")[0, 0].numpy()
    return small


def _size(picture: Tensor) -> Size:
    height, width = picture.shape[-2:]
    return (height, width) if width <= WIDEST else (max(1, round(height * WIDEST / width)), WIDEST)
