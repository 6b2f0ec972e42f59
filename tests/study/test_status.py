"""How far a study has come, and how long the rest takes, by hand."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from durm.study.reading import make_study
from durm.study.status import study_status
from durm.study.store import Store
from durm.training.trial import Trial
from tests.study import synthetic

NOW = 1_800_000_000.0


def begun(store: Store, trial: Trial, seconds_ago: float) -> None:
    store.begin(trial)
    set_time(store.trial_folder(trial) / "trial.json", seconds_ago)


def done(store: Store, trial: Trial, started: float, ended: float, cost: float = 1.0) -> None:
    """Ends of a trial in seconds before now, and what its result says of its training."""
    begun(store, trial, started)
    result = synthetic.result(trial, 90.0)
    store.keep(trial, result.model_copy(update={"cost": result.cost.model_copy(update={"seconds": cost})}))
    set_time(store.trial_folder(trial) / "result.json", ended)


def set_time(path: Path, seconds_ago: float) -> None:
    os.utime(path, (NOW - seconds_ago, NOW - seconds_ago))


def empty(folder: Path, **values: object) -> Store:
    return Store.create(folder, make_study({"dummies": [0, 1], "seeds": 4, **values}, "a study"))


def test_the_time_left_of_what_runs_and_what_waits(tmp_path: Path) -> None:
    """Trials took 100, 120 and 140 s. Two run, for 30 and 500 s, two wait, one failed: (90 + 0 + 2 · 120) / 2."""
    store = empty(tmp_path)
    one, two, three, fast, slow, failed, interrupted, _ = store.study.runs()
    done(store, one, 900, 800)
    done(store, two, 800, 680)
    done(store, three, 700, 560)
    begun(store, fast, 30)
    begun(store, slow, 500)
    begun(store, interrupted, 400)
    begun(store, failed, 600)
    store.fail(failed, "it broke")
    with ExitStack() as stack:
        for trial in (fast, slow):
            stack.enter_context(store.lock(trial))
        found = study_status(store, NOW)
    assert found.counts == {"done": 3, "running": 2, "interrupted": 1, "failed": 1, "pending": 1}
    assert [(row.name, row.begun) for row in found.running] == [
        (fast.folder_name, NOW - 30),
        (slow.folder_name, NOW - 500),
    ]
    assert found.elapsed == pytest.approx(900)
    assert found.left == pytest.approx((90 + 0 + 2 * 120) / 2)


def test_models_have_their_own_times(tmp_path: Path) -> None:
    """The small one takes 10 s, the large one 1,000 s; one of each is left, of which the large one runs since 300 s."""
    store = empty(tmp_path, model=["mlp", "cnn"], dummies=[0, 1], seeds=1)
    small, other_small, large, other_large = store.study.runs()
    done(store, small, 2000, 1990)
    done(store, large, 1500, 500)
    begun(store, other_large, 300)
    with store.lock(other_large):
        assert study_status(store, NOW).left == pytest.approx(700 + 10)
    assert other_small.model == "mlp"


def test_the_files_of_a_copy_have_no_times(tmp_path: Path) -> None:
    """Then what the result says counts: 50 s of training."""
    store = empty(tmp_path, seeds=1)
    first, second = store.study.runs()
    done(store, first, 0, 0, cost=50.0)
    begun(store, second, 0)
    with store.lock(second):
        assert study_status(store, NOW).left == pytest.approx(50)


def test_nothing_is_said_where_nothing_is_known(tmp_path: Path) -> None:
    store = empty(tmp_path, seeds=1)
    assert (study_status(store, NOW).elapsed, study_status(store, NOW).left) == (None, None)
    first, second = store.study.runs()
    begun(store, first, 20)
    with store.lock(first):
        found = study_status(store, NOW)
    assert (found.elapsed, found.left) == (pytest.approx(20), None)  # it runs, and none is done
    done(store, first, 100, 40)
    done(store, second, 90, 30)
    assert (study_status(store, NOW).elapsed, study_status(store, NOW).left) == (pytest.approx(70), None)


def test_a_trial_that_goes_on_began_now(tmp_path: Path) -> None:
    store = empty(tmp_path, seeds=1)
    trial = store.study.runs()[0]
    begun(store, trial, 5000)
    before = (store.trial_folder(trial) / "trial.json").read_bytes()
    store.begin(trial)
    assert store.times(trial)[0] != NOW - 5000
    assert (store.trial_folder(trial) / "trial.json").read_bytes() == before
