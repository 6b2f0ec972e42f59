"""Theorems 1 and 2 for people: tables of numbers, and the three panels of Fig. 6 as one picture."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from durm._files import write_files
from durm._text import as_csv
from durm.report.figures import COLOURS, drawing, side_by_side
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


def theory_tables(numbers: Mapping[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, headings and rows of each table: Theorem 2 twice, by the ratio and the number of steps, and Theorem 1."""
    questions = {
        "probability": "Theorem 2: how often is the smallest of T gradients smaller with dummies, P(g₍₁₎ ≥ ĝ₍₁₎)?",
        "size_probability": "And the one that is nearest to zero, P(min |g| ≥ min |ĝ|)?",
    }
    steps = dict.fromkeys(row["steps"] for row in numbers["theorem_2"])
    for key, question in questions.items():
        table: dict[str, list[str]] = {}
        for row in numbers["theorem_2"]:
            table.setdefault(f"{row['ratio']:g}", []).append(f"{row[key]:.6f}")
        yield question, ["ratio", *(f"T = {step:,}" for step in steps)], [[name, *row] for name, row in table.items()]
    first = numbers["theorem_1"]
    model = ", ".join(f"{name} = {value:g}" for name, value in first["model"].items())
    found = {"closed form": first["closed_form"], f"simulated, n = {first['simulated']['n']:,}": first["simulated"]}
    rows = [[name, f"{value['erm']:.6f}", f"{value['durm']:.6f}"] for name, value in found.items()]
    yield f"\nTheorem 1: the variance of a class's gradient, if {model}", ["", "ERM", "with dummies"], rows


def write_theory(folder: Path, numbers: Mapping[str, Any]) -> list[Path]:
    """Writes theory.json (the numbers, and the curves of the figure), theory.csv (Theorem 2 alone) and the figure."""
    panels = {"a": distribution_curves(), "b": difference_curves(), "c": probability_curves()}
    curves = {name: {"x": c.x.tolist(), "y": c.y.tolist(), "values": c.values} for name, c in panels.items()}
    svg, png = draw_figure()
    files = {
        "theory.json": json.dumps({**numbers, "figure": curves}, indent=1, allow_nan=False).encode(),
        "theory.csv": as_csv(numbers["theorem_2"]).encode(),
        "theory.svg": svg.encode(),
        "theory.png": png,
    }
    return write_files(folder, files)


def draw_figure() -> tuple[str, bytes]:
    """Fig. 6 as SVG and as PNG, with one curve that the paper has not: panel (c) for the smallest |g|."""
    with drawing():
        return side_by_side([_distributions, _differences, _probabilities], "theory")


def _distributions(axes: Axes) -> None:
    _plot_spread(axes, distribution_curves(), "(a)", "distribution function F(g)")


def _differences(axes: Axes) -> None:
    _plot_spread(axes, difference_curves(), "(b)", "(1 − F̂(g)) − (1 − F(g))")


def _plot_spread(axes: Axes, curves: Curves, panel: str, label: str) -> None:
    _plot(axes, curves, lambda ratio: "σ of ERM" if ratio == 1 else f"σ̂ = {ratio:g} σ")
    axes.set(xlabel=f"{panel}  gradient g, in units of σ of ERM", ylabel=label)
    axes.legend(loc="upper left")


def _probabilities(axes: Axes) -> None:
    curves = probability_curves()
    most = int(curves.values[-1])
    _plot(axes, curves, lambda steps: f"T = {int(steps):,}")
    of_size = size_probability(curves.x, most)
    axes.plot(curves.x, of_size, color=COLOURS[len(curves.values)], label=f"of |g|, T = {most:,}")
    axes.set(ylim=(0, 1.02), xlabel="(c)  ratio of standard deviations, σ̂/σ", ylabel="probability P(g₍₁₎ ≥ ĝ₍₁₎)")
    axes.legend(loc="lower left")


def _plot(axes: Axes, curves: Curves, name: Callable[[float], str]) -> None:
    for y, value, colour in zip(curves.y, curves.values, COLOURS, strict=False):
        axes.plot(curves.x, y, color=colour, label=name(value))
