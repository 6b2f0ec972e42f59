"""`durm compare` and `durm report`, from flags to the verdict, and what they refuse."""

import json
import re
import shlex
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from durm.errors import InputError
from durm.report import progress
from durm.report.progress import LineDisplay, ProgressDisplay, show
from durm.report.tables import null_table, overview_table, verdict_table
from durm.report.text import headline, sentences
from durm.study import runner
from durm.study.config import Study
from durm.study.jobs import Event, Execution
from durm.study.reading import make_study
from durm.study.runner import Outcome
from durm.study.store import Store, read_summary
from durm.training.trial import Trial
from tests.cli.calling import Answer, call, refusal
from tests.study import synthetic
from tests.study.test_runner import FakeExecutor

SMALL = ("compare", "--epochs", 1, "--dummies", "0,2", "--seeds", 2, "--workers", 1)
NULL_CONTROL = "null control: each arm against itself, after a change that should not matter"
FILES = {"study.yaml", "data.json", "summary.json", "results.csv", "report.html", "figures", "trials"}
FILES |= {"report.md", "report.tex"}


def lines(answer: Answer) -> list[str]:
    """What was printed, of a command that went well."""
    assert answer.code == 0, answer
    return answer.out.splitlines()


def summary_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def words_of(table: Any) -> list[list[str]]:
    return [" ".join(row).split() for row in [table.headings, *table.texts()]]


def check_printed(printed: list[str], folder: Path) -> None:
    """The short answer: headline, one table, the sentence of a single comparison, a few warnings, where the page is."""
    summary = read_summary(folder / "summary.json")
    first, *others = summary.settings
    table = overview_table(summary) if others else verdict_table(first, summary)
    expected = [headline(summary).split(), [], *words_of(table)]
    single = not others and len(first.comparisons) == 1
    plan = sentences(first, summary)[0].removeprefix(headline(summary)).strip() if single else ""
    if plan or summary.warnings:
        expected.append([])
    if plan:
        expected.append(plan.split())
    expected += [f"Note: {warning}".split() for warning in summary.warnings[:3]]
    if left := len(summary.warnings[3:]):
        expected.append(f"… and {left} more with --verbose".split())
    told = f"{summary.done} of {summary.trials} trials are done, kept in {folder}"
    expected += [[], told.split(), f"the page: {folder / 'report.html'}".split()]
    assert [line.split() for line in printed] == expected


def times_of(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("trials/*/*")}


# A small study, really trained.


def run_here(store: Store, execution: Execution, tell: Callable[[Event], None]) -> Outcome:
    """Runs trials in this process, which saves the start of others; those are tested elsewhere."""
    return RUN_STUDY(store, replace(execution, workers=0), tell)


RUN_STUDY = runner.run_study


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """The folder of a study of two arms and two seeds, and what was printed."""
    folder = tmp_path_factory.mktemp("compare") / "out"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runner, "run_study", run_here)
        return folder, call(*SMALL, "--quiet", "--out", folder)


