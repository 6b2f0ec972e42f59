"""Where the jobs of a study run, one executor to a file: in this process, in several, or on a cluster.

Any number of executors may work on one study at the same time, on one machine or over a shared disk: a job belongs to
the process that holds the lock of its trial.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from durm._processes import INTERRUPTS
from durm._registry import Registry
from durm.study.jobs import Execution, Job, Send
from durm.study.store import Store

Executor = Callable[[Store, Sequence[Job], Execution, Send], bool]
"""Does the jobs that are open, and says whether it was interrupted. Each of `INTERRUPTS` lets each trial write its
checkpoint."""
EXECUTORS: Registry[Executor] = Registry("`executor`", "durm.study.executors")
POLL_SECONDS = 0.5


def work(store: Store, jobs: Sequence[Job], execution: Execution, send: Send, stop: Callable[[], bool]) -> None:
    """Does every job that is free, until all are done or failed, here or by other processes. None is tried twice."""

    def is_over(job: Job) -> bool:
        """Does it, if nobody else is at it; there is nothing left to do here if so."""
        try:
            if stop() or not job.is_open(store):
                return True
            with store.lock(job.trial) as ours:
                if ours and job.is_open(store):
                    job.run(store, execution, send, stop)
                return ours
        except OSError as error:  # its folder cannot be read or locked
            send({"kind": "failed", "trial": job.trial.id, "reason": str(error)})
            return True

    left = list(jobs)
    while left:
        before, left = len(left), [job for job in left if not is_over(job)]
        if left and len(left) == before:  # the rest is with other processes, which may yet die
            time.sleep(POLL_SECONDS)


@contextmanager
def on_interrupt(handler: Any) -> Iterator[None]:
    """What happens on an interrupt within the context. Only the main thread can say that; elsewhere nothing changes.

    SIGHUP stays ignored where it is, as under nohup.
    """
    with ExitStack() as stack:
        for number in INTERRUPTS if threading.current_thread() is threading.main_thread() else ():
            if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
                stack.callback(signal.signal, number, signal.signal(number, handler))
        yield
