"""In this process, one job after the other."""

import threading
from collections.abc import Sequence
from contextlib import suppress

from durm.study.executors import EXECUTORS, on_interrupt, work
from durm.study.jobs import Execution, Job, Send
from durm.study.store import Store


@EXECUTORS.register("inline")
def run(store: Store, jobs: Sequence[Job], execution: Execution, send: Send) -> bool:
    stopping = threading.Event()
    in_function = any(job.trial.runner == "function" for job in jobs)

    def stop(number: int, frame: object) -> None:
        stopping.set()
        if in_function:  # nobody asks in there whether to stop
            raise KeyboardInterrupt

    with on_interrupt(stop), suppress(KeyboardInterrupt):
        work(store, jobs, execution, send, stopping.is_set)
    return stopping.is_set()
