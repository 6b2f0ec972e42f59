"""Studies that are run twice, killed, shared, interrupted, and that fail in part: nothing is lost or done twice."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from durm.study.executors import on_interrupt
from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import run_study
from durm.study.store import Store
from tests.study.run_small import STUDY

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.study.run_small"]
HANG = 600
"""Seconds after which whatever is waited for will never be: nothing here is about how long something takes."""


def start(folder: Path, workers: int = 2) -> subprocess.Popen[str]:
    """In a process group of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [*COMMAND, str(folder), str(workers)]
    return subprocess.Popen(command, cwd=ROOT, **pipes, text=True, start_new_session=True)


def numbers(folder: Path) -> dict[str, dict]:
    """What the trials of a study found: everything but what they cost."""
    store = Store.open(folder)
    results = {trial.folder_name: store.result(trial) for trial in store.study.trials()}
    keys = ("metrics", "val", "train", "curves", "selected_epoch", "weights_sha256")
    return {name: {key: getattr(result, key) for key in keys} for name, result in results.items() if result is not None}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    process = start(folder)
    output, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0, errors
    assert Counter(line.split()[0] for line in output.splitlines())["finished"] == 4
    return folder


def test_a_second_run_trains_nothing(uninterrupted: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*.*")}
    events: list[dict] = []
    outcome = run_study(Store.create(uninterrupted, make_study(STUDY)), Execution(workers=2), events.append)
    assert events == []
    assert len(outcome.done) == 4
    after = {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*.*")}
    changed = {path.name for path in after if after[path] != before.get(path)}
    assert changed <= {"study.yaml", ".lock"}


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_killed_again_and_again_it_ends_with_the_same_numbers(times: int, uninterrupted: Path, tmp_path: Path) -> None:
    """SIGKILL after one to four epochs, in the midst of steps, to the parent alone: its workers must notice and end."""
    dice = random.Random(0)
    resumed = 0
    for _ in range(times):
        process = start(tmp_path)
        assert process.stdout is not None
        epochs = dice.randint(1, 4)
        for line in process.stdout:
            epochs -= line.startswith("epoch")
            if epochs <= 0 and any(tmp_path.glob("trials/*/checkpoint.pt")):
                break
        resumed += any(tmp_path.glob("trials/*/checkpoint.pt"))
        process.kill()
        process.wait()
        process.stdout.close()
    assert resumed >= times / 2  # otherwise the test would prove nothing
    process = start(tmp_path)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0, errors
    assert numbers(tmp_path) == numbers(uninterrupted)


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    children = _descendants(process.pid)
    assert len(children) >= 3  # the two workers, and what starts them
    process.kill()
    process.wait()
    deadline = time.monotonic() + HANG
    while any(map(_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_alive, children))


def test_two_processes_share_a_study_and_do_every_trial_once(uninterrupted: Path, tmp_path: Path) -> None:
    processes = [start(tmp_path), start(tmp_path)]
    outputs = [process.communicate(timeout=HANG) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    events = Counter(tuple(line.split()) for output, _ in outputs for line in output.splitlines())
    finished = {trial: count for (kind, trial), count in events.items() if kind == "finished"}
    started = {trial: count for (kind, trial), count in events.items() if kind == "started"}
    assert len(finished) == 4
    assert set(finished.values()) == set(started.values()) == {1}
    assert numbers(tmp_path) == numbers(uninterrupted)


@pytest.mark.parametrize(
    ("number", "workers"),
    [
        (signal.SIGTERM, 2),
        pytest.param(signal.SIGTERM, 0, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 2, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 2, marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_leaves_a_study_that_goes_on(
    number: signal.Signals, workers: int, uninterrupted: Path, tmp_path: Path
) -> None:
    """Sent to the whole group, as terminals and schedulers do. Every trial that was at it has its checkpoint."""
    for attempt in range(10):  # on a busy machine all trials may be over before the signal is sent
        folder = tmp_path / str(attempt)
        code, running, errors = _interrupted(folder, number, workers)
        if len(list(folder.glob("trials/*/result.json"))) < 4:
            break
    assert (code, errors) == (1, "")
    done = {path.parent.name for path in folder.glob("trials/*/result.json")}
    kept = {path.parent.name for path in folder.glob("trials/*/checkpoint.pt")}
    assert {name.rpartition("-")[2] for name in done | kept} >= running
    assert len(done) < 4
    process = start(folder)
    process.communicate(timeout=HANG)
    assert process.returncode == 0
    assert numbers(folder) == numbers(uninterrupted)


def _interrupted(folder: Path, number: signal.Signals, workers: int) -> tuple[int, set[str], str]:
    """The exit code, the trials that had begun when the signal was sent, and what was written to stderr."""
    process = start(folder, workers)
    assert process.stdout is not None
    running = set()
    for line in process.stdout:
        kind, trial = line.split()
        running |= {trial} if kind == "epoch" else set()
        if len(running) >= max(workers, 1):
            break
    for path in folder.glob("trials/*/checkpoint.pt"):
        path.unlink()  # what is there afterwards was written because of the signal
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=HANG)
    return process.returncode, running, errors


def test_a_shutdown_sends_several_signals_and_a_command_says_130(tmp_path: Path) -> None:
    train = ["--epochs", "500", "--batch-size", "16"]
    arguments = ["compare", "--model", "mlp", "--seeds", "2", "--dummies", "0,2", "--workers", "2", *train]
    command = [sys.executable, "-m", "durm", *arguments, "--quiet", "--out", str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, **pipes, text=True, start_new_session=True)
    deadline = time.monotonic() + HANG
    while len(list(tmp_path.glob("trials/*/metrics.jsonl"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM):
        os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert len(errors.splitlines()) == 1, errors
    assert "interrupted" in errors
    assert len(list(tmp_path.glob("trials/*/checkpoint.pt"))) == 2


def test_a_terminal_that_closes_does_not_interrupt_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with on_interrupt(lambda *_: None):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_failing_trial_does_not_take_the_rest_with_it(tmp_path: Path) -> None:
    arms = [{"name": "erm"}, {"name": "wild", "lr": 1e20}]
    study = make_study({"arms": arms, "model": "mlp", "seeds": 2, "train": {"epochs": 2}})
    store = Store.create(tmp_path, study)
    events: list[dict] = []
    outcome = run_study(store, Execution(workers=2), events.append)
    assert {trial.arm for trial in outcome.done} == {"erm"}
    assert len(outcome.done) == len(outcome.failed) == 2
    for reason in outcome.failed.values():
        assert re.fullmatch(r"the loss became (nan|inf) at step \d+ with learning rate \d.*e\+(19|20)", reason)
    assert Counter(event["kind"] for event in events)["failed"] == 2


def test_a_trial_that_kills_its_process_is_reported(tmp_path: Path) -> None:
    study = make_study({"model": "tests.study.deadly:network", "dummies": [0], "seeds": 3, "train": {"epochs": 1}})
    outcome = run_study(Store.create(tmp_path, study), Execution(workers=2))
    assert len(outcome.failed) == 3
    assert all("the process died (SIGKILL)" in reason for reason in outcome.failed.values())


def test_a_full_disk_is_reported_and_nothing_finished_is_lost(uninterrupted: Path, tmp_path: Path) -> None:
    """Files may not grow beyond 60 kB: checkpoints do, descriptions and errors do not."""
    code = "ulimit -f 60 && exec " + " ".join([*COMMAND, str(tmp_path)])
    process = subprocess.run(["bash", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    assert process.returncode == 4, process.stderr
    reasons = [path.read_text() for path in tmp_path.glob("trials/*/error.txt")]
    assert len(reasons) == 4
    assert all("cannot write" in reason and "File too large" in reason for reason in reasons)
    process = start(tmp_path)
    process.communicate(timeout=HANG)
    assert process.returncode == 0
    assert numbers(tmp_path) == numbers(uninterrupted)


def _descendants(parent: int) -> list[int]:
    """Workers are children of a fork server, which is one of the parent's."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    children = [int(pid) for pid in found.stdout.split()]
    return children + [pid for child in children for pid in _descendants(child)]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path(f"/proc/{pid}/stat").exists() else False
