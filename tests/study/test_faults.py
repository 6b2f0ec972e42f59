"""The disk fails at every place where a study touches it, once each: run again, the study ends in the same numbers.

`durm._files` is the only module that touches the disk for a study, and a few functions at its end are all of it. The
shim counts their calls and makes one of them fail. The trials are of a runner that takes no time, and that keeps and
takes up checkpoints as training does.
"""

import errno
import hashlib
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from durm import _files
from durm.errors import InputError
from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import run_study, run_study_to_verdict
from durm.study.runners import Runner, training
from durm.study.store import Store
from durm.training import checkpoint
from durm.training.outcomes import pack_outcomes
from durm.training.result import Result
from durm.training.trainer import RunContext
from durm.training.trial import Trial, describes
from tests.study import synthetic

STUDY = {"name": "faults", "dummies": [0, 2], "seeds": 3}
CALLS = ("_write", "_sync", "_rename", "_log", "_make_folder", "_read", "_remove", "_lock")
KINDS = ("fails", "is cut", "dies")


class PowerCut(BaseException):
    """Nothing in durm catches it, and nothing is cleaned up."""


def run(trial: Trial, study: Any, execution: Any, context: RunContext) -> Result:
    """Two steps with a checkpoint after each; the weights depend on all steps, so a wrong checkpoint shows."""
    assert context.folder is not None
    path, state = context.folder / "checkpoint.pt", None
    _files.write_lines(context.folder / "metrics.jsonl", "", append=False)
    try:
        state = checkpoint.load(path)
        if not describes(state["trial"], trial):
            state = None
    except checkpoint.DamagedCheckpoint:
        _files.set_aside(path)
    except InputError:
        pass  # there is none
    weights, step = (state["model"]["weights"], state["step"]) if state else (torch.zeros(4), 0)
    while step < 2:
        weights, step = 3 * weights + trial.seed + trial.dummies, step + 1
        described = {"trial": trial.model_dump_json(), "data": "0123456789abcdef"}
        checkpoint.save(path, {**described, "model": {"weights": weights}, "step": step})
        _files.write_lines(context.folder / "metrics.jsonl", f"{step}\n", append=True)
    outcomes = pack_outcomes({"correct": np.arange(9) % (trial.seed + 2) == 0})
    hashes = {
        "weights_sha256": checkpoint.weights_sha256({"weights": weights}),
        "outcomes_sha256": hashlib.sha256(outcomes).hexdigest(),
        "test_sha256": "1" * 64,
    }
    result = synthetic.result(trial, 90.0 + trial.seed + 0.1 * trial.dummies, **hashes)
    return result.model_copy(update={"outcomes": outcomes})


def study(folder: Path) -> dict[str, Any]:
    """Runs what is missing, and gives the summary with the hashes of all weights."""
    store = Store.create(folder, make_study(STUDY))
    (state,) = run_study_to_verdict(store, Execution(workers=0))
    weights = {trial.id: result.weights_sha256 for trial in store.study.trials() if (result := store.result(trial))}
    return {**state.summary.as_json(), "weights": weights, "failed": state.outcome.failed}


