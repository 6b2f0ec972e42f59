"""Folders that earlier versions left are taken up in place: nothing trains again, nothing is renamed or rewritten.

`version1/` holds what `durm run` wrote with the commits 3616ed6, 576f8e9 and c654836; `interrupted` was stopped after
seven steps of each trial, `whole` is the same study without the stop.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durm.study.jobs import Execution
from durm.study.reading import read_study
from durm.study.runner import run_study
from durm.study.status import trial_states
from durm.study.store import Store
from tests.cli.calling import call
from tests.safety_net.recording import GOLDEN, machine, stable
from tests.safety_net.test_safety_net import differences

FOLDERS = Path(__file__).parent / "version1"
FINISHED = ("3616ed6", "576f8e9", "c654836")


def files(folder: Path) -> dict[str, str]:
    """Every file of the trials and its hash, but for locks."""
    found = [path for path in sorted((folder / "trials").rglob("*")) if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


JUDGED = ("ci", "ci_family", "verdict", "seeds_needed", "looks")
"""What other rules say about the same differences now."""


def kept_by_new_rules(old: Any, new: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs of what an old summary holds and a new one of the same results has in its place."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() - {*JUDGED}:
            yield from kept_by_new_rules(old[key], new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for ours, theirs in zip(old, new, strict=True):
            yield from kept_by_new_rules(ours, theirs)
    else:
        yield old, new


def renamed(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With what was changed on purpose: arms that count dummies are named by the objective."""
    for setting in settings:
        name = objective(setting["setting"]["method"])
        for entry in [*setting["arms"], *setting["comparisons"], *robust_entries(setting)] if name != "erm" else []:
            for key in ("arm", "baseline"):
                if re.fullmatch(r"erm|durm-\d", entry.get(key, "")):
                    entry[key] = name + entry[key].removeprefix("erm").replace("durm-", "+")
    return settings


def robust_entries(setting: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for attack in setting.get("robustness", []) for one in [*attack["arms"], *attack["comparisons"]]]


def objective(method: str) -> str:
    return method.partition("+")[0]


@pytest.fixture(params=FINISHED)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDERS / request.param, tmp_path / request.param))


def test_a_finished_study_is_done(folder: Path) -> None:
    answer = call("status", folder, "--json")
    content = json.loads(answer.out)
    done = len([path for path in files(folder) if path.endswith("result.json")])
    assert content["counts"]["done"] == len(content["trials"]) == done > 0


def test_nothing_trains_again_and_the_numbers_are_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durm.training.trainer.run", lambda *_: pytest.fail("a trial was run again"))
    before = files(folder)
    outcome = run_study(Store.open(folder), Execution(workers=0))
    assert (len(outcome.done), outcome.failed) == (len([p for p in before if p.endswith("result.json")]), {})
    assert call("report", folder, "--quiet").code == 0
    old, new = (json.loads((where / "summary.json").read_text()) for where in (FOLDERS / folder.name, folder))
    pairs = list(kept_by_new_rules(renamed(stable(old["settings"])), stable(new["settings"])))
    assert len(pairs) > 40
    assert [*differences([pair[0] for pair in pairs], [pair[1] for pair in pairs])] == []
    assert {c["over"] for setting in new["settings"] for c in setting["comparisons"]} == {"seeds"}
    assert files(folder) == before


def test_seeds_are_added_to_it(folder: Path) -> None:
    """The study of then, with one more seed: what is done stays done, and new folders have new ids."""
    study = read_study(folder / "study.yaml")
    store = Store.create(folder, study.updated(seeds=[*study.seeds, 99]))
    states = [state.state for state in trial_states(store)]
    assert states.count("done") == len(study.runs())
    assert states.count("pending") == len(store.study.runs()) - len(study.runs()) > 0
    assert all(len(store.trial_folder(trial).name.rpartition("-")[2]) == 16 for trial in store.study.runs()[-2:])


@pytest.mark.skipif(machine() != json.loads(GOLDEN.read_text())["machine"], reason="bits of another machine")
def test_a_checkpoint_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    store = Store.open(Path(shutil.copytree(FOLDERS / "interrupted", tmp_path / "interrupted")))
    assert [state.state for state in trial_states(store)] == ["interrupted"] * 2
    steps: list[int] = []
    outcome = run_study(
        store, Execution(workers=0), lambda event: steps.append(event["step"]) if event["kind"] == "epoch" else None
    )
    assert steps == [8, 12] * 2  # not 4: the first epoch lies before the checkpoint
    assert outcome.failed == {}
    whole = Store.open(FOLDERS / "whole")
    for trial in store.study.runs():
        ours, theirs = store.result(trial), whole.result(trial)
        assert ours is not None
        assert theirs is not None
        assert (ours.weights_sha256, ours.probes) == (theirs.weights_sha256, theirs.probes)
        added = {"soft_accuracy", "p_true", "brier"}
        measured = [(one.metrics, one.val, *one.curves) for one in (ours, theirs)]
        for now, before in zip(*measured, strict=True):
            assert {name: now[name] for name in before} == before
            assert {name.removeprefix("val_") for name in now.keys() - before.keys()} <= added
        assert ours.metrics.keys() - theirs.metrics.keys() == added
    assert len(list((store.folder / "trials").iterdir())) == 2


def test_of_two_folders_of_one_trial_the_finished_one_counts(tmp_path: Path) -> None:
    """A user whom version 1 had train again has two: by ids that a later commit gave to the same trial."""
    copied = Path(shutil.copytree(FOLDERS / "3616ed6", tmp_path / "study"))
    for path in sorted((copied / "trials").iterdir()):
        again = Path(shutil.copytree(path, path.with_name(f"a-{path.name[:-8]}00000000")))
        (again / "result.json").unlink()
    assert {state.state for state in trial_states(Store.open(copied))} == {"done"}


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"data": 3}', '{"train": {"brand": 1}, "data": "a"}'])
def test_what_cannot_be_read_is_no_trial(content: str, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(FOLDERS / "3616ed6", tmp_path / "study"))
    first = min((copied / "trials").iterdir())
    (first / "trial.json").write_text(content)
    states = [state.state for state in trial_states(Store.open(copied))]
    assert sorted(states) == ["done"] * 3 + ["pending"]
