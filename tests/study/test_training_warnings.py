"""Runs of known validation curves: which are called collapsed, and what runs say of settings without effect."""

import json
from pathlib import Path
from typing import Any

import pytest

from durm.report.page import markdown
from durm.report.text import selection
from durm.study.reading import make_study
from durm.study.records import Summary
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from tests.study import synthetic

Validation = dict[str, list[float]]
"""By method, the validation accuracy in percent at each validation; the last one is also that of the weights kept."""


def summary_of(folder: Path, curves: Validation, val_samples: int = 500, **changes: dict[str, Any]) -> Summary:
    """Of a study of these methods; `changes` of the results, by method."""
    store = Store.create(folder, make_study({"method": [*curves], "dummies": [0], "seeds": 2}, "a study"))
    for trial in store.study.trials():
        name = trial.method_name
        values: dict[str, Any] = {
            "curves": [{"epoch": e, "val_accuracy": value} for e, value in enumerate(curves[name], 1)],
            "val": {"accuracy": curves[name][-1]},
            "samples": {"train": 3000, "val": val_samples, "test": 1000},
        }
        store.begin(trial)
        store.keep(trial, synthetic.result(trial, 80.0, **values | changes.get(name, {})))
    return write_summary(store, read_results(store))


def collapses(summary: Summary) -> list[str]:
    return [warning for warning in summary.warnings if "collapsed" in warning]


def test_a_run_far_below_its_own_best_collapsed(tmp_path: Path) -> None:
    """The figures of V-REx under SGD, whose weight jumped: from 78.8 to 9.4 %."""
    summary = summary_of(tmp_path, {"erm": [70.0, 85.0], "vrex": [60.0, 78.8, 9.4]})
    assert collapses(summary) == [
        "vrex (digits, cnn, vrex): 2 runs collapsed. Validation accuracy ended far below its own best, or below erm's "
        "of the same seed (seed 1: 9.4, erm's 85.0): what is compared there is a failed training."
    ]
    assert json.loads((tmp_path / "summary.json").read_text())["warnings"] == summary.warnings
    assert collapses(summary)[0] in markdown(summary)
    assert collapses(summary)[0] == summary.warnings[0]  # a short answer has the first ones alone


def test_without_erm_its_own_best_is_the_standard(tmp_path: Path) -> None:
    (warning,) = collapses(summary_of(tmp_path, {"vrex": [60.0, 78.8, 9.4]}))
    assert "(seed 1: 9.4 at the end, 78.8 at its best)" in warning


def test_a_fall_is_seen_though_the_best_weights_are_kept(tmp_path: Path) -> None:
    kept = {"vrex": {"val": {"accuracy": 78.8}}}
    (warning,) = collapses(summary_of(tmp_path, {"erm": [78.0], "vrex": [60.0, 78.8, 9.4]}, **kept))
    assert "9.4 at the end, 78.8 at its best" in warning


@pytest.mark.parametrize(
    ("method", "value", "samples", "warned"),
    [
        ("dann", 74.9, 500, True),  # 10.1 points below
        ("dann", 75.0, 500, False),
        ("dann", 72.0, 100, False),  # 3 standard errors of 100 samples are 15 points
        ("dann", 69.9, 100, True),
        ("ema", 70.0, 500, True),
        ("pgd-at", 40.0, 500, False),  # as it is meant
    ],
)
def test_a_run_far_below_erm_collapsed(method: str, value: float, samples: int, warned: bool, tmp_path: Path) -> None:
    summary = summary_of(tmp_path, {"erm": [85.0], method: [value]}, samples)
    assert len(collapses(summary)) == warned


def test_erm_of_another_training_is_no_standard(tmp_path: Path) -> None:
    """An arm with a smaller learning rate, and ERM with the large one alone."""
    arms = [{"name": "base"}, {"name": "slow", "train.lr": 1e-4}]
    store = Store.create(tmp_path, make_study({"arms": arms, "seeds": 2}, "a study"))
    for trial in store.study.trials():
        value = 85.0 if trial.arm == "base" else 40.0
        kept = {"curves": [{"epoch": 1, "val_accuracy": value}], "val": {"accuracy": value}}
        store.begin(trial)
        store.keep(trial, synthetic.result(trial, 80.0, **kept))
    assert collapses(write_summary(store, read_results(store))) == []


def test_what_runs_say_of_themselves_is_said_once(tmp_path: Path) -> None:
    said = {"vrex": {"warnings": ["`weight` 10 of vrex never took effect: …"]}}
    summary = summary_of(tmp_path, {"erm": [85.0], "vrex": [85.0]}, **said)
    (warning,) = [one for one in summary.warnings if "never took effect" in one]
    assert warning == "`weight` 10 of vrex never took effect: … (2 runs of vrex)."
    assert "never took effect: … (2 runs of vrex)." in markdown(summary)


def test_the_page_says_which_steps_were_averaged(tmp_path: Path) -> None:
    made = {"swad": {"averaging": {"start": 120, "end": 400, "models": 281}}}
    summary = summary_of(tmp_path, {"erm": [85.0], "swad": [85.0]}, **made)
    (swad,) = [arm for setting in summary.settings for arm in setting.arms if setting.setting["method"] == "swad"]
    assert swad.averaging == {"start": 120, "end": 400, "models": 281}
    expected = "methods that average weights keep their average (swad of steps 120 to 400, mean over the runs)"
    assert selection(summary).endswith(expected)
    assert expected in markdown(summary)
