"""The results of trials on disk, believed once they are checked.

A trial is done when there is a `result.json` with its id and the right checksum, and the `outcomes.npz` that lies with
it, if one does, has the hash that the result gives. What version 1 wrote has no checksum: it is unsealed, and accepted.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from durm import _seal
from durm._files import ReadError, Stamp, read_bytes, set_aside, stamp
from durm.study.base import AnyTrial
from durm.training.result import Result

RESULT, OUTCOMES = "result.json", "outcomes.npz"


@dataclass(frozen=True)
class Check:
    """What is known of a result: whether it has a checksum, the hash of its outcomes, and the file that is damaged."""

    sealed: bool = False
    outcomes_sha256: str | None = None
    damaged: str | None = None
    reason: str | None = None


class ResultFiles:
    """Reads and checks results. A file is checked again only if it was written since."""

    def __init__(self) -> None:
        self._checks: dict[Path, tuple[tuple[Stamp | None, ...], Check]] = {}

    def check(self, folder: Path, trial: AnyTrial) -> Check | None:
        """None if there is no result."""
        stamps = stamp(folder / RESULT), stamp(folder / OUTCOMES)
        if stamps[0] is None:
            return None
        before = self._checks.get(folder)
        if before is None or before[0] != stamps:
            self.read(folder, trial)
        return self._checks[folder][1] if folder in self._checks else None

    def read(self, folder: Path, trial: AnyTrial) -> Result | None:
        """None if there is no result, or a damaged one."""
        stamps = stamp(folder / RESULT), stamp(folder / OUTCOMES)
        self._checks.pop(folder, None)
        result = None
        try:
            content = _read(folder / RESULT)
            if content is None:
                return None
            result = parse_result(content, trial, folder)
            check = Check(result.sha256 is not None, result.outcomes_sha256)
        except _seal.Damaged as error:
            check = Check(damaged=RESULT, reason=str(error))
        if result is not None:
            try:
                _outcomes(folder, result.outcomes_sha256)
            except _seal.Damaged as error:
                check, result = replace(check, damaged=OUTCOMES, reason=str(error)), None
        self._checks[folder] = stamps, check
        return result

    def outcomes(self, folder: Path, trial: AnyTrial) -> bytes | None:
        """The content of outcomes.npz; None if there is none that belongs to a result."""
        check = self.check(folder, trial)
        if check is None or check.damaged is not None:
            return None
        try:
            return _outcomes(folder, check.outcomes_sha256)
        except _seal.Damaged:
            return None

    def set_aside(self, folder: Path, trial: AnyTrial) -> None:
        """Damaged files get other names, so that the trial can run again. The caller holds the trial's lock."""
        check = self.check(folder, trial)
        if check is not None and check.damaged is not None:
            set_aside(folder / RESULT)  # first: without it the trial runs again, whatever else lies there
            if check.damaged != RESULT:
                set_aside(folder / check.damaged)


def parse_result(content: bytes, trial: AnyTrial, folder: Path) -> Result:
    """The result in the content of a file, if it is one of that trial.

    Raises:
        Damaged: if it is not.
    """
    record = _seal.unseal(content)
    ids = (trial.id, folder.name.rpartition("-")[2])  # the second is that of version 1, if it began the trial
    if record.get("trial") not in ids:
        raise _seal.Damaged(f"it is of another trial ({record.get('trial')})")
    try:
        return Result.model_validate(record)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise _seal.Damaged(f"it is not the result of a trial (see {place or 'its top'})") from None


def sealed_result(result: Result) -> Result:
    """The same with its checksum."""
    bare = result.model_copy(update={"sha256": None})
    record = json.loads(bare.model_dump_json(exclude={"transfer"}))
    return bare.model_copy(update={"sha256": _seal.checksum(record)})


def _outcomes(folder: Path, sha256: str | None) -> bytes | None:
    content = _read(folder / OUTCOMES)
    if content is not None and sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise _seal.Damaged("it is empty" if not content else f"its hash is not the one in {RESULT}")
    return content


def _read(path: Path) -> bytes | None:
    """A folder in the place of the file is damage, and no reason to give up."""
    try:
        return read_bytes(path)
    except ReadError:
        if path.is_dir():
            raise _seal.Damaged("it is a folder") from None
        raise
