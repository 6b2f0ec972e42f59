"""The state of each trial of a study, from what lies in its folder, and how long the rest will take."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from durm.study.store import Store
from durm.training.trial import Trial

STATES = ("done", "running", "interrupted", "failed", "pending")


@dataclass(frozen=True)
class TrialState:
    """`begun` is when it was last begun, in seconds since 1970."""

    name: str
    state: str
    reason: str | None = None
    begun: float | None = None


@dataclass(frozen=True)
class StudyStatus:
    """How far a study has come.

    Attributes:
        trials: in the order of the study.
        elapsed: seconds from the first beginning of a trial to now, or to the last result if nothing runs; pauses in
            between count too.
        left: seconds until the trials that run and those that are interrupted or pending are done, if as many run at a
            time as now; None if nothing runs, or nothing is done yet. A study until decided may go on after that.
    """

    trials: list[TrialState]
    elapsed: float | None = None
    left: float | None = None

    @property
    def counts(self) -> dict[str, int]:
        return {state: sum(trial.state == state for trial in self.trials) for state in STATES}

    @property
    def running(self) -> list[TrialState]:
        return [trial for trial in self.trials if trial.state == "running"]


def study_status(store: Store, now: float) -> StudyStatus:
    """`now` in seconds since 1970.

    The time left is that of trials of the same setting where one is done, else of all: the median of each, summed over
    what is to do, less what those that run have behind them, divided by the number that run.
    """
    trials = store.study.runs()
    states = trial_states(store)
    begun = [state.begun for state in states if state.begun is not None]
    running = [state for state in states if state.state == "running"]
    kept = [time for trial in trials if (time := store.times(trial)[1]) is not None]
    end = now if running else max(kept, default=None)
    elapsed = None if end is None or not begun else max(0.0, end - min(begun))
    return StudyStatus(states, elapsed, _left(store, states, now) if running else None)


def _left(store: Store, states: Sequence[TrialState], now: float) -> float | None:
    trials = store.study.runs()
    settings = {trial.id: key[:3] for key, trial in store.study.cells()}
    took: dict[tuple[str, str, str], list[float]] = {}
    for trial in trials:
        if (seconds := _seconds(store, trial)) is not None:
            took.setdefault(settings[trial.id], []).append(seconds)
    if not took:
        return None
    of_all = statistics.median(seconds for alike in took.values() for seconds in alike)
    left = 0.0
    for trial, state in zip(trials, states, strict=True):
        whole = statistics.median(took.get(settings[trial.id], [of_all]))
        if state.state in ("interrupted", "pending"):
            left += whole
        elif state.state == "running":
            left += max(0.0, whole - (now - (state.begun or now)))
    return left / sum(state.state == "running" for state in states)


def _seconds(store: Store, trial: Trial) -> float | None:
    """How long a trial that is done took, by the times of its files; those of copies say nothing, its result does."""
    result, (begun, kept) = store.result(trial), store.times(trial)
    if result is None:
        return None
    return max(result.cost.seconds, kept - begun if kept is not None and begun is not None else 0.0)


def trial_states(store: Store) -> list[TrialState]:
    """In the order of the study. A trial whose lock is held is running; another that began was interrupted.

    The reason of one that is not done is why it failed, or why its result is not believed.
    """
    return [_state(store, trial) for trial in store.study.runs()]


def _state(store: Store, trial: Trial) -> TrialState:
    name, (begun, _) = trial.folder_name, store.times(trial)
    if store.is_done(trial):
        return TrialState(name, "done", None, begun)
    if not store.trial_folder(trial).exists():
        return TrialState(name, "pending")
    reason = store.error(trial)
    with store.lock(trial) as free:
        unfinished = "failed" if reason else "interrupted" if begun is not None else "pending"
        state = unfinished if free else "running"
    return TrialState(name, state, reason or store.damage(trial), begun)
