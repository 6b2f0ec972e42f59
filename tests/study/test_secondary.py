"""Secondary metrics and several settings: judged by their own margin, shown everywhere, never in the headline."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

from durm.report.page import markdown, write_report
from durm.report.terminal import print_verdict
from durm.report.text import across_sentence, headline
from durm.statistics.hierarchical import SettingEffect, summarize_settings
from durm.study.reading import make_study
from durm.study.records import Summary
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from durm.training.trial import Trial
from tests.cli.calling import call, refusal
from tests.study import synthetic

SEEDS = 8
METRICS = {"nll": 0.01, "soft_accuracy": 0.1}
"""And the margin of each."""


def value(trial: Trial, metric: str) -> float:
    """Accuracy differs by ±1 in turn; soft accuracy gains half a point, and the loss falls by 0.03, with dummies."""
    random = np.random.default_rng([trial.seed, trial.dummies, *metric.encode()]).normal(0, 1)
    if metric == "accuracy":
        return 95.0 + (-1.0) ** trial.seed * (trial.dummies > 0)
    return 80.0 + 0.5 * trial.dummies + 0.05 * random if metric == "soft_accuracy" else (
        0.4 - 0.03 * trial.dummies + 0.002 * random
    )  # fmt: skip


def study(folder: Path, **changes: Any) -> tuple[Store, Summary]:
    values = {"dummies": [0, 1, 2], "seeds": SEEDS, "secondary": [*METRICS], **changes}
    store = Store.create(folder, make_study(values, "a study"))
    for trial in store.study.trials():
        result = synthetic.result(trial, value(trial, "accuracy"))
        store.begin(trial)
        measured = result.metrics | {metric: value(trial, metric) for metric in METRICS}
        store.keep(trial, result.model_copy(update={"metrics": measured}))
    return store, write_summary(store, read_results(store))


def test_each_has_its_own_margin_interval_and_word(tmp_path: Path) -> None:
    """At 1 − 0.05/2 for two arms; neither has steps. A lower loss is the better one."""
    store, summary = study(tmp_path)
    trials = {(trial.arm, trial.seed): trial for trial in store.study.trials()}
    found = {one.metric: one for one in summary.settings[0].secondary}
    assert {name: one.rope for name, one in found.items()} == METRICS
    for metric, one in found.items():
        assert [arm.arm for arm in one.arms] == ["erm", "durm-1", "durm-2"]
        for comparison in one.comparisons:
            gains = np.array(
                [value(trials[comparison.arm, s], metric) - value(trials["erm", s], metric) for s in range(SEEDS)]
            )
            expected = stats.t.interval(1 - 0.05 / 2, SEEDS - 1, gains.mean(), stats.sem(gains))
            assert comparison.ci_family == pytest.approx(expected, rel=1e-6)
            assert (comparison.verdict, comparison.step) == ("better", 0)
            assert math.copysign(1, comparison.difference or 0) == (-1 if metric == "nll" else 1)


def test_they_are_shown_and_never_in_the_headline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, summary = study(tmp_path / "with")
    alone = study(tmp_path / "without", secondary=[])[1]
    assert headline(summary) == headline(alone)
    assert "better" not in headline(summary)
    page = write_report(store.folder, summary, store=store, results=read_results(store)).read_text()
    print_verdict(summary, verbose=True)
    for text in (page, markdown(summary), capsys.readouterr().out):
        assert "secondary metric" in text
        assert "soft accuracy" in text
    before, after = alone.settings[0].comparisons, summary.settings[0].comparisons
    assert before == after
    assert not summary.is_decided  # of which a study that goes on until decided asks


def test_they_come_from_a_file_and_from_a_flag(tmp_path: Path) -> None:
    written = {"model": "mlp", "dummies": [0, 1], "seeds": 2, "train": {"iterations": 2}, "secondary": "brier"}
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(written))
    answer = call("run", path, "--out", tmp_path / "file", "--workers", 1, "--json")
    assert answer.code == 0, answer.err
    (one,) = json.loads(answer.out)["settings"][0]["secondary"]
    assert (one["metric"], one["rope"], one["comparisons"][0]["n"]) == ("brier", 0.001, 2)
    assert one["comparisons"][0]["over"] == "seeds and samples"
    flags = ("--model", "mlp", "--dummies", "0,1", "--seeds", 2, "--iterations", 2, "--workers", 1)
    again = call("compare", *flags, "--secondary", "nll, soft_accuracy", "--out", tmp_path / "flag", "--json")
    assert again.code == 0, again.err
    assert [one["metric"] for one in json.loads(again.out)["settings"][0]["secondary"]] == ["nll", "soft_accuracy"]
    changed = refusal(call("compare", *flags, "--secondary", "nll", "--out", tmp_path / "flag"))
    assert "secondary" in changed
    assert "soft_accuracy" in changed


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("nll,soft_acuracy", ("--secondary", "'soft_acuracy'", "did you mean 'soft_accuracy'")),
        ("nll,nll", ("--secondary", "nll", "twice")),
        ("accuracy", ("--secondary", "'accuracy'", "metric of the study")),
        ("miou", ("--secondary", "'miou'", "images with masks")),
        ("robust_pgd_real", ("--secondary", "'robust_pgd_real'")),
    ],
)
def test_wrong_ones_are_refused(text: str, fragments: tuple[str, ...], tmp_path: Path) -> None:
    line = refusal(call("compare", "--secondary", text, "--out", tmp_path / "study"))
    for fragment in fragments:
        assert fragment in line, f"{fragment!r} is not in {line!r}"
    assert not (tmp_path / "study").exists()


def test_they_cannot_be_changed_after_the_study_began(tmp_path: Path) -> None:
    study(tmp_path)
    for secondary in (["nll"], ["nll", "soft_accuracy", "brier"], []):
        line = refusal(call("run", write(tmp_path, secondary), "--out", tmp_path))
        assert "secondary" in line


def write(folder: Path, secondary: list[str]) -> Path:
    before = yaml.safe_load((folder / "study.yaml").read_text())
    path = folder / "changed.yaml"
    path.write_text(yaml.safe_dump({**before, "secondary": secondary}))
    return path


# Several settings.

GAINS = {"cnn": 0.5, "mlp": 0.1, "tests.training.images:network": -0.2}


def several(folder: Path, models: list[str]) -> tuple[Store, Summary]:
    def accuracy(trial: Trial) -> float:
        noise = np.random.default_rng([trial.seed, trial.dummies, len(trial.model)]).normal(0, 0.3)
        return round(95 + noise + GAINS[trial.model] * trial.dummies, 1)

    store = synthetic.store(folder, accuracy, model=models, dummies=[0, 1, 2], seeds=SEEDS, rope=0.1)
    return store, write_summary(store, read_results(store))


def test_what_several_settings_say_together(tmp_path: Path) -> None:
    """The mean and standard error of each setting, with steps of 0.1, through the hierarchical summary."""
    _, summary = several(tmp_path, [*GAINS])
    assert [one.arm for one in summary.across] == ["durm-1", "durm-2"]
    for one in summary.across:
        effects = []
        for setting in summary.settings:
            ours, theirs = (setting.arm(name).values for name in (one.arm, "erm"))
            gains = np.array([ours[seed] - theirs[seed] for seed in theirs])
            error = math.sqrt((np.var(gains, ddof=1) + 0.1**2 / 6) / SEEDS)
            effects.append(SettingEffect(float(gains.mean()), error, SEEDS))
        expected = summarize_settings(effects, 0.1)
        assert expected is not None
        found = one.posterior
        assert found.settings == 3
        for name in ("mean", "better", "equal", "worse", "tau", "new_better"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-6), name
        assert found.interval == pytest.approx(expected.interval)
        assert found.better + found.equal + found.worse == pytest.approx(1)


def test_it_is_on_the_page_in_the_markdown_and_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, summary = several(tmp_path, ["cnn", "mlp"])
    page = write_report(store.folder, summary, store=store, results=read_results(store)).read_text()
    print_verdict(summary, verbose=True)
    told = capsys.readouterr().out
    for one in summary.across:
        assert across_sentence(one, summary) in told
        for text in (page, markdown(summary)):
            assert f"{one.arm} over 2 settings" in text.replace("\\-", "-")
    assert "P(better)" in page


def test_one_setting_has_nothing_to_say_together(tmp_path: Path) -> None:
    assert several(tmp_path, ["cnn"])[1].across == []
