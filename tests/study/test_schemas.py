"""The published JSON schemas are those of the records, and every file that is written or committed fits them."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from durm.replication.study_index import study_folders
from durm.study.records import SCHEMA_VERSION, Summary
from durm.study.store import read_summary
from durm.training.result import Result
from tests.study import synthetic

ROOT = Path(__file__).parents[2]
VERSION_1 = Path(__file__).parent / "version1"


def published() -> dict[str, str]:
    spec = spec_from_file_location("schemas", ROOT / "docs" / "schemas.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.schemas()
    return found


@pytest.mark.parametrize(("name", "content"), published().items())
def test_the_published_schema_is_that_of_the_records(name: str, content: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text() == content, "run `make schemas`"


def test_what_is_written_says_its_version_and_reads_back(tmp_path: Path) -> None:
    from durm.study.summary import read_results, write_summary

    store = synthetic.store(tmp_path, lambda trial: 90.0 + trial.seed + trial.dummies, dummies=[0, 1], seeds=6)
    summary = write_summary(store, read_results(store))
    content = json.loads((tmp_path / "summary.json").read_text())
    assert content["schema_version"] == SCHEMA_VERSION
    assert read_summary(tmp_path / "summary.json") == summary


@pytest.mark.parametrize("path", sorted(VERSION_1.rglob("summary.json")), ids=lambda path: path.parent.name)
def test_summaries_of_version_1_are_read(path: Path) -> None:
    """Every number that is in the file is in the record."""
    content = json.loads(path.read_text())
    assert "schema_version" not in content
    summary = read_summary(path)
    assert summary.schema_version == 1
    assert missing(content, summary.as_json()) == []


@pytest.mark.parametrize("path", sorted(VERSION_1.rglob("result.json")), ids=lambda path: path.parent.name)
def test_results_of_version_1_are_read(path: Path) -> None:
    content = json.loads(path.read_text())
    result = Result.model_validate(content)
    assert result.schema_version == 1
    assert missing(content, result.model_dump(mode="json")) == []


@pytest.mark.parametrize("folder", study_folders(ROOT / "results"), ids=lambda folder: folder.name)
def test_committed_summaries_are_read(folder: Path) -> None:
    path = folder / "summary.json"
    assert missing(json.loads(path.read_text()), read_summary(path).as_json()) == []


def test_names_of_later_versions_are_passed_over() -> None:
    content = json.loads((VERSION_1 / "whole" / "summary.json").read_text())
    later = {**content, "schema_version": 99, "brand_new": {"a": 1}}
    later["settings"] = [{**setting, "brand_new": 1} for setting in later["settings"]]
    assert Summary.model_validate(later).settings == Summary.model_validate(content).settings


def missing(old: Any, new: Any, path: str = "") -> list[str]:
    """Where the old value is not found in the new one."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [place for key, value in old.items() for place in missing(value, new.get(key), f"{path}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [place for one, other in zip(old, new, strict=True) for place in missing(one, other, path)]
    return [] if old == new else [f"{path}: {old!r} became {new!r}"]
