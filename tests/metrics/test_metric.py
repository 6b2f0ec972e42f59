"""Metrics as things: one is registered in one place, and is then measured, judged and named everywhere."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from durm.errors import InputError
from durm.metrics import describe_metric, find_metric, get_metric, metric_names
from durm.metrics.classification import Predictions
from durm.report.page import write_report
from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import run_study_to_verdict
from durm.study.store import Store
from tests.cli.calling import call, refusal

SMALL = ["--dummies", "0,2", "--model", "mlp", "--epochs", "1", "--batch-size", "128", "--workers", "1", "--quiet"]


@pytest.fixture
def wrong_per_thousand() -> Iterator[str]:
    """A metric that is registered for one test: how many of a thousand samples are wrong."""
    from durm.metrics import metric as module_function
    from durm.metrics.metric import _METRICS

    @module_function("wrong_per_thousand", label="errors per 1,000", unit="‰", higher_is_better=False, rope=2.0)
    def wrong(predictions: Predictions) -> float:
        return 1000 * (1 - predictions.right.mean().item())

    yield "wrong_per_thousand"
    del _METRICS["classification", "wrong_per_thousand"]


def test_a_metric_of_one_file_is_measured_judged_and_on_the_page(wrong_per_thousand: str, tmp_path: Path) -> None:
    """Against accuracy, from which it follows: 1,000 − 10 · accuracy, so signs and words are turned round."""
    judged = {}
    for name, rope in ((wrong_per_thousand, None), ("accuracy", 0.2)):
        values = {
            "name": name,
            "model": "mlp",
            "dummies": [0, 2, 3],
            "seeds": 2,
            "metric": name,
            "train": {"epochs": 1},
        }
        study = make_study(values | ({} if rope is None else {"rope": rope}))
        *_, judged[name] = run_study_to_verdict(Store.create(tmp_path / name, study), Execution(workers=0))
        state = judged[name]
        write_report(state.store.folder, state.summary, store=state.store, results=state.results)
    ours, theirs = (judged[name].summary for name in (wrong_per_thousand, "accuracy"))
    assert (ours.rope, ours.higher_is_better) == (2.0, False)
    for mine, other in zip(ours.settings[0].comparisons, theirs.settings[0].comparisons, strict=True):
        assert mine.difference == pytest.approx(-10 * other.difference)  # type: ignore[operator]
        assert (mine.wins, mine.losses, mine.verdict) == (other.wins, other.losses, other.verdict)
    assert ours.settings[0].arms[0].mean == pytest.approx(1000 - 10 * theirs.settings[0].arms[0].mean)  # type: ignore[operator]
    page = (tmp_path / wrong_per_thousand / "report.html").read_text()
    assert "Errors per 1,000 on digits with mlp" in page
    assert "test errors per 1,000, ‰" in page
    assert "difference from erm" in page
    assert "errors per 1,000" in page
    assert "in percent; difference" not in page
    assert "errors per 1,000" in (tmp_path / wrong_per_thousand / "report.md").read_text()
    header, first = (tmp_path / wrong_per_thousand / "results.csv").read_text().splitlines()[:2]
    row = dict(zip(header.split(","), first.split(","), strict=True))
    assert float(row["value"]) == float(row[wrong_per_thousand]) == pytest.approx(1000 - 10 * float(row["accuracy"]))
    assert float(row["val_wrong_per_thousand"]) == pytest.approx(1000 - 10 * float(row["val_accuracy"]))


def test_nll_is_judged_downwards_in_the_terminal_on_the_page_and_in_json(tmp_path: Path) -> None:
    """A learning rate that is far too small leaves the loss high: that arm must be worse, not better."""
    arms = ["--arm", "slow: lr=0.0001", "--metric", "nll", "--rope", "0.01", "--seeds", "7"]
    answer = call("compare", *SMALL, *arms, "--verbose", "--out", tmp_path)
    assert answer.code == 0, answer.err
    assert "slow is worse than erm (real-class NLL" in answer.out
    assert re.search(r"^slow .* worse$", answer.out, flags=re.M), answer.out
    assert "slow is worse than erm on digits with mlp: real-class NLL +" in answer.out
    again = json.loads(call("compare", *SMALL, *arms, "--json", "--out", tmp_path).out)
    assert (again["metric"], again["higher_is_better"], again["rope"]) == ("nll", False, 0.01)
    (slow,) = [c for c in again["settings"][0]["comparisons"] if c["arm"] == "slow"]
    assert (slow["verdict"], slow["wins"], slow["losses"]) == ("worse", 0, 7)
    assert slow["difference"] > 0.01
    page = (tmp_path / "report.html").read_text()
    assert "test real-class NLL" in page
    assert "slow is worse than erm" in page


@pytest.mark.parametrize("name", ["nll", "ece", "balanced_accuracy", "dummy_mass"])
def test_every_measured_metric_can_be_judged(name: str, tmp_path: Path) -> None:
    answer = call("compare", *SMALL, "--seeds", "2", "--metric", name, "--json", "--out", tmp_path)
    assert answer.code == 0, answer.err
    content = json.loads(answer.out)
    expected = get_metric(name)
    assert (content["metric"], content["higher_is_better"]) == (name, expected.higher_is_better)
    assert content["rope"] == (expected.rope or 0.0)


def test_the_default_margin_is_that_of_the_metric() -> None:
    margins = {name: make_study({"metric": name}).rope for name in ("accuracy", "nll", "ece", "balanced_accuracy")}
    assert margins == {"accuracy": 0.1, "nll": 0.01, "ece": 0.5, "balanced_accuracy": 0.1}
    assert make_study({"metric": "nll", "rope": 0.5}).rope == 0.5


def test_c_d_is_chosen_by_the_direction_of_the_metric() -> None:
    assert get_metric("nll").best({"a": 0.3, "b": 0.1, "c": 0.1}) == "b"
    assert get_metric("accuracy").best({"a": 0.3, "b": 0.4, "c": 0.4}) == "b"


@pytest.mark.parametrize(
    ("name", "label", "unit"),
    [
        ("accuracy", "accuracy", "points"),
        ("miou", "mean IoU", "points"),
        ("nll", "real-class NLL", ""),
        ("robust_pgd_real", "accuracy under pgd through the real logits", "points"),
        ("robust_my-own_full", "accuracy under my-own through all logits", "points"),
        ("accuracy_tail", "accuracy of tail classes", "points"),
        ("iou_traffic-light", "IoU of traffic-light", "points"),
    ],
)
def test_labels(name: str, label: str, unit: str) -> None:
    found = get_metric(name)
    assert (found.label, found.unit_of_differences, found.name) == (label, unit, name)


def test_names_of_both_tasks() -> None:
    assert {"accuracy", "nll", "ece"} <= {*metric_names("classification")} & {*metric_names("segmentation")}
    assert find_metric("miou", "classification") is None
    assert find_metric("robust_nonsense") is None
    assert describe_metric("speed").label == "speed"
    with pytest.raises(InputError, match="did you mean 'accuracy'"):
        get_metric("acuracy")


@pytest.mark.parametrize(
    ("metric", "parts"),
    [
        ("acuracy", ("'acuracy'", "'accuracy'")),
        ("miou", ("'miou'", "accuracy")),
        ("robust_pgd_real", ("'robust_pgd_real'", "accuracy")),
        ("accuracy_tail", ("'accuracy_tail'", "groups")),
    ],
)
def test_a_metric_that_is_not_measured_is_refused(metric: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    line = refusal(call("compare", *SMALL, "--seeds", "2", "--metric", metric, "--out", tmp_path))
    assert all(part in line for part in parts), line


def test_groups_of_long_tailed_data_can_be_judged(tmp_path: Path) -> None:
    flags = ["--data", "longtail:10:digits", "--metric", "accuracy_tial", "--seeds", "2"]
    line = refusal(call("compare", *SMALL, *flags, "--out", tmp_path))
    assert "'accuracy_tial'" in line
    assert "'accuracy_tail'" in line
