"""`durm compare` and `durm report`, from flags to the verdict, and what they refuse."""

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from durm.cli.display import ProgressDisplay, RunningDifference
from durm.errors import InputError
from durm.report.tables import beside_table, null_table, verdict_table
from durm.report.words import headline, sentence
from durm.study import judging
from durm.study.executor import Event, Execution, Outcome, work
from durm.study.spec import Study, make_study
from durm.study.store import Store
from durm.training.trial import Trial
from tests.cli.calling import Answer, call, refusal
from tests.study import synthetic
from tests.study.test_judging import FakeExecutor

SMALL = ("compare", "--epochs", 1, "--dummies", "0,2", "--seeds", 2, "--workers", 1)
NULL_CONTROL = "null control: each arm against itself, after a change that should not matter"
FILES = {"study.yaml", "summary.json", "results.csv", "report.html", "report.md", "figures", "trials"}


def lines(answer: Answer) -> list[str]:
    """What was printed, of a command that went well."""
    assert answer.code == 0, answer
    return answer.out.splitlines()


def summary_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def words_of(table: Any) -> list[list[str]]:
    return [" ".join(row).split() for row in [table.headings, *table.texts()]]


def check_printed(printed: list[str], summary: dict[str, Any], folder: Path) -> None:
    """The tables and the sentences are those of the summary, in its order."""
    expected: list[list[str]] = []
    for setting in summary["settings"]:
        expected.append(f"accuracy on {setting['setting']['data']} with {setting['setting']['model']}".split())
        expected += [*words_of(verdict_table(setting, summary)), [], *words_of(beside_table(setting))]
        if setting["null_control"]["comparisons"]:
            expected += [[], NULL_CONTROL.split()]
            expected += words_of(null_table(setting, summary))
        comparisons = [*setting["comparisons"], *setting["derived"]["comparisons"]]
        expected += [[], *(sentence(one, summary).split() for one in comparisons), []]
    expected += [f"Note: {warning}".split() for warning in summary["warnings"]]
    if len(summary["settings"]) > 1:
        expected.append(headline(summary).split())
    told = f"{summary['done']} of {summary['trials']} trials are done, kept in {folder}"
    expected += [told.split(), f"the page: {folder / 'report.html'}".split()]
    assert [line.split() for line in printed] == expected


def times_of(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("trials/*/*")}


# A small study, really trained.


def run_here(store: Store, execution: Execution, tell: Callable[[Event], None]) -> Outcome:
    """Runs trials in this process, which saves the start of others; those are tested elsewhere."""
    pending = [trial for trial in store.study.trials() if not store.is_done(trial)]
    work(store, pending, execution, tell, lambda: False)
    failed = {trial.folder_name: error for trial in pending if (error := store.error(trial)) is not None}
    return Outcome(done=[trial for trial in store.study.trials() if store.is_done(trial)], failed=failed)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """The folder of a study of two arms and two seeds, and what was printed."""
    folder = tmp_path_factory.mktemp("compare") / "out"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(judging, "run_study", run_here)
        return folder, call(*SMALL, "--quiet", "--out", folder)


