"""The front door in a notebook: three lines to a verdict with table and figure."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FUNCTION = """
import random, durm
def train(seed, shift=0.0):
    return 90 + random.Random(seed).gauss(0, 1) + shift + random.Random(f"{seed} {shift}").gauss(0, 0.05)
result = durm.compare(train, arms={"base": {}, "trick": {"shift": 1.0}}, seeds=8, workers=2, quiet=True)
result
"""
LOOP = """
import durm
result = durm.compare(data="digits", model="mlp", dummies=[0, 2], seeds=2, epochs=1, workers=0, quiet=True)
result
"""
NUMBERS = """
import durm, pandas as pd
result = durm.verdict(pd.DataFrame({"base": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "trick": [3.1, 4.0, 5.2, 6.1, 7.0, 8.1]}))
result
"""


def output(client: NotebookClient, source: str) -> dict[str, Any]:
    """What a notebook shows below the cell."""
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    client.execute_cell(cell, len(client.nb.cells) - 1)
    (shown,) = [one for one in cell.outputs if one.output_type == "execute_result"]
    data: dict[str, Any] = shown["data"]
    return data


@pytest.mark.slow
def test_three_lines_to_a_verdict(tmp_path: Path) -> None:
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=600, resources={"metadata": {"path": tmp_path}})
    with client.setup_kernel():
        function, loop, numbers = (output(client, source) for source in (FUNCTION, LOOP, NUMBERS))
        table = output(client, "result.table()")
        figure = output(client, "result.figure()")
        page = output(client, "str(result.report('page').resolve())")["text/plain"].strip("'")
    for shown, arm in ((function, "trick"), (loop, "durm-2"), (numbers, "trick")):
        assert "<svg" in shown["text/html"]
        assert "<table" in shown["text/html"]
        assert arm in shown["text/html"]
        assert arm in shown["text/plain"]
    assert "better" in function["text/html"]
    assert "verdict" in table["text/html"]
    assert "image/png" in figure
    assert Path(page).is_file()
