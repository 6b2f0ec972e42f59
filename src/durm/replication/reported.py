"""What the paper reports: every number of its tables, from reported.json."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def reported() -> dict[str, Any]:
    """The whole file: tables, numbers in the text, and where the paper contradicts itself."""
    content: dict[str, Any] = json.loads(files("durm.replication").joinpath("reported.json").read_text())
    return content


def reported_cells(table: int, **where: Any) -> list[dict[str, Any]]:
    """The cells of a table that have those values; what the paper derived from other cells only if asked for."""
    where = {"derived": None, **where}
    cells = reported()["tables"][str(table)]["cells"]
    return [cell for cell in cells if all(cell.get(key) == value for key, value in where.items())]


def reported_number(name: str) -> float:
    """A number of the text, by its id: `wins` is 39."""
    return float(next(entry["value"] for entry in reported()["text"] if entry["id"] == name))
