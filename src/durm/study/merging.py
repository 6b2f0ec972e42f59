"""Joins the folders of one study that ran in several places, such as two clusters."""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durm._files import atomic_write, make_folder
from durm.errors import InputError
from durm.study.base import AnyTrial, BaseStudy
from durm.study.code_record import read_code_record, write_code_record
from durm.study.data_record import RecordedData, read_data_record, write_data_record
from durm.study.results import RESULT
from durm.study.store import Store, difference
from durm.study.summary import read_results, summarize_store, tables_of_runs
from durm.training.result import Result

FOUND = ("metrics", "val", "train", "weights_sha256", "test_sha256")
"""Of a result: what two runs of a trial have in common. Time and machine may differ."""


@dataclass(frozen=True)
class Merged:
    """The folder that holds all, how many results came from each, and how many trials were done in several."""

    store: Store
    done: int
    taken: dict[Path, int]
    in_several: int


def merge(folders: Sequence[Path], out: Path | None = None) -> Merged:
    """Joins the studies into `out`, or into the first of them. All is checked before anything is written.

    The studies may differ in their seeds. A study that lies in `out` already is one of them. Trials that are not done
    bring their checkpoints. Interim analyses count, wherever they were made.

    Raises:
        InputError: if they are not one study; if their data or their code differ; if a result is damaged or has no
            checksum; if a trial was done in two folders with different results, or is still running in one.
    """
    stores = [Store.open(folder) for folder in folders]
    if out is not None and (out / "study.yaml").is_file() and not any(out.samefile(folder) for folder in folders):
        stores.append(Store.open(out))
    study, data, code = _joined_study(stores), _joined_data(stores), _joined_code(stores)
    sources = {trial.id: source for trial in study.runs() if (source := _source(stores, trial)) is not None}
    several = sum(sum(store.is_done(trial) for store in stores) > 1 for trial in study.runs())
    target = Store.create(out or folders[0], study)
    if data:
        write_data_record(target.folder, data)
    if code:
        write_code_record(target.folder, code)
    taken: Counter[Path] = Counter()
    for trial in study.runs():
        if (source := sources.get(trial.id)) is None:
            continue
        taken[source.folder] += source.is_done(trial)
        if not target.folder.samefile(source.folder):
            with target.lock(trial):
                _copy(source.trial_folder(trial), target.trial_folder(trial))
    results = read_results(target)
    if results:
        analyses = [
            sorted({size for store in stores for size in store.looked_at(name)})
            for name in ("looked_at", "draws_looked_at")
        ]
        summary = summarize_store(target, results, *analyses)
        target.keep_summary(summary, tables_of_runs(summary, results))
    return Merged(target, sum(map(target.is_done, study.runs())), {s.folder: taken[s.folder] for s in stores}, several)


def _joined_study(stores: Sequence[Store]) -> BaseStudy:
    """The first with the seeds of all."""
    first, *others = stores
    expected = first.study.written()
    for other in others:
        found = other.study.written()
        differences = [
            difference(key, expected.get(key), found.get(key))
            for key in dict.fromkeys([*expected, *found])
            if key not in ("name", "seeds") and expected.get(key) != found.get(key)
        ]
        if differences:
            raise InputError(
                f"{first.folder} and {other.folder} are not one study, of which only the seeds may differ: "
                f"{'; '.join(differences)}"
            )
    more = {seed for other in others for seed in other.study.seeds} - {*first.study.seeds}
    return first.study.updated(seeds=[*first.study.seeds, *sorted(more)])


def _joined_data(stores: Sequence[Store]) -> dict[str, RecordedData]:
    found: dict[str, RecordedData] = {}
    for store, recorded in _records(stores, read_data_record, "data.json"):
        for name, one in recorded.items():
            if found.setdefault(name, one).sha256 != one.sha256:
                raise InputError(
                    f"data {name!r} of {store.folder} are not those of {stores[0].folder}: their sha256 is "
                    f"{one.sha256[:16]}, not {found[name].sha256[:16]}; runs on different data are not paired"
                )
    return found


def _joined_code(stores: Sequence[Store]) -> dict[str, str]:
    (_, first), *others = _records(stores, read_code_record, "code.json") or [(stores[0], {})]
    for store, recorded in others:
        if recorded != first:
            changed = sorted(name for name in {*first, *recorded} if first.get(name) != recorded.get(name))
            raise InputError(f"the code of {store.folder} is not that of {stores[0].folder}: {', '.join(changed)}")
    return dict(first)


def _records(stores: Sequence[Store], read: Any, name: str) -> list[tuple[Store, Any]]:
    """Of all stores, or of none."""
    found = [(store, record) for store in stores if (record := read(store.folder)) is not None]
    if found and len(found) < len(stores):
        without = next(store for store in stores if read(store.folder) is None)
        raise InputError(f"{without.folder} has no {name}, and cannot be compared with {found[0][0].folder}")
    return found


def _source(stores: Sequence[Store], trial: AnyTrial) -> Store | None:
    """The first store in which it is done, else the first in which it was begun; all that is there is checked."""
    begun = [store for store in stores if store.trial_folder(trial).is_dir()]
    done: list[tuple[Store, Result]] = []
    for store in begun:
        if (damage := store.damage(trial)) is not None:
            raise InputError(f"{damage}; run that study again first, which sets it aside")
        with store.lock(trial) as free:
            if not free:
                raise InputError(f"trial {trial.folder_name} is still running in {store.folder}")
        if (result := store.result(trial)) is None:
            continue
        if not store.is_sealed(trial):
            raise InputError(f"{store.trial_folder(trial) / RESULT} has no checksum: an earlier version wrote it")
        done.append((store, result))
    for store, result in done[1:]:
        _check_same(trial, done[0], (store, result))
    return done[0][0] if done else begun[0] if begun else None


def _check_same(trial: AnyTrial, one: tuple[Store, Result], other: tuple[Store, Result]) -> None:
    for name in FOUND:
        ours, theirs = getattr(one[1], name), getattr(other[1], name)
        if ours != theirs:
            raise InputError(
                f"trial {trial.folder_name} was done in {one[0].folder} and in {other[0].folder} with different "
                f"results: {difference(name, ours, theirs)}; remove one of them"
            )


def _copy(source: Path, target: Path) -> None:
    """The result last, with which a trial is done."""
    make_folder(target)
    for path in sorted(source.iterdir(), key=lambda path: path.name == RESULT):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
        else:
            atomic_write(target / path.name, path.read_bytes())
