"""Two hundred kills at random: the parent or a worker of a study, while it starts, trains or writes.

To import torch takes seconds, and a kill in that time hits nothing. So one study process in ten is started from
nothing; the others are forked, with their workers, from one fork server which has imported everything.
"""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import pytest

from durm._processes import TRAINING, WORKER
from tests.study.run_small import run
from tests.study.test_executors import HANG, numbers, start

KILLS = 200
STUDY = {"name": "kills", "model": "mlp", "dummies": [0, 2], "seeds": 2, "train": {"epochs": 15, "batch_size": 256}}
"""With a checkpoint after every step it writes most of the time."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks processes that have imported torch")


class Running(Protocol):
    """A process that runs a study."""

    def says(self) -> bool:
        """Waits for the next line of what it says; False if there is none, for it has ended."""

    def workers(self) -> list[int]: ...

    def kill(self) -> None: ...

    def ended(self) -> int:
        """Waits until it and its workers have ended. Its exit code, or minus the signal that it died of."""


class FromNothing:
    """It goes on with the study that is in the folder."""

    def __init__(self, folder: Path) -> None:
        self.process = start(folder)

    def says(self) -> bool:
        assert self.process.stdout is not None
        return bool(self.process.stdout.readline())

    def workers(self) -> list[int]:
        return [worker for server in children(self.process.pid) for worker in children(server)]

    def kill(self) -> None:
        self.process.kill()

    def ended(self) -> int:
        self.process.communicate(timeout=HANG)  # the workers have its stdout too
        return self.process.returncode


class Forked:
    def __init__(self, folder: Path) -> None:
        self.lines, theirs = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("forkserver").Process(target=in_fork, args=(folder, theirs))
        self.process.start()
        theirs.close()

    def says(self) -> bool:
        try:
            return bool(self.lines.recv())
        except EOFError:
            return False

    def workers(self) -> list[int]:
        return [pid for pid in children(server_of_this_process()) if pid != self.process.pid]

    def kill(self) -> None:
        self.process.kill()

    def ended(self) -> int:
        while self.says():
            pass
        self.process.join()
        deadline = time.monotonic() + HANG
        while self.workers():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert self.process.exitcode is not None
        return self.process.exitcode


def in_fork(folder: Path, lines: Connection) -> None:
    """Its workers come from the server that it comes from."""
    os.setsid()
    forkserver.ensure_running = resource_tracker.ensure_running  # type: ignore[assignment]
    forkserver._forkserver.ensure_running = resource_tracker.ensure_running  # type: ignore[method-assign]
    sys.exit(run(folder, lines.send, STUDY, checkpoint_seconds=0))


@pytest.fixture
def server() -> Iterator[None]:
    forkserver.set_forkserver_preload([WORKER, *TRAINING, "tests.study.test_kills"])
    yield
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def server_of_this_process() -> int:
    return int(forkserver._forkserver._forkserver_pid)  # type: ignore[attr-defined]


@pytest.mark.long
@pytest.mark.usefixtures("server")
def test_two_hundred_kills_end_with_the_same_numbers(tmp_path: Path) -> None:
    """Where a kill hits depends on the machine; that the numbers are the same does not."""
    whole = tmp_path / "whole"
    assert Forked(whole).ended() == 0
    expected = numbers(whole)
    assert len(expected) == 4
    dice, kills, seen = random.Random(0), Counter[str](), Counter[str]()
    folders = (tmp_path / str(number) for number in count())
    folder = next(folders)
    while sum(kills.values()) < KILLS:
        cold = dice.random() < 0.1 and (folder / "study.yaml").exists()
        process: Running = FromNothing(folder) if cold else Forked(folder)
        seen["starts from nothing" if cold else "forked starts"] += 1
        seen["starts with a checkpoint"] += bool(cut_off(folder))
        for lines in iter(lambda: dice.choice([0, 5, 10, 20]), None):
            if not all(process.says() for _ in range(lines)):
                break
            time.sleep(dice.uniform(0, 0.3))
            if dice.random() < 0.5:
                process.kill()
                break
            if workers := process.workers():
                kills["worker"] += killed(dice.choice(workers))
        code = process.ended()
        kills["parent"] += code == -signal.SIGKILL
        assert code == -signal.SIGKILL or 0 <= code <= 4
        if code == 0:
            seen["studies finished"] += 1
            assert numbers(folder) == expected
            folder = next(folders)
        print(json.dumps({**kills, **seen}), flush=True)
    while Forked(folder).ended() != 0:
        pass
    assert numbers(folder) == expected
    assert min(kills["worker"], kills["parent"]) >= KILLS // 10
    assert seen["starts with a checkpoint"] >= KILLS // 10  # otherwise it would prove little


def cut_off(folder: Path) -> list[Path]:
    """The trials that have a checkpoint and no result."""
    return [path for path in folder.glob("trials/*/checkpoint.pt") if not (path.parent / "result.json").exists()]


def children(parent: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def killed(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
