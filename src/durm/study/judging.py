"""Runs a study and judges it; one that goes on until decided looks, adds seeds, and looks again."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from durm.study import transfer
from durm.study.executor import Event, Execution, Outcome, run_study
from durm.study.store import Store
from durm.study.summary import Key, is_decided, read_results, write_summary
from durm.training.trial import Trial

Follow = Callable[[list[Trial]], AbstractContextManager[Callable[[Event], None]]]
"""Given the trials that are about to run, what is to be told of their events."""


@dataclass(frozen=True)
class Judged:
    """A study as it stands after one look."""

    store: Store
    outcome: Outcome
    results: dict[Key, dict[str, Any]]
    summary: dict[str, Any]
    is_last: bool


def _tell_nobody(trials: list[Trial]) -> AbstractContextManager[Callable[[Event], None]]:
    return nullcontext(lambda event: None)


def run_and_judge(store: Store, execution: Execution, follow: Follow = _tell_nobody) -> Iterator[Judged]:
    """Runs what is missing and judges, once; or, with `max_seeds`, until all arms are decided or the seeds used up."""
    while True:
        pending = [trial for trial in store.study.trials() if not store.is_done(trial)]
        with follow(pending) as tell:
            outcome = run_study(store, execution, tell)
        if store.study.attacks and not outcome.interrupted:
            transfer.fill(store, execution.data_root)
        results = read_results(store)
        summary = write_summary(store, results)
        following = store.study.next_look()
        over = outcome.interrupted or bool(outcome.failed) or is_decided(summary) or following is None
        yield Judged(store, outcome, results, summary, over)
        if over:
            return
        assert following is not None
        store = Store.create(store.folder, following)