@pytest.fixture
def copied(compared: tuple[Path, Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, to add to."""
    monkeypatch.setattr(runner, "run_study", run_here)
    shutil.copytree(compared[0], tmp_path / "copy")
    return tmp_path / "copy"


def test_it_writes_everything_and_prints_the_verdict(compared: tuple[Path, Answer]) -> None:
    folder, answer = compared
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == FILES
    assert len(list(folder.glob("trials/*/result.json"))) == 4
    assert len(list(folder.glob("figures/*.svg"))) == 4
    assert answer.err == ""
    check_printed(lines(answer), folder)


def test_the_summary_has_the_numbers_of_the_trials(compared: tuple[Path, Answer]) -> None:
    folder, _ = compared
    summary = summary_in(folder)
    (setting,) = summary["settings"]
    assert setting["setting"] == {"data": "digits", "model": "cnn", "method": "erm"}
    for arm in setting["arms"]:
        for seed, value in arm["values"].items():
            (path,) = folder.glob(f"trials/digits-cnn-erm-{arm['arm']}-seed{seed}-*/result.json")
            assert json.loads(path.read_text())["metrics"]["accuracy"] == value
    assert [(arm["arm"], arm["dummies"], arm["n"]) for arm in setting["arms"]] == [("erm", 0, 2), ("durm-2", 2, 2)]
    (one,) = setting["comparisons"]
    assert one["difference"] == pytest.approx(setting["arms"][1]["mean"] - setting["arms"][0]["mean"])
    assert (summary["done"], summary["trials"], summary["looked_at"]) == (4, 4, [2])
    assert summary["warnings"][0].startswith("2 pairs of runs: too few for a word, which takes 6")


def test_the_same_again_trains_nothing_and_prints_the_same(compared: tuple[Path, Answer]) -> None:
    folder, first = compared
    before, page = times_of(folder), (folder / "report.html").read_bytes()
    again = call(*SMALL, "--out", folder)
    assert (again.code, again.out, again.err) == (0, first.out, "")
    assert times_of(folder) == before
    assert (folder / "report.html").read_bytes() == page


def test_json_is_the_summary(compared: tuple[Path, Answer]) -> None:
    folder, _ = compared
    printed = json.loads("\n".join(lines(call(*SMALL, "--json", "--out", folder))))
    assert printed.pop("failed") == {}
    assert printed == summary_in(folder)
    assert json.loads("\n".join(lines(call("report", folder, "--json")))) == printed


def test_a_report_is_written_again_to_the_same_bytes(copied: Path) -> None:
    kept = {path: path.read_bytes() for path in [*copied.glob("report.*"), *copied.glob("figures/*")]}
    assert len(kept) == 9
    for path in kept:
        path.unlink()
    printed = lines(call("report", copied))
    assert {path: path.read_bytes() for path in kept} == kept
    assert printed[-1] == f"the page: {copied / 'report.html'}"
    assert lines(call("report", copied, "--quiet")) == []
    assert {path: path.read_bytes() for path in kept} == kept


def test_everything_is_said_with_verbose(compared: tuple[Path, Answer]) -> None:
    folder, short = compared
    summary = read_summary(folder / "summary.json")
    (setting,) = summary.settings
    for answer in (call(*SMALL, "--out", folder, "-v"), call("report", folder, "--verbose")):
        printed = lines(answer)
        assert printed[0] == lines(short)[0] == headline(summary)
        assert len(printed) > 2 * len(lines(short))
        told = [line.split() for line in printed]
        assert all(f"Note: {warning}".split() in told for warning in summary.warnings)
        for arm in setting.arms:  # every number, seed by seed
            assert all(f"{value:.3f}" in answer.out for value in arm.values.values())
        assert "real-class NLL" in answer.out
        assert "wins / ties / losses" in answer.out
        assert printed[-1] == lines(short)[-1]


def test_a_report_may_be_opened(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    lines(call("report", copied, "--quiet", "--open"))
    assert opened == [(copied / "report.html").as_uri()]


def test_arms_and_a_null_control_may_be_added(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    before = times_of(copied)
    flags = ("--arm", "smoothing: label_smoothing=0.1, lr=0.02", "--null", "--quiet", "--out", copied)
    check_printed(lines(call(*SMALL, *flags)), copied)
    (setting,) = summary_in(copied)["settings"]
    assert [arm["arm"] for arm in setting["arms"]] == ["erm", "durm-2", "smoothing"]
    assert [one["n"] for one in setting["null_control"]["comparisons"]] == [2, 2, 2]
    summary = read_summary(copied / "summary.json")
    told = [line.split() for line in lines(call("report", copied, "--verbose"))]
    start = told.index(NULL_CONTROL.split()) + 1
    table = words_of(null_table(summary.settings[0], summary))
    assert told[start : start + len(table)] == table
    assert {path: times_of(copied)[path] for path in before} == before
    (path,) = copied.glob("trials/*smoothing-seed1*/trial.json")
    recipe = json.loads(path.read_text())["train"]
    assert (recipe["label_smoothing"], recipe["lr"], recipe["epochs"]) == (0.1, 0.02, 1)


def test_several_models_are_several_settings(copied: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    flags = ("--dummies", "0,1", "--epochs", 1, "--seeds", 1, "--model", "cnn", "--model", "mlp", "--quiet")
    printed = lines(call("compare", *flags, "--out", folder))
    check_printed(printed, folder)
    assert [setting["setting"]["model"] for setting in summary_in(folder)["settings"]] == ["cnn", "mlp"]
    assert printed[0].startswith("Undecided for 1 dummy in 2 settings: one pair decides nothing")


def test_until_decided_with_few_seeds(copied: Path, tmp_path: Path) -> None:
    folder = tmp_path / "few"
    flags = ("--dummies", "0,2", "--epochs", 1, "--until-decided", "--max-seeds", 2, "--quiet", "--out", folder)
    check_printed(lines(call("compare", *flags)), folder)
    (one,) = summary_in(folder)["settings"][0]["comparisons"]
    assert [look["n"] for look in one["looks"]] == [2]


# The flags, with results that are invented.


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeExecutor:
    executor = FakeExecutor(lambda dummies, seed: (-1.0) ** seed)
    monkeypatch.setattr(runner, "run_study", executor)
    monkeypatch.chdir(tmp_path)
    return executor


def test_without_flags_it_is_the_demo(fake: FakeExecutor) -> None:
    printed = lines(call("compare", "--quiet"))
    assert printed[-1] == "the page: runs/compare-digits-cnn/report.html"
    study = yaml.safe_load(Path("runs/compare-digits-cnn/study.yaml").read_text())
    assert [arm["name"] for arm in study["arms"]] == ["erm", "durm-1", "durm-2", "durm-3"]
    assert (study["data"], study["model"], study["seeds"]) == (["digits"], ["cnn"], list(range(10)))
    assert (study["rope"], study["max_seeds"], study["null"], study["select"]) == (0.1, None, False, "last")
    assert len(fake.trained[0]) == 40
    assert "durm-val" in summary_in(Path("runs/compare-digits-cnn"))["settings"][0]["derived"]["arms"][0]["arm"]


def test_every_flag_reaches_the_study(fake: FakeExecutor, tmp_path: Path) -> None:
    flags = (
        "--data digits --model mlp --method erm --dummies 0,3 --seeds 4,1 --iterations 5 --batch-size 16 --lr 0.1 "
        "--optimizer adamw --schedule poly --warmup 2 --weight-decay 0.01 --label-smoothing 0.05 --clip-norm 1.5 "
        "--augment none --select best-val --rope 0.25 --null --device cpu --devices 1 --precision 64 --skip-bad "
        "--workers 1 --quiet --out here"
    )
    lines(call("compare", *flags.split()))
    study = yaml.safe_load(Path("here/study.yaml").read_text())
    expected = {
        "model": ["mlp"], "method": ["erm"], "seeds": [4, 1], "rope": 0.25, "null": True, "select": "best-val",
        "precision": "64", "skip_bad": True, "max_seeds": None, "device": "cpu", "devices": 1, "pretrained": False,
    }  # fmt: skip
    assert {key: study[key] for key in expected} == expected
    recipe = {
        "iterations": 5, "batch_size": 16, "lr": 0.1, "optimizer": "adamw", "schedule": "poly", "warmup": 2,
        "weight_decay": 0.01, "label_smoothing": 0.05, "clip_norm": 1.5, "augment": "none", "epochs": None,
    }  # fmt: skip
    assert {key: study["train"][key] for key in recipe} == recipe


def test_one_seed_may_be_named(fake: FakeExecutor) -> None:
    lines(call("compare", "--seeds", "7,", "--quiet", "--out", "here"))
    assert {trial.seed for trial in fake.trained[0]} == {7}


def test_the_first_number_of_dummies_is_the_baseline(fake: FakeExecutor) -> None:
    lines(call("compare", "--dummies", "3,0,1", "--seeds", 2, "--quiet", "--out", "here"))
    (setting,) = summary_in(Path("here"))["settings"]
    assert [arm["arm"] for arm in setting["arms"]] == ["durm-3", "erm", "durm-1"]
    assert {one["baseline"] for one in setting["comparisons"]} == {"durm-3"}


def test_until_decided_tells_of_every_look(fake: FakeExecutor) -> None:
    answer = call("compare", "--dummies", "0,2", "--until-decided", "--max-seeds", 12, "--out", "here")
    told = [line for line in answer.err.splitlines() if line.startswith("undecided")]
    assert told == ["undecided after 6 seeds; adding more", "undecided after 10 seeds; adding more"]
    assert lines(answer)[-2] == "24 of 24 trials are done, kept in here"
    assert [len(trials) for trials in fake.trained] == [12, 8, 4]
    quiet = call("compare", "--dummies", "0,2", "--until-decided", "--max-seeds", 12, "--quiet", "--out", "there")
    assert (quiet.err, quiet.out.replace("there", "here")) == ("", answer.out)


def test_until_decided_looks_at_40_seeds_at_most_by_default(fake: FakeExecutor) -> None:
    fake.gain = lambda dummies, seed: 2.0 + 0.01 * (seed % 2)
    lines(call("compare", "--dummies", "0,2", "--until-decided", "--quiet", "--out", "here"))
    assert summary_in(Path("here"))["max_seeds"] == 40
    assert [len(trials) for trials in fake.trained] == [12]


def test_a_failed_trial_is_exit_code_1_and_has_a_page(fake: FakeExecutor) -> None:
    fake.fails = ("durm-2", 1)
    answer = call("compare", "--dummies", "0,2", "--seeds", 3, "--quiet", "--out", "here")
    assert answer.code == 1
    assert "failed: it broke" in answer.err
    assert answer.out.splitlines()[-2:] == ["5 of 6 trials are done, kept in here", "the page: here/report.html"]
    printed = call("compare", "--dummies", "0,2", "--seeds", 3, "--json", "--out", "here")
    assert printed.code == 1
    assert list(json.loads(printed.out)["failed"].values()) == ["it broke"]


def test_an_interrupted_study_is_exit_code_130_and_goes_on(fake: FakeExecutor) -> None:
    fake.stops = ("durm-2", 1)
    command = ("compare", "--dummies", "0,2", "--seeds", 3, "--quiet", "--out", "here")
    answer = call(*command)
    assert answer.code == 130
    assert "run the same command again to go on (here)" in answer.err
    assert not Path("here/report.html").exists()
    fake.stops = None
    assert "6 of 6 trials are done, kept in here" in lines(call(*command))


def test_the_data_names_the_study(fake: FakeExecutor) -> None:
    lines(call("compare", "--data", "digits", "--model", "cnn", "--model", "mlp", "--seeds", 1, "--quiet"))
    assert Path("runs/compare-digits-cnn-mlp/report.html").is_file()


# Progress.


def trials_of(**study: Any) -> list[Trial]:
    made: Study = make_study({"dummies": [0, 1, 2], "seeds": 3, **study})
    return made.trials()


class FakeProgress:
    def __init__(self) -> None:
        self.shown: dict[str, Any] = {}

    def add_task(self, name: str, **fields: Any) -> int:
        self.shown |= fields
        return 0

    def update(self, task: int, **fields: Any) -> None:
        self.shown |= fields


def test_the_progress_shows_trials_and_epochs_and_no_interim_effect() -> None:
    trials = trials_of(dummies=[0, 1], seeds=2)
    progress = FakeProgress()
    display = ProgressDisplay(trials, progress)
    assert progress.shown == {"total": 4, "trials": "0/4 trials"}
    display({"kind": "epoch", "trial": trials[0].id, "epoch": 5, "epochs": 20})
    assert (progress.shown["completed"], progress.shown["trials"]) == (0.25, "0/4 trials")
    for trial, value in zip(trials[:2], (90.0, 90.25), strict=True):
        display({"kind": "finished", "trial": trial.id, "metrics": {"accuracy": value}})
    assert (progress.shown["completed"], progress.shown["trials"]) == (2, "2/4 trials")
    assert {*progress.shown} == {"total", "trials", "completed"}


class Clock:
    """Which says what it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_in_a_log_there_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """Forty trials of 20 s each. By hand: lines after 1, 4, 8, … trials, and a minute after the last."""
    trials = trials_of(dummies=[0, 1], seeds=20)
    clock = Clock()
    display = LineDisplay(trials, clock)
    for number, trial in enumerate(trials, 1):
        display({"kind": "started", "trial": trial.id})
        clock.now = 20.0 * number
        display({"kind": "finished", "trial": trial.id, "metrics": {"accuracy": 98.7654}, "seconds": 20.0})
    told = capsys.readouterr().err.splitlines()
    counts = [int(line.split("/")[0]) for line in told]
    assert counts == [1, 4, *(number for n in range(4, 40, 4) for number in (n + 3, n + 4))]
    assert told[0] == "1/40 trials, 20 s elapsed, about 13 min left"
    assert "12/40 trials, 4 min elapsed, about 9 min left" in told
    assert told[-1] == "40/40 trials, 13 min elapsed"
    assert not any("98" in line or "accuracy" in line for line in told)


def test_the_start_of_the_workers_is_no_part_of_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    """They take 50 s, the first of four trials 10 s: three times that is left."""
    trials = trials_of(dummies=[0, 1], seeds=2)
    clock = Clock()
    display = LineDisplay(trials, clock)
    clock.now = 50.0
    display({"kind": "started", "trial": trials[0].id})
    clock.now = 60.0
    display({"kind": "finished", "trial": trials[0].id})
    assert capsys.readouterr().err.splitlines()[0] == "1/4 trials, 1 min elapsed, about 30 s left"


def test_long_trials_tell_of_epochs_every_minute(capsys: pytest.CaptureFixture[str]) -> None:
    """Two trials of ten epochs; one takes 25 s, so the third is the first after a minute."""
    trials = trials_of(dummies=[0, 1], seeds=1)
    clock = Clock()
    display = LineDisplay(trials, clock)
    for epoch in range(1, 7):
        clock.now = 25.0 * epoch
        display({"kind": "epoch", "trial": trials[0].id, "epoch": epoch, "epochs": 10, "val_accuracy": 98.7})
    assert capsys.readouterr().err.splitlines() == [
        "0/2 trials, 1 min elapsed, about 7 min left",  # 75 s for 3 of 20 epochs
        "0/2 trials, 2 min elapsed, about 6 min left",  # 150 s for 6: 350 s
    ]


def test_trials_that_tell_of_nothing_have_a_line_every_minute_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs of an hour, say. By hand: asked each half minute, it speaks at 60, 120 and 180 s."""
    clock = Clock()
    display = LineDisplay(trials_of(dummies=[0, 1], seeds=1), clock)
    for half in range(1, 7):
        clock.now = 30.0 * half
        display.check()
    assert capsys.readouterr().err.splitlines() == [f"0/2 trials, {n} min elapsed" for n in (1, 2, 3)]

    monkeypatch.setattr(progress, "SECONDS_BETWEEN_CHECKS", 0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    said = threading.Event()
    monkeypatch.setattr(LineDisplay, "say", lambda self, line: said.set())
    before = threading.active_count()
    with show(trials_of(dummies=[0], seeds=1), quiet=False):
        assert said.wait(60)  # nobody told it of anything
    assert threading.active_count() == before


def test_where_stderr_is_no_terminal_there_are_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = trials_of(dummies=[0, 1], seeds=1)
    with show(trials, quiet=False) as display:
        display({"kind": "finished", "trial": trials[0].id})
    assert re.fullmatch(r"1/2 trials, \d+ s elapsed, about \d+ s left\n", capsys.readouterr().err)
    for quiet, some_trials in ((True, trials), (False, [])):
        with show(some_trials, quiet=quiet) as display:
            display({"kind": "finished", "trial": trials[0].id})
        assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for term, kind in (("xterm", ProgressDisplay), ("dumb", LineDisplay)):
        monkeypatch.setenv("TERM", term)
        with show(trials, quiet=False) as display:
            assert isinstance(display, kind)


# What is refused.


@pytest.fixture
def untrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, in which nothing may be trained: bad input must not get as far as that."""

    def run_study(*arguments: object) -> None:
        raise AssertionError("bad input was accepted, and the first trial would start")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "run_study", run_study)
    return tmp_path


REFUSED: dict[str, tuple[str, ...]] = {
    "--dummies 2": ("--dummies 2 is one arm", "--dummies 0,2"),
    "--dummies 0": ("--dummies 0 is one arm", "--dummies 0,2"),
    "--dummies x": ("--dummies 'x'", "'x' is not a whole number"),
    "--dummies 0,1.5": ("--dummies '0,1.5'", "'1.5' is not a whole number"),
    "--dummies ''": ("--dummies ''", "not a whole number"),
    "--dummies 0,99999": ("dummies=99999", "from 0 to 10000"),
    "--seeds x": ("--seeds 'x'", "not a whole number"),
    "--seeds 1,x": ("--seeds '1,x'", "'x' is not a whole number"),
    "--seeds ,": ("--seeds ','", "not a whole number"),
    "--seeds 0": ("--seeds", "0", "at least 1"),
    "--seeds -1,2": ("--seeds", "'-1'", "at least 0"),
    "--rope -1": ("--rope -1", "greater than or equal to 0"),
    "--rope nan": ("--rope nan", "finite number"),
    "--rope inf": ("--rope inf", "finite number"),
    "--rope wide": ("--rope", "'wide'"),
    "--max-seeds 20": ("--max-seeds 20", "--until-decided", "--seeds"),
    "--seeds 5 --until-decided": ("--seeds 5", "--until-decided", "--max-seeds"),
    "--until-decided --max-seeds 1": ("--max-seeds 1", "greater than or equal to 2"),
    "--until-decided --max-seeds 1000000": ("--max-seeds 1000000", "less than or equal to 100000"),
    "--until-decided --max-seeds many": ("--max-seeds", "'many'", "integer"),
    "--dummies 0,2 --arm ''": ("--arm ''", "NAME: path=value"),
    "--dummies 0,2 --arm x:": ("--arm 'x:'", "NAME: path=value"),
    "--dummies 0,2 --arm 'x: lr'": ("--arm 'x: lr'", "NAME: path=value"),
    "--dummies 0,2 --arm ': lr=1'": ("--arm ': lr=1'", "NAME: path=value"),
    "--dummies 0,2 --arm 'x: lr=[1'": ("--arm 'x: lr=[1'", "cannot be read"),
    "--dummies 0,2 --arm 'x: dummies=2, kind=frosen'": ("--arm 'x'", "kind='frosen'", "'frozen'"),
    "--dummies 0,2 --arm 'x: kind=frozen'": ("--arm 'x'", "kind 'frozen'", "dummies=2"),
    "--dummies 0,2 --arm 'x: nokey=1'": ("'nokey'", "expected one of"),
    "--dummies 0,2 --arm 'x: lr=fast'": ("arm 'x'", "lr='fast'", "number"),
    "--dummies 0,2 --arm 'x: lr=-1'": ("arm 'x'", "lr=-1", "greater than 0"),
    "--dummies 0,2 --arm 'x: dummies=two'": ("arm 'x'", "dummies='two'", "integer"),
    "--dummies 0,2 --arm 'durm-val: lr=1'": ("arm 'durm-val'", "choose another"),
    "--dummies 0,2 --arm 'x: lr=1' --arm 'x: lr=2'": ("x is given twice",),
    "--dummies 0,2 --arm 'erm: lr=1'": ("erm is given twice",),
    "--dummies 0,2 --arm '<b>: lr=1'": ("'<b>'",),
    "--data digit": ("data 'digit' is unknown", "'digits'"),
    "--model ccn": ("model 'ccn' is unknown", "'cnn'"),
    "--method ermm": ("method 'ermm' is unknown", "'erm'"),
    "--select best": ("--select 'best'", "'last' or 'best-val'"),
    "--optimizer sdg": ("--optimizer 'sdg'", "'sgd', 'adam' or 'adamw'"),
    "--schedule cosin": ("--schedule 'cosin'", "'cosine'"),
    "--precision 16": ("--precision '16'", "'32'"),
    "--device gpu": ("--device 'gpu'", "it has cpu"),
    "--workers 0": ("--workers 0", "at least 1"),
    "--epochs 0": ("--epochs 0", "greater than 0"),
    "--epochs 1 --iterations 2": ("--epochs", "--iterations", "exclude each other"),
    "--pretrained": ("model 'cnn' has no pretrained weights",),
    "--seed 3": ("--seed", "--seeds"),
}


@pytest.mark.parametrize("flags", REFUSED)
def test_a_wrong_flag(flags: str, untrained: Path) -> None:
    line = refusal(call("compare", *shlex.split(flags)))
    for fragment in REFUSED[flags]:
        assert fragment in line, f"{fragment!r} is not in {line!r}"
    assert not (untrained / "runs").exists()


WORDED_WRONG: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # The flags, what the line should have, what it should not have.
    "--dummies -1": (("--dummies", "-1", "at least 0"), ()),
    "--dummies 0,-1": (("--dummies", "-1", "at least 0"), ()),
    "--dummies 0,0": (("--dummies",), ()),
    "--seeds 0": (("--seeds 0",), ("0 --seeds",)),
    "--seeds 4,4": (("--seeds",), ()),
    "--data digits --data digits": (("--data",), ()),
    "--dummies 0,2 --arm 'x: lr=1' --arm 'x: lr=2'": (("--arm",), ()),
    "--dummies 0,2 --arm x": (("--arm 'x'", "NAME: path=value"), ()),
    "--dummies 0,2 --arm 'x: name=y'": (("--arm", "name"), ()),
    "--dummies 0,2 --arm 'x: lr=1, lr=2'": (("--arm", "lr"), ()),
    "--dummies 0,2 --arm 'x: nokey=1'": (("--arm",), ("--batch-size",)),
    "--dummies 0,2 --arm 'x: label_smoothin=0.1'": (("'label_smoothing'",), ("--label-smoothing",)),
    "--dummies 0,2 --arm 'x: lr=fast'": (("arm 'x'",), ("--lr=",)),
    "--dummies 0,2 --arm 'durm-val: lr=1'": (("durm-val",), ("--name",)),
    "--dummies 0,2 --arm 'erm null: lr=1' --null": (("'erm null'",), ("--name",)),
    "--dummies 0,2 --arm '<b>: lr=1'": (("--arm",), ("--name", "^[A-Za-z0-9]")),
    "--dummies 0,2 --arm 'x: overrides=3'": (("--arm",), ("--overrides",)),
}


