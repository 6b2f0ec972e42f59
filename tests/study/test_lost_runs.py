"""Runs that fail, from the executor to the page: which are lost, which are pending, and what that does to the word."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durm.report.page import markdown, write_report
from durm.report.tables import statistics_table
from durm.report.text import headline, sentence
from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import StudyState, run_study, run_study_to_verdict
from durm.study.store import Store
from durm.training.result import Result
from durm.training.trial import Trial
from tests.study import synthetic

INLINE = Execution(workers=0)
Fail = Callable[[Trial], Exception | None]


def train(monkeypatch: pytest.MonkeyPatch, fail: Fail, gain: float = 1.0) -> list[Trial]:
    """The loop is replaced by results of known accuracies, or by what goes wrong; gives the trials that were run."""
    ran = []

    def run(trial: Trial, context: Any) -> Result:
        ran.append(trial)
        if (error := fail(trial)) is not None:
            raise error
        return synthetic.result(trial, 90.0 + trial.seed % 4 + (gain + 0.1 * (trial.seed % 2)) * trial.dummies)

    monkeypatch.setattr("durm.training.trainer.run", run)
    return ran


def judge(folder: Path, **values: Any) -> StudyState:
    values = {"dummies": [0, 1], "seeds": 12, "rope": 0.1, **values}
    given = {name: value for name, value in values.items() if value is not None}
    store = Store.create(folder, make_study(given, "a study"))
    *_, last = run_study_to_verdict(store, INLINE)
    return last


def fails_on(seeds: set[int], arm: str = "durm-1", error: Exception | None = None) -> Fail:
    return lambda trial: (error or RuntimeError("it broke")) if trial.arm == arm and trial.seed in seeds else None


def test_an_arm_that_fails_on_half_of_its_seeds_is_undecided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A point better on six survivors; with six runs at the worst accuracy of any arm it could as well be worse."""
    train(monkeypatch, fails_on({0, 2, 4, 6, 8, 10}))
    judged = judge(tmp_path)
    summary = judged.summary
    (one,) = summary.settings[0].comparisons
    assert (one.n, one.lost, one.verdict) == (6, 6, "undecided")
    assert "lost runs" in one.reason
    assert one.ci_family is not None
    assert one.ci_family[0] > 0.1  # so the survivors alone would have been called better
    assert (summary.lost, summary.done, summary.trials) == (6, 18, 24)
    assert len(judged.outcome.failed) == 6
    assert "6 runs lost" in headline(summary)
    assert "6 lost" in sentence(one, summary.settings[0], summary)
    behind = statistics_table(summary.settings[0], summary)
    assert behind.texts()[0][behind.headings.index("lost")] == "6"
    assert any("6 runs of 24 failed and are lost" in warning for warning in summary.warnings)
    page = write_report(judged.store.folder, summary, store=judged.store, results=judged.results).read_text()
    for text in (page, markdown(summary)):
        assert "6 runs lost" in text


