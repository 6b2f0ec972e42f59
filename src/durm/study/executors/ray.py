"""On a Ray cluster: each job is a task of Ray's. The driver holds the locks of the trials, and alone writes results.

A worker finds out by a file of the driver's whether it sees the folder of the study. If so, the disk is shared, and
checkpoints and logs go there. If not, it works in a temporary folder, and sends them back with the result.
"""

import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

from durm import __version__
from durm._files import locked, read_bytes, remove, write_files
from durm._text import last_line
from durm.data import DEFAULT_ROOT
from durm.errors import InputError
from durm.study import code_record, data_record
from durm.study.base import BaseStudy
from durm.study.executors import EXECUTORS, POLL_SECONDS, on_interrupt
from durm.study.executors.ray_worker import Setup, work_on
from durm.study.jobs import Execution, Job, Send
from durm.study.store import Store

TIMES_NODE_LOST, TIMES_WORKER_DIED = 3, 1
"""How often a trial runs again after the loss of its node, and after a crash of its process."""

ADDRESS_SECONDS = 10.0


@EXECUTORS.register("ray")
def run(store: Store, jobs: Sequence[Job], execution: Execution, send: Send) -> bool:
    try:
        from ray.exceptions import RayError
    except ImportError:
        raise InputError("`executor` 'ray' is not installed: pip install 'durm[ray]'") from None
    try:
        with _connected(store, execution), _marker(store.folder) as marker:
            return _Driver(store, jobs, execution, send, marker).run()
    except RayError as error:  # no fault of a trial's, which would be in its report
        cause = getattr(error, "cause", None) or error
        raise InputError(f"Ray: {last_line(cause, type(cause).__name__)}") from None


@dataclass
class _Task:
    """A job that runs, with the lock of its trial."""

    job: Job
    lock: ExitStack


