"""What a study leaves on disk, so that nothing finished is ever lost or done twice.

    <folder>/study.yaml                      the resolved spec
    <folder>/trials/<readable>-<id>/         trial.json  metrics.jsonl  checkpoint.pt  result.json  or error.txt

The folder of a trial is found by the id at the end of its name. Version 1 had other ids, of 8 digits; its folders are
known by their trial.json, and taken up in place.

A trial is done when its `result.json` is there, which is written whole or not at all, and is what was written: see
`durm.study.results`. A process that runs a trial holds a lock of the kernel's on its folder; the lock goes when its
holder does, so there is nothing stale to clean up.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from pydantic import ValidationError

from durm import _seal
from durm._files import (
    atomic_write,
    locked,
    make_folder,
    mark_time,
    read_bytes,
    read_text,
    remove,
    set_aside,
    stamp,
    write_files,
)
from durm.errors import InputError
from durm.study.base import AnyTrial, BaseStudy
from durm.study.code_study import describes
from durm.study.reading import read_any_study
from durm.study.records import Summary
from durm.study.results import OUTCOMES, RESULT, ResultFiles, parse_result, sealed_result
from durm.training.outcomes import unpack_outcomes
from durm.training.result import Result
from durm.training.trial import read_trial


class Store:
    """The folder of one study.

    The code of models that are written `package.module:function` may be run if the caller names them, in the study that
    a store is made with; a folder that is opened may have come from others, and needs `trust_code`.
    """

    def __init__(self, folder: Path, study: BaseStudy, *, trust_code: bool = True) -> None:
        self.folder = folder
        self._folders = TrialFolders(folder / "trials")
        self._results = ResultFiles()
        self.study = study
        self.trust_code = trust_code

    @property
    def trusted_code(self) -> frozenset[str]:
        """Those of the study whose code may be run; a checkpoint in the folder that names another is not trusted."""
        return frozenset(self.study.code) if self.trust_code else frozenset()

    @classmethod
    def open(cls, folder: Path, *, trust_code: bool = False) -> "Store":
        """The store of a study that was run before."""
        path = folder / "study.yaml"
        if not folder.exists():
            raise InputError(f"{folder}: there is no such folder")
        if not path.is_file():
            raise InputError(f"{folder} is not the folder of a study: it has no study.yaml")
        return cls(folder, read_any_study(path, of_folder=True), trust_code=trust_code)

    @classmethod
    def create(cls, folder: Path, study: BaseStudy) -> "Store":
        """The store of a study to run. One that is there already is taken up if the study is the same or adds to it."""
        if folder.is_file():
            raise InputError(f"`out` {folder} is a file; expected a folder")
        make_folder(folder / "trials")
        path = folder / "study.yaml"
        with locked(folder / ".lock", wait=True):
            if path.exists():
                before = cls.open(folder).study
                if before.versions != study.versions:
                    study = study.updated(versions=before.versions)  # a study keeps the defaults that it was begun with
                if study.max_seeds and before.max_seeds and len(before.seeds) > len(study.seeds):
                    study = study.updated(seeds=before.seeds)  # it goes on where it had come to
                _check_only_adds(folder, before.written(), study.written(), judged=(folder / _SUMMARY).exists())
            atomic_write(path, yaml.safe_dump(study.written(), sort_keys=False).encode())
        return cls(folder, study)

    def trial_folder(self, trial: AnyTrial) -> Path:
        """Where the trial is, or would be, kept: whatever the arm was called when it was begun."""
        return self._folders.of(trial)

    def result(self, trial: AnyTrial) -> Result | None:
        """The result of a finished trial; None for any other."""
        return self._results.read(self.trial_folder(trial), trial)

    def is_done(self, trial: AnyTrial) -> bool:
        check = self._results.check(self.trial_folder(trial), trial)
        return check is not None and check.damaged is None

    def is_sealed(self, trial: AnyTrial) -> bool:
        """Whether its result has a checksum, and is what was written. Those of version 1 have none."""
        check = self._results.check(self.trial_folder(trial), trial)
        return check is not None and check.damaged is None and check.sealed

    def damage(self, trial: AnyTrial) -> str | None:
        """Why a result that is there is not believed, in a sentence; None if it is, or there is none."""
        folder = self.trial_folder(trial)
        check = self._results.check(folder, trial)
        if check is None or check.damaged is None:
            return None
        return f"{folder / check.damaged} is damaged: {check.reason}"

    def error(self, trial: AnyTrial, kind: str = "trial") -> str | None:
        """Why that kind of work on the trial failed when it was last tried; None if it did not."""
        content = self._read(trial, _ERRORS[kind])
        if content is None:
            return None
        return content.decode(errors="replace").strip() or f"{_ERRORS[kind]} does not say why"

    def transfer(self, trial: AnyTrial) -> dict[str, float]:
        """How attacks transfer between the trial's model and the baseline's; nothing if it was not measured."""
        try:
            return _transfer(self._read(trial, _TRANSFER), trial)
        except _seal.Damaged:
            return {}

    def _read(self, trial: AnyTrial, name: str) -> bytes | None:
        return read_bytes(self.trial_folder(trial) / name)

    def begin(self, trial: AnyTrial) -> Path:
        """The trial's folder, with its description in it, which has the time of now. A damaged result is set aside."""
        folder = self.trial_folder(trial)
        make_folder(folder)
        self._results.set_aside(folder, trial)
        path = folder / _TRIAL
        if not describes(read_bytes(path) or b"", trial):
            atomic_write(path, json.dumps(trial.model_dump(mode="json"), indent=1).encode())
        mark_time(path)
        return folder

    def times(self, trial: AnyTrial) -> tuple[float | None, float | None]:
        """When the trial was last begun, and when its result was kept, in seconds since 1970; None for what was not."""
        found = (stamp(self.trial_folder(trial) / name) for name in (_TRIAL, RESULT))
        begun, kept = (None if one is None else one[1] / 1e9 for one in found)
        return begun, kept

    def keep(self, trial: AnyTrial, result: Result) -> None:
        """The outcomes first: a trial is done when its result is there.

        Raises:
            InputError: for a result that could not be read again: one of another trial, or with a value that is not a
                number.
        """
        folder = self.trial_folder(trial)
        content = sealed_result(result).model_dump_json(exclude={"transfer"}).encode()
        try:
            parse_result(content, trial, folder)
        except _seal.Damaged as error:
            raise InputError(f"the result cannot be kept: {error}") from None
        outcomes = {OUTCOMES: result.outcomes} if result.outcomes else {}
        write_files(folder, {**outcomes, RESULT: content})

    def outcomes(self, trial: AnyTrial) -> dict[str, np.ndarray] | None:
        """What the trial's model made of each test sample; None if that was not kept."""
        content = self._results.outcomes(self.trial_folder(trial), trial)
        if content is None:
            return None
        try:
            return unpack_outcomes(content)
        except ValueError:
            return None

    def lost(self, trial: AnyTrial) -> str | None:
        """Why a run failed for good; None for one that is done, not run yet, or only pending.

        A run that was killed, ran out of memory or found a full disk is pending, and lost after the third time.
        """
        reason = self.error(trial)
        if self.is_done(trial) or reason is None:
            return None
        times = (self._read(trial, _PENDING) or b"").count(b"\n")
        return reason if times == 0 or times >= TIMES_PENDING else None

    def keep_transfer(self, trial: AnyTrial, found: Mapping[str, float]) -> None:
        """A damaged one that is there is set aside."""
        path = self.trial_folder(trial) / _TRANSFER
        if stamp(path) is not None and not self.transfer(trial):
            set_aside(path)
        atomic_write(path, json.dumps(_seal.seal({**found, "trial": trial.id})).encode())

    def looked_at(self, name: str = "looked_at") -> list[int]:
        """The numbers of seeds at which a summary was made before, even if the rest of it can no longer be read.

        `draws_looked_at` are those of draws.
        """
        match = re.search(rf'"{name}":\s*\[([\d,\s]*)\]'.encode(), read_bytes(self.folder / _SUMMARY) or b"")
        return [int(size) for size in match[1].split(b",") if size.strip()] if match else []

    def keep_summary(self, summary: Summary, tables: Mapping[str, str]) -> None:
        """Keeps the summary, and tables of runs as CSV. A damaged summary that is there is set aside."""
        path = self.folder / _SUMMARY
        if stamp(path) is not None and not _is_json(read_bytes(path)):
            set_aside(path)
        content = json.dumps(summary.as_json(), indent=1, allow_nan=False)
        write_files(self.folder, {_SUMMARY: content.encode(), **{name: text.encode() for name, text in tables.items()}})

    def fail(self, trial: AnyTrial, reason: str, kind: str = "trial", *, pending: bool = False) -> None:
        """Keeps why that kind of work failed; `pending` if it was not the fault of the trial."""
        files = {_ERRORS[kind]: reason.encode()}
        if kind == "trial":
            before = self._read(trial, _PENDING) or b""
            line = " ".join(reason.split()).encode() + b"\n"
            files[_PENDING] = before + line if pending else b""
        write_files(self.trial_folder(trial), files)

    def forget_errors(self) -> None:
        """Failed trials may be tried again."""
        for trial in self.study.trials():
            for name in _ERRORS.values():
                remove(self.trial_folder(trial) / name)

    @contextmanager
    def lock(self, trial: AnyTrial) -> Iterator[bool]:
        """Whether the trial is ours to run. It is as long as the context lasts, and no other process's."""
        make_folder(self.trial_folder(trial))
        with locked(self.trial_folder(trial) / ".lock", wait=False) as ours:
            yield ours