@pytest.mark.parametrize("flags", WORDED_WRONG)
def test_a_wrong_flag_that_should_be_told_of_in_better_words(flags: str, untrained: Path) -> None:
    wanted, unwanted = WORDED_WRONG[flags]
    line = refusal(call("compare", *shlex.split(flags)))
    assert all(fragment in line for fragment in wanted), line
    assert not any(fragment in line for fragment in unwanted), line


def test_an_out_that_is_a_file(untrained: Path) -> None:
    (untrained / "file").write_text("keep me")
    assert "--out file is a file; expected a folder" in refusal(call("compare", "--out", "file"))
    assert (untrained / "file").read_text() == "keep me"


@pytest.mark.parametrize(
    ("flags", "difference"),
    [
        ("--seeds 2 --dummies 0,2 --rope 0.2", "rope was 0.1 and is now 0.2"),
        ("--seeds 2 --dummies 0,2 --epochs 7", "train.epochs was 20 and is now 7"),
        ("--dummies 0,2 --until-decided", "max_seeds was null and is now 40"),
        ("--seeds 1 --dummies 0,2", "seeds 1 would be left out"),
        ("--seeds 2 --dummies 0,3", '"durm-3"'),
    ],
)
def test_another_study_in_the_same_folder(flags: str, difference: str, untrained: Path) -> None:
    Store.create(untrained / "old", make_study({"name": "compare-digits-cnn", "dummies": [0, 2], "seeds": 2}))
    line = refusal(call("compare", *flags.split(), "--out", "old"))
    assert "old holds another study" in line
    assert difference in line
    assert "take another folder with --out" in line


