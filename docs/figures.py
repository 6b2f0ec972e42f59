"""The drawings of the documentation, as SVG files in docs/images: `make figures`."""

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

matplotlib.rcParams |= {"svg.hashsalt": "durm", "font.size": 10, "svg.fonttype": "path"}
IMAGES = Path(__file__).parent / "images"
ROPE = 0.1
CASES = [
    ("better", 0.34, 0.14, "#2b7a3f"),
    ("worse", -0.36, 0.17, "#a8322d"),
    ("equal", 0.015, 0.06, "#2a5d9c"),
    ("undecided: it crosses the margin", 0.16, 0.17, "#666666"),
    ("undecided: too wide to tell", 0.02, 0.31, "#666666"),
]


def verdict_cases(axes: Axes) -> None:
    """Where the interval lies, and which word that is."""
    axes.axvspan(-ROPE, ROPE, color="#dddddd", zorder=0)
    axes.axvline(0, color="#999999", linewidth=0.8, zorder=1)
    for row, (word, middle, half, colour) in enumerate(CASES):
        axes.errorbar(middle, -row, xerr=half, fmt="o", color=colour, capsize=3, linewidth=2)
        axes.text(0.62, -row, word, va="center", color=colour)
    axes.text(0, 0.75, "equivalence margin ±rope", ha="center", va="bottom", color="#555555", fontsize=9)
    axes.set(xlim=(-0.6, 1.35), ylim=(-len(CASES) + 0.4, 1.2), yticks=[], xticks=[-0.4, -0.2, 0, 0.2, 0.4])
    axes.set_xlabel("difference from the baseline, points", loc="left")
    axes.spines[["left", "right", "top"]].set_visible(False)


def main() -> None:
    figure = Figure(figsize=(7, 2.8), layout="constrained")
    verdict_cases(figure.add_subplot())
    figure.savefig(IMAGES / "verdict.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
