"""Data that change under a study: refused before it goes on, noticed between trials and within one, never paired."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from durm.data import load, reading
from durm.errors import InputError
from durm.study import data_record
from durm.study.data_record import read_data_record
from durm.study.jobs import Event, Execution
from durm.study.reading import make_study
from durm.study.runner import Outcome, run_study
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from tests.cli.calling import call, refusal
from tests.data.images import fill, write
from tests.study import synthetic

INLINE = Execution(workers=0)


def write_arrays(path: Path, seed: int = 0) -> str:
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return f"arrays:{path}"


def store_of(folder: Path, data: str, **more: Any) -> Store:
    values = {"name": "changing", "data": data, "model": "mlp", "dummies": [0, 2], "seeds": 2, "train": {"epochs": 1}}
    return Store.create(folder, make_study({**values, **more}))


def ignore(event: Event) -> None:
    pass


def ran(store: Store, on_event: Callable[[Event], None] = ignore) -> Outcome:
    return run_study(store, INLINE, on_event)


def test_a_study_begun_on_one_file_is_not_continued_on_a_changed_one(tmp_path: Path) -> None:
    data, out = write_arrays(tmp_path / "toy.npz"), tmp_path / "study"
    flags = ("compare", "--data", data, "--model", "mlp", "--epochs", 1, "--workers", 1, "--out", out, "--quiet")
    assert call(*flags, "--dummies", "0,2", "--seeds", 2).code == 0
    before = (out / "study.yaml").read_text()
    write_arrays(tmp_path / "toy.npz", seed=1)
    for more in (("--dummies", "0,2", "--seeds", 3), ("--dummies", "0,2,4", "--seeds", 2)):
        message = refusal(call(*flags, *more))
        assert data in message
        assert "changed: toy.npz" in message
        assert "--out" in message
    assert (out / "study.yaml").read_text() == before
    assert len([*(out / "trials").glob("*/result.json")]) == 4


def test_what_a_study_records(tmp_path: Path) -> None:
    data = fill(tmp_path / "shots", {"cat": 8, "dog": 8})
    store = store_of(tmp_path / "study", data, seeds=1)
    assert ran(store).failed == {}
    content = json.loads((store.folder / "data.json").read_text())["data"][data]
    files = list((tmp_path / "shots").rglob("*.png"))
    assert (content["files"], content["bytes"]) == (16, sum(path.stat().st_size for path in files))
    assert [row[0] for row in content["list"]] == sorted(str(path.relative_to(tmp_path / "shots")) for path in files)
    assert {result.provenance.data_sha256 for result in read_results(store).values()} == {content["sha256"]}


def test_a_refusal_names_files_that_changed_were_removed_and_were_added(tmp_path: Path) -> None:
    data = fill(tmp_path / "shots", {"cat": 8, "dog": 8})
    store = store_of(tmp_path / "study", data, seeds=1)
    ran(store)
    write(tmp_path / "shots/cat/0001.png", 77)
    (tmp_path / "shots/cat/0002.png").unlink()
    write(tmp_path / "shots/dog/new.png", 78)
    with pytest.raises(InputError) as refused:
        ran(store)
    assert "changed: cat/0001.png; removed: cat/0002.png; added: dog/new.png" in str(refused.value)


def test_images_that_are_read_from_disk_in_training_are_known_by_their_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MEMORY_LIMIT", 0)
    data = fill(tmp_path / "shots", {"cat": 8, "dog": 8})
    store = store_of(tmp_path / "study", data, seeds=1)
    assert ran(store).failed == {}
    before = load(data, seed=0).fingerprint
    write(tmp_path / "shots/dog/0009.png", 77)
    assert load(data, seed=0).fingerprint == before  # it is of the labels alone
    with pytest.raises(InputError, match=r"changed: dog/0009\.png"):
        ran(store)


def test_data_may_move_and_come_back(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "toy.npz")
    store = store_of(tmp_path / "study", data)
    ran(store)
    original = (tmp_path / "toy.npz").read_bytes()
    write_arrays(tmp_path / "toy.npz", seed=1)
    with pytest.raises(InputError):
        ran(store)
    (tmp_path / "toy.npz").write_bytes(original)
    assert len(ran(store).done) == 4


@pytest.mark.parametrize("change", ["no list", "a damaged list", "a packed list"])
def test_the_hash_refuses_also_where_the_files_are_not_known(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change == "a packed list":
        monkeypatch.setattr(data_record, "LONGEST_LIST", 0)
    data = write_arrays(tmp_path / "toy.npz")
    store = store_of(tmp_path / "study", data, seeds=1)
    ran(store)
    path = store.folder / "data.json"
    record = json.loads(path.read_text())
    if change == "no list":
        record["data"][data]["list"] = None
    elif change == "a damaged list":
        record["data"][data]["list"] = "AAAA"
    else:
        assert isinstance(record["data"][data]["list"], str)
    path.write_text(json.dumps(record))
    ran(store)
    write_arrays(tmp_path / "toy.npz", seed=1)
    with pytest.raises(InputError, match="changed: toy.npz" if change == "a packed list" else "sha256") as refused:
        ran(store)
    assert "`out`" in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"data": 3}', b'{"data": {"digits": {}}}', b"\xff"])
def test_a_damaged_record_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.json").write_bytes(content)
    with pytest.raises(InputError, match=r"data\.json is damaged"):
        read_data_record(tmp_path)


def test_a_file_that_changes_between_two_trials_stops_the_rest_which_stay_pending(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "toy.npz")
    original = (tmp_path / "toy.npz").read_bytes()
    store = store_of(tmp_path / "study", data)

    def change(event: Event) -> None:
        if event["kind"] == "finished":
            write_arrays(tmp_path / "toy.npz", seed=1)

    outcome = ran(store, change)
    assert len(outcome.done) == 1
    assert len(outcome.failed) == 3
    assert all("changed: toy.npz" in reason for reason in outcome.failed.values())
    assert [store.lost(trial) for trial in store.study.runs()] == [None] * 4
    (tmp_path / "toy.npz").write_bytes(original)
    assert len(ran(store).done) == 4


def test_data_that_vanish_between_two_trials_leave_the_rest_pending(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "toy.npz")
    store = store_of(tmp_path / "study", data, seeds=1)

    def remove(event: Event) -> None:
        if event["kind"] == "finished":
            (tmp_path / "toy.npz").unlink()

    outcome = ran(store, remove)
    (reason,) = outcome.failed.values()
    assert "toy.npz" in reason
    assert [store.lost(trial) for trial in store.study.runs()] == [None] * 2


def test_a_file_that_changes_within_a_trial_makes_that_one_pending_without_its_weights(tmp_path: Path) -> None:
    data = fill(tmp_path / "shots", {"cat": 10, "dog": 10})
    original = (tmp_path / "shots/cat/0001.png").read_bytes()
    store = store_of(tmp_path / "study", data, dummies=[0], seeds=1)

    def change(event: Event) -> None:
        if event["kind"] == "epoch":
            write(tmp_path / "shots/cat/0001.png", 77)

    (reason,) = ran(store, change).failed.values()
    assert "changed: cat/0001.png" in reason
    (trial,) = store.study.runs()
    assert store.lost(trial) is None
    assert not (store.trial_folder(trial) / "checkpoint.pt").exists()
    (tmp_path / "shots/cat/0001.png").write_bytes(original)
    assert len(ran(store).done) == 1


def as_version_1(store: Store) -> None:
    """The folder as it was before data were recorded."""
    (store.folder / "data.json").unlink()
    for path in store.folder.glob("trials/*/result.json"):
        content = json.loads(path.read_text())
        del content["provenance"]["data_sha256"], content["sha256"]
        path.write_text(json.dumps(content))


def test_a_folder_without_a_record_is_taken_up_and_says_so(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "toy.npz")
    store = store_of(tmp_path / "study", data)
    ran(store)
    as_version_1(store)
    assert not any("fingerprint" in warning for warning in write_summary(store, read_results(store)).warnings)
    messages: list[str] = []
    longer = store_of(tmp_path / "study", data, seeds=3)
    outcome = ran(longer, lambda event: messages.append(event["message"]) if event["kind"] == "warning" else None)
    assert len(outcome.done) == 6
    (message,) = messages
    assert "4 trials" in message
    assert "fingerprint" in message
    assert read_data_record(store.folder) is not None
    summary = write_summary(longer, read_results(longer))
    assert [warning for warning in summary.warnings if warning.startswith("4 of 6 runs") and "fingerprint" in warning]
    assert summary.settings[0].comparisons[0].n == 3
    ran(longer, lambda event: messages.append(event["kind"]))
    assert messages == [message]  # said once


def test_a_folder_without_a_record_is_refused_by_the_old_fingerprint_of_its_trials(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "toy.npz")
    store = store_of(tmp_path / "study", data)
    ran(store)
    as_version_1(store)
    write_arrays(tmp_path / "toy.npz", seed=1)
    with pytest.raises(InputError, match="fingerprint") as refused:
        ran(store)
    assert data in str(refused.value)
    assert "`out`" in str(refused.value)
    assert not (store.folder / "data.json").exists()


def test_runs_on_other_data_are_never_paired(tmp_path: Path) -> None:
    """Two of the runs with dummies are 50 points better, on other data: one by its fingerprint, one by its files."""
    study = {"name": "s", "data": "digits", "model": "mlp", "dummies": [0, 2], "seeds": 10}
    store = synthetic.store(tmp_path, lambda trial: 80 + 0.1 * trial.seed + 0.5 * (trial.dummies > 0), **study)
    for trial in store.study.trials():
        kept = store.result(trial)
        assert kept is not None
        changed = {"data_sha256": "a" * 64}
        if trial.dummies and trial.seed in (3, 4):
            changed = {"data": "f" * 16} if trial.seed == 3 else {"data_sha256": "b" * 64}
        other = synthetic.result(trial, 130.0 if trial.dummies and trial.seed in (3, 4) else kept.metrics["accuracy"])
        store.keep(trial, other.model_copy(update={"provenance": other.provenance.model_copy(update=changed)}))
    summary = write_summary(store, read_results(store))
    (comparison,) = summary.settings[0].comparisons
    assert comparison.n == 8
    assert comparison.difference == pytest.approx(0.5)
    (warning,) = [one for one in summary.warnings if "left out" in one and "other data" in one]
    assert "durm-2 seed 3 (digits)" in warning
    assert "durm-2 seed 4 (digits)" in warning
    assert summary.done == 20


def test_an_arm_with_data_of_its_own_is_paired_as_it_was(tmp_path: Path) -> None:
    arms = [{"name": "all"}, {"name": "half", "data": "subset:samples=50:digits"}]
    study = {"name": "s", "data": "digits", "model": "mlp", "arms": arms, "seeds": 6}
    store = synthetic.store(tmp_path, lambda trial: 80 + 0.1 * trial.seed, **study)
    for trial in store.study.trials():
        kept = store.result(trial)
        assert kept is not None
        where = kept.provenance.model_copy(update={"data": trial.data})
        store.keep(trial, kept.model_copy(update={"provenance": where}))
    assert write_summary(store, read_results(store)).settings[0].comparisons[0].n == 6


def test_a_copy_of_a_study_goes_on_with_a_copy_of_its_data(tmp_path: Path) -> None:
    data = write_arrays(tmp_path / "toy.npz")
    ran(store_of(tmp_path / "study", data, seeds=1))
    shutil.copytree(tmp_path / "study", tmp_path / "copy")
    shutil.copy(tmp_path / "toy.npz", tmp_path / "kept.npz")
    (tmp_path / "toy.npz").unlink()
    shutil.copy(tmp_path / "kept.npz", tmp_path / "toy.npz")
    assert len(ran(store_of(tmp_path / "copy", data, seeds=2)).done) == 4