@contextmanager
def fault(place: int | None, kind: str = "fails", runner: Runner = run) -> Iterator[list[str]]:
    """The call of that number goes wrong. Gives the names of all calls that are made.

    It `fails` with an error of the system; it `is cut`: half of a file is written before the error, or half of it is
    read without one; or the computer `dies` in the midst of it.
    """
    made: list[str] = []

    def shim(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            made.append(name)
            if len(made) - 1 != place:
                return real(*arguments)
            if name == "_read" and kind == "is cut":
                content = real(*arguments)
                return content[: len(content) // 2]
            if name in ("_write", "_log") and kind != "fails":
                path, content, *mode = arguments
                with path.open(mode[0] if mode else "wb") as file:
                    file.write(content[: len(content) // 2])
            if kind == "dies":
                raise PowerCut
            raise OSError(errno.EIO, "Input/output error")

        return call

    shims = {name: shim(name, getattr(_files, name)) for name in CALLS}
    with patch.multiple(_files, **shims), patch("durm.study.runners.runner_of", lambda trial: runner):
        yield made


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of studies are written here, and no disk need see them."""
    monkeypatch.setattr(_files.os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    with fault(None) as calls:
        summary = study(tmp_path_factory.mktemp("whole") / "study")
    assert (summary["done"], summary["failed"], len(set(summary["weights"].values()))) == (6, {}, 5)
    return summary, calls


def test_the_study_touches_the_disk_in_every_way(whole: tuple[dict[str, Any], list[str]]) -> None:
    counts = Counter(whole[1])
    assert counts["_write"] == counts["_rename"] == counts["_sync"] >= 6 * 5
    assert counts["_lock"] >= 7
    assert {*counts} == {*CALLS}


def test_nothing_else_of_a_study_touches_the_disk(tmp_path: Path) -> None:
    """Every file that is opened or renamed in its folder is by one of those calls."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.rename", "os.remove", "os.mkdir") and watching and str(tmp_path) in str(arguments[0]):
            frame = sys._getframe()
            names = set()
            while frame is not None:
                names.add((frame.f_code.co_filename, frame.f_code.co_name))
                frame = frame.f_back  # type: ignore[assignment]
            if not any(file.endswith("_files.py") and name in CALLS for file, name in names):
                outside.append((event, arguments[0]))

    watching, outside = True, list[Any]()
    sys.addaudithook(watch)
    try:
        with fault(None):
            study(tmp_path / "study")
    finally:
        watching = False
    assert outside == []


def _slow_but(fast: str) -> list[Any]:
    """Every kind; the others than that one take minutes together."""
    return [kind if kind == fast else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]


@pytest.mark.parametrize("kind", _slow_but("dies"))
def test_a_fault_anywhere_is_recovered_from(kind: str, whole: tuple[dict[str, Any], list[str]], tmp_path: Path) -> None:
    """A fault ends in an error of one line, a trial that is pending, or in nothing at all; never in a wrong number."""
    for place in itertools.count():
        folder = tmp_path / str(place)
        first, error = {}, None
        with fault(place, kind) as calls:
            try:
                first = study(folder)["weights"]
            except (OSError, InputError, PowerCut) as raised:
                error = raised
        assert len(str(error).splitlines()) <= 1
        assert {id: weights for id, weights in whole[0]["weights"].items() if id in first} == first
        if len(calls) <= place:
            break  # there was no call of that number
        with fault(None):
            again = study(folder)
        assert again == whole[0], (place, calls[place])
    assert place >= len(whole[1])


@pytest.mark.parametrize("kind", _slow_but("fails"))
def test_a_fault_when_a_finished_study_is_read_again_changes_nothing(
    kind: str, whole: tuple[dict[str, Any], list[str]], tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    with fault(None):
        study(folder)
    for place in itertools.count():
        with fault(place, kind) as calls, suppress(OSError, InputError, PowerCut):
            study(folder)
        if len(calls) <= place:
            break
        with fault(None):
            assert study(folder) == whole[0], (place, calls[place])
    assert place > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_in_training_is_recovered_from(kind: str, tmp_path: Path) -> None:
    """The real training loop, with a checkpoint after every step: the weights end in the same bits."""
    spec = make_study({"model": "mlp", "dummies": [2], "seeds": 1, "train": {"iterations": 3, "batch_size": 512}})

    def train(folder: Path) -> str | None:
        store = Store.create(folder, spec)
        run_study(store, Execution(workers=0, checkpoint_seconds=0))
        result = store.result(store.study.trials()[0])
        return None if result is None else result.weights_sha256

    with fault(None, runner=training.run):
        whole = train(tmp_path / "whole")
    assert whole is not None
    for place in itertools.count():
        folder = tmp_path / str(place)
        with fault(place, kind, training.run) as calls, suppress(OSError, InputError, PowerCut):
            assert train(folder) in (whole, None)
        if len(calls) <= place:
            break
        assert train(folder) == whole, (place, calls[place])
    assert place > 30
