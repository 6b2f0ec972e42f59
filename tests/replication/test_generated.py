"""What is generated from results/ is what the committed results give, and no study is there twice."""

from pathlib import Path
from types import ModuleType

import pytest

from durm.replication.study_index import read_evidence, study_folders
from tests.replication.planted import gain, study
from tests.replication.scripts import DOCS, load_script

ROOT = DOCS.parent

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the documentation is not here")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("claims")


def test_the_committed_pages_are_what_the_committed_results_give(script: ModuleType) -> None:
    stale = [path.name for path, content in script.generated().items() if path.read_text() != content]
    assert stale == [], "run `make claims`"


def test_superseded_studies_are_removed() -> None:
    twice = [path.name for path in (ROOT / "results" / "studies").iterdir() if (ROOT / "results" / path.name).is_dir()]
    assert twice == [], "results/studies has a newer one: git rm -r results/NAME, then `make claims`"


def test_a_study_in_studies_supersedes_its_namesake(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(0.0))
    study(tmp_path, "two", gain(0.0))
    study(tmp_path / "studies", "one", gain(0.0), seeds=8)
    assert study_folders(tmp_path) == [tmp_path / "studies" / "one", tmp_path / "two"]
    assert {(one.study, len(one.spec.seeds)) for one in read_evidence(tmp_path).settings} == {("one", 8), ("two", 6)}


def test_rows_of_studies(script: ModuleType, tmp_path: Path) -> None:
    study(tmp_path / "studies", "one", gain(2.0, 0.0), dummies=[0, 2])
    study(tmp_path, "two", gain(0.0))
    (row,) = script.study_rows(tmp_path).splitlines()[2:]
    assert row.startswith("| `one` | digits, cnn; arms erm, durm-2; epochs 20 | 6 pairs | ")
    assert "| durm-2 +2.000000 (+1.999957 … +2.000043) better, at 79.00 % |" in row


def test_a_part_between_marks_is_replaced(script: ModuleType) -> None:
    text = "a\n<!-- x: by make -->\nold\n<!-- end of x -->\nb\n"
    assert script.with_part(text, "x", "new\n") == "a\n<!-- x: by make -->\nnew\n<!-- end of x -->\nb\n"
    with pytest.raises(AssertionError, match="no part called y"):
        script.with_part(text, "y", "")
