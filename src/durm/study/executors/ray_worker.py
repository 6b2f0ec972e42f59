"""The part of the Ray executor that runs on the nodes: one job, in a process of Ray's."""

import os
import pickle
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from durm import __version__
from durm._files import make_folder, write_files
from durm.errors import InputError
from durm.study.base import AnyTrial, BaseStudy
from durm.study.executors import POLL_SECONDS
from durm.study.jobs import Event, Execution, Job
from durm.study.store import Store
from durm.training.result import Result


@dataclass(frozen=True)
class Setup:
    """What all jobs of a study share.

    Attributes:
        folder: of the study, where the driver runs.
        marker: the name of a file in it that is there if the disk is shared.
        records: data.json and code.json, with which data and code are compared.
        working_folder: where the driver was started.
        inode: of the working folder, which a folder of another disk does not have.
    """

    folder: Path
    marker: str
    records: Mapping[str, bytes]
    study: BaseStudy
    trust_code: bool
    execution: Execution
    working_folder: Path
    inode: int


class WorkerStore(Store):
    """Writes nothing but checkpoints and logs. What is to be kept goes back to the driver, as calls of its store."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        super().__init__(folder, setup.study, trust_code=setup.trust_code)
        self.home = setup.folder
        self.kept: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def begin(self, trial: AnyTrial) -> Path:
        """The driver has described the trial."""
        folder = self.trial_folder(trial)
        make_folder(folder)
        return folder

    def keep(self, trial: AnyTrial, result: Result) -> None:
        self.kept.append(("keep", (trial, result), {}))

    def keep_transfer(self, trial: AnyTrial, found: Mapping[str, float]) -> None:
        self.kept.append(("keep_transfer", (trial, dict(found)), {}))

    def fail(self, trial: AnyTrial, reason: str, kind: str = "trial", *, pending: bool = False) -> None:
        reason = f"{reason.replace(str(self.folder), str(self.home))} (on {socket.gethostname()})"
        self.kept.append(("fail", (trial, reason, kind), {"pending": pending}))


def work_on(version: str, setup: bytes, job: bytes, checkpoints: Mapping[str, Any], board: Any) -> dict[str, Any]:
    """Does a job, and reports what the driver is to write: calls of its store, the events after them, and files.

    Raises:
        InputError: if this node has another version of durm, which may read none of this.
    """
    import ray

    if version != __version__:
        raise InputError(
            f"node {socket.gethostname()} has durm {__version__}, and the study was started with durm {version}; "
            "install the same version on all nodes"
        )
    shared_by_all: Setup = pickle.loads(setup)
    our_job: Job = pickle.loads(job)
    events: list[Event] = []

    def send(event: Event) -> None:
        if event["kind"] in ("finished", "measured", "failed"):
            events.append(event)  # which is true once the driver has written the result
        else:
            board.post.remote(event)

    with ExitStack() as stack:
        is_shared = (shared_by_all.folder / shared_by_all.marker).exists()
        if is_shared:
            store = WorkerStore(shared_by_all.folder, shared_by_all)
        else:
            store = WorkerStore(Path(stack.enter_context(TemporaryDirectory(prefix="durm-"))), shared_by_all)
            write_files(store.folder, shared_by_all.records)
            for name, content in checkpoints.items():
                write_files(store.folder / "trials" / name, {"checkpoint.pt": ray.get(content)})
        stack.enter_context(_in_working_folder(shared_by_all))
        stopping = stack.enter_context(_listening(board))
        our_job.run(store, shared_by_all.execution, send, stopping.is_set)
        send_back = not is_shared and our_job.kind == "trial"
        files = _files(store.trial_folder(our_job.trial)) if send_back else {}
    return {"kept": store.kept, "events": events, "files": files}


def _files(folder: Path) -> dict[str, bytes]:
    """Checkpoint and logs, but not what a command has kept in its own folder."""
    found = [path for path in folder.glob("*") if path.is_file() and not path.name.startswith(".")]
    return {path.name: path.read_bytes() for path in found}


@contextmanager
def _in_working_folder(setup: Setup) -> Iterator[None]:
    """Where the driver was started, if that is the same folder here, or no code is to be found in it; else the copy
    that Ray has brought. As everywhere in durm, code is looked for in it after everything that is installed.
    """
    before = os.getcwd()
    if before in sys.path:
        sys.path[:] = [*(place for place in sys.path if place != before), before]
    there = setup.working_folder
    if there.is_dir() and (not setup.study.code or there.stat().st_ino == setup.inode):
        os.chdir(there)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _listening(board: Any) -> Iterator[threading.Event]:
    """Is set once the driver wants to stop, or is gone."""
    import ray
    from ray.exceptions import RayError

    stopping, over = threading.Event(), threading.Event()

    def listen() -> None:
        while not (over.wait(POLL_SECONDS) or stopping.is_set()):
            try:
                if ray.get(board.is_stopping.remote()):
                    stopping.set()
            except RayError:
                stopping.set()

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield stopping
    finally:
        over.set()
