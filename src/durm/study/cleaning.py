"""Checkpoints that a study no longer needs."""

from dataclasses import dataclass
from pathlib import Path

from durm.study.config import Study
from durm.study.jobs import TransferJob
from durm.study.robustness import transferred_attack
from durm.study.store import Store

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class Cleaning:
    """What was, or would be, removed, with its size in bytes; and how many checkpoints are kept, by the reason."""

    removed: dict[Path, int]
    kept: dict[str, int]

    @property
    def size(self) -> int:
        return sum(self.removed.values())


def clean(store: Store, *, dry_run: bool = False) -> Cleaning:
    """Removes the checkpoints of trials that are done, and what writing them has left over.

    Kept are those of trials that are not done, which go on from there; of trials that another process works on; and of
    the models between which attacks are still to be carried over. Nothing but checkpoints is removed.
    """
    unmeasured = _needed_for_transfer(store)
    removed: dict[Path, int] = {}
    kept = dict.fromkeys(("unfinished", "running", "transfer"), 0)
    for trial in store.study.runs():
        folder = store.trial_folder(trial)
        files = [path for path in (folder / CHECKPOINT, *folder.glob(f".{CHECKPOINT}.*.tmp")) if path.is_file()]
        if not files:
            continue
        if not store.is_done(trial):
            kept["unfinished"] += 1
            continue
        if trial.id in unmeasured:
            kept["transfer"] += 1
            continue
        with store.lock(trial) as free:
            if not free:
                kept["running"] += 1
                continue
            for path in files:
                removed[path] = path.lstat().st_size
                if not dry_run:
                    path.unlink()
    return Cleaning(removed, {reason: count for reason, count in kept.items() if count})


def _needed_for_transfer(store: Store) -> set[str]:
    """The ids of trials whose models are needed to measure how attacks transfer: the arm's and the baseline's."""
    study = store.study
    attack = transferred_attack(study.attacks) if isinstance(study, Study) else None
    if attack is None or not isinstance(study, Study):
        return set()
    needed: set[str] = set()
    for trial, other in study.pairs():
        if not TransferJob(trial, other, attack).is_done(store):
            needed |= {trial.id, other.id}
    return needed
