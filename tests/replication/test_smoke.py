"""Every row of every recipe runs end to end on tiny files of the true formats."""

import json
from pathlib import Path

import pytest

from durm.data import base_name
from durm.replication.recipe import load_recipe, recipe_ids
from tests.cli.calling import call
from tests.data.samples import SAMPLES, write_sample


@pytest.mark.slow
@pytest.mark.parametrize("name", recipe_ids())
def test_the_recipe_runs(name: str, tmp_path: Path) -> None:
    made = load_recipe(name)
    needed = {base_name(data) for row in made.rows for data in made.study_of(row, "smoke").data}
    for data in needed & SAMPLES.keys():
        write_sample(data, tmp_path / "data")
    answer = call("reproduce", name, "--scale", "smoke", "--json", "--out", tmp_path, "--data-root", tmp_path / "data")
    assert answer.code == 0, answer.err
    content = json.loads(answer.out)
    assert [row["row"] for row in content["rows"]] == [row.id for row in made.rows]
    for row in content["rows"]:
        ours = row["ours"]
        assert ours["done"] == ours["trials"] >= 2, row["row"]
        for setting in ours["settings"]:
            assert [arm["dummies"] for arm in setting["arms"]][:2] == [0, 1 if name == "ood" else 2]
        assert (tmp_path / row["row"] / "report.html").is_file()
        results = [json.loads(path.read_text()) for path in tmp_path.glob(f"{row['row']}/trials/*/result.json")]
        assert [result["cost"]["steps"] for result in results] == [2] * ours["trials"], row["row"]
