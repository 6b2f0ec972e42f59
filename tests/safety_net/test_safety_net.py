"""Weights, summaries and pages stay what they were while the code around them is rebuilt.

`golden.json` was recorded with the commit before the rebuild, c654836, and again after two changes of names alone: arms
that count dummies are called after the objective, and some words of the pages changed. Weights and numbers stayed. Of
the study `probes` the curvature was recorded anew when Lanczos' method got a start that does not depend on the loss:
its values changed within their tolerance. The table of `all-domains` got a column for the worst domain.
`attacks` has `auto` as it was in version 1, which `target_classes: 0` is. `arms` got a warning, of a
warm-up that is longer than its training.

Bits hold for one processor and one version of torch, so elsewhere these tests are skipped; the pages
of the committed results hold everywhere.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durm.replication.study_index import study_folders
from tests.safety_net.recording import GOLDEN, machine, page, record

ALLOWED: dict[str, str] = {}
"""What was changed on purpose since: the path of a value in golden.json, without numbers of lists → why."""
RESULTS = Path(__file__).parents[2] / "results"

golden: dict[str, Any] = json.loads(GOLDEN.read_text())


@pytest.mark.skipif(machine() != golden["machine"], reason=f"bits were recorded on {golden['machine']}")
@pytest.mark.parametrize("name", golden["studies"])
def test_a_study_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    found = record(name, tmp_path)
    changes = [
        f"{path}: {old!r} became {new!r}"
        for path, old, new in differences(golden["studies"][name], found)
        if path not in ALLOWED
    ]
    assert not changes, "\n".join(changes[:20])


@pytest.mark.parametrize("folder", study_folders(RESULTS), ids=lambda folder: folder.name)
def test_the_page_of_a_committed_study_is_the_same(folder: Path) -> None:
    assert page(folder) == (folder / "report.md").read_text()


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two values differ. What is only in the new one is an addition, and no difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            yield from differences(value, new.get(key, "nothing"), f"{path}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            yield from differences(before, after, path)
    elif old != new:
        yield path, old, new


def test_differences_are_found() -> None:
    old = {"a": [1.0, {"b": 2}], "c": "word", "gone": 1}
    new = {"a": [1.0, {"b": 2.5, "more": 1}], "c": "words"}
    assert [*differences(old, new)] == [("a.b", 2, 2.5), ("c", "word", "words"), ("gone", 1, "nothing")]
