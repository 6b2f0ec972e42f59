"""In several processes, each of which takes the next free job."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from durm._processes import INTERRUPTS, began_in, start_process
from durm.study.executors import EXECUTORS, POLL_SECONDS, on_interrupt, work
from durm.study.jobs import Event, Execution, Job, Send
from durm.study.store import Store


@EXECUTORS.register("processes")
def run(store: Store, jobs: Sequence[Job], execution: Execution, send: Send) -> bool:
    """A worker that dies takes its job with it, which failed; another takes its place."""
    workers: dict[Connection, _Worker] = {}
    by_trial = {job.trial.id: job for job in jobs}
    on_gpu = any(_device(job) != "cpu" for job in jobs)
    stopping = False

    def start(index: int) -> None:
        ours, theirs = Pipe()
        arguments = (index, store, jobs, execution, theirs, dict(os.environ))
        with _without_main():  # interrupts are held back until the process ignores them: the parent says what they mean
            process = start_process(_worker, arguments, on_gpu=on_gpu)
        theirs.close()
        workers[ours] = _Worker(index, process)
        if stopping:
            _send(ours, "stop")

    def stop(number: int, frame: object) -> None:
        nonlocal stopping
        if stopping and number == signal.SIGINT:  # a second Ctrl-C: now; a shutdown sends several signals by itself
            for worker in workers.values():
                worker.process.kill()
        stopping = True
        for connection in list(workers):
            _send(connection, "stop")

    with on_interrupt(stop), ExitStack() as stack:
        stack.callback(lambda: [worker.process.kill() for worker in workers.values()])  # if something goes wrong here
        for index in range(min(execution.workers, len(jobs))):
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
                    if worker.job is not None and not stopping:
                        reason = f"the process died ({_death(worker.process.exitcode)})"
                        store.fail(worker.job.trial, reason, worker.job.kind, pending=True)
                        send({"kind": "failed", "trial": worker.job.trial.id, "reason": "the process died"})
                        start(worker.index)
                    continue
                worker.follow(event, by_trial)
                send(event)
    return stopping


@dataclass
class _Worker:
    index: int
    process: Any
    job: Job | None = None

    def follow(self, event: Event, jobs: Mapping[str, Job]) -> None:
        """Remembers what the worker is at, to know what died with it."""
        if event["kind"] == "started":
            self.job = jobs[event["trial"]]
        elif event["kind"] in ("finished", "measured", "failed"):
            self.job = None


def _worker(
    index: int,
    store: Store,
    jobs: Sequence[Job],
    execution: Execution,
    connection: Connection,
    environment: dict[str, str],
) -> None:
    """The life of a worker process. It ends when the jobs do, or when its parent does: then the pipe closes."""
    began_in(environment)
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    if any(_device(job) == "cuda" for job in jobs):
        os.environ["CUDA_VISIBLE_DEVICES"] = _visible_device(index)
    stopping = threading.Event()

    def listen() -> None:
        try:
            while connection.recv() == "stop":
                stopping.set()
                if any(job.trial.runner == "function" for job in jobs):
                    os._exit(1)  # nobody asks in there whether to stop, and nothing of it could be kept
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    work(store, jobs, execution, lambda event: _send(connection, event), stopping.is_set)
    connection.close()


@contextmanager
def _without_main() -> Iterator[None]:
    """A process that is started in it does not import the user's script, unless that is guarded against it.

    An unguarded script would call durm.compare again in every worker. What workers need of it is sent by value.
    """
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or getattr(main, "__spec__", None) is not None or _is_guarded(Path(path)):
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = path


@cache
def _is_guarded(path: Path) -> bool:
    try:
        return "__name__" in path.read_text(errors="replace")
    except OSError:
        return False


def _device(job: Job) -> str:
    return str(getattr(job.trial, "device", "cpu"))


def _visible_device(index: int) -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[index % len(visible.split(","))] if visible else str(index)


def _send(connection: Connection, message: object) -> None:
    with suppress(OSError):  # the other end is gone, and has nothing to hear
        connection.send(message)


def _death(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
