"""In threads of this process: for trials that are programs of their own, and need no process around them."""

import threading
from collections.abc import Sequence

from durm.study.executors import EXECUTORS, on_interrupt, work
from durm.study.jobs import Event, Execution, Job, Send
from durm.study.store import Store


@EXECUTORS.register("threads")
def run(store: Store, jobs: Sequence[Job], execution: Execution, send: Send) -> bool:
    stopping, one_at_a_time = threading.Event(), threading.Lock()

    def send_alone(event: Event) -> None:
        with one_at_a_time:
            send(event)

    def start() -> threading.Thread:
        thread = threading.Thread(target=work, args=(store, jobs, execution, send_alone, stopping.is_set), daemon=True)
        thread.start()
        return thread

    with on_interrupt(lambda number, frame: stopping.set()):
        for thread in [start() for _ in range(max(1, min(execution.workers, len(jobs))))]:
            while thread.is_alive():
                thread.join(0.2)  # a join without an end would keep the signals from being heard
    return stopping.is_set()
