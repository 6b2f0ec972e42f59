import json
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture
def growth(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("growth")


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_slope_is_the_power(growth, power):
    sizes = (10, 100, 1000)
    assert growth.fitted_slope(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


def test_what_grows_faster_than_in_proportion_does_not_hold(growth):
    sizes = (10, 100, 1000)
    assert growth.Result("x", "seconds", sizes, (1, 10, 100)).holds
    assert not growth.Result("x", "seconds", sizes, (1, 100, 10_000)).holds
    assert not growth.Result("x", "seconds", sizes, (1, 1.1, 30)).holds  # the last tenfold
    assert growth.Result("x", "seconds", sizes, (1e-6, 1e-4, 1e-2)).holds  # too short to tell
    assert not growth.Result("x", "page_bytes", sizes, (1, 10, 2e7)).holds


@pytest.mark.slow
def test_every_case_is_measured_and_written(growth, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(growth, "LIMIT", 9.0)
    monkeypatch.setattr(growth, "SIZES", {"classes": (10, 20), "trials": (12, 24), "images": (40, 80)})
    out = tmp_path / "growth.json"
    assert growth.main(["--out", str(out)]) == 0
    found = {(one["case"], one["what"]) for one in json.loads(out.read_text())["results"]}
    assert {("classes: a trial", "seconds"), ("trials: page", "page_bytes"), ("images: hash", "megabytes")} <= found
    assert "images: load again" in capsys.readouterr().out