def read_summary(path: Path) -> Summary:
    """A summary.json of this or an earlier version.

    Raises:
        InputError: if it cannot be read, or is not the summary of a study.
    """
    try:
        return Summary.model_validate(json.loads(read_text(path)))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is damaged: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError(f"{path} is damaged: it is nested too deeply to be a summary") from None
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"{path} is damaged: it is not the summary of a study (see {place or 'its top'})") from None


_ERRORS = {"trial": "error.txt", "transfer": "transfer-error.txt"}
"""Where it is kept why a kind of work failed."""
_PENDING = "pending.txt"
"""One line for each time that a trial was killed, or found no memory or disk."""
TIMES_PENDING = 3
_TRIAL = "trial.json"
_TRANSFER, _SUMMARY = "transfer.json", "summary.json"


def _transfer(content: bytes | None, trial: AnyTrial) -> dict[str, float]:
    """Unsealed ones have neither id nor checksum."""
    record = {} if content is None else _seal.unseal(content)
    if record.pop(_seal.KEY, None) is not None and record.pop("trial", None) != trial.id:
        raise _seal.Damaged("it is of another trial")
    if not all(isinstance(value, int | float) for value in record.values()):
        raise _seal.Damaged("it holds something else than numbers")
    return record


def _is_json(content: bytes | None) -> bool:
    try:
        return isinstance(json.loads(content or b""), dict)
    except (ValueError, RecursionError):
        return False


