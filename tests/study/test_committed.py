"""The committed studies in results/: every row has the id of the trial that study.yaml describes."""

import csv
from pathlib import Path

import pytest

from durm.study.reading import read_study

STUDIES = sorted(path.parent for path in (Path(__file__).parents[2] / "results").glob("*/study.yaml"))


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_ids_are_those_of_the_study(folder: Path) -> None:
    study = read_study(folder / "study.yaml", of_folder=True)
    expected = {
        (f"{data} {model} {method}", arm, str(seed)): trial.id
        for (data, model, method, arm, seed), trial in study.cells()
    }
    rows = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    assert {(row["setting"], row["arm"], row["seed"]): row["trial"] for row in rows} == expected
    assert all(len(row["trial_v1"]) == 8 for row in rows if row.get("trial_v1"))