def test_another_arm_in_the_same_folder_is_named(untrained: Path) -> None:
    Store.create(untrained / "old", make_study({"name": "compare-digits-cnn", "dummies": [0, 1, 2, 3], "seeds": 2}))
    assert "durm-4" in refusal(call("compare", "--seeds", 2, "--dummies", "0,1,2,4", "--out", "old"))


def test_a_report_of_what_is_no_study(untrained: Path) -> None:
    (untrained / "empty").mkdir()
    assert "empty is not the folder of a study: it has no study.yaml" in refusal(call("report", "empty"))
    assert "nowhere: there is no such folder" in refusal(call("report", "nowhere"))
    assert "missing argument 'folder'" in refusal(call("report")).lower()


def test_a_report_of_a_study_without_results(untrained: Path) -> None:
    synthetic.store(untrained / "study", lambda trial: None, dummies=[0, 1], seeds=2)
    assert "study: no trial of this study is done yet" in refusal(call("report", "study"))
    assert not (untrained / "study" / "report.html").exists()
    assert not (untrained / "study" / "summary.json").exists()


def test_a_report_of_an_unfinished_study(untrained: Path) -> None:
    synthetic.store(untrained / "study", lambda t: 90.0 + t.dummies if t.seed < 2 else None, dummies=[0, 1], seeds=3)
    printed = lines(call("report", "study"))
    assert printed[-1] == "the page: study/report.html"
    assert any(line.startswith("Note: 2 of 6 trials are not done yet") for line in printed)
    assert summary_in(untrained / "study")["done"] == 4


def test_arms_from_python_are_refused_in_the_same_way() -> None:
    with pytest.raises(InputError, match="choose another"):
        make_study({"arms": [{"name": "erm"}, {"name": "durm-val", "lr": 0.1}]}, "a study")
