"""Folders of one study that ran in two places become one; what does not fit together is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durm.data.manifest import manifest_of
from durm.errors import InputError
from durm.study.data_record import RecordedData, write_data_record
from durm.study.merging import merge
from durm.study.store import Store, read_summary
from durm.study.summary import read_results, write_summary
from durm.study.verify import verify_study
from durm.training.trial import Trial
from tests.cli.calling import call, refusal
from tests.study import synthetic

STUDY = {"name": "merged", "model": "mlp", "dummies": [0, 2]}


def accuracy(trial: Trial) -> float:
    return 90.0 + 0.5 * trial.seed + (0.2 if trial.dummies else 0.0)


def place(folder: Path, seeds: list[int], of: Callable[[Trial], float | None] = accuracy, **changes: Any) -> Store:
    """A study that ran somewhere, with its data recorded and a summary."""
    store = synthetic.store(folder, of, **{**STUDY, "seeds": seeds, **changes})
    write_data_record(folder, {"digits": RecordedData(sha256=manifest_of("digits").sha256)})
    write_summary(store, read_results(store))
    return store


def test_two_halves_are_the_whole(tmp_path: Path) -> None:
    """The same study in one place, with the same interim analysis, has the same summary but for what it cost."""
    place(tmp_path / "a", [0, 1, 2, 3])
    place(tmp_path / "b", [4, 5, 6, 7])
    place(tmp_path / "whole", [0, 1, 2, 3])
    place(tmp_path / "whole", [*range(8)])
    merged = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert merged.taken == {tmp_path / "a": 8, tmp_path / "b": 8}
    assert (merged.done, merged.in_several) == (16, 0)
    ours, whole = (read_summary(tmp_path / name / "summary.json") for name in ("c", "whole"))
    assert ours == whole
    assert ours.looked_at == [4, 8]
    assert verify_study(tmp_path / "c").findings == []
    assert len(list((tmp_path / "a" / "trials").iterdir())) == 8  # untouched


def test_into_the_first_folder_and_twice(tmp_path: Path) -> None:
    place(tmp_path / "a", [0, 1], lambda trial: accuracy(trial) if trial.seed == 0 else None)
    place(tmp_path / "b", [0, 1])
    first = merge([tmp_path / "a", tmp_path / "b"])
    assert (first.store.folder, first.done, first.in_several) == (tmp_path / "a", 4, 2)
    assert first.taken == {tmp_path / "a": 2, tmp_path / "b": 2}
    again = merge([tmp_path / "a", tmp_path / "b"])
    assert again.taken == {tmp_path / "a": 4, tmp_path / "b": 0}


def test_an_unfinished_trial_brings_its_checkpoint_and_a_result_replaces_one(tmp_path: Path) -> None:
    a = place(tmp_path / "a", [0, 1], lambda trial: None)
    b = place(tmp_path / "b", [0, 1], lambda trial: accuracy(trial) if trial.seed == 0 else None)
    done, begun = a.study.trials()[0], a.study.trials()[-1]
    for store, trial in ((a, done), (b, begun)):
        (store.begin(trial) / "checkpoint.pt").write_bytes(store.folder.name.encode())
    merged = merge([tmp_path / "a", tmp_path / "b"]).store
    assert merged.is_done(done)
    assert (merged.trial_folder(begun) / "checkpoint.pt").read_bytes() == b"b"


def other_data(a: Store, b: Store) -> None:
    write_data_record(b.folder, {"digits": RecordedData(sha256="6" * 64)})


def no_data(a: Store, b: Store) -> None:
    (b.folder / "data.json").unlink()


def other_result(a: Store, b: Store) -> None:
    trial = b.study.trials()[0]
    b.keep(trial, synthetic.result(trial, 12.5))


def damaged(a: Store, b: Store) -> None:
    path = b.trial_folder(b.study.trials()[0]) / "result.json"
    path.write_text(path.read_text().replace("90", "91"))


def unsealed(a: Store, b: Store) -> None:
    path = b.trial_folder(b.study.trials()[0]) / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sha256": None}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_data, ["'digits'", "6666"]),
        (no_data, ["b has no data.json"]),
        (other_result, ["different results", "metrics.accuracy", "12.5"]),
        (damaged, ["result.json is damaged", "checksum"]),
        (unsealed, ["result.json", "no checksum"]),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(
    change: Callable[[Store, Store], None], said: list[str], tmp_path: Path
) -> None:
    a, b = place(tmp_path / "a", [0, 1]), place(tmp_path / "b", [0, 1])
    change(a, b)
    with pytest.raises(InputError) as error:
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert all(part in str(error.value) for part in said), error.value
    assert not (tmp_path / "c").exists()


def test_another_study_and_a_running_trial_are_refused(tmp_path: Path) -> None:
    a = place(tmp_path / "a", [0], lambda trial: None)
    place(tmp_path / "b", [0], train={"epochs": 3})
    with pytest.raises(InputError, match=r"not one study.*train\.epochs.* 3"):
        merge([tmp_path / "a", tmp_path / "b"])
    place(tmp_path / "d", [0])
    with a.lock(a.study.trials()[0]), pytest.raises(InputError, match=r"running in .*a$"):
        merge([tmp_path / "a", tmp_path / "d"])


def test_from_the_command_line(tmp_path: Path) -> None:
    place(tmp_path / "a", [0, 1])
    place(tmp_path / "b", [2])
    answer = call("merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "c", "--json")
    assert answer.code == 0, answer
    assert json.loads(answer.out)["done"] == 6
    assert "durm merge" in refusal(call("merge", tmp_path / "a"))
