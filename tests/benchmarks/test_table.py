import json
from importlib import import_module
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("table")


def test_a_row_has_ratio_interval_number_hardware_and_commit(table, tmp_path, capsys):
    about = {"cpu": "Z80", "threads": 1, "cores": 2, "date": "2026-01-02", "commit": "abc1234"}
    ratio = {"case": "ours / theirs", "pairs": 9, "ratio": 0.5, "low": 0.4, "high": 0.625, "limit": 1.0, "holds": False}
    slope = {"case": "trials: page", "what": "seconds", "values": {"10": 1.0, "100": 9.0}, "slope": 0.95, "last": 0.97}
    path = tmp_path / "speed.json"
    path.write_text(json.dumps({"provenance": about, "results": [ratio, slope]}))
    assert table.main([str(path)]) == 0
    first, second = (line.split("  ") for line in capsys.readouterr().out.splitlines()[2:])
    cells = [cell.strip() for cell in first if cell.strip()]
    expected = ["speed", "ours / theirs", "0.5", "0.4 … 0.625", "9", "1", "NO", "Z80, 2 cores, threads: 1"]
    assert cells == [*expected, "abc1234", "2026-01-02"]
    assert "slope 0.97" in [cell.strip() for cell in second]


def test_every_benchmark_in_results_has_rows(table, capsys):
    assert table.main([]) == 0
    shown = {line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]}
    with_results = [path for path in RESULTS.glob("*.json") if "results" in json.loads(path.read_text())]
    assert shown == {path.stem for path in with_results}