@pytest.mark.parametrize(
    ("arm", "seeds", "gain", "word"),
    [
        ("durm-1", {3}, 1.0, "undecided"),  # at the worst of any arm it is 3 below: mean 0.7, standard deviation 1.2
        ("durm-1", {3}, 30.0, "better"),  # with that pair too
        ("durm-1", {3, 7}, -30.0, "worse"),  # a run that fails can only confirm it
        ("erm", {3, 7}, 30.0, "better"),  # the same of the other arm
        ("erm", {1, 2, 5, 6, 9}, -1.0, "undecided"),
    ],
)
def test_a_word_stands_only_if_lost_runs_cannot_change_it(
    arm: str, seeds: set[int], gain: float, word: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train(monkeypatch, fails_on(seeds, arm), gain)
    (one,) = judge(tmp_path).summary.settings[0].comparisons
    assert (one.verdict, one.lost, one.n) == (word, len(seeds), 12 - len(seeds))


def test_a_loss_that_is_not_finite_is_a_lost_run(tmp_path: Path) -> None:
    """In the real loop: steps of 1e30 leave no number."""
    arms = [{"name": "base"}, {"name": "wild", "lr": 1e30}]
    values = {"model": "mlp", "arms": arms, "seeds": 1, "train": {"iterations": 4, "batch_size": 256}}
    store = Store.create(tmp_path, make_study(values, "a study"))
    (judged,) = run_study_to_verdict(store, INLINE)
    assert (judged.summary.lost, judged.summary.done) == (1, 1)
    (one,) = judged.summary.settings[0].comparisons
    assert (one.lost, one.n, one.verdict) == (1, 0, "undecided")
    assert "Traceback" not in "".join(judged.outcome.failed.values())


# Until decided.


def test_a_lost_run_does_not_stop_a_study_until_decided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Seed 1 is lost at the first analysis. Five pairs are no word, nine are, and it is run once only."""
    ran = train(monkeypatch, fails_on({1}), gain=30.0)
    values = {"dummies": [0, 1], "rope": 0.1, "max_seeds": 16}
    store = Store.create(tmp_path, make_study(values, "a study"))
    states = list(run_study_to_verdict(store, INLINE))
    found = [(state.summary.settings[0].comparisons[0], state.is_last) for state in states]
    assert [(one.n, one.lost, one.verdict, last) for one, last in found] == [
        (5, 1, "undecided", False),
        (9, 1, "better", True),
    ]
    assert [len(state.outcome.failed) for state in states] == [1, 1]  # it is reported at the end too
    assert sum(trial.arm == "durm-1" and trial.seed == 1 for trial in ran) == 1
    judge_again = list(run_study_to_verdict(Store.open(tmp_path), INLINE))  # a new call tries it again
    assert len(judge_again) == 1
    assert sum(trial.arm == "durm-1" and trial.seed == 1 for trial in ran) == 2


def test_a_pending_run_stops_a_study_until_decided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    train(monkeypatch, fails_on({1}, error=MemoryError()), gain=30.0)
    last = judge(tmp_path, seeds=None, max_seeds=16)
    assert last.is_last
    assert (last.summary.done, last.summary.lost, last.summary.settings[0].comparisons[0].n) == (11, 0, 5)
    train(monkeypatch, lambda trial: None, gain=30.0)
    assert judge(tmp_path, seeds=None, max_seeds=16).summary.settings[0].comparisons[0].verdict == "better"


# Pending.


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory"), OSError(28, "No space left")])
def test_without_memory_or_disk_a_run_is_pending_and_lost_after_three_times(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = train(monkeypatch, fails_on({2}, error=error))
    for times in (1, 2, 3):
        summary = judge(tmp_path).summary
        (path,) = tmp_path.glob("trials/*/pending.txt")
        assert len(path.read_text().splitlines()) == times
        (one,) = summary.settings[0].comparisons
        assert (summary.lost, one.lost, one.n) == ((1, 1, 11) if times == 3 else (0, 0, 11))
        assert any("trials are not done yet" in warning for warning in summary.warnings) == (times < 3)
    assert len(ran) == 24 + 2  # every time again


def test_a_pending_run_that_succeeds_is_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    train(monkeypatch, fails_on({2}, error=MemoryError()))
    assert judge(tmp_path).summary.done == 23
    train(monkeypatch, lambda trial: None)
    summary = judge(tmp_path).summary
    assert (summary.done, summary.lost, summary.settings[0].comparisons[0].verdict) == (24, 0, "better")


def test_a_fault_of_its_own_makes_a_pending_run_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    train(monkeypatch, fails_on({2}, error=MemoryError()))
    assert judge(tmp_path).summary.lost == 0
    train(monkeypatch, fails_on({2}))
    assert judge(tmp_path).summary.lost == 1


def test_a_worker_killed_by_a_signal_leaves_a_pending_run(tmp_path: Path) -> None:
    values = {"model": "tests.study.deadly:network", "dummies": [0], "seeds": 1, "train": {"epochs": 1}}
    store = Store.create(tmp_path, make_study(values, "a study"))
    outcome = run_study(store, Execution(workers=1))
    (trial,) = store.study.trials()
    assert "SIGKILL" in next(iter(outcome.failed.values()))
    pending = store.trial_folder(trial) / "pending.txt"
    assert pending.read_text().splitlines() == ["the process died (SIGKILL)"]
    assert store.lost(trial) is None
    store.fail(trial, "the process died (SIGKILL)", pending=True)
    assert store.lost(trial) is None
    store.fail(trial, "the process died (SIGKILL)", pending=True)
    assert store.lost(trial) == "the process died (SIGKILL)"