class _Driver:
    """Hands out the jobs, as many at a time as `workers` says or the cluster has room for, and keeps what comes back.

    A lost node costs what its trials have done since their last checkpoint.
    """

    def __init__(self, store: Store, jobs: Sequence[Job], execution: Execution, send: Send, marker: Path) -> None:
        import cloudpickle
        import ray

        self.store, self.send, self.workers = store, send, execution.workers
        self.left: list[Job] = list(jobs)
        self.running: dict[Any, _Task] = {}
        self.interrupts: list[int] = []
        self.lost: Counter[tuple[str, str]] = Counter()
        self.needs = _needs(store.study, execution)
        here = _on_this_node(ray)
        self.board = ray.remote(num_cpus=0, scheduling_strategy=here)(_board()).remote()
        self.task = ray.remote(max_retries=0, num_cpus=self.needs["CPU"], num_gpus=self.needs["GPU"])(work_on)
        records = {name: read_bytes(store.folder / name) for name in (data_record.FILE, code_record.FILE)}
        setup = Setup(
            folder=store.folder.resolve(),
            marker=marker.name,
            records={name: content for name, content in records.items() if content is not None},
            study=store.study,
            trust_code=store.trust_code,
            execution=replace(
                execution, workers=max(1, execution.workers), data_root=(execution.data_root or DEFAULT_ROOT).resolve()
            ),
            working_folder=Path.cwd(),
            inode=Path.cwd().stat().st_ino,
        )
        self.setup = ray.put(cloudpickle.dumps(setup))  # once: a function may bring large data with it

    def run(self) -> bool:
        """Whether it was interrupted."""
        with on_interrupt(lambda number, frame: self.interrupts.append(number)):
            try:
                while self.running or (self.left and not self.interrupts):
                    self._heed_interrupts()
                    self._hand_out()
                    self._collect()
            finally:
                self._cancel()
                for task in self.running.values():
                    task.lock.close()
        return bool(self.interrupts)

    def _heed_interrupts(self) -> None:
        """Trials write their checkpoints, and end. Nobody asks in a function whether to stop, so it is ended.

        A second Ctrl-C ends all.
        """
        if self.interrupts:
            self.board.stop.remote()
            in_function = any(task.job.trial.runner == "function" for task in self.running.values())
            if in_function or self.interrupts.count(signal.SIGINT) > 1:
                self._cancel()

    def _cancel(self) -> None:
        import ray

        for task in self.running:
            ray.cancel(task, force=True)

    def _hand_out(self) -> None:
        room = self.workers or _capacity(self.needs)
        if not room and not self.running and self.left:
            needs = ", ".join(f"{count:g} {kind}" for kind, count in self.needs.items() if count)
            raise InputError(
                f"`trial_cpus` and `trial_gpus`: no node of the cluster has {needs} for a trial; give less, or, if "
                "nodes are yet to come, `workers`"
            )
        pending = []
        for job in self.left:
            if self.interrupts or len(self.running) >= room or not self._is_over_or_runs(job):
                pending.append(job)
        self.left = pending

    def _is_over_or_runs(self, job: Job) -> bool:
        """False if another process is at it, which may yet die."""
        try:
            if not job.is_open(self.store):
                return True
            with ExitStack() as lock:
                if not lock.enter_context(self.store.lock(job.trial)):
                    return False
                if job.is_open(self.store):
                    if job.kind == "trial":
                        self.store.begin(job.trial)
                    self._submit(_Task(job, lock.pop_all()))
        except OSError as error:  # its folder cannot be read or locked
            self.send({"kind": "failed", "trial": job.trial.id, "reason": str(error)})
        return True

    def _submit(self, task: _Task) -> None:
        import cloudpickle
        import ray

        checkpoints = {}
        for trial in (task.job.trial, getattr(task.job, "baseline", None)):
            if trial is not None and (content := read_bytes(self.store.trial_folder(trial) / "checkpoint.pt")):
                checkpoints[trial.folder_name] = ray.put(content)
        arguments = (__version__, self.setup, cloudpickle.dumps(task.job), checkpoints, self.board)
        self.running[self.task.remote(*arguments)] = task

    def _collect(self) -> None:
        """Waits a while for something to happen, and tells of it."""
        import ray

        if self.running:
            ready, _ = ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
            ready = ready or ray.wait(list(self.running), timeout=POLL_SECONDS)[0]
        else:
            ready = []
            threading.Event().wait(POLL_SECONDS)
        for event in ray.get(self.board.take.remote()):
            self.send(event)
        for one in ready:
            task = self.running.pop(one)
            with task.lock:
                if self._finish(one, task.job):
                    continue
                self._submit(_Task(task.job, task.lock.pop_all()))

    def _finish(self, one: Any, job: Job) -> bool:
        """False if it is to be done again."""
        import ray
        from ray import exceptions

        try:
            self._keep(job, ray.get(one))
            return True
        except (exceptions.NodeDiedError, exceptions.ObjectLostError):
            return self._is_given_up(job, "its node was lost", TIMES_NODE_LOST)
        except (exceptions.WorkerCrashedError, exceptions.OutOfMemoryError, exceptions.TaskCancelledError):
            return self._is_given_up(job, "its process died", TIMES_WORKER_DIED)

    def _keep(self, job: Job, report: Mapping[str, Any]) -> None:
        try:
            write_files(self.store.trial_folder(job.trial), report["files"])
            for name, arguments, options in report["kept"]:
                getattr(self.store, name)(*arguments, **options)
            for event in report["events"]:
                self.send(event)
        except (OSError, InputError) as error:
            self._fail(job, str(error), pending=isinstance(error, OSError))

    def _is_given_up(self, job: Job, reason: str, times: int) -> bool:
        if self.interrupts:
            return True
        key = (job.trial.id, reason)
        if self.lost[key] < times:
            self.lost[key] += 1
            self.send({"kind": "warning", "trial": job.trial.id, "message": f"{reason}; it runs again elsewhere"})
            return False
        self._fail(job, f"{reason} {times + 1} times", pending=True)
        return True

    def _fail(self, job: Job, reason: str, *, pending: bool) -> None:
        with suppress(OSError):  # where nothing can be written, the event says it
            self.store.fail(job.trial, reason, job.kind, pending=pending)
        self.send({"kind": "failed", "trial": job.trial.id, "reason": reason})