class TrialFolders:
    """The folders of trials, by id. They are listed once, and again if one is no longer there.

    Those that are begun meanwhile, here or by other processes, have the names that trials give them. Trials that differ
    in the names of their arms alone share one folder, with the name of the first that is asked for.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._by_id: dict[str, Path] | None = None
        self._to_begin: dict[str, Path] = {}
        self._ids_of_version_1: dict[str, str | None] = {}

    def of(self, trial: AnyTrial) -> Path:
        if self._by_id is None:
            self._by_id = self._list()
        path = self._by_id.get(trial.id)
        if path is not None and not path.is_dir():
            self._by_id = self._list()
            path = self._by_id.get(trial.id)
        return path or self._to_begin.setdefault(trial.id, self.root / trial.folder_name)

    def _list(self) -> dict[str, Path]:
        found: dict[str, list[Path]] = {}
        for path in sorted(self.root.iterdir()) if self.root.is_dir() else ():
            if (name := self._id(path)) is not None:
                found.setdefault(name, []).append(path)
        return {name: min(paths, key=_unfinished) if paths[1:] else paths[0] for name, paths in found.items()}

    def _id(self, path: Path) -> str | None:
        if match := re.search(r"-([0-9a-f]{16})$", path.name):
            return match[1]
        if not re.search(r"-[0-9a-f]{8}$", path.name):
            return None
        if path.name not in self._ids_of_version_1:
            try:
                self._ids_of_version_1[path.name] = read_trial(read_bytes(path / "trial.json") or b"").id
            except (ValueError, TypeError, RecursionError):
                self._ids_of_version_1[path.name] = None
        return self._ids_of_version_1[path.name]


def _unfinished(folder: Path) -> int:
    """0 for a trial that is done, 1 for one with a checkpoint; where two folders have one trial, the least counts."""
    return next((rank for rank, name in enumerate(("result.json", "checkpoint.pt")) if (folder / name).exists()), 2)


def _check_only_adds(folder: Path, old: dict[str, Any], new: dict[str, Any], *, judged: bool) -> None:
    """Refuses a spec that is not the old one with, at the most, arms, seeds and the null control added.

    How code that is not durm's is judged may be said later, but not after it was.
    """
    if ("run" in old) != ("run" in new):
        raise InputError(f"{folder} holds a study of another kind; take another folder with `out`")
    later = HOW_JUDGED if "run" in old and not judged else ()
    differences = [
        difference(key, old[key], new[key])
        for key in old
        if key not in (*later, "devices")  # devices are only where it runs
        and not _adds(key, old[key], new[key])
        and not (key == "search" and not old["max_seeds"] and _adds_draws(old[key], new[key]))
    ]
    if differences:
        added = "arms, seeds and draws" if old.get("search") and not old["max_seeds"] else "arms and seeds"
        raise InputError(
            f"{folder} holds another study: {'; '.join(differences)}. Only {added} can be added; "
            "take another folder with `out`"
        )


HOW_JUDGED = ("metric", "secondary", "rope", "higher_is_better", "resolution")


def _adds(key: str, old: Any, new: Any) -> bool:
    if key in ("arms", "seeds"):
        return old[:1] == new[:1] and all(item in new for item in old)
    return bool(old == new or (key == "null" and new))


def _adds_draws(old: Any, new: Any) -> bool:
    """A plan of analyses until decided cannot be changed by it: every seed that was analysed would be another one."""
    return bool(old and new and old == {**new, "draws": old["draws"]} and old["draws"] < new["draws"])


def difference(key: str, old: Any, new: Any) -> str:
    """How the value of a key of a study was changed, in words."""
    if isinstance(old, list) and isinstance(new, list) and (gone := [item for item in old if item not in new]):
        added = [item for item in new if item not in old]
        instead = f"replaced by {', '.join(map(_shown, added))}" if added else "left out"
        return f"{key} {', '.join(map(_shown, gone))} would be {instead}"
    if isinstance(old, dict) and isinstance(new, dict):
        return "; ".join(difference(f"{key}.{k}", old[k], new[k]) for k in old if old[k] != new[k])
    return f"{key} was {_shown(old)} and is now {_shown(new)}"


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
