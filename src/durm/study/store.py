"""What a study leaves on disk, so that nothing finished is ever lost or done twice.

    <folder>/study.yaml                          the resolved spec
    <folder>/trials/<readable>-<hash8>/          trial.json  metrics.jsonl  checkpoint.pt  result.json  or error.txt

A trial is done when its `result.json` is there, which is written whole or not at all. Whoever runs a trial holds a lock
of the kernel's on its folder; the lock goes when its holder does, so there is nothing stale to clean up.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from durm._files import WriteError, make_folder, write_whole
from durm.errors import InputError
from durm.study.rules import look_sizes
from durm.study.spec import Study, read_study
from durm.training.trial import Trial


class Store:
    """The folder of one study."""

    def __init__(self, folder: Path, study: Study) -> None:
        self.folder = folder
        self.study = study

    @classmethod
    def open(cls, folder: Path) -> "Store":
        """The store of a study that was run before."""
        path = folder / "study.yaml"
        if not folder.exists():
            raise InputError(f"{folder}: there is no such folder")
        if not path.is_file():
            raise InputError(f"{folder} is not the folder of a study: it has no study.yaml")
        return cls(folder, read_study(path))

    @classmethod
    def create(cls, folder: Path, study: Study) -> "Store":
        """The store of a study to run. One that is there already is taken up if the study is the same or adds to it."""
        if folder.is_file():
            raise InputError(f"--out {folder} is a file; expected a folder")
        make_folder(folder / "trials")
        path = folder / "study.yaml"
        with FileLock(folder / ".lock"):
            if path.exists():
                before = cls.open(folder).study
                if study.max_seeds and before.max_seeds and len(before.seeds) > len(study.seeds):
                    study = study.model_copy(update={"seeds": before.seeds})  # it goes on where it had come to
                _check_only_adds(folder, before.written(), study.written())
            write_whole(path, yaml.safe_dump(study.written(), sort_keys=False).encode())
        return cls(folder, study)

    def trial_folder(self, trial: Trial) -> Path:
        return self.folder / "trials" / trial.folder_name

    def result(self, trial: Trial) -> dict[str, Any] | None:
        """The result of a finished trial; None for any other."""
        try:
            text = (self.trial_folder(trial) / "result.json").read_text()
        except FileNotFoundError:
            return None
        result: dict[str, Any] = json.loads(text)
        return result

    def is_done(self, trial: Trial) -> bool:
        return (self.trial_folder(trial) / "result.json").exists()

    def error(self, trial: Trial) -> str | None:
        """Why the trial failed when it was last tried; None if it did not."""
        try:
            return (self.trial_folder(trial) / "error.txt").read_text()
        except FileNotFoundError:
            return None

    def begin(self, trial: Trial) -> Path:
        """The trial's folder, with its description in it."""
        folder = self.trial_folder(trial)
        make_folder(folder)
        write_whole(folder / "trial.json", json.dumps(trial.model_dump(mode="json"), indent=1).encode())
        return folder

    def keep(self, trial: Trial, result: str) -> None:
        """Keeps the result, as JSON."""
        write_whole(self.trial_folder(trial) / "result.json", result.encode())

    def fail(self, trial: Trial, reason: str) -> None:
        make_folder(self.trial_folder(trial))
        write_whole(self.trial_folder(trial) / "error.txt", reason.encode())

    def forget_errors(self) -> None:
        """Failed trials may be tried again."""
        for trial in self.study.trials():
            (self.trial_folder(trial) / "error.txt").unlink(missing_ok=True)

    @contextmanager
    def lock(self, trial: Trial) -> Iterator[bool]:
        """Whether the trial is ours to run. It is as long as the context lasts, and no other process's."""
        make_folder(self.trial_folder(trial))
        lock = FileLock(self.trial_folder(trial) / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        except OSError as error:
            raise WriteError(self.trial_folder(trial), error) from None
        try:
            yield True
        finally:
            lock.release()


def _check_only_adds(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuses a spec that is not the old one with, at the most, arms, seeds and the null control added."""
    differences = [_difference(key, old[key], new[key]) for key in old if not _adds(key, old[key], new[key])]
    if differences:
        raise InputError(
            f"{folder} holds another study: {'; '.join(differences)}. Only arms and seeds can be added; "
            "take another folder with --out"
        )


def _adds(key: str, old: Any, new: Any) -> bool:
    if key in ("arms", "seeds"):
        return old[:1] == new[:1] and all(item in new for item in old)
    if key == "max_seeds" and old is not None and new is not None:
        return old <= new and old in look_sizes(new)  # otherwise the looks would not be those that were taken
    return bool(old == new or (key == "null" and new))


def _difference(key: str, old: Any, new: Any) -> str:
    if isinstance(old, list) and isinstance(new, list) and (gone := [item for item in old if item not in new]):
        added = [item for item in new if item not in old]
        instead = f"replaced by {', '.join(map(_shown, added))}" if added else "left out"
        return f"{key} {', '.join(map(_shown, gone))} would be {instead}"
    if isinstance(old, dict) and isinstance(new, dict):
        return "; ".join(_difference(f"{key}.{k}", old[k], new[k]) for k in old if old[k] != new[k])
    return f"{key} was {_shown(old)} and is now {_shown(new)}"


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