@contextmanager
def _connected(store: Store, execution: Execution) -> Iterator[None]:
    """Ray, as the caller has begun it, or at the address, or started here for as long as the context lasts.

    The working folder goes to the nodes only if the study names code in it: without that nothing is imported from it.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    address = execution.address or os.environ.get("RAY_ADDRESS") or "local"
    _check_address(address)
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with TemporaryDirectory(prefix="durm-") as empty, _signals_kept():
        options["runtime_env"] = {"working_dir": empty}
        if store.study.code:
            options["runtime_env"] = {"working_dir": str(Path.cwd()), "excludes": _excluded(store, execution)}
        try:
            ray.init(address, log_to_driver=False, logging_level="error", **options)
        except ConnectionError as error:
            raise InputError(f"`address` {address!r}: {last_line(error, type(error).__name__)}") from None
        except (OSError, RuntimeError, ValueError) as error:  # such as a working folder of many gigabytes
            raise InputError(f"Ray cannot be used: {last_line(error, type(error).__name__)}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Ray itself would try for minutes."""
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ADDRESS_SECONDS).close()
    except (ValueError, OverflowError):
        raise InputError(f"`address` {address!r}: expected auto, or HOST:PORT such as 10.0.0.1:6379") from None
    except OSError as error:
        raise InputError(f"`address` {address!r}: no Ray answers there ({error.strerror or error})") from None


def _excluded(store: Store, execution: Execution) -> list[str]:
    """What of the working folder no code needs: runs, data, hidden files."""
    here = Path.cwd()
    folders = [folder.resolve() for folder in (store.folder, execution.data_root or DEFAULT_ROOT)]
    inside = [f"/{folder.relative_to(here)}/" for folder in folders if folder != here and folder.is_relative_to(here)]
    hidden = ".[!.]*"  # `.*` would match the working folder itself, `.`
    return ["/runs/", "/data/", hidden, "__pycache__/", *inside]


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray sets a handler of its own, which is taken off again."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _marker(folder: Path) -> Iterator[Path]:
    """A file that shows who sees it that the disk is shared. Its lock tells those that a killed driver has left."""
    for path in folder.glob(".driver-*"):
        with locked(path, wait=False) as stale:
            if stale:
                remove(path)
    path = folder / f".driver-{token_hex(16)}"
    with locked(path, wait=True):
        path.touch()
        try:
            yield path
        finally:
            remove(path)


def _needs(study: BaseStudy, execution: Execution) -> dict[str, float]:
    """What one trial takes: its threads in cores, a GPU if it runs on one."""
    on_gpu = str(getattr(study, "device", "cpu")).startswith("cuda")
    cpus, gpus = execution.trial_cpus, execution.trial_gpus
    return {
        "CPU": float(getattr(study, "threads", 1)) if cpus is None else cpus,
        "GPU": float(on_gpu) if gpus is None else gpus,
    }


def _capacity(needs: Mapping[str, float]) -> int:
    """How many trials the nodes have room for that are there now."""
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(int(min(node.get(kind, 0) / count for kind, count in needs.items() if count)) for node in nodes)


def _board() -> type:
    """Between the driver and its workers: events in one direction, the wish to stop in the other.

    A class inside a function is sent by value, so that its process needs not import durm.
    """

    class Board:
        def __init__(self) -> None:
            self.events: list[Any] = []
            self.stopping = False

        def post(self, event: Any) -> None:
            self.events.append(event)

        def take(self) -> list[Any]:
            taken, self.events = self.events, []
            return taken

        def stop(self) -> None:
            self.stopping = True

        def is_stopping(self) -> bool:
            return self.stopping

    return Board


def _on_this_node(ray: Any) -> Any:
    """The board is not lost with another node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
