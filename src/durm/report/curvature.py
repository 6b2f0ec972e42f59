"""Flatness for people: the numbers of both losses as a table, and the loss along two directions as one picture."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from durm._files import write_files
from durm.curvature import KINDS
from durm.report.figures import COLOURS, FAINT, drawing, side_by_side

AXES = {
    "random": "distance along a random direction, in ‖w‖",
    "gradient": "distance along the gradient, in ‖w‖",
}
CURVES = {"real": ("real logits", "-"), "training": ("all logits", "--")}
"""Name and style: without dummies the two lie on each other."""
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
    pairs = zip(eigenvalues["values"], eigenvalues["residuals"], strict=True)
    return {
        "weights": f"{shape['weights']:,}",
        "loss": _number(shape["loss"]),
        "norm of the gradient": _number(shape["gradient_norm"]),
        **{
            f"eigenvalue {index}": f"{_number(value)} (residual {_number(residual, 2)})"
            for index, (value, residual) in enumerate(pairs, 1)
        },
        "converged": f"{'yes' if eigenvalues['converged'] else 'NO'}, {eigenvalues['products']} products",
        "trace": _with_error(shape["trace"], "value"),
        f"worst rise {within}": _number(stability["worst"]),
        f"mean rise {within}": _with_error(stability, "mean"),
    }


def write_flatness(folder: Path, record: Mapping[str, Any]) -> list[Path]:
    """Writes flatness.json and the figure, flatness.svg and flatness.png."""
    svg, png = draw_paths(record)
    content = json.dumps(record, indent=1, allow_nan=False).encode()
    return write_files(folder, {"flatness.json": content, "flatness.svg": svg.encode(), "flatness.png": png})


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
