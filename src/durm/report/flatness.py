"""Flatness for people: the numbers of both losses as a table, and the loss along two directions as one picture."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from durm._files import make_folder, write_whole
from durm.flatness import KINDS
from durm.report.figures import COLOURS, FAINT, _Panel, beside, drawing

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
    shapes = [record[kind] for kind in KINDS]
    within = f"within {100 * shapes[0]['stability']['radius']:g} % of each filter"
    quantities: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "weights": lambda shape: f"{shape['weights']:,}",
        "loss": lambda shape: _number(shape["loss"]),
        "norm of the gradient": lambda shape: _number(shape["gradient_norm"]),
        **{
            f"eigenvalue {index + 1}": partial(_eigenvalue, index=index)
            for index in range(len(shapes[0]["eigenvalues"]["values"]))
        },
        "converged": lambda shape: _converged(shape["eigenvalues"]),
        "trace": lambda shape: _with_error(shape["trace"], "value"),
        f"worst rise {within}": lambda shape: _number(shape["stability"]["worst"]),
        f"mean rise {within}": lambda shape: _with_error(shape["stability"], "mean"),
    }
    rows = [[name, *(write(shape) for shape in shapes)] for name, write in quantities.items()]
    return [f"n = {record['samples']:,}", *(f"{kind} loss" for kind in KINDS)], rows


def write_flatness(folder: Path, record: Mapping[str, Any]) -> list[Path]:
    """Writes flatness.json and the figure, flatness.svg and flatness.png."""
    make_folder(folder)
    svg, png = draw_paths(record)
    files = {
        "flatness.json": json.dumps(record, indent=1, allow_nan=False).encode(),
        "flatness.svg": svg.encode(),
        "flatness.png": png,
    }
    for name, content in files.items():
        write_whole(folder / name, content)
    return [folder / name for name in files]


def draw_paths(record: Mapping[str, Any]) -> tuple[str, bytes]:
    """Both losses along each direction, as SVG and as PNG."""
    with drawing():
        return beside([partial(_draw, path=path) for path in record["paths"]], "flatness")


def _draw(panel: _Panel, path: Mapping[str, Any]) -> None:
    curves = [np.array(path[kind], dtype=float) for kind in CURVES]
    panel.axes.axvline(0, color=FAINT, linewidth=0.8)
    for curve, (_, style), colour in zip(curves, CURVES.values(), COLOURS, strict=False):
        panel.axes.plot(path["distances"], curve, style, color=colour)
    panel.axes.set_ylim(*_limits(curves))
    panel.x_scale(AXES[path["direction"]])
    panel.y_scale("loss")
    panel.names([name for name, _ in CURVES.values()], "upper left")


def _limits(curves: Sequence[np.ndarray]) -> tuple[float, float]:
    """From below the least value to the greatest, or to where the steep part begins."""
    values = np.concatenate(curves)
    values = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    low, high = values.min(), values.max()
    high = min(high, max(ROOM * low, 3.0))
    margin = 0.05 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def _eigenvalue(shape: Mapping[str, Any], index: int) -> str:
    value, residual = (shape["eigenvalues"][name][index] for name in ("values", "residuals"))
    return f"{_number(value)} (residual {_number(residual, 2)})"


def _converged(found: Mapping[str, Any]) -> str:
    return f"{'yes' if found['converged'] else 'NO'}, {found['products']} products"


def _with_error(found: Mapping[str, Any], name: str) -> str:
    return f"{_number(found[name])} ± {_number(found['standard_error'], 2)}"


def _number(value: float | None, digits: int = 4) -> str:
    return "not finite" if value is None else f"{value:.{digits}g}".replace("-", "−")
