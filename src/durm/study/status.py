"""The state of each trial of a study, from what lies in its folder."""

from dataclasses import dataclass

from durm.study.store import Store

STATES = ("done", "running", "cut off", "failed", "waiting")


@dataclass(frozen=True)
class TrialState:
    name: str
    state: str
    reason: str | None = None


def trial_states(store: Store) -> list[TrialState]:
    """In the order of the study. A trial runs if some process holds its lock; one that began otherwise was cut off."""
    states = []
    for trial in store.study.trials():
        folder = store.trial_folder(trial)
        reason = None
        if store.is_done(trial):
            state = "done"
        elif not folder.exists():
            state = "waiting"
        else:
            reason = store.error(trial)
            with store.lock(trial) as free:
                begun = (folder / "trial.json").exists()
                state = "running" if not free else "failed" if reason else "cut off" if begun else "waiting"
        states.append(TrialState(trial.folder_name, state, reason))
    return states
