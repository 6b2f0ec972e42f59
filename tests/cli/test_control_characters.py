"""Names that hold control characters are shown, and never steer the terminal: real files, classes, arms and reasons."""

import csv
import shutil
import sys
from pathlib import Path

import pytest

from durm.report.progress import Display
from durm.report.terminal import print_rows
from durm.study.store import Store
from tests.cli.calling import Answer, call, refusal
from tests.data.images import cut, fill
from tests.study import synthetic

FORGED = "x\n\x1b[31mdurm: all is well\x1b[0m\r\u202egnp"
SHOWN = r"x\n\x1b[31mdurm: all is well\x1b[0m\r\u202egnp"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="file names cannot hold these there")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def assert_harmless(answer: Answer) -> None:
    for text in (answer.out, answer.err):
        assert not {"\x1b", "\r", "\u202e"} & set(text)
        assert not any(line.startswith("\x1b") or line.startswith("durm: all is well") for line in text.splitlines())


@pytest.mark.parametrize(
    "command",
    [
        ("status",), ("report",), ("clean",), ("run",), ("evaluate",), ("curvature",), ("verdict",), ("plan",),
        ("data", "check"), ("train", "--data"), ("train", "--model"), ("train", "--out", "file/"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_name_that_does_not_exist(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    *first, last = command
    name = f"{last}{FORGED}" if last.endswith("/") else FORGED
    answer = call(*first, *([] if name != FORGED else [last]), name)
    assert r"\x1b" in refusal(answer)
    assert_harmless(answer)


def test_a_class_and_a_file_with_such_a_name(tmp_path: Path) -> None:
    data = fill(tmp_path / "images", {FORGED: 9, "b": 9})
    answer = call("data", "check", data)
    assert answer.code == 0, answer
    assert_harmless(answer)
    other = fill(tmp_path / "others", {FORGED: 9, "b": 9})
    cut(next((tmp_path / "others" / FORGED).iterdir()))
    answer = call("data", "check", other)
    assert SHOWN in refusal(answer)
    assert_harmless(answer)


def test_a_file_whose_name_is_no_text(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 cannot be printed as they are."""
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    try:
        (tmp_path / name).write_text("sedes: 3")
    except OSError:
        pytest.skip("this file system takes names in UTF-8 alone")
    answer = call("run", name)
    assert r"caf\xe9" in refusal(answer)
    assert "'seeds'" in answer.err


def test_a_study_in_a_folder_with_such_a_name_and_a_reason_of_an_error(tmp_path: Path) -> None:
    folder = tmp_path / FORGED
    made = synthetic.store(tmp_path / "made", lambda trial: 90.0 + trial.seed if trial.dummies else None, seeds=2)
    for trial in made.study.trials():
        if not trial.dummies:
            made.fail(trial, "Traceback …\nValueError: \x1b[31mall is well\u202e")
    shutil.copytree(made.folder, folder)
    answer = call("status", folder)
    assert answer.code == 0, answer
    assert r"\x1b[31m" in answer.out
    assert_harmless(answer)
    for command in ("report", "clean"):
        answer = call(command, folder)
        assert answer.code == 0, answer
        assert_harmless(answer)
    assert SHOWN in call("report", folder).out  # in the path of the page


def test_arms_of_a_table(tmp_path: Path) -> None:
    with (tmp_path / "runs.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["arm", "seed", "value"])
        rows.writerows(["base", seed, 90 + seed % 3] for seed in range(8))
        rows.writerows([FORGED, seed, 91 + seed % 3] for seed in range(8))
    for command in ("verdict", "plan"):
        answer = call(command, tmp_path / "runs.csv")
        assert answer.code == 0, answer
        assert r"\x1b[31mdurm: all is well" in answer.out
        assert_harmless(answer)


def test_columns_line_up_by_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(["a", "b"], [["x\ny", "1"], ["wxyz", "22"]])
    assert capsys.readouterr().out.splitlines() == ["a      b", r"x\ny   1", "wxyz  22"]


def test_warnings_and_failures_of_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trial = Store.create(tmp_path / "made", synthetic.make_study({"seeds": 1})).study.trials()[0]
    display = Display([trial])
    display({"kind": "failed", "trial": trial.id, "reason": FORGED})
    display({"kind": "warning", "trial": trial.id, "message": FORGED})
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 2
    assert all(SHOWN in line for line in shown)
