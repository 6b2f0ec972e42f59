"""What a running study shows: trials done, time left, what failed. And what came out: tables, the verdict in words."""

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from durm.report.tables import (
    Table,
    beside_table,
    domains_tables,
    groups_table,
    null_table,
    robustness_table,
    transfer_table,
    verdict_table,
)
from durm.report.words import headline, measured, place, selection, sentences, signed
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


class RunningDifference:
    """The mean difference of each arm from the first one, over the pairs that are done so far."""

    def __init__(self, trials: list[Trial], arms: Sequence[str]) -> None:
        self.trials = {trial.id: trial for trial in trials}
        self.values: dict[tuple[Any, ...], dict[str, float]] = {}
        self.arms = arms

    def add(self, trial_id: str, value: float) -> None:
        trial = self.trials[trial_id]
        if trial.arm not in self.arms:  # a null control
            return
        self.values.setdefault((trial.data, trial.model, trial.method, trial.seed), {})[trial.arm] = value

    def __str__(self) -> str:
        """Of the seeds whose arms are all done: `durm-1 +0.08, durm-2 −0.03 (n = 4)`."""
        baseline, *others = self.arms
        whole = [group for group in self.values.values() if len(group) == len(self.arms)]
        if not others or not whole:
            return ""
        means = {arm: statistics.fmean(group[arm] - group[baseline] for group in whole) for arm in others}
        return f"{', '.join(f'{arm} {signed(mean)}' for arm, mean in means.items())} (n = {len(whole)})"


class ProgressDisplay(Display):
    """The same with a bar: it moves with every epoch, so that the time left is known before the first trial is done."""

    def __init__(self, trials: list[Trial], arms: Sequence[str], metric: str, progress: Any) -> None:
        super().__init__(trials)
        self.metric = metric
        self.progress = progress
        self.task = progress.add_task("", total=len(trials), trials=f"0/{len(trials)} trials", difference="")
        self.shares: dict[str, float] = {}
        self.difference = RunningDifference(trials, arms)

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if event["kind"] == "epoch":
            self.shares[event["trial"]] = event["epoch"] / event["epochs"]
        elif event["kind"] in ("finished", "failed"):
            self.shares[event["trial"]] = 1.0
            self.finished += 1
            if event["kind"] == "finished":
                self.difference.add(event["trial"], event["metrics"][self.metric])
        self.progress.update(
            self.task,
            completed=sum(self.shares.values()),
            trials=f"{self.finished}/{len(self.names)} trials",
            difference=str(self.difference),
        )

    def say(self, line: str) -> None:
        self.progress.console.print(line, markup=False, highlight=False)


@contextmanager
def show(trials: list[Trial], arms: Sequence[str], metric: str, *, quiet: bool) -> Iterator[Display]:
    """A display of those trials, which are to be run, and of what the arms make of them in that metric."""
    if quiet or not trials:
        yield Display(trials)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Column

    whole, wrapped = Column(no_wrap=True), Column(no_wrap=False)
    columns = (
        *(TextColumn("{task.fields[trials]}", table_column=whole), BarColumn(20, table_column=whole)),
        *(TimeElapsedColumn(table_column=whole), TextColumn("left", table_column=whole)),
        TimeRemainingColumn(table_column=whole),
        TextColumn("{task.fields[difference]}", style="dim", table_column=wrapped),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield ProgressDisplay(trials, arms, metric, progress)


def print_verdict(summary: Mapping[str, Any], *, beside: bool = True) -> None:
    """Prints the tables and the sentences. `beside` adds what is always looked at with the metric."""
    for setting in [*summary["settings"], *summary["averages"]]:
        if setting["setting"]:
            print(f"{measured(summary['metric'])} {place(setting)}")
        _print(verdict_table(setting, summary))
        if beside:
            for table in (
                groups_table(setting),
                beside_table(setting),
                robustness_table(setting, summary),
                transfer_table(setting),
            ):
                if table.rows:
                    print()
                    _print(table)
        if setting["null_control"]["comparisons"]:
            print("\nnull control: each arm against itself, after a change that should not matter")
            _print(null_table(setting, summary))
        print()
        for text in sentences(setting, summary):
            print(text)
        if setting["comparisons"]:
            print()
    for name, table in domains_tables(summary):
        print(f"{name}, each domain held out in turn; weights of {selection(summary)}")
        _print(table)
        print()
    for warning in summary["warnings"]:
        print(f"Note: {warning}")
    if len(summary["settings"]) > 1:
        print(headline(summary))


def _print(table: Table) -> None:
    print_table(table.headings, table.texts())


def print_table(headings: list[str], rows: list[list[str]]) -> None:
    """Columns that line up, without colours or frames, so that the output can be piped."""
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    for row in [headings, *rows]:
        line = "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print(line.rstrip())


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False)


def print_json(value: Any) -> None:
    print(as_json(value))
