"""What is imported for a small trial, what starts its workers, and how often folders are listed."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from durm import _processes, models
from durm._processes import CAN_FORK, INTERRUPTS, WITHOUT_TIMM, began_in, end_server, start_process, start_server
from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import run_study
from durm.study.store import Store, TrialFolders

HEAVY = ("scipy.special", "sklearn", "pandas", "matplotlib", "torchvision", "timm", "lightning", "rich", "jinja2")
HEAVY += ("durm.attacks", "durm.curvature", "durm.probes", "durm.data.audio", "durm.data.text", "durm.report")
SMALL = {"model": "mlp", "dummies": [0, 2], "seeds": 1, "train": {"iterations": 2}}
TRAIN = f"""
import sys
from durm.study.executors import processes
from durm.study.reading import make_study
from durm.training.trainer import run

run(make_study({SMALL!r}).trials()[0])
print(*sorted(sys.modules))
"""
forked = pytest.mark.skipif(not CAN_FORK, reason="there is no fork server here")


def test_a_small_trial_imports_only_what_it_needs() -> None:
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, check=True)
    imported = {*done.stdout.split()}
    assert {"durm.training.trainer", "torch._dynamo"} <= imported
    assert {name for name in HEAVY if name in imported} == set()


def test_models_without_timm_are_those_of_durm() -> None:
    assert {*WITHOUT_TIMM} == {*models.OWN}


def report(connection: Any, environment: dict[str, str]) -> None:
    """In the new process."""
    import signal

    before = os.environ.get("DURM_TEST")
    began_in(environment)
    connection.send(
        {
            "parent": os.getppid(),
            "environment": (before, os.environ.get("DURM_TEST"), "PYTHONSAFEPATH" in os.environ),
            "here": os.getcwd(),
            "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []),
            "random": (random.random(), np.random.random()),
            "loaded": "durm.training.trainer" in sys.modules,
            "cuda": "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized(),
        }
    )


def ask() -> dict[str, Any]:
    from multiprocessing import Pipe

    ours, theirs = Pipe()
    process = start_process(report, (theirs, dict(os.environ)))
    theirs.close()
    told = ours.recv()
    process.join()
    assert process.exitcode == 0
    return told


@forked
def test_workers_are_forked_from_a_process_that_has_imported_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the folder and the environment of their parent now, random numbers of their own, no interrupts yet."""
    end_server()  # that of an earlier test may have imported less
    start_server("mlp")
    monkeypatch.setenv("DURM_TEST", "now")
    monkeypatch.chdir(tmp_path)
    told, other = ask(), ask()
    assert told["parent"] == other["parent"] != os.getpid()
    assert told["environment"][1:] == ("now", False)
    assert Path(told["here"]) == tmp_path
    assert {*INTERRUPTS} <= told["blocked"]
    assert all(one != two for one, two in zip(told["random"], other["random"], strict=True))
    assert told["loaded"]


@forked
def test_the_server_forks_with_one_thread_and_without_cuda() -> None:
    from multiprocessing.forkserver import _forkserver

    end_server()
    start_server("mlp")
    told = ask()
    assert told["loaded"]
    assert not told["cuda"]
    assert len(os.listdir(f"/proc/{_forkserver._forkserver_pid}/task")) == 1  # type: ignore[attr-defined]


@forked
def test_the_server_ends_with_a_command_that_finds_something_wrong_at_once() -> None:
    """Also by SIGKILL, and in the midst of its imports: then it ends after them."""
    begin = """
import os
from multiprocessing.forkserver import _forkserver
from durm._processes import start_server

start_server("mlp")
print(_forkserver._forkserver_pid, flush=True)
"""
    for end in ("", "os.kill(os.getpid(), 9)"):
        code = begin + end
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
        assert done.returncode == (-9 if end else 0)
        deadline = time.monotonic() + 600
        while Path(f"/proc/{done.stdout.strip()}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not Path(f"/proc/{done.stdout.strip()}").exists()


@forked
def test_without_a_server_processes_are_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    from multiprocessing import popen_forkserver

    def dead(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(popen_forkserver.forkserver, "connect_to_new_process", dead)
    assert ask()["parent"] == os.getpid()


@forked
def test_a_server_that_was_killed_is_started_again() -> None:
    import signal
    from multiprocessing.forkserver import _forkserver

    start_server()
    os.kill(_forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]
    os.waitid(os.P_PID, _forkserver._forkserver_pid, os.WEXITED | os.WNOWAIT)  # type: ignore[attr-defined]
    assert ask()["parent"] != os.getpid()


@forked
def test_the_server_imports_from_where_this_process_does(tmp_path: Path) -> None:
    """Also a package that is on sys.path and nowhere else; and it ends with this process, also in mid-import."""
    (tmp_path / "only_here.py").write_text("import os\nos.environ['ONLY_HERE'] = 'yes'\n")
    code = f"""
import os, sys
from multiprocessing import Pipe
sys.path.insert(0, {str(tmp_path)!r})
from durm import _processes

_processes._preloaded = {{"only_here": None}}
_processes.start_server()
print(os.environ.get("PYTHONPATH"), os.environ.get("PYTHONSAFEPATH"))
ours, theirs = Pipe()
_processes.start_process(os.write, (1, b"forked\\n")).join()
_processes._preloaded = {{}}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{os.environ.get('PYTHONPATH')} None", "forked"]


def test_gpus_are_never_used_by_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(_processes.multiprocessing, "get_context", lambda method: asked.append(method) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        start_process(print, (), on_gpu=True)
    assert asked == ["spawn"]


def test_folders_are_listed_once_however_many_trials_are_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []
    real = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: listed.append(path) or real(path))
    store = Store.create(tmp_path, make_study({**SMALL, "seeds": 20}))
    for trial in store.study.trials():
        assert store.begin(trial) == store.trial_folder(trial) == tmp_path / "trials" / trial.folder_name
    assert len(listed) <= 1


def test_a_folder_with_another_name_is_found_and_one_that_was_removed_is_noticed(tmp_path: Path) -> None:
    (trial, _) = make_study(SMALL).trials()
    other = tmp_path / f"renamed-{trial.id}"
    other.mkdir()
    folders = TrialFolders(tmp_path)
    assert folders.of(trial) == other
    other.rmdir()
    assert folders.of(trial) == tmp_path / trial.folder_name


def test_two_studies_in_one_process_share_the_server(tmp_path: Path) -> None:
    for name in ("one", "two"):
        outcome = run_study(Store.create(tmp_path / name, make_study(SMALL)), Execution(workers=2))
        assert len(outcome.done) == 2
