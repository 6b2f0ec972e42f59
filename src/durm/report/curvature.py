"""Flatness for people: the numbers of both losses as a table, and the loss along two directions as one picture."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from durm._files import write_files
from durm.curvature import KINDS, Density
from durm.report.figures import COLOURS, FAINT, drawing, side_by_side

AXES = {
    "random": "distance along a random direction, in ‖w‖",
    "gradient": "distance along the gradient, in ‖w‖",
}
CURVES = {"real": ("real logits", "-"), "training": ("all logits", "--")}
"""Name and style: without dummies the two lie on each other."""
SMEARED = 0.01
"""The standard deviation to which an eigenvalue is smeared in the density, as a share of the range."""
ROOM = 20
"""Where a loss rises to more than so many times its least value, the rest of the curve would have no room."""


def flatness_table(record: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a row for each quantity, a column for each loss."""
    columns = [_quantities(record[kind]) for kind in KINDS]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return [f"n = {record['samples']:,}", *(f"{kind} loss" for kind in KINDS)], rows


def _quantities(shape: Mapping[str, Any]) -> dict[str, str]:
    eigenvalues, stability = shape["eigenvalues"], shape["stability"]
    within = f"within {100 * stability['radius']:g} % of each filter"
    return {
        "weights": f"{shape['weights']:,}",
        "loss": _number(shape["loss"]),
        "norm of the gradient": _number(shape["gradient_norm"]),
        **_eigenvalues("eigenvalue", eigenvalues),
        **_bound("no larger one than, 99 % sure", eigenvalues),
        "converged": _converged(eigenvalues),
        **_smallest(shape.get("smallest")),
        "trace": _with_error(shape["trace"], "value"),
        f"worst rise {within}": _number(stability["worst"]),
        f"mean rise {within}": _with_error(stability, "mean"),
    }


def _eigenvalues(name: str, found: Mapping[str, Any]) -> dict[str, str]:
    pairs = zip(found["values"], found["residuals"], strict=True)
    return {
        f"{name} {index}": f"{_number(value)} (residual {_number(residual, 2)})"
        for index, (value, residual) in enumerate(pairs, 1)
    }


def _bound(name: str, found: Mapping[str, Any]) -> dict[str, str]:
    return {name: _number(found["bound"])} if "bound" in found else {}  # records of version 1 have none


def _converged(found: Mapping[str, Any]) -> str:
    return f"{'yes' if found['converged'] else 'NO'}, {found['products']} products"


def _smallest(found: Mapping[str, Any] | None) -> dict[str, str]:
    if found is None:
        return {}
    bound = _bound("no smaller one than, 99 % sure", found)
    return {**_eigenvalues("smallest eigenvalue", found), **bound, "smallest: converged": _converged(found)}


def write_flatness(folder: Path, record: Mapping[str, Any]) -> list[Path]:
    """Writes flatness.json and the figure, flatness.svg and flatness.png; with a density, a figure of it too."""
    figures = {"flatness": draw_paths(record)}
    if record["real"]["density"] is not None:
        figures["density"] = draw_density(record)
    files = {"flatness.json": json.dumps(record, indent=1, allow_nan=False).encode()}
    for name, (svg, png) in figures.items():
        files |= {f"{name}.svg": svg.encode(), f"{name}.png": png}
    return write_files(folder, files)


def draw_density(record: Mapping[str, Any]) -> tuple[str, bytes]:
    """The density of the eigenvalues for each loss, as SVG and as PNG."""
    with drawing():
        return side_by_side([partial(_draw_density, shape=record[kind], kind=kind) for kind in KINDS], "density")


def _draw_density(axes: Axes, shape: Mapping[str, Any], kind: str) -> None:
    found = Density(**shape["density"])
    low, high = min(map(min, found.nodes)), max(map(max, found.nodes))
    width = SMEARED * (high - low) or 1.0
    points = np.linspace(low - 5 * width, high + 5 * width, 500)
    # The least of the scale is a hundredth of one weight, so that single eigenvalues are visible among millions.
    least = 0.01 / (shape["weights"] * width)
    axes.semilogy(points, np.maximum(found.at(points.tolist(), width), least), color=COLOURS[0])
    axes.set(xlabel=f"eigenvalue, {CURVES[kind][0]}", ylabel="density", ylim=(least, None))


def draw_paths(record: Mapping[str, Any]) -> tuple[str, bytes]:
    """Both losses along each direction, as SVG and as PNG."""
    with drawing():
        return side_by_side([partial(_draw, path=path) for path in record["paths"]], "flatness")


def _draw(axes: Axes, path: Mapping[str, Any]) -> None:
    curves = [np.array(path[kind], dtype=float) for kind in CURVES]
    axes.axvline(0, color=FAINT, linewidth=0.8)
    for curve, (name, style), colour in zip(curves, CURVES.values(), COLOURS, strict=False):
        axes.plot(path["distances"], curve, style, color=colour, label=name)
    axes.set(ylim=_limits(curves), xlabel=AXES[path["direction"]], ylabel="loss")
    axes.locator_params(nbins=5)
    axes.legend()


def _limits(curves: Sequence[np.ndarray]) -> tuple[float, float]:
    """From below the least value to the greatest, or to where the steep part begins."""
    values = np.concatenate(curves)
    values = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    low, high = values.min(), values.max()
    high = min(high, max(ROOM * low, 3.0))
    margin = 0.05 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def _with_error(found: Mapping[str, Any], name: str) -> str:
    return f"{_number(found[name])} ± {_number(found['standard_error'], 2)}"


def _number(value: float | None, digits: int = 4) -> str:
    return "not finite" if value is None else f"{value:.{digits}g}".replace("-", "−")
