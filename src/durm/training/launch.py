"""The processes of one trial: started here, one for each device, or those of torchrun, which may be on many nodes.

Under torchrun the first process runs the command; the others follow it: they train what it trains, and write nothing.
"""

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch.multiprocessing.spawn import spawn

from durm._processes import INTERRUPTS
from durm._ranks import of_first, together
from durm.errors import InputError
from durm.training.engine import Engine, Interrupted, with_engine
from durm.training.trial import Trial

PATIENCE = timedelta(days=1)
"""How long a process waits for the others: the first may hash the data, or attack a model, while they wait."""
POLL_SECONDS = 0.2
Work = Callable[[Engine], Any]


def join() -> bool:
    """Meets the other processes of torchrun; whether this is the first of them, which is to run the command.

    The others must call `follow`, the first `release` at its end.
    """
    device = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    torch.distributed.init_process_group(device, timeout=PATIENCE)
    return torch.distributed.get_rank() == 0


def follow() -> int:
    """Trains what the first process trains, until it is done; its exit code.

    An interrupt is the first process's to hear: when it stops, all stop, at the same step.
    """
    for number in INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    while True:
        with together():
            task = of_first(None)
        if isinstance(task, int):
            torch.distributed.destroy_process_group()
            return task
        with suppress(InputError, ArithmeticError, Interrupted):  # which the first process has met as well
            with_engine(*task)


def release(code: int) -> None:
    """The other processes of torchrun end with that exit code."""
    announce(code)
    torch.distributed.destroy_process_group()


def announce(task: tuple[Trial, Work] | int) -> None:
    """What the processes that follow are to do next: nothing more, if it is an exit code."""
    with together():
        of_first(task)


@dataclass(frozen=True)
class Remote:
    """What a process of a trial calls in the one that started it."""

    to: Connection
    name: str

    def __call__(self, *arguments: Any) -> None:
        with suppress(OSError):
            self.to.send((self.name, arguments))


def in_processes(trial: Trial, make_work: Callable[..., Work], context: Any) -> Any:
    """Does the work in one process for each device, started as torchrun starts them; gives what rank 0 gives.

    `make_work` takes the `progress`, `warn` and `stop` that these processes call; they reach those of the context.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawning = multiprocessing.get_context("spawn")
    stopping = spawning.Event()
    ours, theirs = spawning.Pipe(duplex=False)
    calls = {name: Remote(theirs, name) for name in ("progress", "warn")}
    work = make_work(**calls, stop=stopping.is_set)
    with spawning.Manager() as manager, _answering(ours, context, stopping):  # a pipe would block on large results
        results = manager.dict()
        spawn(_process, (trial, work, port, results), nprocs=trial.devices)
        found = results[0]
    if isinstance(found, Exception):
        raise found
    return found


@contextmanager
def _answering(calls: Connection, context: Any, stopping: Any) -> Iterator[None]:
    """Passes on what the processes call, and asks now and then whether they are to stop."""
    over = threading.Event()

    def answer() -> None:
        while calls.poll(POLL_SECONDS) or not over.is_set():
            if context.stop():
                stopping.set()
            if calls.poll():
                name, arguments = calls.recv()
                getattr(context, name)(*arguments)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _process(rank: int, trial: Trial, work: Work, port: int, results: Any) -> None:
    _leave_interrupts_to_parent()
    own, size = str(rank), str(trial.devices)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "durm"}
    os.environ |= {"RANK": own, "LOCAL_RANK": own, "GROUP_RANK": "0", "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    join()
    try:
        result = with_engine(trial, work)
    except Exception as error:
        if not (isinstance(error, ArithmeticError) or type(error).__module__.startswith("durm.")):
            raise
        result = error
    if rank == 0:
        results[0] = result
    torch.distributed.destroy_process_group()


def _leave_interrupts_to_parent() -> None:
    """Torch has the system send a SIGINT when the parent dies; any other is for the parent, which says what to do."""
    parent = os.getppid()

    def end_if_orphaned(number: int, frame: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    for number in INTERRUPTS:
        signal.signal(number, end_if_orphaned)
