"""What the data of a study were when it was begun: data.json in its folder. Data with other content are refused.

    {"schema_version": 1, "data": {"folder:./shots": {"sha256": …, "files": 800, "bytes": …, "list": …}}}

`list` has the path, size and SHA-256 of each file; a long one is JSON, packed by zlib and written in base64.
"""

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from durm._files import atomic_write, locked, make_folder, read_bytes
from durm._text import pluralize
from durm.data.manifest import Files, Manifest, changes, content_name, lies_in_files, manifest_of
from durm.errors import InputError
from durm.study.store import Store
from durm.training.building import data_options, load_bundle
from durm.training.result import Record
from durm.training.trial import Trial

FILE = "data.json"
SCHEMA_VERSION = 1
LONGEST_LIST = 1000
"""Files up to which the list is written as it is."""


class DataChanged(InputError):
    """The data are not those that the study was begun with. A trial that finds this is not to blame."""


class RecordedData(Record):
    """The content of one data set: its hash, how many files and bytes it has, and each file."""

    sha256: str
    files: int = 0
    bytes: int = 0
    list: Any = None

    @classmethod
    def of(cls, manifest: Manifest) -> "RecordedData":
        rows: Any = [[path, size, sha256] for path, (size, sha256) in manifest.read_files().items()]
        if len(rows) > LONGEST_LIST:
            rows = base64.b64encode(zlib.compress(json.dumps(rows).encode(), 1)).decode()
        return cls(sha256=manifest.sha256, files=manifest.files, bytes=manifest.bytes, list=rows)

    def read_files(self) -> Files:
        """None if they were not recorded, or cannot be read: the hash of all still tells other content apart."""
        try:
            packed = isinstance(self.list, str)
            rows = json.loads(zlib.decompress(base64.b64decode(self.list))) if packed else self.list or []
            return {str(path): (int(size), str(sha256)) for path, size, sha256 in rows}
        except (ValueError, TypeError, zlib.error):
            return {}


def read_data_record(folder: Path) -> dict[str, RecordedData] | None:
    """Data set → its content, as the study in that folder was begun with; None if that was not recorded.

    Raises:
        InputError: if the file is damaged.
    """
    path = folder / FILE
    try:
        text = read_bytes(path)
        if text is None:
            return None
        content = json.loads(text)["data"]
        return {str(name): RecordedData.model_validate(one) for name, one in content.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        raise InputError(
            f"{path} is damaged, and the data cannot be compared with it; take another folder with `out`"
        ) from None


def compare_data(folder: Path, trials: Iterable[Trial], data_root: Path | None) -> dict[str, Manifest]:
    """The content of each data set of the trials, if it is what the study in that folder was begun with.

    Raises:
        DataChanged: with the files that were changed, removed or added.
    """
    recorded, found = read_data_record(folder) or {}, {}
    for trial in trials:
        name = content_name(trial.data)
        if name in found:
            continue
        found[name] = manifest_of(trial.data, data_options(trial, data_root))
        if name in recorded and recorded[name].sha256 != found[name].sha256:
            before, after = recorded[name], found[name]
            files = before.read_files()
            what = changes(files, after.read_files()) if files else ""
            what = what or f"their sha256 was {before.sha256[:16]} and is now {after.sha256[:16]}"
            raise DataChanged(
                f"data {name!r} are not those that the study in {folder} was begun with: {what}; take another folder "
                "with `out`"
            )
    return found


def record_data(store: Store, data_root: Path | None, warn: Callable[[str], None]) -> None:
    """Compares the data with those that the study was begun with, and records those that it is begun with now.

    Trials that were done before their data were recorded are compared by their fingerprint.
    """
    found = compare_data(store.folder, store.study.trials(), data_root)
    make_folder(store.folder)
    with locked(store.folder / ".lock", wait=True):
        recorded = read_data_record(store.folder) or {}
        if new := {name: manifest for name, manifest in found.items() if name not in recorded}:
            _compare_with_results(store, data_root, {*new}, warn)
            recorded |= {name: RecordedData.of(manifest) for name, manifest in new.items()}
            write_data_record(store.folder, recorded)


def write_data_record(folder: Path, recorded: Mapping[str, RecordedData]) -> None:
    content = {name: one.model_dump() for name, one in recorded.items()}
    text = json.dumps({"schema_version": SCHEMA_VERSION, "data": content}, indent=1)
    atomic_write(folder / FILE, text.encode())


def _compare_with_results(store: Store, data_root: Path | None, names: set[str], warn: Callable[[str], None]) -> None:
    """One trial of each data set is loaded: what changes its samples changes its fingerprint."""
    earlier: dict[str, list[Trial]] = {}
    for trial in store.study.runs():
        if content_name(trial.data) in names and store.is_done(trial):
            earlier.setdefault(trial.data, []).append(trial)
    for data, trials in earlier.items():
        result = store.result(trials[0])
        before = result and result.provenance.data
        if before is None or before == (now := load_bundle(trials[0], data_root).fingerprint):
            continue
        raise DataChanged(
            f"data {data!r} are not those of the {pluralize(len(trials), 'trial')} in {store.folder} that "
            f"{'is' if len(trials) == 1 else 'are'} done: their fingerprint was {before} and is now {now}; "
            "take another folder with `out`"
        )
    if count := sum(map(len, earlier.values())):
        warn(
            f"{pluralize(count, 'trial')} ran before the content of the data was recorded, and can be compared by "
            f"the old fingerprint only; it is recorded now, in {FILE}"
        )


def check_data_of(store: Store, trial: Trial, data_root: Path | None) -> str:
    """The hash of the data's content, if it is still that of the study. Data that lie in no files cannot change.

    Raises:
        DataChanged: if it is not, or the data are gone.
    """
    if not lies_in_files(trial.data) and (one := (read_data_record(store.folder) or {}).get(content_name(trial.data))):
        return one.sha256
    try:
        (manifest,) = compare_data(store.folder, [trial], data_root).values()
    except DataChanged:
        raise
    except InputError as error:
        raise DataChanged(str(error)) from None
    return manifest.sha256
