"""What a running study shows: trials done, time left, what failed. And tables of what came out."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from durm.study.executor import Event
from durm.training.trial import Trial


class Display:
    """Follows the events of a study. `show` gives one that draws a progress bar on a terminal."""

    def __init__(self, trials: list[Trial]) -> None:
        self.names = {trial.id: trial.folder_name for trial in trials}
        self.finished = 0

    def __call__(self, event: Event) -> None:
        name = self.names.get(event["trial"], event["trial"])
        if event["kind"] == "warning":
            self.say(f"warning: {name}: {event['message']}")
        elif event["kind"] == "failed":
            self.say(f"failed: {name}: {event['reason']}")

    def say(self, line: str) -> None:
        print(line, file=sys.stderr)


class ProgressDisplay(Display):
    """The same with a bar: it moves with every epoch, so that the time left is known before the first trial is done."""

    def __init__(self, trials: list[Trial], progress: Any) -> None:
        super().__init__(trials)
        self.progress = progress
        self.task = progress.add_task("", total=len(trials), trials=f"0/{len(trials)} trials")
        self.shares: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if event["kind"] == "epoch":
            self.shares[event["trial"]] = event["epoch"] / event["epochs"]
        elif event["kind"] in ("finished", "failed"):
            self.shares[event["trial"]] = 1.0
            self.finished += 1
        self.progress.update(
            self.task,
            completed=sum(self.shares.values()),
            trials=f"{self.finished}/{len(self.names)} trials",
        )

    def say(self, line: str) -> None:
        self.progress.console.print(line, markup=False, highlight=False)


@contextmanager
def show(trials: list[Trial], *, quiet: bool) -> Iterator[Display]:
    """A display of those trials, which are to be run."""
    if quiet or not trials:
        yield Display(trials)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.fields[trials]}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        yield ProgressDisplay(trials, progress)


def print_table(headings: list[str], rows: list[list[str]]) -> None:
    """Columns that line up, without colours or frames, so that the output can be piped."""
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    for row in [headings, *rows]:
        line = "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print(line.rstrip())


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, allow_nan=False))
