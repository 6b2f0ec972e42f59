"""`durm verify`: every committed study passes, and each way of tampering is found and named."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from durm.errors import InputError
from durm.replication.study_index import study_folders
from durm.study.verify import verify_study
from tests.cli.calling import call

RESULTS = Path(__file__).parents[2] / "results"
STUDIES = study_folders(RESULTS)


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_every_committed_study_passes(folder: Path) -> None:
    found = verify_study(folder)
    assert found.findings == []
    assert found.checked > 0
    assert len(found.notes) == 1  # that there are no trial folders


@pytest.fixture
def published(tmp_path: Path) -> Path:
    folder = tmp_path / "digits-smoothing"
    shutil.copytree(RESULTS / "studies" / "digits-smoothing", folder)
    return folder


def change_a_digit(folder: Path) -> None:
    """The accuracy of one run, 0.1 points up."""
    path = folder / "results.csv"
    lines = path.read_text().splitlines()
    header, row = lines[0].split(","), lines[1].split(",")
    place = header.index("accuracy")
    row[place] = str(float(row[place]) + 0.1)
    path.write_text("\n".join([lines[0], ",".join(row), *lines[2:]]) + "\n")


def swap_two_runs(folder: Path) -> None:
    """The numbers of two arms of one seed, with their ids."""
    path = folder / "results.csv"
    lines = path.read_text().splitlines()
    first, second = (line.split(",") for line in lines[1:3])
    first[2:], second[2:] = second[2:], first[2:]
    path.write_text("\n".join([lines[0], ",".join(first), ",".join(second), *lines[3:]]) + "\n")


def edit_a_word(folder: Path) -> None:
    path = folder / "summary.json"
    path.write_text(path.read_text().replace('"verdict": "undecided"', '"verdict": "better"', 1))


def edit_an_interval(folder: Path) -> None:
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    summary["settings"][0]["comparisons"][0]["ci_family"][0] += 0.05
    path.write_text(json.dumps(summary))


def lower_the_step(folder: Path) -> None:
    path = folder / "summary.json"
    path.write_text(re.sub(r'"step": [0-9.e-]+', '"step": 0.0', path.read_text()))


def drop_a_run(folder: Path) -> None:
    path = folder / "results.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (change_a_digit, "values of erm"),
        (swap_two_runs, "trial"),
        (edit_a_word, "verdict of"),
        (edit_an_interval, "ci_family of"),
        (lower_the_step, "step 0"),
        (drop_a_run, "finished trials"),
    ],
)
def test_what_was_changed_is_found(tamper: Callable[[Path], None], named: str, published: Path) -> None:
    tamper(published)
    assert any(named in text for text in verify_study(published).findings)
    answer = call("verify", published)
    assert answer.code == 1
    assert any(line.startswith("finding: ") and named in line for line in answer.out.splitlines())


def test_exit_codes_and_json(published: Path, tmp_path: Path) -> None:
    answer = call("verify", published)
    assert answer.code == 0
    assert "nothing was found" in answer.out
    found = json.loads(call("verify", published, "--json").out)
    assert (found["findings"], found["checked"]) == ([], 240)
    nothing = call("verify", tmp_path)
    assert nothing.code == 2
    assert "study.yaml" in nothing.err
    with pytest.raises(InputError, match=r"study\.yaml"):
        verify_study(tmp_path)


def save_arrays(path: Path, inputs: np.ndarray, labels: np.ndarray) -> None:
    np.savez(path, x_train=inputs[:60], y_train=labels[:60], x_test=inputs[60:], y_test=labels[60:])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with its trials, on an `arrays:` file."""
    folder = tmp_path_factory.mktemp("verify")
    random = np.random.default_rng(0)
    labels = np.arange(90) % 3
    inputs = random.normal(size=(90, 4)).astype(np.float32) + labels[:, None]
    save_arrays(folder / "data.npz", inputs, labels)
    answer = call(
        *("compare", "--data", f"arrays:{folder / 'data.npz'}", "--model", "mlp", "--dummies", "0,2", "--seeds", 2),
        *("--epochs", 1, "--workers", 1, "--quiet", "--out", folder / "study"),
    )
    assert answer.code == 0, answer.err
    return folder


def copied(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished / "study", tmp_path / "study")
    return tmp_path / "study"


def test_a_finished_study_passes(finished: Path, tmp_path: Path) -> None:
    found = verify_study(copied(finished, tmp_path))
    assert (found.findings, found.notes, found.checked) == ([], [], 4)


def test_a_changed_digit_in_a_result(finished: Path, tmp_path: Path) -> None:
    folder = copied(finished, tmp_path)
    path = sorted(folder.glob("trials/*/result.json"))[0]
    path.write_text(
        re.sub(r'"accuracy":(\d)', lambda digit: f'"accuracy":{(int(digit[1]) + 1) % 10}', path.read_text(), count=1)
    )
    (finding,) = verify_study(folder).findings
    assert path.parent.name in finding
    assert "result.json" in finding


def test_a_swapped_result(finished: Path, tmp_path: Path) -> None:
    folder = copied(finished, tmp_path)
    one, other = sorted(folder.glob("trials/*/result.json"))[:2]
    shutil.copy(one, other)
    (finding,) = verify_study(folder).findings
    assert other.parent.name in finding
    assert "another trial" in finding


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9, 0.999])
def test_a_flipped_bit_in_a_checkpoint(place: float, finished: Path, tmp_path: Path) -> None:
    folder = copied(finished, tmp_path)
    path = sorted(folder.glob("trials/*/checkpoint.pt"))[0]
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    (finding,) = verify_study(folder).findings
    assert path.parent.name in finding
    assert "checkpoint.pt" in finding


def test_a_summary_edited_by_hand(finished: Path, tmp_path: Path) -> None:
    folder = copied(finished, tmp_path)
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    summary["settings"][0]["comparisons"][0]["verdict"] = "better"
    path.write_text(json.dumps(summary))
    (finding,) = verify_study(folder).findings
    assert "verdict is better" in finding


def test_data_that_changed(finished: Path, tmp_path: Path) -> None:
    folder = copied(finished, tmp_path)
    before = (finished / "data.npz").read_bytes()
    try:
        save_arrays(finished / "data.npz", np.ones((90, 4), np.float32), np.arange(90) % 3)
        (finding,) = verify_study(folder).findings
    finally:
        (finished / "data.npz").write_bytes(before)
    assert "data.npz" in finding


def test_a_table_that_is_none(published: Path) -> None:
    (published / "results.csv").write_text("a,b\n1,2\n")
    answer = call("verify", published)
    assert answer.code == 2
    assert "results.csv" in answer.err
