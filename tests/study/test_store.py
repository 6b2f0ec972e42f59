"""The store: specs that may be added to, results that are whole or absent, locks that go with their holder."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from durm._files import WriteError, atomic_write
from durm.errors import InputError
from durm.study.config import Study
from durm.study.reading import make_study
from durm.study.results import sealed_result
from durm.study.status import trial_states
from durm.study.store import Store
from durm.study.summary import read_results
from tests.study import synthetic

SMALL = {"name": "small", "dummies": [0, 2], "seeds": 2, "train": {"epochs": 1}}


def small(**changes: object) -> Study:
    return make_study({**SMALL, **changes})


def test_the_same_study_is_taken_up_and_arms_and_seeds_may_be_added(tmp_path: Path) -> None:
    Store.create(tmp_path, small())
    Store.create(tmp_path, small())
    Store.create(tmp_path, small(seeds=5))
    Store.create(tmp_path, small(seeds=5, dummies=[0, 2, 3]))
    assert len(Store.open(tmp_path).study.trials()) == 15


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"train": {"epochs": 2}}, "train.epochs was 1 and is now 2"),
        ({"train": {"epochs": 1, "lr": 0.5}}, "train.lr was 0.05 and is now 0.5"),
        ({"model": "mlp"}, 'model "cnn" would be replaced by "mlp"'),
        ({"seeds": 1}, "seeds 1 would be left out"),
        ({"dummies": [2, 0]}, "arms was"),
        ({"dummies": [0, 3]}, "would be replaced by"),
        ({"select": "best-val"}, 'select was "last" and is now "best-val"'),
    ],
)
def test_a_study_that_differs_is_refused_with_the_difference(changes: dict, difference: str, tmp_path: Path) -> None:
    store = Store.create(tmp_path, small())
    before = (tmp_path / "study.yaml").read_text()
    with pytest.raises(InputError) as caught:
        Store.create(tmp_path, small(**changes))
    assert difference in str(caught.value)
    assert "Only arms and seeds can be added" in str(caught.value)
    assert (store.folder / "study.yaml").read_text() == before


def test_a_result_is_there_once_it_is_kept(tmp_path: Path) -> None:
    store = Store.create(tmp_path, small())
    trial = store.study.trials()[0]
    assert store.result(trial) is None
    store.begin(trial)
    assert not store.is_done(trial)
    result = synthetic.result(trial, 97.0)
    store.keep(trial, result)
    assert store.is_done(trial)
    assert store.result(trial) == sealed_result(result)
    kept = json.loads((store.trial_folder(trial) / "result.json").read_text())
    assert kept["metrics"]["accuracy"] == 97.0
    described = json.loads((store.trial_folder(trial) / "trial.json").read_text())
    assert (described["arm"], described["seed"]) == ("erm", 0)


def test_a_lock_is_one_process_s_and_goes_when_it_dies(tmp_path: Path) -> None:
    store = Store.create(tmp_path, small())
    trial = store.study.trials()[0]
    code = (
        "import sys; from pathlib import Path; from durm.study.store import Store\n"
        f"store = Store.open(Path({str(tmp_path)!r}))\n"
        "with store.lock(store.study.trials()[0]) as ours: print(ours, flush=True); sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with store.lock(trial) as ours:
            assert not ours
        store.begin(trial)
        assert trial_states(store)[0].state == "running"
        other.kill()
    with store.lock(trial) as ours:
        assert ours
    assert trial_states(store)[0].state == "interrupted"


def test_states(tmp_path: Path) -> None:
    store = Store.create(tmp_path, small())
    done, failed, cut_off, _ = store.study.trials()
    store.begin(done)
    store.keep(done, synthetic.result(done, 97.0))
    store.begin(failed)
    store.fail(failed, "it broke")
    store.begin(cut_off)
    assert [row.state for row in trial_states(store)] == ["done", "failed", "interrupted", "pending"]
    assert trial_states(store)[1].reason == "it broke"


def test_a_hundred_trials_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is listed once; a result is opened to check it, and again only when it was written since."""
    kept = synthetic.store(tmp_path, lambda trial: 90.0, dummies=[0, 1, 2, 3], seeds=25)
    listed, opened, read = [], [], Path.read_bytes
    monkeypatch.setattr(Path, "iterdir", lambda path: listed.append(path) or map(path.joinpath, os.listdir(path)))
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path.name) or read(path))
    store = Store(tmp_path, kept.study)
    for _ in range(2):
        assert [state.state for state in trial_states(store)] == ["done"] * 100
    assert len(listed) == 1
    assert opened.count("result.json") == 100
    trial = store.study.trials()[7]
    (store.trial_folder(trial) / "result.json").write_bytes(b"{}")
    assert [state.state for state in trial_states(store)].count("done") == 99
    assert opened.count("result.json") == 101


# Disks that fill up.


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    atomic_write(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(WriteError, match=r"cannot write .*result.json: File too large"):
            atomic_write(path, b"x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_folder_under_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"cannot write .*Not a directory"):
        Store.create(tmp_path / "file" / "study", small())
    with pytest.raises(InputError, match="is a file; expected a folder"):
        Store.create(tmp_path / "file", small())


def test_arms_that_share_a_run_all_have_its_result_at_once(tmp_path: Path) -> None:
    """The folder was empty when the trials were first asked for, and has the name of the first arm afterwards."""
    arms = [{"name": "a"}, {"name": "b"}, {"name": "c", "label_smoothing": 0.1}]
    store = Store.create(tmp_path, make_study({"arms": arms, "seeds": 1}))
    assert not any(map(store.is_done, store.study.trials()))
    for trial in store.study.runs():
        other = Store.open(tmp_path)  # as another process has it
        other.begin(trial)
        other.keep(trial, synthetic.result(trial, 90.0))
    assert [arm for *_, arm, _ in read_results(store)] == ["a", "b", "c"]
