"""Every row of every recipe runs end to end on generated files of the true formats."""

import json
import time
from pathlib import Path

import pytest

from durm.paper.recipe import load_recipe, recipe_ids
from tests.cli.calling import call

MINUTES = {"classification": 2.0, "ood": 2.0}
"""How long a recipe may take; one minute unless it is said here. Other work on the machine is not counted."""


@pytest.mark.slow
@pytest.mark.parametrize("name", recipe_ids())
def test_the_recipe_runs(name: str, tmp_path: Path) -> None:
    started = time.process_time()
    answer = call("reproduce", name, "--scale", "smoke", "--json", "--out", tmp_path)
    assert answer.code == 0, answer.err
    assert time.process_time() - started < 60 * MINUTES.get(name, 1.0)
    content = json.loads(answer.out)
    assert [row["row"] for row in content["rows"]] == [row.id for row in load_recipe(name).rows]
    for row in content["rows"]:
        ours = row["ours"]
        assert ours["done"] == ours["trials"] >= 2, row["row"]
        for setting in ours["settings"]:
            assert [arm["dummies"] for arm in setting["arms"]][:2] == [0, 1 if name == "ood" else 2]
        assert (tmp_path / row["row"] / "report.html").is_file()
