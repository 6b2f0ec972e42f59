"""Runs the trials of a study that are not done yet, in several processes, each of which takes the next free one.

Any number of executors may work on one study at the same time, on one machine or over a shared disk: a trial belongs to
whoever holds its lock.
"""

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from durm.errors import InputError
from durm.study.store import Store
from durm.training.trial import Trial

Event = dict[str, Any]
"""What happens to a trial: {"kind": "started" | "epoch" | "finished" | "failed" | "warning", "trial": id, …}."""

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Execution:
    """How to run a study: none of it changes the numbers. Without workers, trials run in this process."""

    workers: int = 1
    data_root: Path | None = None
    checkpoint_seconds: float = 30.0
    num_workers: int = 0


@dataclass
class Outcome:
    """What became of the trials of a study."""

    done: list[Trial] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False


def run_study(store: Store, execution: Execution, on_event: Callable[[Event], None] = lambda event: None) -> Outcome:
    """Runs what is missing. A trial that fails is reported at the end, with the rest done.

    Ctrl-C lets every running trial write its checkpoint; running the study again goes on from there.
    """
    trials = store.study.trials()
    pending = [trial for trial in trials if not store.is_done(trial)]
    store.forget_errors()
    run = _run_in_processes if execution.workers else _run_here
    interrupted = bool(pending) and run(store, pending, execution, on_event)
    left = [trial for trial in pending if not store.is_done(trial)]
    unknown = None if interrupted else "it was not run, because the worker processes died"
    reasons = {trial.folder_name: store.error(trial) or unknown for trial in left}
    return Outcome(
        done=[trial for trial in trials if store.is_done(trial)],
        failed={name: reason for name, reason in reasons.items() if reason is not None},
        interrupted=interrupted and bool(left),
    )


def _run_here(store: Store, pending: list[Trial], execution: Execution, on_event: Callable[[Event], None]) -> bool:
    """Whether it was interrupted."""
    stopping = threading.Event()
    with _on_interrupt(lambda number, frame: stopping.set()):
        work(store, pending, execution, on_event, stopping.is_set)
    return stopping.is_set()


def _run_in_processes(
    store: Store, pending: list[Trial], execution: Execution, on_event: Callable[[Event], None]
) -> bool:
    """Whether it was interrupted."""
    context = multiprocessing.get_context("spawn")
    workers: dict[Connection, _Worker] = {}
    stopping = False

    def start(index: int) -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_worker, args=(index, store, pending, execution, theirs))
        with _on_interrupt(signal.SIG_IGN):  # which the process inherits: the parent says what Ctrl-C means
            process.start()
        theirs.close()
        workers[ours] = _Worker(index, process)

    def stop(number: int, frame: object) -> None:
        nonlocal stopping
        if stopping:  # the second time: now
            for worker in workers.values():
                worker.process.kill()
        stopping = True
        for connection in workers:
            _send(connection, "stop")

    with _on_interrupt(stop), _killed_at_the_end(workers):
        for index in range(min(execution.workers, len(pending))):
            start(index)
        while workers:
            for connection in wait(list(workers), timeout=POLL_SECONDS):
                assert isinstance(connection, Connection)
                worker = workers[connection]
                try:
                    event = connection.recv()
                except (EOFError, OSError):
                    del workers[connection]
                    worker.process.join()
                    if worker.trial is not None and not stopping:
                        store.fail(worker.trial, f"the process died ({_death(worker.process.exitcode)})")
                        on_event({"kind": "failed", "trial": worker.trial.id, "reason": "the process died"})
                        start(worker.index)
                    continue
                worker.follow(event, pending)
                on_event(event)
    return stopping


@contextmanager
def _killed_at_the_end(workers: "dict[Connection, _Worker]") -> Iterator[None]:
    """Workers that are left when something goes wrong here do not stay behind."""
    try:
        yield
    finally:
        for worker in workers.values():
            worker.process.kill()


@contextmanager
def _on_interrupt(handler: Any) -> Iterator[None]:
    """What happens on Ctrl-C within the context. Only the main thread can say that; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass
class _Worker:
    index: int
    process: Any
    trial: Trial | None = None

    def follow(self, event: Event, pending: list[Trial]) -> None:
        """Remembers what the worker is at, to know what died with it."""
        if event["kind"] == "started":
            self.trial = next(trial for trial in pending if trial.id == event["trial"])
        elif event["kind"] in ("finished", "failed"):
            self.trial = None


def _worker(index: int, store: Store, pending: list[Trial], execution: Execution, connection: Connection) -> None:
    """The life of a worker process. It ends when the trials do, or when its parent does: then the pipe closes."""
    if any(trial.device == "cuda" for trial in pending):
        os.environ["CUDA_VISIBLE_DEVICES"] = _visible_device(index)
    stopping = threading.Event()

    def listen() -> None:
        try:
            while connection.recv() == "stop":
                stopping.set()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    work(store, pending, execution, lambda event: _send(connection, event), stopping.is_set)
    connection.close()


def work(
    store: Store,
    pending: list[Trial],
    execution: Execution,
    send: Callable[[Event], None],
    stop: Callable[[], bool],
) -> None:
    """Runs every trial that is free, until all are done or failed, by whomever."""
    while not stop():
        open_trials = [trial for trial in pending if not store.is_done(trial) and store.error(trial) is None]
        if not open_trials:
            return
        ran = False
        for trial in open_trials:
            if stop():
                return
            with store.lock(trial) as ours:
                if ours and not store.is_done(trial) and store.error(trial) is None:
                    ran = True
                    _run_one(store, trial, execution, send, stop)
        if not ran:  # the rest is with other processes, which may yet die
            time.sleep(POLL_SECONDS)


def _run_one(
    store: Store, trial: Trial, execution: Execution, send: Callable[[Event], None], stop: Callable[[], bool]
) -> None:
    from durm.training.loop import Interrupted, Surroundings, run

    def event(kind: str, **more: Any) -> None:
        send({"kind": kind, "trial": trial.id, **more})

    event("started", name=trial.folder_name)
    try:
        surroundings = Surroundings(
            folder=store.begin(trial),
            data_root=execution.data_root,
            checkpoint_seconds=execution.checkpoint_seconds,
            num_workers=execution.num_workers,
            progress=lambda entry, epochs: event("epoch", epochs=epochs, **entry),
            stop=stop,
            warn=lambda sentence: event("warning", message=sentence),
        )
        result = run(trial, surroundings)
        store.keep(trial, result.model_dump_json())
        event("finished", metrics=result.metrics, seconds=result.cost["seconds"])
    except Interrupted:
        return
    except Exception as error:  # whatever a trial dies of must not take the study with it
        expected = isinstance(error, InputError | ArithmeticError | OSError)
        reason = str(error) if expected else traceback.format_exc()
        try:
            store.fail(trial, reason)
        finally:
            event("failed", reason=reason.strip().splitlines()[-1])


def default_workers(device: str, threads: int) -> int:
    """One process for each core on a CPU (fewer if each uses several threads), one for each device on GPUs."""
    if device.startswith("cuda"):
        import torch

        return 1 if ":" in device else max(1, torch.cuda.device_count())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // threads)


def _visible_device(index: int) -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[index % len(visible.split(","))] if visible else str(index)


def _send(connection: Connection, message: object) -> None:
    with suppress(OSError):  # the other end is gone, and has nothing to hear
        connection.send(message)


def _death(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
