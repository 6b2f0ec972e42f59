import json
from importlib import import_module
from pathlib import Path

import pytest

from durm.study.reading import make_study
from durm.study.runner import Outcome


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("study")


@pytest.mark.slow
def test_a_real_study_is_timed(study):
    two_trials = make_study({"dummies": [0, 2], "seeds": 1, "train": {"iterations": 2}})
    timing = study.time_study(two_trials, workers=1)
    assert timing.start_up > 0
    assert timing.work > 0


def test_a_study_that_fails_is_not_timed(study, monkeypatch):
    monkeypatch.setattr(study, "run_study", lambda *_: Outcome(failed={"trial": "of no reason"}))
    with pytest.raises(RuntimeError, match="of no reason"):
        study.time_study(study.STUDY, workers=1)


def test_numbers_are_written_with_the_start_up_apart(study, monkeypatch, tmp_path, capsys):
    clock = 0.0
    order = []

    def run_study(store, execution, on_event):
        nonlocal clock
        order.append(execution.workers)
        clock += 3
        on_event({"kind": "started"})
        clock += 8 / execution.workers
        on_event({"kind": "finished"})
        clock += 1
        return Outcome(done=store.study.trials())

    monkeypatch.setattr(study, "perf_counter", lambda: clock)
    monkeypatch.setattr(study, "run_study", run_study)
    out = tmp_path / "study.json"
    assert study.main(["--pairs", "6", "--out", str(out)]) == 0
    assert order == [1, 2, 2, 1] * 3
    record = json.loads(out.read_text())
    (result,) = record["results"]
    assert result == {
        "case": "16 trials: 1 worker / 2",
        "pairs": 6,
        "ratio": 2,
        "low": 2,
        "high": 2,
        "one_worker_seconds": 8,
        "two_workers_seconds": 4,
        "one_worker_start_up": 3,
        "two_workers_start_up": 3,
        "limit": 1.6,
        "holds": True,
    }
    assert {"durm", "torch", "python", "cpu", "threads", "date", "cores"} <= set(record["provenance"])
    assert result["case"] in capsys.readouterr().out


def test_exit_code_is_1_where_the_limit_does_not_hold(study, monkeypatch):
    monkeypatch.setattr(study, "time_study", lambda _, workers: study.Timing(1.0, 8.0))
    assert study.main(["--pairs", "6"]) == 1
