"""What a running study shows: trials done, time left, what failed. A bar on a terminal, lines elsewhere."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from durm._text import duration, visible
from durm.study.jobs import Event
from durm.training.trial import Trial

if TYPE_CHECKING:
    from rich.progress import Progress

SECONDS_BETWEEN_LINES = 60
SECONDS_BETWEEN_CHECKS = 10
"""How often it is asked whether a line is due, where no event asks."""


class Display:
    """Follows the events of a study, and tells of warnings and failures."""

    def __init__(self, trials: list[Trial]) -> None:
        self.names = {trial.id: trial.folder_name for trial in trials}
        self.shares = dict.fromkeys(self.names, 0.0)
        self.over: set[str] = set()

    def __call__(self, event: Event) -> None:
        kind, trial = event["kind"], event["trial"]
        name = self.names.get(trial, trial)
        if kind == "warning":
            self.say(f"warning: {name}: {event['message']}")
        elif kind == "failed":
            self.say(f"failed: {name}: {event['reason']}")
        if kind == "epoch" and trial in self.names:
            self.shares[trial] = event["epoch"] / event["epochs"]
        elif kind in ("finished", "failed") and trial in self.names:
            self.shares[trial] = 1.0
            self.over.add(trial)

    @property
    def finished(self) -> int:
        return len(self.over)

    @property
    def done(self) -> float:
        """In trials, with parts of those that run."""
        return sum(self.shares.values())

    @property
    def trials(self) -> str:
        return f"{self.finished}/{len(self.names)} trials"

    def say(self, line: str) -> None:
        print(visible(line), file=sys.stderr, flush=True)


class LineDisplay(Display):
    """For logs: `12/40 trials, 3 min elapsed, about 7 min left`, after the first trial, at each tenth, every minute.

    Events bring the lines, and `check`, for trials that tell of nothing for an hour.
    """

    def __init__(self, trials: list[Trial], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(trials)
        self.clock = clock
        self.lock = threading.RLock()
        self.started = self.last = clock()
        self.first: float | None = None  # when the first trial began: workers take their time to start

    def __call__(self, event: Event) -> None:
        with self.lock:
            before, count = self.finished, len(self.names)
            super().__call__(event)
            if self.first is None and event["kind"] == "started":
                self.first = self.clock()
            tenth = self.finished > before and 10 * self.finished // count > 10 * before // count
            self.check(due=tenth or before == 0 < self.finished)

    def check(self, *, due: bool = False) -> None:
        """Prints a line if one is due, as it is a minute after the last."""
        with self.lock:
            now, count = self.clock(), len(self.names)
            if due or now - self.last >= SECONDS_BETWEEN_LINES:
                self.last, worked = now, now - (self.started if self.first is None else self.first)
                left = f", about {duration(worked * (count / self.done - 1))} left" if 0 < self.done < count else ""
                self.say(f"{self.trials}, {duration(now - self.started)} elapsed{left}")


class ProgressDisplay(Display):
    """A bar. It moves with every epoch, so that the time left is known before the first trial is done."""

    def __init__(self, trials: list[Trial], progress: "Progress") -> None:
        super().__init__(trials)
        self.progress = progress
        self.task = progress.add_task("", total=len(trials), trials=self.trials)

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        self.progress.update(self.task, completed=self.done, trials=self.trials)

    def say(self, line: str) -> None:
        self.progress.console.print(visible(line), markup=False, highlight=False)


@contextmanager
def show(trials: list[Trial], *, quiet: bool) -> Iterator[Display]:
    """A display of those trials, which are to be run. It shows no interim effects: nobody should stop by them."""
    if quiet or not trials:
        yield Display(trials)
    elif not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        display = LineDisplay(trials)
        with _repeated(display.check):
            yield display
    else:
        with progress_bar("{task.fields[trials]}") as progress:
            yield ProgressDisplay(trials, progress)


@contextmanager
def _repeated(call: Callable[[], None]) -> Iterator[None]:
    """Calls it now and then, from a thread, within the context."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(SECONDS_BETWEEN_CHECKS):
            call()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def progress_bar(text: str, **options: Any) -> "Progress":
    """A bar on stderr, with a text before it, and with the time so far and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Column

    whole = Column(no_wrap=True)
    columns = (
        *(TextColumn(text, table_column=whole), BarColumn(20, table_column=whole)),
        *(TimeElapsedColumn(table_column=whole), TextColumn("left", table_column=whole)),
        TimeRemainingColumn(table_column=whole),
    )
    return Progress(*columns, console=Console(stderr=True), **options)
