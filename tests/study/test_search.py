"""Random search: draws checked against their distributions, selection and verdict worked out by hand."""

import csv
import json
import math
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import durm
from durm.errors import InputError
from durm.report.latex import latex
from durm.report.notebook import notebook_html
from durm.report.page import markdown, write_report
from durm.report.tables import search_table
from durm.study.config import Study
from durm.study.jobs import Execution
from durm.study.merging import merge
from durm.study.reading import make_study, read_study
from durm.study.records import Summary
from durm.study.runner import run_study_to_verdict
from durm.study.scenes import collect_scenes
from durm.study.search import Range
from durm.study.status import study_status
from durm.study.store import Store, read_summary
from durm.study.summary import read_results, write_summary
from durm.study.verify import verify_study
from durm.training.result import Result
from durm.training.trial import Trial
from tests.cli.calling import call, refusal
from tests.study import synthetic

LR: dict[str, Any] = {"draws": 3, "lr": [1e-3, 1e-1, "log"]}


def study(**values: Any) -> Study:
    return make_study({"dummies": [0, 1], "seeds": 2, "search": LR, **values}, "a study")


def draw(trial: Trial) -> tuple[str, int]:
    """The arm and the number of the draw of a trial."""
    arm, _, number = trial.arm.rpartition(" draw ")
    return arm, int(number)


# Draws.


def test_draws_of_a_logarithmic_range_are_log_uniform() -> None:
    search = study(search={"draws": 1000, "lr": [1e-4, 1e-1, "log"]}).search
    assert search is not None
    values = [search.draw(number)["train.lr"] for number in search.numbers]
    assert min(values) >= 1e-4
    assert max(values) <= 1e-1
    assert stats.kstest([math.log(value) for value in values], "uniform", (math.log(1e-4), math.log(1e3))).pvalue > 0.01
    assert stats.kstest(values, "uniform", (1e-4, 1e-1)).pvalue < 1e-6  # and not uniform


def test_draws_of_a_plain_range_are_uniform_and_independent_of_those_of_other_paths() -> None:
    search = study(search={"draws": 1000, "momentum": [0.5, 0.99], "lr": [0.01, 0.1]}).search
    assert search is not None
    momentum, lr = zip(*(search.draw(number).values() for number in search.numbers), strict=True)
    assert stats.kstest(momentum, "uniform", (0.5, 0.49)).pvalue > 0.01
    assert stats.kstest(lr, "uniform", (0.01, 0.09)).pvalue > 0.01
    assert stats.spearmanr(momentum, lr).pvalue > 0.01


@pytest.mark.parametrize(
    ("domain", "shares"),
    [
        ([1, 4], [0.25] * 4),
        ([1, 4, "log"], [math.log((value + 1) / value, 5) for value in (1, 2, 3, 4)]),
        ({"choices": [1, 2, 3, 4]}, [0.25] * 4),
    ],
)
def test_whole_numbers_have_the_shares_of_their_distribution(domain: Any, shares: list[float]) -> None:
    search = study(search={"draws": 1000, "batch_size": domain}).search
    assert search is not None
    values = [search.draw(number)["train.batch_size"] for number in search.numbers]
    assert {type(value) for value in values} == {int}
    counts = [values.count(value) for value in (1, 2, 3, 4)]
    assert sum(counts) == 1000
    assert stats.chisquare(counts, [1000 * share for share in shares]).pvalue > 0.01


def test_a_draw_depends_on_its_number_and_its_own_range_alone() -> None:
    def values(**search: Any) -> list[dict[str, Any]]:
        found = study(search=search).search
        assert found is not None
        return [found.draw(number) for number in found.numbers]

    few, more = values(draws=3, lr=[1e-3, 1e-1, "log"]), values(draws=5, lr=["1e-3", "1e-1", "log"])
    assert more[:3] == few  # texts are how YAML reads 1e-3
    both = values(draws=3, momentum=[0.5, 0.9], **{"train.lr": [1e-3, 1e-1, "log"]})
    assert [one["train.lr"] for one in both] == [one["train.lr"] for one in few]


def test_a_trial_of_a_draw_is_the_trial_with_these_values_written_by_hand() -> None:
    searched = study(search={"draws": 2, "lr": [1e-3, 1e-1, "log"], "batch_size": [16, 64]}, null=True)
    assert searched.search is not None
    for number in (1, 2):
        values = {path.removeprefix("train."): value for path, value in searched.search.draw(number).items()}
        by_hand = dict(make_study({"dummies": [0, 1], "seeds": 2, "null": True, "train": values}).cells())
        ours = {key: trial for key, trial in searched.cells() if draw(trial)[1] == number}
        assert len(ours) == len(by_hand) == 8
        for (*place, name, seed), trial in ours.items():
            assert name == trial.arm
            key: Any = (*place, draw(trial)[0], seed)
            assert trial.id == by_hand[key].id


