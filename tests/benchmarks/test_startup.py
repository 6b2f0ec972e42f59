import json
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

import durm


@pytest.fixture
def startup(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("startup")


def test_a_study_is_run_in_a_new_folder_by_the_source_that_is_named(startup, monkeypatch, tmp_path):
    (tmp_path / "study").mkdir()
    ran = []

    def run(command, *, cwd, env, **_):
        ran.append((command[1:5], env["PYTHONPATH"], (Path(cwd) / "study").exists()))

    monkeypatch.setattr(startup.subprocess, "run", run)
    startup.study(("--seeds", "1"), Path("there"), tmp_path)()
    assert ran == [(["-m", "durm", "compare", "--seeds"], "there", False)]


def test_ratios_are_of_the_study_to_the_usual_and_limits_hold_from_below(startup, monkeypatch, tmp_path):
    clock, module = 0.0, import_module("pairs")
    called = []

    def taking(name, seconds):
        def run():
            nonlocal clock
            called.append(name)
            clock += seconds

        return run

    monkeypatch.setattr(startup, "compare", partial(module.compare, clock=lambda: int(clock * 1e9)))
    monkeypatch.setattr(startup, "import_torch", taking("torch", 2))
    monkeypatch.setattr(startup, "version_1", lambda folder: "before")
    speeds = {"before": 20, **{str(Path(durm.__file__).parents[1]): 8}}
    monkeypatch.setattr(startup, "study", lambda flags, source, folder: taking(flags, speeds[str(source)]))
    out = tmp_path / "startup.json"
    assert startup.main(["--out", str(out)]) == 1
    found = {result["case"]: result for result in json.loads(out.read_text())["results"]}
    assert [result["ratio"] for result in found.values()] == [4, 4, 4, 0.4]
    assert [result["holds"] for result in found.values()] == [False, False, True, True]
    assert called[:4] == [startup.TWO_TRIALS, "torch", "torch", startup.TWO_TRIALS]