@pytest.fixture
def copied(compared: tuple[Path, Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, to add to."""
    monkeypatch.setattr(judging, "run_study", run_here)
    shutil.copytree(compared[0], tmp_path / "copy")
    return tmp_path / "copy"


def test_it_writes_everything_and_prints_the_verdict(compared: tuple[Path, Answer]) -> None:
    folder, answer = compared
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == FILES
    assert len(list(folder.glob("trials/*/result.json"))) == 4
    assert len(list(folder.glob("figures/*.svg"))) == 5
    assert answer.err == ""
    check_printed(lines(answer), summary_in(folder), folder)


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
    assert summary["warnings"][0].startswith("2 pairs of runs: the smallest p value")


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
    assert len(kept) == 7
    for path in kept:
        path.unlink()
    printed = lines(call("report", copied))
    assert {path: path.read_bytes() for path in kept} == kept
    assert printed[-1] == f"the page: {copied / 'report.html'}"
    assert lines(call("report", copied, "--quiet")) == []
    assert {path: path.read_bytes() for path in kept} == kept


def test_a_report_may_be_opened(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    lines(call("report", copied, "--quiet", "--open"))
    assert opened == [(copied / "report.html").as_uri()]


def test_arms_and_a_null_control_may_be_added(copied: Path) -> None:
    before = times_of(copied)
    flags = ("--arm", "smoothing: label_smoothing=0.1, lr=0.02", "--null", "--quiet", "--out", copied)
    printed = lines(call(*SMALL, *flags))
    summary = summary_in(copied)
    check_printed(printed, summary, copied)
    (setting,) = summary["settings"]
    assert [arm["arm"] for arm in setting["arms"]] == ["erm", "durm-2", "smoothing"]
    assert [one["n"] for one in setting["null_control"]["comparisons"]] == [2, 2, 2]
    assert {path: times_of(copied)[path] for path in before} == before
    (path,) = copied.glob("trials/*smoothing-seed1*/trial.json")
    recipe = json.loads(path.read_text())["train"]
    assert (recipe["label_smoothing"], recipe["lr"], recipe["epochs"]) == (0.1, 0.02, 1)


def test_several_models_are_several_settings(copied: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    flags = ("--dummies", "0,1", "--epochs", 1, "--seeds", 1, "--model", "cnn", "--model", "mlp", "--quiet")
    printed = lines(call("compare", *flags, "--out", folder))
    summary = summary_in(folder)
    check_printed(printed, summary, folder)
    assert [setting["setting"]["model"] for setting in summary["settings"]] == ["cnn", "mlp"]
    assert "2 comparisons with erm in 2 settings: 2 undecided." in printed


def test_until_decided_with_few_seeds(copied: Path, tmp_path: Path) -> None:
    folder = tmp_path / "few"
    flags = ("--dummies", "0,2", "--epochs", 1, "--until-decided", "--max-seeds", 2, "--quiet", "--out", folder)
    check_printed(lines(call("compare", *flags)), summary_in(folder), folder)
    (one,) = summary_in(folder)["settings"][0]["comparisons"]
    assert [look["n"] for look in one["looks"]] == [2]


# The flags, with results that are invented.


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeExecutor:
    executor = FakeExecutor(lambda dummies, seed: (-1.0) ** seed)
    monkeypatch.setattr(judging, "run_study", executor)
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
    assert told == ["undecided after 6 seeds; looking further", "undecided after 10 seeds; looking further"]
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


# The running difference.


def trials_of(**study: Any) -> list[Trial]:
    made: Study = make_study({"dummies": [0, 1, 2], "seeds": 3, **study})
    return made.trials()


def add(difference: RunningDifference, trials: list[Trial], value: Callable[[Trial], float]) -> None:
    for trial in trials:
        difference.add(trial.id, value(trial))


def test_the_running_difference_is_that_of_whole_seeds() -> None:
    """By hand: durm-1 is ahead by 0.5 and 1.5, durm-2 behind by 0.25 twice; the third seed lacks an arm."""
    trials = trials_of()
    gains = {("durm-1", 0): 0.5, ("durm-1", 1): 1.5, ("durm-2", 0): -0.25, ("durm-2", 1): -0.25, ("durm-1", 2): 99.0}
    difference = RunningDifference(trials, ["erm", "durm-1", "durm-2"])
    assert str(difference) == ""
    add(difference, trials[:3], lambda t: 90 + t.seed + gains.get((t.arm, t.seed), 0))
    assert str(difference) == "durm-1 +0.50, durm-2 −0.25 (n = 1)"
    add(difference, trials[3:8], lambda t: 90 + t.seed + gains.get((t.arm, t.seed), 0))
    assert str(difference) == "durm-1 +1.00, durm-2 −0.25 (n = 2)"


def test_the_running_difference_pairs_within_settings() -> None:
    """The same gain in two models that differ by 20 points."""
    trials = trials_of(model=["cnn", "mlp"], dummies=[0, 1], seeds=2)
    difference = RunningDifference(trials, ["erm", "durm-1"])
    add(difference, trials[::-1], lambda t: (70 if t.model == "mlp" else 90) + t.seed + 0.5 * t.dummies)
    assert str(difference) == "durm-1 +0.50 (n = 4)"


def test_one_arm_has_no_running_difference() -> None:
    trials = trials_of(dummies=[2])
    difference = RunningDifference(trials, ["durm-2"])
    add(difference, trials, lambda t: 90.0)
    assert str(difference) == ""


def test_the_running_difference_of_added_arms_is_not_that_from_one_another() -> None:
    """The baseline has run before, and its values are not at hand: then nothing is better than another number."""
    trials = [trial for trial in trials_of() if trial.dummies]
    difference = RunningDifference(trials, ["erm", "durm-1", "durm-2"])
    add(difference, trials, lambda t: 90.0 + t.dummies)
    assert str(difference) == ""


def test_the_running_difference_leaves_the_null_control_out() -> None:
    trials = trials_of(dummies=[0, 1], seeds=1, null=True)
    difference = RunningDifference(trials, ["erm", "durm-1"])
    add(difference, trials, lambda t: 90.0 + t.dummies)
    assert str(difference) == "durm-1 +1.00 (n = 1)"


class FakeProgress:
    def __init__(self) -> None:
        self.shown: dict[str, Any] = {}

    def add_task(self, name: str, **fields: Any) -> int:
        self.shown |= fields
        return 0

    def update(self, task: int, **fields: Any) -> None:
        self.shown |= fields


def test_the_progress_shows_trials_epochs_and_the_difference() -> None:
    trials = trials_of(dummies=[0, 1], seeds=2)
    progress = FakeProgress()
    display = ProgressDisplay(trials, ["erm", "durm-1"], "accuracy", progress)
    assert progress.shown == {"total": 4, "trials": "0/4 trials", "difference": ""}
    display({"kind": "epoch", "trial": trials[0].id, "epoch": 5, "epochs": 20})
    assert (progress.shown["completed"], progress.shown["trials"]) == (0.25, "0/4 trials")
    for trial, value in zip(trials[:2], (90.0, 90.25), strict=True):
        display({"kind": "finished", "trial": trial.id, "metrics": {"accuracy": value}})
    assert (progress.shown["completed"], progress.shown["trials"]) == (2, "2/4 trials")
    assert progress.shown["difference"] == "durm-1 +0.25 (n = 1)"


def test_the_difference_is_shown_while_it_runs(fake: FakeExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the whole command: what stands there in the end is the mean difference of the summary."""

    def telling(store: Store, execution: Execution, tell: Callable[[Event], None]) -> Outcome:
        outcome = fake(store, execution, tell)
        for trial in fake.trained[-1]:
            result = store.result(trial)
            assert result is not None
            tell({"kind": "finished", "trial": trial.id, "metrics": result["metrics"]})
        return outcome

    fake.gain = lambda dummies, seed: 0.5 * dummies + 0.001 * seed
    monkeypatch.setattr(judging, "run_study", telling)
    monkeypatch.setenv("COLUMNS", "200")
    answer = call("compare", "--dummies", "0,1,2", "--seeds", 3, "--out", "here")
    assert "durm-1 +0.50, durm-2 +1.00 (n = 3)" in answer.err
    assert "9/9 trials" in answer.err


# What is refused.


@pytest.fixture
def untrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, in which nothing may be trained: bad input must not get as far as that."""

    def run_study(*arguments: object) -> None:
        raise AssertionError("bad input was accepted, and the first trial would start")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(judging, "run_study", run_study)
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
    "--rope wide": ("--rope", "'wide'", "number"),
    "--max-seeds 20": ("--max-seeds 20", "--until-decided", "--seeds"),
    "--seeds 5 --until-decided": ("--seeds 5", "--until-decided", "--max-seeds"),
    "--until-decided --max-seeds 1": ("--max-seeds 1", "greater than or equal to 2"),
    "--until-decided --max-seeds 1000000": ("--max-seeds 1000000", "less than or equal to 100000"),
    "--until-decided --max-seeds many": ("--max-seeds", "'many'", "integer"),
    "--arm ''": ("--arm ''", "NAME: key=value"),
    "--arm x:": ("--arm 'x:'", "NAME: key=value"),
    "--arm 'x: lr'": ("--arm 'x: lr'", "NAME: key=value"),
    "--arm ': lr=1'": ("--arm ': lr=1'", "NAME: key=value"),
    "--arm 'x: lr=[1'": ("--arm 'x: lr=[1'", "cannot be read"),
    "--arm 'x: nokey=1'": ("'nokey'", "expected one of"),
    "--arm 'x: lr=fast'": ("arm 'x'", "lr='fast'", "number"),
    "--arm 'x: lr=-1'": ("arm 'x'", "lr=-1", "greater than 0"),
    "--arm 'x: dummies=two'": ("arm 'x'", "dummies='two'", "integer"),
    "--arm 'durm-val: lr=1'": ("arm 'durm-val'", "choose another"),
    "--arm 'x: lr=1' --arm 'x: lr=2'": ("x stands there twice",),
    "--arm 'erm: lr=1'": ("erm stands there twice",),
    "--arm '<b>: lr=1'": ("'<b>'",),
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
    "--arm 'x: lr=1' --arm 'x: lr=2'": (("--arm",), ()),
    "--arm x": (("--arm 'x'", "NAME: key=value"), ()),
    "--arm 'x: name=y'": (("--arm", "name"), ()),
    "--arm 'x: lr=1, lr=2'": (("--arm", "lr"), ()),
    "--arm 'x: nokey=1'": (("--arm",), ("--batch-size",)),
    "--arm 'x: label_smoothin=0.1'": (("'label_smoothing'",), ("--label-smoothing",)),
    "--arm 'x: lr=fast'": (("arm 'x'",), ("--lr=",)),
    "--arm 'durm-val: lr=1'": (("durm-val",), ("--name",)),
    "--arm 'erm null: lr=1' --null": (("'erm null'",), ("--name",)),
    "--arm '<b>: lr=1'": (("--arm",), ("--name", "^[A-Za-z0-9]")),
    "--arm 'x: overrides=3'": (("--arm",), ("--overrides",)),
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
    assert "Missing argument 'folder'" in refusal(call("report"))


def test_a_report_of_a_study_without_results(untrained: Path) -> None:
    synthetic.store(untrained / "study", lambda trial: None, dummies=[0, 1], seeds=2)
    assert "study: no trial of this study is done yet" in refusal(call("report", "study"))
    assert not (untrained / "study" / "report.html").exists()
    assert not (untrained / "study" / "summary.json").exists()


def test_a_report_of_an_unfinished_study(untrained: Path) -> None:
    synthetic.store(untrained / "study", lambda t: 90.0 + t.dummies if t.seed < 2 else None, dummies=[0, 1], seeds=3)
    printed = lines(call("report", "study"))
    assert printed[-1] == "the page: study/report.html"
    assert any(line.startswith("Note: 2 of 6 trials are missing") for line in printed)
    assert summary_in(untrained / "study")["done"] == 4


def test_arms_from_python_are_refused_in_the_same_way() -> None:
    with pytest.raises(InputError, match="choose another"):
        make_study({"arms": [{"name": "erm"}, {"name": "durm-val", "lr": 0.1}]}, "a study")