def test_arms_and_seeds_have_the_same_draws() -> None:
    rates: dict[int, set[float]] = {}
    for trial in study(seeds=3).trials():
        rates.setdefault(draw(trial)[1], set()).add(trial.train.lr)
    assert [len(values) for values in rates.values()] == [1, 1, 1]
    assert len(set.union(*rates.values())) == 3


def test_settings_of_a_method_are_drawn_for_the_arms_that_have_them() -> None:
    arms = [{"name": "erm"}, {"name": "mixed", "method": "mixup"}, {"name": "averaged", "average": "ema"}]
    search = {"draws": 4, "lr": [0.01, 0.1], "method.alpha": [0.1, 1.0], "average.decay": [0.9, 0.99]}
    trials = make_study({"arms": arms, "seeds": 1, "search": search}).trials()
    mixed = [trial.method.alpha for trial in trials if trial.method_name == "mixup"]  # type: ignore[attr-defined]
    averaged = [trial.average.decay for trial in trials if trial.average]
    assert len({*mixed}) == len({*averaged}) == 4
    assert all(0.1 <= alpha <= 1 for alpha in mixed)
    assert all(0.9 <= decay <= 0.99 for decay in averaged)
    assert len({trial.id for trial in trials}) == 12


# What is refused.

REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown": ({"lrr": [0.1, 1]}, ("'lrr'", "'lr'")),
    "unknown of a method": ({"method.wieght": [0.1, 1]}, ("'method.wieght'", "'method.weight'")),
    "of no arm": ({"lr": [0.1, 1], "method.weight": [1, 2]}, ("method.weight", "the method of no arm")),
    "no average": ({"lr": [0.1, 1], "average.decay": [0.9, 0.99]}, ("average.decay", "the averaging of no arm")),
    "overridden": ({"dummies": {"choices": [1, 2]}}, ("dummies", "arm 'erm' overrides it")),
    "data": ({"data": {"choices": ["digits", "cifar10"]}}, ("data cannot be searched",)),
    "method": ({"method": {"choices": ["erm", "mixup"]}}, ("method cannot be searched", "an arm for each")),
    "no draws": ({"draws": 0, "lr": [0.1, 1]}, ("draws=0", "greater than or equal to 1")),
    "half a draw": ({"draws": 1.5, "lr": [0.1, 1]}, ("draws=1.5", "integer")),
    "many draws": ({"draws": 10**6, "lr": [0.1, 1]}, ("draws=1000000", "1000")),
    "wrong order": ({"lr": [1, 0.1]}, ("lr=[1, 0.1]", "smaller number first")),
    "no width": ({"lr": [0.1, 0.1]}, ("lr=[0.1, 0.1]", "smaller number first")),
    "log of 0": ({"lr": [0, 0.1, "log"]}, ("lr=[0, 0.1, 'log']", "above 0")),
    "not finite": ({"lr": [0.1, math.inf]}, ("lr=", "[low, high, log]")),
    "three numbers": ({"lr": [0.1, 0.2, 0.3]}, ("lr=[0.1, 0.2, 0.3]", "{choices: [...]}")),
    "a word": ({"lr": "log"}, ("lr='log'", "[low, high, log]")),
    "truth": ({"lr": [False, True]}, ("lr=[False, True]", "[low, high, log]")),
    "part of a sample": ({"batch_size": [16.5, 32]}, ("batch_size=[16.5, 32]", "whole numbers")),
    "range of words": ({"optimizer": [1, 2]}, ("optimizer=[1, 2]", "{choices: [...]}")),
    "one choice": ({"optimizer": {"choices": ["sgd"]}}, ("optimizer=", "two choices")),
    "twice": ({"lr": [0.1, 1], "train.lr": [0.1, 1]}, ("lr is given twice",)),
    "choice twice": ({"optimizer": {"choices": ["sgd", "sgd"]}}, ("optimizer=", "given twice")),
    "wrong choice": ({"draws": 20, "optimizer": {"choices": ["sgd", "lion"]}}, ("draw ", "optimizer='lion'")),
    "out of range": ({"draws": 20, "momentum": [0.5, 3]}, ("draw ", "momentum=", "less than 1")),
    "nothing": ({"draws": 3}, ("nothing to search",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_search_that_makes_no_sense_is_refused_in_one_line(name: str) -> None:
    search, fragments = REFUSED[name]
    with pytest.raises(InputError) as caught:
        study(search=search)
    line = str(caught.value)
    assert "\n" not in line
    for fragment in ("search", *fragments):
        assert fragment in line, line


def test_a_value_that_an_arm_brings_with_its_method_counts_as_overridden() -> None:
    arms = [{"name": "erm"}, {"name": "mixed", "method": {"name": "mixup", "alpha": 0.3}}]
    with pytest.raises(InputError, match=r"search method.alpha: arm 'mixed' overrides it"):
        make_study({"arms": arms, "search": {"lr": [0.01, 0.1], "method.alpha": [0.1, 1.0]}})


def test_the_best_of_many_is_not_compared_with_the_best_of_few() -> None:
    """ERM has no alpha, so its draws would all be one trial: selection alone would let the other arm gain."""
    arms = [{"name": "erm"}, {"name": "mixed", "method": "mixup"}]
    with pytest.raises(InputError, match=r"'mixed' would be the best of 20 trials, arm 'erm' of 1"):
        make_study({"arms": arms, "search": {"method.alpha": [0.1, 1.0]}})
    make_study({"arms": arms, "search": {"method.alpha": [0.1, 1.0], "lr": [0.01, 0.1]}})


def test_the_command_line_says_the_same_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for flags, fragments in {
        '--search "lrr=1..2"': ("--search", "'lrr'", "'lr'"),
        '--search "lr=2..1"': ("--search", "lr=", "smaller number first"),
        '--search "lr=0..1 log"': ("--search", "above 0"),
        '--search "lr=0.1"': ("--search 'lr=0.1'", "PATH=LOW..HIGH log"),
        '--search "lr=1..2" --search "lr=2..3"': ("--search 'lr=2..3'", "twice"),
        '--search "lr=1e-3..1e-1" --draws 0': ("--draws 0", "greater than or equal to 1"),
        '--search "dummies=1|2"': ("--search dummies", "arm 'erm' overrides it"),
        "--draws 3": ("--draws 3 goes with --search",),
        '--command "true" --search "lr=1..2"': ("--search is of durm's own training",),
    }.items():
        answer = call("compare", *shlex.split(flags))
        line = refusal(answer)
        for fragment in fragments:
            assert fragment in line, line


def test_flags_and_a_file_make_the_same_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Study] = []

    def judge(spec: Study, *arguments: Any, **options: Any) -> int:
        found.append(spec)
        return 0

    monkeypatch.setattr("durm.cli.run.judge", judge)
    flags = '--search "lr=1e-3..1e-1 log" --search "batch_size=16..64" --search "optimizer=sgd|adamw" --draws 4'
    assert call("compare", "--dummies", "0,2", "--seeds", 3, *shlex.split(flags)).code == 0
    (tmp_path / "study.yaml").write_text(
        "{name: compare-digits-cnn, dummies: [0, 2], seeds: 3, search: {draws: 4, lr: [1e-3, 1e-1, log], "
        "batch_size: [16, 64], optimizer: {choices: [sgd, adamw]}}}"
    )
    written = read_study(tmp_path / "study.yaml")
    assert found == [written]
    assert written.written()["search"] == {
        "draws": 4,
        "train.lr": [0.001, 0.1, "log"],
        "train.batch_size": [16, 64],
        "train.optimizer": {"choices": ["sgd", "adamw"]},
    }


# Selection and verdict, by hand.

VALIDATION = {"erm": [80.0, 90.0, 70.0], "durm-1": [60.0, 50.0, 95.0]}
"""Of the draws 1, 2, 3: erm's best is the second, that of durm-1 the third."""
TEST = {"erm": [88.0, 81.0, 89.0], "durm-1": [99.0, 98.0, 84.0]}
"""In another order: the best on the test set would be the third and the first, 89 and 99."""


def done(trial: Trial, test: dict[str, list[float]] = TEST, val: dict[str, list[float]] = VALIDATION) -> Result:
    arm, number = draw(trial)
    wiggle = 0.1 * (trial.seed % 3)
    metrics = {"accuracy": test[arm][number - 1] + wiggle, "nll": 1.0}
    return synthetic.result(trial, 0.0, metrics=metrics, val={**metrics, "accuracy": val[arm][number - 1]})


def keep(folder: Path, finished: Any = done, **values: Any) -> tuple[Store, Summary]:
    """A study with those results; `finished` gives none for trials that are not done."""
    store = Store.create(folder, study(**values))
    for trial in store.study.runs():
        if (result := finished(trial)) is not None:
            store.begin(trial)
            store.keep(trial, result)
    return store, write_summary(store, read_results(store))


def test_the_draw_that_is_best_on_validation_counts_and_not_the_best_on_test(tmp_path: Path) -> None:
    """For each seed 81 against 84: three points better, though every other draw of durm-1 is better still."""
    store, summary = keep(tmp_path, seeds=6)
    erm, durm_1 = summary.settings[0].arms
    assert list(erm.values.values()) == pytest.approx([81.0, 81.1, 81.2] * 2)
    assert list(durm_1.values.values()) == pytest.approx([84.0, 84.1, 84.2] * 2)
    assert set(erm.chosen.values()) == {"erm draw 2"}
    assert set(durm_1.chosen.values()) == {"durm-1 draw 3"}
    (comparison,) = summary.settings[0].comparisons
    assert (comparison.n, comparison.verdict) == (6, "better")
    assert comparison.difference == pytest.approx(3.0)
    assert isinstance(store.study, Study)
    assert store.study.search is not None
    rates = [store.study.search.draw(number)["train.lr"] for number in (2, 3)]
    assert erm.searched == {"lr": {str(seed): rates[0] for seed in range(6)}}
    assert durm_1.searched == {"lr": {str(seed): rates[1] for seed in range(6)}}
    assert (summary.trials, summary.done) == (36, 36)


def test_no_change_of_test_accuracies_changes_what_is_selected(tmp_path: Path) -> None:
    mirrored = {arm: [100 - value for value in values] for arm, values in TEST.items()}
    chosen = []
    for place, test in enumerate((TEST, mirrored)):
        _, summary = keep(tmp_path / str(place), lambda trial, test=test: done(trial, test))
        chosen.append([arm.chosen for arm in summary.settings[0].arms])
    assert chosen[0] == chosen[1]


def test_a_metric_that_is_better_when_lower_selects_the_lowest(tmp_path: Path) -> None:
    """And the first of equals: the validation loss of the first two draws is the same."""

    def finished(trial: Trial) -> Result:
        metrics = {"accuracy": 90.0, "nll": 0.1 * draw(trial)[1]}
        return synthetic.result(
            trial, 0.0, metrics=metrics, val={**metrics, "nll": [0.3, 0.3, 0.4][draw(trial)[1] - 1]}
        )

    _, summary = keep(tmp_path, finished, metric="nll")
    assert summary.settings[0].arms[0].values == pytest.approx({"0": 0.1, "1": 0.1})


def test_a_seed_counts_once_every_draw_is_done_or_lost(tmp_path: Path) -> None:
    """The best draw of erm fails on seed 0, so its next best counts; all of seed 1 fail; one of seed 2 is not done."""
    store = Store.create(tmp_path, study(seeds=4))
    for trial in store.study.runs():
        arm, number = draw(trial)
        store.begin(trial)
        if arm == "erm" and (trial.seed, number) in {(0, 2), (1, 1), (1, 2), (1, 3)}:
            store.fail(trial, "the loss is not finite")
        elif not (arm == "erm" and (trial.seed, number) == (2, 1)):
            store.keep(trial, done(trial))
    summary = write_summary(store, read_results(store))
    erm, durm_1 = summary.settings[0].arms
    assert erm.chosen == {"0": "erm draw 1", "3": "erm draw 2"}
    assert [*durm_1.chosen] == ["0", "1", "2", "3"]
    (comparison,) = summary.settings[0].comparisons
    assert (comparison.n, comparison.lost) == (2, 1)
    assert (summary.trials, summary.done, summary.lost) == (24, 19, 4)
    warnings = " ".join(summary.warnings)
    assert "1 of 24 trials are not done yet" in warnings
    assert "A draw that failed is not selected" in warnings
    assert study_status(store, 0.0).counts == {"done": 19, "running": 0, "interrupted": 1, "failed": 4, "pending": 0}


def test_with_held_out_domains_each_one_selects_by_its_own_training_domains(tmp_path: Path) -> None:
    """photo: 81 and 84; sketch, with the validation of the arms exchanged: 89 and 99. Means 85 and 91.5."""
    exchanged = {"erm": VALIDATION["durm-1"], "durm-1": [9.0, 8.0, 7.0]}

    def finished(trial: Trial) -> Result:
        domain = trial.data.rpartition(":")[2]
        result = done(trial, val=exchanged if domain == "sketch" else VALIDATION)
        return result.model_copy(update={"held_out": domain, "selections": {"last": result.metrics["accuracy"]}})

    _, summary = keep(tmp_path, finished, data=["pacs:photo", "pacs:sketch"])
    photo, sketch = summary.settings
    assert [set(arm.chosen.values()) for arm in photo.arms] == [{"erm draw 2"}, {"durm-1 draw 3"}]
    assert [set(arm.chosen.values()) for arm in sketch.arms] == [{"erm draw 3"}, {"durm-1 draw 1"}]
    (average,) = summary.averages
    assert [arm.values["0"] for arm in average.arms] == pytest.approx([85.0, 91.5])
    assert average.comparisons[0].difference == pytest.approx(6.5)
    page = write_report(tmp_path / "page", summary).read_text()
    assert "best on validation of the training domains counts" in page


def test_a_null_control_is_searched_like_its_arm(tmp_path: Path) -> None:
    def finished(trial: Trial) -> Result:
        arm, number = draw(trial)
        base = arm.removesuffix(" null")
        metrics = {"accuracy": TEST[base][number - 1] + (arm != base), "nll": 1.0}
        return synthetic.result(trial, 0.0, metrics=metrics, val={**metrics, "accuracy": VALIDATION[base][number - 1]})

    _, summary = keep(tmp_path, finished, null=True)
    control = summary.settings[0].null_control
    assert [set(arm.chosen.values()) for arm in control.arms] == [{"erm null draw 2"}, {"durm-1 null draw 3"}]
    assert [comparison.difference for comparison in control.comparisons] == [1.0, 1.0]


def test_what_a_null_control_changes_cannot_be_searched_with_it() -> None:
    search = {"draws": 3, "head_noise": [1e-6, 1e-3, "log"]}
    assert study(search=search).search is not None
    with pytest.raises(InputError, match=r"search head_noise: arm 'erm null' overrides it"):
        study(search=search, null=True)


def test_dummies_can_be_searched_where_no_arm_sets_them(tmp_path: Path) -> None:
    arms = [{"name": "plain"}, {"name": "smooth", "label_smoothing": 0.1}]

    def finished(trial: Trial) -> Result:
        return synthetic.result(trial, 80.0 + trial.dummies)

    search = {"draws": 20, "dummies": {"choices": [0, 1, 2]}}
    _, summary = keep(tmp_path, finished, dummies=None, arms=arms, search=search)
    plain = summary.settings[0].arms[0]
    assert plain.dummies is None
    assert plain.searched == {"dummies": {"0": 2, "1": 2}}
    assert summary.trials == 12  # two arms, two seeds, three numbers of dummies: draws that are alike share a run


def test_attacks_are_carried_over_between_arms_of_the_same_draw() -> None:
    pairs = study(seeds=1).pairs()
    assert [(ours.arm, theirs.arm) for ours, theirs in pairs] == [
        (f"durm-1 draw {number}", f"erm draw {number}") for number in (1, 2, 3)
    ]
    assert [(ours.arm, theirs.arm) for ours, theirs in study(search=None, seeds=1).pairs()] == [("durm-1", "erm")]


def test_the_number_of_dummies_is_chosen_among_selected_models_and_not_judged(tmp_path: Path) -> None:
    """On validation durm-1 has 95 with its third draw, durm-2 96 with its first, which has 70 on the test set."""
    test, val = {**TEST, "durm-2": [70.0, 99.0, 99.0]}, {**VALIDATION, "durm-2": [96.0, 10.0, 20.0]}
    _, summary = keep(tmp_path, lambda trial: done(trial, test, val), dummies=[0, 1, 2])
    (derived,) = summary.settings[0].derived.arms
    assert derived.chosen == {"0": "durm-2", "1": "durm-2"}
    assert derived.values["0"] == 70.0
    assert summary.settings[0].derived.comparisons[0].verdict is None


# What the reader is told.


def test_the_page_and_the_table_say_what_was_drawn_and_selected(tmp_path: Path) -> None:
    """erm takes its second draw on the seeds 0 and 1 and its first on seed 2: the median is the second."""

    def finished(trial: Trial) -> Result:
        other = {"erm": [99.0, 90.0, 70.0], "durm-1": VALIDATION["durm-1"]}
        return done(trial, val=other if trial.seed == 2 else VALIDATION)

    store, summary = keep(tmp_path, finished, seeds=3)
    assert isinstance(store.study, Study)
    assert store.study.search is not None
    first, second = (store.study.search.draw(number)["train.lr"] for number in (1, 2))
    low, high = sorted((first, second))
    cell = search_table(summary.settings[0]).texts()[0][1]
    assert cell == f"{second:.3g} ({low:.3g} … {high:.3g})"
    page = write_report(tmp_path, summary, store=store, results=read_results(store)).read_text()
    assert "each the best of 3 random draws on validation" in latex(summary)
    for content in (page, markdown(summary), notebook_html(summary)):
        assert "Random search: 3 draws, the same for every arm and seed (lr 0.001 to 0.1, log-uniform)" in content
    assert cell in page
    assert cell in markdown(summary)
    assert summary.search is not None
    assert summary.search.draws == 3


@pytest.mark.parametrize(("low", "warned"), [(False, True), (True, False)])
def test_values_that_pile_up_at_an_edge_are_warned_about(tmp_path: Path, low: bool, warned: bool) -> None:
    """The largest of 30 draws is in the upper tenth; the one in the middle is not."""
    plain = study(search={"draws": 30, "lr": [1e-3, 1e-1, "log"]})
    assert plain.search is not None
    rates = {number: plain.search.draw(number)["train.lr"] for number in plain.search.numbers}
    best = sorted(rates, key=rates.__getitem__)[15 if low else -1]
    assert (rates[best] > 10 ** (-3 + 0.9 * 2)) == warned

    def finished(trial: Trial) -> Result:
        return synthetic.result(trial, 90.0 + (draw(trial)[1] == best))

    _, summary = keep(tmp_path, finished, search={"draws": 30, "lr": [1e-3, 1e-1, "log"]})
    found = [text for text in summary.warnings if "at the edge 0.1 of its range (0.001 to 0.1, log-uniform)" in text]
    assert [text.split(":")[0] for text in found] == (["erm", "durm-1"] if warned else [])
    assert all("2 of 2 selected values of lr" in text for text in found)


def test_the_place_in_a_range_is_on_the_scale_of_its_draws() -> None:
    assert Range(1e-3, 1e-1, log=True).place(1e-2) == pytest.approx(0.5)
    assert Range(0.0, 4.0).place(1.0) == pytest.approx(0.25)
    assert Range(1e-3, 1e-1, log=True).at(0.5) == pytest.approx(1e-2)


def test_of_several_draws_only_a_selected_one_that_collapsed_is_warned_about(tmp_path: Path) -> None:
    def finished(trial: Trial) -> Result:
        arm, number = draw(trial)
        fallen = [{"epoch": 1, "val_accuracy": 90.0}, {"epoch": 2, "val_accuracy": 30.0}]
        collapses = number == 1 if arm == "erm" else number == 3
        return done(trial).model_copy(update={"curves": fallen if collapses else []})

    _, summary = keep(tmp_path, finished)
    collapsed = [text for text in summary.warnings if "collapsed" in text]
    assert len(collapsed) == 1
    assert collapsed[0].startswith("durm-1 draw 3 (digits, cnn, erm): 2 runs")


def test_scenes_are_those_of_the_selected_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the checkpoints of the second draw are there; they are asked for, and no other."""
    values = {"data": "segmentation:scenes", "dummies": [0, 1], "seeds": 1, "search": LR}
    store = synthetic.store(tmp_path, lambda trial: 90.0, **values)
    for trial in store.study.trials():
        if draw(trial)[1] == 2:
            (store.trial_folder(trial) / "checkpoint.pt").write_bytes(b"")
    asked: list[str] = []

    def load(path: Path, *arguments: object, **options: object) -> None:
        asked.append(path.parent.name)
        raise InputError("it is empty")

    monkeypatch.setattr("durm.study.scenes.load_model", load)

    def setting(number: int) -> Any:
        arms = {name: SimpleNamespace(chosen={"0": f"{name} draw {number}"}) for name in ("erm", "durm-1")}
        return SimpleNamespace(key=store.study.setting_names[0], arm=arms.__getitem__)

    assert collect_scenes(store, setting(1)) is None
    assert asked == []
    assert collect_scenes(store, setting(2)) is None
    assert ["erm_draw_2" in name for name in asked] == [True]


# Going on, and verifying.


def test_added_draws_keep_the_earlier_trials_and_count_as_another_analysis(tmp_path: Path) -> None:
    store, before = keep(tmp_path, seeds=6)
    ids = {trial.id for trial in store.study.runs()}
    longer = study(seeds=6, search={**LR, "draws": 4})
    assert ids < {trial.id for trial in longer.runs()}
    store = Store.create(tmp_path, longer)
    assert sum(map(store.is_done, store.study.runs())) == 36
    values = {"erm": [*TEST["erm"], 82.0], "durm-1": [*TEST["durm-1"], 85.0]}
    for trial in store.study.runs():
        if not store.is_done(trial):
            store.begin(trial)
            store.keep(trial, done(trial, values, {"erm": [99.0] * 4, "durm-1": [99.0] * 4}))
    summary = write_summary(store, read_results(store))
    assert set(summary.settings[0].arms[0].chosen.values()) == {"erm draw 4"}
    assert summary.analyses == 2
    (old,), (new,) = before.settings[0].comparisons, summary.settings[0].comparisons
    assert (old.difference, new.difference) == (pytest.approx(3.0), pytest.approx(3.0))
    assert old.ci_family is not None
    assert new.ci_family is not None
    assert new.ci_family[1] - new.ci_family[0] > old.ci_family[1] - old.ci_family[0]  # of the same differences
    assert any(
        text.startswith("Draws were added after a verdict had been seen (at 3, 4 draws)") for text in summary.warnings
    )
    assert verify_study(tmp_path).findings == []
    with pytest.raises(InputError, match=r"search.draws was 4 and is now 3.*Only arms, seeds and draws can be added"):
        Store.create(tmp_path, study(seeds=6))
    with pytest.raises(InputError, match=r"search.train.lr 0.1 would be replaced by 1.0"):
        Store.create(tmp_path, study(seeds=6, search={"draws": 4, "lr": [1e-3, 1.0, "log"]}))
    with pytest.raises(InputError, match=r"search was"):
        Store.create(tmp_path, study(seeds=6, search=None))


def test_more_seeds_can_be_added(tmp_path: Path) -> None:
    keep(tmp_path, seeds=6)
    _, summary = keep(tmp_path, seeds=8)
    assert summary.settings[0].comparisons[0].n == 8
    assert summary.looked_at == [6, 8]
    assert summary.analyses == 2


def test_two_folders_of_one_search_can_be_joined(tmp_path: Path) -> None:
    for name, seeds in (("one", [0, 1, 2]), ("two", [3, 4, 5])):
        keep(tmp_path / name, seeds=seeds)
    store = merge([tmp_path / "one", tmp_path / "two"], tmp_path / "both").store
    (comparison,) = read_summary(store.folder / "summary.json").settings[0].comparisons
    assert (comparison.n, comparison.difference) == (6, pytest.approx(3.0))
    assert verify_study(store.folder).findings == []


def test_code_that_is_not_durms_is_not_searched() -> None:
    with pytest.raises(InputError, match=r"`search` is for durm's own training loop"):
        durm.compare(lambda seed: 1.0, arms={"a": {}, "b": {}}, search=LR)


def test_a_search_until_decided_analyses_the_selected_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """84 against 81 with an accuracy of ±0.1 is decided at the first analysis, of six seeds."""
    monkeypatch.setattr("durm.training.trainer.run", lambda trial, context: done(trial))
    planned = make_study({"dummies": [0, 1], "max_seeds": 16, "search": LR})
    (state,) = run_study_to_verdict(Store.create(tmp_path, planned), Execution(workers=0))
    assert [comparison.verdict for comparison in state.summary.settings[0].comparisons] == ["better"]
    assert state.summary.done == 6 * 2 * 3
    with pytest.raises(InputError, match=r"search.draws was 3 and is now 4. Only arms and seeds can be added"):
        Store.create(tmp_path, planned.updated(search={**LR, "draws": 4}))


def test_it_goes_on_with_all_draws_of_further_seeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The selected models of both arms are alike but for ±1, so six seeds decide nothing, nor do ten."""

    def run(trial: Trial, context: Any) -> Result:
        return done(trial, {"erm": [0.0, 81.0, 0.0], "durm-1": [0.0, 0.0, 80.0 + 2 * (trial.seed % 2)]})

    monkeypatch.setattr("durm.training.trainer.run", run)
    planned = make_study({"dummies": [0, 1], "max_seeds": 10, "search": LR})
    states = [*run_study_to_verdict(Store.create(tmp_path, planned), Execution(workers=0))]
    assert [state.summary.done for state in states] == [6 * 6, 10 * 6]
    assert [state.summary.settings[0].comparisons[0].n for state in states] == [6, 10]
    assert verify_study(tmp_path).findings == []


def test_a_published_search_is_verified_from_its_draws(tmp_path: Path) -> None:
    store, _ = keep(tmp_path / "run", seeds=6)
    assert verify_study(store.folder).findings == []
    published = tmp_path / "published"
    published.mkdir()
    for name in ("study.yaml", "summary.json", "results.csv", "draws.csv"):
        shutil.copy(store.folder / name, published)
    found = verify_study(published)
    assert found.findings == []
    assert found.checked == 36
    rows = list(csv.DictReader((published / "draws.csv").open()))
    best = next(row for row in rows if row["arm"] == "durm-1 draw 3" and row["seed"] == "0")
    (published / "draws.csv").write_text((published / "draws.csv").read_text().replace(best["trial"], "0" * 16))
    findings = verify_study(published).findings
    assert any("durm-1, 0: it is not the draw that is best on validation" in text for text in findings)
    assert any("draws.csv" in text and "is not that of study.yaml" in text for text in findings)


def test_results_that_were_picked_by_test_accuracy_are_found(tmp_path: Path) -> None:
    keep(tmp_path, seeds=6)
    rows = list(csv.DictReader((tmp_path / "draws.csv").open()))
    picked = [
        {**row, "arm": draw_arm} for row in rows for draw_arm, _, k in [row["arm"].rpartition(" draw ")] if k == "1"
    ]
    shutil.rmtree(tmp_path / "trials")
    with (tmp_path / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(picked)
    findings = verify_study(tmp_path).findings
    assert sum("it is not the draw that is best on validation" in text for text in findings) == 12


# From end to end.


def test_a_small_search_selects_what_one_would_pick_by_hand(tmp_path: Path) -> None:
    """Three draws, two arms, two seeds on the digits; then again, which runs nothing."""
    arguments: dict[str, Any] = {"data": "digits", "model": "mlp", "dummies": [0, 2], "seeds": 2, "epochs": 1}
    search = {"draws": 3, "lr": ["1e-4", "1e-1", "log"], "batch_size": [32, 64]}
    found = durm.compare(**arguments, search=search, out=tmp_path, workers=0, quiet=True)
    folders = [path.parent for path in (tmp_path / "trials").glob("*/result.json")]
    assert len(folders) == 12
    trials = [[json.loads((folder / name).read_text()) for name in ("trial.json", "result.json")] for folder in folders]
    best: dict[tuple[int, int], dict[str, Any]] = {}
    for trial, result in sorted(trials, key=lambda pair: str(pair[0]["arm"])):  # of equals the first draw
        one = {"lr": trial["train"]["lr"], "batch_size": trial["train"]["batch_size"]}
        one |= {"val": result["val"]["accuracy"], "test": result["metrics"]["accuracy"]}
        before = best.setdefault((trial["dummies"], trial["seed"]), one)
        if one["val"] > before["val"]:
            best[trial["dummies"], trial["seed"]] = one
    setting = found.summary.settings[0]
    for dummies, arm in ((0, "erm"), (2, "durm-2")):
        found_of = setting.arm(arm)
        assert found_of.values == {str(seed): best[dummies, seed]["test"] for seed in (0, 1)}
        for path in ("lr", "batch_size"):
            assert found_of.searched[path] == {str(seed): best[dummies, seed][path] for seed in (0, 1)}
    by_hand = sum(best[2, seed]["test"] - best[0, seed]["test"] for seed in (0, 1)) / 2
    assert setting.comparisons[0].difference == pytest.approx(by_hand)
    differences = []
    for seed in ("0", "1"):
        ids = [found.results[(*setting.key, arm.chosen[seed], int(seed))].trial for arm in setting.arms]
        paths = [next((tmp_path / "trials").glob(f"*-{one}/outcomes.npz")) for one in ids]
        erm, durm_2 = (np.load(path)["correct"].astype(float) for path in paths)
        differences.append(100 * (durm_2 - erm))
    assert setting.comparisons[0].over == "seeds and samples"
    by_sample = np.mean(differences, axis=0)
    assert setting.comparisons[0].variance_samples == pytest.approx(by_sample.var(ddof=1) / len(by_sample))
    assert verify_study(tmp_path).findings == []
    times = {folder: (folder / "result.json").stat().st_mtime_ns for folder in folders}
    again = durm.compare(**arguments, search=search, out=tmp_path, workers=0, quiet=True)
    assert {folder: (folder / "result.json").stat().st_mtime_ns for folder in folders} == times
    assert again.summary.settings == found.summary.settings
    assert list(found.runs()["trial"]) == [
        found.results[(*setting.key, arm.chosen[seed], int(seed))].trial for arm in setting.arms for seed in ("0", "1")
    ]
