"""Checkpoints that are no longer needed are removed, and nothing else."""

import json
from pathlib import Path

import pytest

from durm.study.cleaning import clean
from durm.study.store import Store
from durm.training.trial import Trial
from tests.cli.calling import call, refusal
from tests.study import synthetic

ATTACK = {"attacks": [{"kind": "pgd", "eps": 0.1}]}


def make(folder: Path, **study: object) -> Store:
    """Two arms and two seeds, all begun and with a checkpoint; the one with dummies and seed 1 is not done."""
    done = synthetic.store(
        folder,
        lambda trial: None if trial.dummies and trial.seed else 90.0,
        **{"dummies": [0, 2], "seeds": 2, **study},
    )
    for trial in done.study.trials():
        done.begin(trial)
        (done.trial_folder(trial) / "checkpoint.pt").write_bytes(bytes(1000 + trial.seed))
    return done


def having_checkpoints(store: Store) -> set[tuple[int, int]]:
    trials = store.study.trials()
    return {(one.dummies, one.seed) for one in trials if (store.trial_folder(one) / "checkpoint.pt").exists()}


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_those_of_trials_that_are_done_go_and_the_others_stay(tmp_path: Path) -> None:
    store = make(tmp_path / "study")
    (tmp_path / "study" / "trials" / "somebody-elses").mkdir()
    (tmp_path / "study" / "trials" / "somebody-elses" / "checkpoint.pt").write_bytes(b"keep me")
    before = files(tmp_path)
    dry = clean(store, dry_run=True)
    assert files(tmp_path) == before
    found = clean(store)
    assert found == dry
    assert sorted(found.removed.values()) == [1000, 1000, 1001]
    assert found.size == 3001
    assert found.kept == {"unfinished": 1}
    assert having_checkpoints(store) == {(2, 1)}
    after = files(tmp_path)
    assert set(before) - set(after) == set(found.removed)
    assert all(after[path] == before[path] for path in after)
    assert clean(store).removed == {}


def test_what_a_killed_process_left_over_goes_too(tmp_path: Path) -> None:
    store = make(tmp_path)
    for trial in store.study.trials():
        (store.trial_folder(trial) / ".checkpoint.pt.4711.tmp").write_bytes(b"half")
    assert sorted(clean(store).removed.values()) == [4, 4, 4, 1000, 1000, 1001]


def test_a_trial_that_another_process_works_on_keeps_its_own(tmp_path: Path) -> None:
    store = make(tmp_path)
    trial = store.study.trials()[0]
    with store.lock(trial) as ours:
        assert ours
        assert clean(Store.open(tmp_path)).kept == {"unfinished": 1, "running": 1}
    assert having_checkpoints(store) == {(trial.dummies, trial.seed), (2, 1)}


def test_models_between_which_attacks_are_to_be_carried_over_keep_theirs(tmp_path: Path) -> None:
    store = make(tmp_path, **ATTACK)
    assert clean(store).removed == {}
    assert clean(store).kept == {"unfinished": 1, "transfer": 3}

    def measured(trial: Trial) -> None:
        store.keep_transfer(trial, {"from_baseline": 10.0, "to_baseline": 20.0})

    for trial in store.study.trials():
        if trial.dummies and trial.seed == 0:
            measured(trial)
    assert clean(store).kept == {"unfinished": 1, "transfer": 1}  # the baseline waits for the unfinished one
    assert having_checkpoints(store) == {(0, 1), (2, 1)}
    for trial in store.study.trials():
        if trial.dummies and trial.seed == 1:
            store.keep(trial, synthetic.result(trial, 90.0))
            measured(trial)
    assert clean(store).kept == {}
    assert having_checkpoints(store) == set()


def test_an_attack_that_is_not_carried_over_needs_none(tmp_path: Path) -> None:
    store = make(tmp_path, attacks=[{"kind": "square", "eps": 0.1}])
    assert clean(store).kept == {"unfinished": 1}


def test_the_command(tmp_path: Path) -> None:
    make(tmp_path)
    dry = call("clean", tmp_path, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert "3 files would be removed, 3.0 kB" in dry.out
    found = json.loads(call("clean", tmp_path, "--dry-run", "--json").out)
    assert (found["files"], found["bytes"], found["dry_run"], found["kept"]) == (3, 3001, True, {"unfinished": 1})
    assert all(Path(path).is_file() for path in found["removed"])
    assert "3 files removed, 3.0 kB" in call("clean", tmp_path).out
    assert not any(Path(path).exists() for path in found["removed"])
    assert json.loads(call("clean", tmp_path, "--json").out)["files"] == 0
    assert call("clean", tmp_path, "--quiet").out == ""


@pytest.mark.parametrize(("name", "fragment"), [("nowhere", "no such folder"), ("empty", "not the folder of a study")])
def test_a_folder_that_is_no_study_is_refused(name: str, fragment: str, tmp_path: Path) -> None:
    (tmp_path / "empty" / "trials" / "a").mkdir(parents=True)
    (tmp_path / "empty" / "trials" / "a" / "checkpoint.pt").write_bytes(b"keep me")
    line = refusal(call("clean", tmp_path / name))
    assert str(tmp_path / name) in line
    assert fragment in line
    assert (tmp_path / "empty" / "trials" / "a" / "checkpoint.pt").exists()


def test_the_help_says_what_needs_checkpoints() -> None:
    text = " ".join(call("clean", "--help").out.split())
    for word in ("--dry-run", "--json", "durm evaluate", "pictures of segmented images", "transfer of attacks"):
        assert word in text
