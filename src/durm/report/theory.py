"""Theorems 1 and 2 for people: tables of numbers, and the three panels of Fig. 6 as one picture."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from durm._files import make_folder, write_whole
from durm.report.figures import COLOURS, _Panel, beside, drawing
from durm.theory import (
    Curves,
    difference_curves,
    distribution_curves,
    gradient_variance,
    minimum_probability,
    probability_curves,
    size_probability,
)

RATIOS = (1.1, 1.5, 2.0, 4.0)
STEPS = (1, 10, 100, 10**4, 10**6)
"""σ̂/σ and T of the table."""
EXAMPLE: dict[str, Any] = {"alpha": 0.9, "sigma_n": 0.1, "sigma_p": 0.3, "sigma_d": 0.05, "mu_n": 0.02, "mu_p": 0.8}
"""A class with a tenth of the samples, halfway through training: numbers to see Theorem 1 with, not measured ones."""
SAMPLES = 10**6


def theorem_1() -> dict[str, Any]:
    """D(g_c) and D(ĝ_c) of the example, in closed form and simulated."""
    return {
        "model": EXAMPLE,
        "closed_form": gradient_variance(**EXAMPLE)._asdict(),
        "simulated": {**gradient_variance(**EXAMPLE, samples=SAMPLES)._asdict(), "n": SAMPLES},
    }


def theorem_2(ratios: Sequence[float] = RATIOS, steps: Sequence[int] = STEPS) -> list[dict[str, Any]]:
    """A row for each ratio and number of steps: the probability of the minimum, and that of the smallest |g|."""
    return [
        {
            "ratio": ratio,
            "steps": step,
            "probability": minimum_probability(ratio, step),
            "size_probability": size_probability(ratio, step),
        }
        for ratio in ratios
        for step in steps
    ]


def write_theory(folder: Path, numbers: Mapping[str, Any]) -> list[Path]:
    """Writes theory.json (the numbers, and the curves of the figure), theory.csv (Theorem 2 alone) and the figure."""
    make_folder(folder)
    panels = {"a": distribution_curves(), "b": difference_curves(), "c": probability_curves()}
    curves = {name: {"x": c.x.tolist(), "y": c.y.tolist(), "values": c.values} for name, c in panels.items()}
    table = io.StringIO()
    writer = csv.DictWriter(table, list(numbers["theorem_2"][0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(numbers["theorem_2"])
    svg, png = draw_figure()
    files = {
        "theory.json": json.dumps({**numbers, "figure": curves}, indent=1, allow_nan=False).encode(),
        "theory.csv": table.getvalue().encode(),
        "theory.svg": svg.encode(),
        "theory.png": png,
    }
    for name, content in files.items():
        write_whole(folder / name, content)
    return [folder / name for name in files]


def draw_figure() -> tuple[str, bytes]:
    """Fig. 6 as SVG and as PNG, with one curve that the paper has not: panel (c) for the smallest |g|."""
    with drawing():
        return beside([_distributions, _differences, _probabilities], "theory")


def _distributions(panel: _Panel) -> None:
    curves = distribution_curves()
    _plot(panel, curves)
    panel.x_scale("(a)  gradient g, in units of σ of ERM")
    panel.y_scale("distribution function F(g)")
    panel.names(map(_spread, curves.values), "upper left")


def _differences(panel: _Panel) -> None:
    curves = difference_curves()
    _plot(panel, curves)
    panel.x_scale("(b)  gradient g, in units of σ of ERM")
    panel.y_scale("(1 − F̂(g)) − (1 − F(g))")
    panel.names(map(_spread, curves.values), "upper left")


def _probabilities(panel: _Panel) -> None:
    curves = probability_curves()
    most = int(curves.values[-1])
    _plot(panel, curves)
    panel.axes.plot(curves.x, size_probability(curves.x, most), color=COLOURS[len(curves.values)])
    panel.axes.set_ylim(0, 1.02)
    panel.x_scale("(c)  ratio of standard deviations, σ̂/σ", {ratio: str(ratio) for ratio in range(1, 5)})
    panel.y_scale("probability P(g₍₁₎ ≥ ĝ₍₁₎)")
    panel.names([*(f"T = {int(steps):,}" for steps in curves.values), f"of |g|, T = {most:,}"], "lower left")


def _plot(panel: _Panel, curves: Curves) -> None:
    for y, colour in zip(curves.y, COLOURS, strict=False):
        panel.axes.plot(curves.x, y, color=colour)


def _spread(ratio: float) -> str:
    return "σ of ERM" if ratio == 1 else f"σ̂ = {ratio:g} σ"
