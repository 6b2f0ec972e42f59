import json
from importlib import import_module
from pathlib import Path

import pytest

from durm.data import manifest


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.setenv("DURM_CACHE", str(tmp_path / "cache"))  # which main() sets to a folder of its own
    monkeypatch.setattr(manifest, "FRESH_NANOSECONDS", 0)
    return import_module("manifest")


def test_both_cases_are_measured_and_written(benchmark, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "LIMIT", 1e9)
    out = tmp_path / "manifest.json"
    assert benchmark.main(["--files", "20", "--pairs", "6", "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    assert record["files"] == 20
    assert [one["case"] for one in record["results"]] == [
        "20 files: first / reading",
        "20 files: second / listing and stat",
    ]
    for one in record["results"]:
        assert one["low"] <= one["ratio"] <= one["high"]
    assert {"durm", "torch", "python", "cpu", "date"} <= set(record["provenance"])
    assert "first / reading" in capsys.readouterr().out


def test_exit_code_is_1_where_a_limit_does_not_hold(benchmark, monkeypatch):
    monkeypatch.setattr(benchmark, "LIMIT", 0.0)
    assert benchmark.main(["--files", "5", "--pairs", "6"]) == 1


def test_what_the_manifest_is_timed_against_touches_every_file(benchmark, tmp_path):
    benchmark.make_files(tmp_path / "data", 12)
    assert benchmark.read_all(tmp_path / "data") == benchmark.list_all(tmp_path / "data") == 12 * benchmark.FILE_BYTES
    assert manifest.manifest_of_files(tmp_path / "data").files == 12
