"""Curves are differences of pairs, with an interval that another library gives too."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from scipy import stats

from durm.metrics import describe_metric
from durm.report.curves import Runs, band, curves, has_curves, paired
from durm.report.figures import drawing
from durm.study.reading import make_study
from tests.study import synthetic

METRIC = describe_metric("accuracy")


def runs(gains: dict[str, float], seeds: int = 4, epochs: int = 3) -> Runs:
    """Of each arm; arms differ by their gain, times the epoch, and by a tenth for each seed."""
    trial = make_study({}).trials()[0]
    return {
        arm: {
            str(seed): synthetic.result(
                trial,
                90.0,
                curves=[
                    {"epoch": float(e), "val_accuracy": 50.0 + 7 * seed + e * gain + 0.1 * seed * bool(gain)}
                    for e in range(1, epochs + 1)
                ],
            )
            for seed in range(seeds)
        }
        for arm, gain in gains.items()
    }


def test_differences_are_of_pairs() -> None:
    """The seeds differ by 7 points, and that is gone."""
    found = runs({"erm": 0.0, "trick": 2.0}, seeds=2)
    seeds, epochs, differences = paired(found["trick"], found["erm"], "val_accuracy")
    assert (seeds, epochs) == (["0", "1"], [1.0, 2.0, 3.0])
    assert differences == pytest.approx(np.array([[2.0, 4.0, 6.0], [2.1, 4.1, 6.1]]))


def test_only_seeds_and_epochs_that_both_have_count() -> None:
    long, short = runs({"a": 1.0}, seeds=3, epochs=5)["a"], runs({"b": 0.0}, seeds=2, epochs=3)["b"]
    seeds, epochs, differences = paired(long, short, "val_accuracy")
    assert (seeds, epochs, differences.shape) == (["0", "1"], [1.0, 2.0, 3.0], (2, 3))
    assert paired(long, {}, "val_accuracy")[0] == []


def test_the_band_is_the_interval_of_a_t_test() -> None:
    differences = np.random.default_rng(1).normal(0.3, 1.0, (7, 5))
    mean, half = band(differences)
    for column in range(5):
        interval = stats.ttest_1samp(differences[:, column], 0).confidence_interval(0.95)
        assert (mean - half)[column] == pytest.approx(interval.low)
        assert (mean + half)[column] == pytest.approx(interval.high)
    assert band(differences[:1])[1].tolist() == [0.0] * 5


@pytest.mark.parametrize("level", [True, False])
def test_hovering_over_a_line_names_the_seed_and_its_last_value(level: bool) -> None:
    with drawing():
        svg = curves(runs({"erm": 0.0, "trick": 2.0}), "val_accuracy", METRIC, 0.1, "x", level=level).svg()
    found = [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert found == [f"trick, seed {seed}: +{6 + 0.1 * seed:.2f} at epoch 3" for seed in range(4)]
    assert ("erm: validation" in svg) == level
    assert "difference from erm, points" in svg


def test_of_many_epochs_the_last_is_drawn() -> None:
    found = runs({"erm": 0.0, "trick": 2.0}, seeds=2, epochs=500)
    _, epochs, _ = paired(found["trick"], found["erm"], "val_accuracy")
    assert len(epochs) <= 60
    assert epochs[-1] == 500


def test_runs_without_curves_have_none() -> None:
    assert has_curves(runs({"erm": 0.0}), "val_accuracy")
    assert not has_curves(runs({"erm": 0.0}, epochs=0), "val_accuracy")
    assert not has_curves(runs({"erm": 0.0}), "val_nll")
    assert not has_curves({"erm": {}}, "val_accuracy")
