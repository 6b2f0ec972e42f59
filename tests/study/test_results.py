"""Results are believed once they are checked: a damaged or foreign one is set aside, and its trial runs again."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from durm.errors import InputError
from durm.study import jobs, runner
from durm.study.jobs import Execution
from durm.study.runner import run_study
from durm.study.status import trial_states
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from durm.training.outcomes import pack_outcomes
from durm.training.result import Result
from durm.training.trainer import RunContext
from durm.training.trial import Trial
from tests.cli.calling import call, refusal
from tests.study import synthetic

VERSION_1 = Path(__file__).parent / "version1"
SMALL = {"dummies": [0, 2], "seeds": 3}


@pytest.fixture(autouse=True)
def _any_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that are made up have no data; that data are compared is tested elsewhere."""
    monkeypatch.setattr(runner, "record_data", lambda *_: None)
    monkeypatch.setattr(jobs, "check_data_of", lambda *_: None)


def measured(trial: Trial) -> Result:
    outcomes = pack_outcomes({"correct": np.arange(9) % (trial.seed + 2) == 0})
    sha256 = hashlib.sha256(outcomes).hexdigest()
    changes = {"outcomes_sha256": sha256, "weights_sha256": hashlib.sha256(trial.id.encode()).hexdigest()}
    result = synthetic.result(trial, 90.0 + trial.seed + 0.1 * trial.dummies, **changes)
    return result.model_copy(update={"outcomes": outcomes})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Six trials, all done, of a runner that takes no time."""
    monkeypatch.setattr("durm.study.runners.runner_of", lambda trial: run)
    kept = synthetic.store(tmp_path / "study", lambda trial: None, **SMALL)
    for trial in kept.study.trials():
        kept.begin(trial)
        kept.keep(trial, measured(trial))
    return kept


def run(trial: Trial, study: Any, execution: Any, context: RunContext) -> Result:
    return measured(trial)


def plain_checksum(content: dict[str, Any]) -> str:
    """As anybody would compute it from the words in the schema."""
    rest = {name: content[name] for name in sorted(content) if name != "sha256"}
    text = json.dumps(rest, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_result_carries_its_trial_and_its_checksum(store: Store) -> None:
    for trial in store.study.trials():
        content = json.loads((store.trial_folder(trial) / "result.json").read_text())
        assert content["trial"] == trial.id
        assert content["sha256"] == plain_checksum(content)
        assert store.is_sealed(trial)


def test_another_layout_of_the_same_content_is_no_damage(store: Store) -> None:
    trial = store.study.trials()[0]
    path = store.trial_folder(trial) / "result.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(dict(sorted(content.items())), indent=4))
    assert store.is_sealed(trial)


def digit(path: Path) -> None:
    """Ninety becomes eighty."""
    text = path.read_text()
    assert '"accuracy":90.' in text
    path.write_text(text.replace('"accuracy":90.', '"accuracy":80.', 1))


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "blank": lambda path: path.write_bytes(b"\n \n"),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "list": lambda path: path.write_text("[]"),
    "object": lambda path: path.write_text("{}"),
    "nested": lambda path: path.write_text("[" * 100_000),
    "digit": digit,
    "folder": folder,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_set_aside_and_its_trial_runs_again(damage: str, store: Store) -> None:
    trial = store.study.trials()[0]
    path = store.trial_folder(trial) / "result.json"
    whole = write_summary(store, read_results(store))
    DAMAGES[damage](path)
    for fresh in (store, Store.open(store.folder)):  # the one remembers that it was right
        assert not fresh.is_done(trial)
        assert fresh.result(trial) is None
        assert not fresh.is_sealed(trial)
        assert [state.state for state in trial_states(fresh)].count("done") == 5
        assert sorted(key[-1] for key in read_results(fresh)) == [0, 1, 1, 2, 2]
    events: list[dict[str, Any]] = []
    outcome = run_study(Store.open(store.folder), Execution(workers=0), events.append)
    assert (len(outcome.done), outcome.failed) == (6, {})
    (warning,) = [event for event in events if event["kind"] == "warning"]
    assert warning["trial"] == trial.id
    assert str(path) in warning["message"]
    assert len(warning["message"].splitlines()) == 1
    assert [event["trial"] for event in events if event["kind"] == "finished"] == [trial.id]
    assert path.with_name("result.json.damaged-1").exists()
    assert write_summary(store, read_results(store)) == whole


def test_a_second_damaged_result_gets_another_name(store: Store) -> None:
    path = store.trial_folder(store.study.trials()[0]) / "result.json"
    for content in (b"first", b"second"):
        path.write_bytes(content)
        assert run_study(store, Execution(workers=0)).failed == {}
    aside = [path.with_name(f"result.json.damaged-{number}").read_bytes() for number in (1, 2)]
    assert aside == [b"first", b"second"]


def test_the_result_of_another_trial_does_not_count_twice(store: Store) -> None:
    one, other = (store.trial_folder(trial) / "result.json" for trial in store.study.trials()[:2])
    shutil.copyfile(one, other)
    assert not store.is_done(store.study.trials()[1])
    assert len(read_results(store)) == 5
    reason = store.damage(store.study.trials()[1])
    assert reason is not None
    assert store.study.trials()[0].id in reason
    with pytest.raises(InputError, match="another trial"):
        store.keep(store.study.trials()[1], measured(store.study.trials()[0]))


def test_a_result_that_could_not_be_read_again_is_not_kept(store: Store) -> None:
    """JSON has no NaN: the trial would be done, and run again for ever."""
    trial = store.study.trials()[0]
    before = (store.trial_folder(trial) / "result.json").read_bytes()
    result = measured(trial)
    with pytest.raises(InputError, match=r"metrics\.ece"):
        store.keep(trial, result.model_copy(update={"metrics": {**result.metrics, "ece": float("nan")}}))
    assert (store.trial_folder(trial) / "result.json").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"PK", None], ids=["empty", "short", "one bit"])
def test_damaged_outcomes_make_a_trial_run_again(content: bytes | None, store: Store) -> None:
    trial = store.study.trials()[3]
    path = store.trial_folder(trial) / "outcomes.npz"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    path.write_bytes(bytes(flipped) if content is None else content)
    assert store.outcomes(trial) is None
    assert not store.is_done(trial)
    assert str(path) in (store.damage(trial) or "")
    assert run_study(store, Execution(workers=0)).failed == {}
    assert path.read_bytes() == whole
    assert path.with_name("outcomes.npz.damaged-1").exists()
    assert store.outcomes(trial) is not None


def test_outcomes_that_were_removed_leave_a_result(store: Store) -> None:
    trial = store.study.trials()[3]
    (store.trial_folder(trial) / "outcomes.npz").unlink()
    assert store.is_done(trial)
    assert store.outcomes(trial) is None


@pytest.mark.parametrize("name", ["3616ed6", "576f8e9", "c654836", "whole"])
def test_results_of_version_1_are_unsealed_and_accepted(name: str, tmp_path: Path) -> None:
    store = Store.open(Path(shutil.copytree(VERSION_1 / name, tmp_path / name)))
    for trial in store.study.runs():
        assert store.is_done(trial)
        assert not store.is_sealed(trial)
        assert store.damage(trial) is None
    one, other = (store.trial_folder(trial) / "result.json" for trial in store.study.runs()[:2])
    shutil.copyfile(one, other)
    assert not store.is_done(store.study.runs()[1])


# How attacks transfer.


def test_a_transfer_is_sealed_too(store: Store) -> None:
    one, other = store.study.trials()[:2]
    found = {"from_baseline": 61.5, "to_baseline": 70.25}
    store.keep_transfer(one, found)
    path = store.trial_folder(one) / "transfer.json"
    content = json.loads(path.read_text())
    assert content == {**found, "trial": one.id, "sha256": plain_checksum(content)}
    assert store.transfer(one) == found
    shutil.copyfile(path, store.trial_folder(other) / "transfer.json")
    assert store.transfer(other) == {}
    path.write_text(path.read_text().replace("61.5", "66.5"))
    assert store.transfer(one) == {}
    store.keep_transfer(one, found)
    assert store.transfer(one) == found
    assert path.with_name("transfer.json.damaged-1").exists()
    path.write_text(json.dumps(found))  # as it was written before
    assert store.transfer(one) == found


# What the commands say.


def test_commands_say_in_a_line_what_is_damaged(store: Store) -> None:
    trial = store.study.trials()[0]
    path = store.trial_folder(trial) / "result.json"
    path.write_bytes(b"")
    answer = call("status", store.folder)
    assert answer.code == 0
    assert str(path) in answer.out
    rows = json.loads(call("status", store.folder, "--json").out)
    assert (rows["counts"]["done"], rows["counts"]["interrupted"]) == (5, 1)
    answer = call("report", store.folder, "--quiet")
    assert answer.code == 0
    assert [str(path) in line for line in answer.err.splitlines()] == [True]
    assert json.loads((store.folder / "summary.json").read_text())["done"] == 5
    assert path.read_bytes() == b""  # it is for a run to set it aside, which holds the lock


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe\x00", b"\x00"], ids=["empty", "blank", "text", "zero"])
def test_a_failure_without_words_is_a_line(content: bytes, store: Store) -> None:
    trial = store.study.trials()[0]
    (store.trial_folder(trial) / "result.json").unlink()
    (store.trial_folder(trial) / "error.txt").write_bytes(content)
    answer = call("status", store.folder)
    assert (answer.code, answer.err) == (0, "")
    assert [line for line in answer.out.splitlines() if line.startswith(f"failed: {trial.folder_name}: ")]
    assert call("report", store.folder, "--quiet").code == 0


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [Path.mkdir, link], ids=["folder", "link"])
def test_a_lock_of_a_trial_that_cannot_be_had_is_a_line(make: Callable[[Path], None], store: Store) -> None:
    """The rest of the study is done all the same; a link is not followed."""
    first, second = store.study.trials()[:2]
    for trial in (first, second):
        (store.trial_folder(trial) / "result.json").unlink()
    path = store.trial_folder(first) / ".lock"
    make(path)
    outcome = run_study(store, Execution(workers=0))
    assert len(outcome.done) == 5
    ((name, reason),) = outcome.failed.items()
    assert name == first.folder_name
    assert str(path) in reason
    assert str(path) in refusal(call("status", store.folder))
    assert not path.with_name("elsewhere").exists()


@pytest.mark.parametrize("make", [Path.mkdir, link], ids=["folder", "link"])
def test_a_lock_of_a_study_that_cannot_be_had_is_a_line(make: Callable[[Path], None], store: Store) -> None:
    path = store.folder / ".lock"
    path.unlink(missing_ok=True)
    make(path)
    assert str(path) in refusal(call("run", store.folder / "study.yaml", "--out", store.folder, "--quiet"))
    assert not path.with_name("elsewhere").exists()


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"a: [", b"[" * 2000, b"when: 2001-99-99", b"[1, 2]"], ids=range(6)
)
def test_a_damaged_study_is_a_line(content: bytes, store: Store) -> None:
    (store.folder / "study.yaml").write_bytes(content)
    for command in ("status", "report"):
        assert str(store.folder / "study.yaml") in refusal(call(command, store.folder))


def test_a_damaged_summary_is_made_again_with_its_analyses(store: Store) -> None:
    summary = write_summary(store, read_results(store))
    path = store.folder / "summary.json"
    text = path.read_text().replace('"looked_at": [\n  3\n ]', '"looked_at": [\n  2,\n  3\n ]')
    assert json.loads(text)["looked_at"] == [2, 3]
    path.write_text(text[:-3] + "\x00")
    assert call("report", store.folder, "--quiet").code == 0
    assert json.loads(path.read_text())["looked_at"] == [2, 3]
    assert path.with_name("summary.json.damaged-1").exists()
    path.write_bytes(b"")
    assert write_summary(store, read_results(store)).settings == summary.settings
