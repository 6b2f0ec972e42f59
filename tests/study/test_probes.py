"""What a study makes of its probes: hand-worked numbers."""

from pathlib import Path
from typing import Any

import pytest

from durm.report import figures
from durm.report.probes import caption_of, probe_figures
from durm.report.tables import probes_table
from durm.study.base import Key
from durm.study.config import Study
from durm.study.reading import make_study
from durm.study.records import ProbeSummary
from durm.study.summary import summarize
from durm.training.result import Result
from tests.study import synthetic

SEEDS = (0, 1, 2)
ARMS = {"erm": 0, "durm-2": 2}


def study(seeds: int = 3) -> Study:
    return make_study({"dummies": [0, 2], "seeds": seeds, "probes": ["gradient_variance"]}, "a study")


def seen(dummies: int, seed: int) -> dict[str, Any]:
    """Two classes, three epochs of two steps. The best validation is that of the second."""
    return {
        "gradient_variance": {
            "variance": [[9.0, 9.0], [1.0 + seed, 3.0 + dummies], [0.0, 0.0]], "mean": [[0, 0]] * 3, "samples": [4] * 3
        },
        "gradient_norm": {
            "norm": [9.0] * 6, "shared": [6.0, 2.0, 3.0, 1.0, 2.0 + dummies, 4.0 + seed],
            "cumulative_norm": [18.0, 36.0, 54.0], "cumulative_shared": [8.0, 12.0, 18.0 + dummies + seed],
            "ends": [2, 4, 6],
        },
        "distance": {
            "steps": [0, 2, 4, 6], "shared": [0.0, 1.0, 4.0, 9.0 - dummies], "dummies": [0.0, 0.0, 0.0, 0.5]
        },
        "dummy_mass": {"mass": [0.5, 0.2, 0.01 * dummies], "hits": [0, 0, dummies // 2], "samples": [4, 4, 4]},
        "dummy_gradient": {
            "fraction": [[0.5, 0.5], [0.4, 0.6], [0.25, 0.75]] if dummies else [[], [], []],
            "share": [[0.2, 0.2], [0.1, 0.1], [0.01, 0.03]] if dummies else [[], [], []],
            "sample_fraction": [], "samples": [4] * 3,
        },
        "push_pull": {"push": [[1.0, 2.0, 5.0, 5.0]] * 3, "pull": [[0.0] * 4] * 3, "samples": [4] * 3},
    }  # fmt: skip


def results(seeds: int = 3) -> dict[Key, Result]:
    found = {}
    for trial in study(seeds).trials():
        curves = [
            {"epoch": epoch, "step": 2 * epoch, "lr": 0.1, "train_loss": 1.0, "val_accuracy": value, "val_nll": 1.0}
            for epoch, value in ((1, 50.0), (2, 80.0), (3, 80.0))
        ]
        changes = {
            "probes": seen(trial.dummies, trial.seed), "curves": curves, "class_names": ["a", "b"],
            "classes": {"accuracy": [90.0, 80.0 + trial.seed]},
        }  # fmt: skip
        key = (trial.data, trial.model, trial.method_name, trial.arm, trial.seed)
        found[key] = synthetic.result(trial, 90.0, **changes)
    return found


def entries(seeds: int = 3) -> dict[str, ProbeSummary]:
    (setting,) = summarize(study(seeds), results(seeds)).settings
    return {entry.quantity: entry for entry in setting.probes}


def test_the_marked_epoch_is_the_first_of_the_best() -> None:
    assert all(result.best_validation("accuracy") == 1 for result in results().values())


@pytest.mark.parametrize(
    ("quantity", "erm", "durm"),
    [
        ("gradient_variance", [2.0, 2.5, 3.0], [3.0, 3.5, 4.0]),
        ("mean_gradient_variance", [11 / 3, 11.5 / 3, 4.0], [4.0, 12.5 / 3, 13 / 3]),
        ("gradient_norm", [3.0, 19 / 6, 20 / 6], [20 / 6, 21 / 6, 22 / 6]),
        ("last_gradient_norm", [3.0, 3.5, 4.0], [4.0, 4.5, 5.0]),
        ("distance", [9.0, 9.0, 9.0], [7.0, 7.0, 7.0]),
        ("dummy_share", [], [4.0, 4.0, 4.0]),
        ("dummy_unevenness", [], [1.5, 1.5, 1.5]),
        ("training_dummy_mass", [0.0, 0.0, 0.0], [2.0, 2.0, 2.0]),
        ("training_dummy_hits", [0.0, 0.0, 0.0], [25.0, 25.0, 25.0]),
    ],
)
def test_every_quantity_by_hand(quantity: str, erm: list[float], durm: list[float]) -> None:
    baseline, arm = entries()[quantity].arms
    assert list(baseline.values.values()) == pytest.approx(erm)
    assert list(arm.values.values()) == pytest.approx(durm)


def test_differences_are_larger_or_smaller_and_absent_without_a_baseline() -> None:
    found = entries(seeds=6)
    verdicts = {name: [c.verdict for c in entry.comparisons] for name, entry in found.items()}
    assert verdicts["distance"] == ["smaller"]
    assert verdicts["last_gradient_norm"] == ["larger"]
    assert found["distance"].comparisons[0].ci_family == pytest.approx([-2, -2])
    assert verdicts["dummy_share"] == []
    assert [c.verdict for c in entries(seeds=5)["distance"].comparisons] == ["undecided"]  # too few pairs


def test_table_and_figures_have_all_of_it(tmp_path: Path) -> None:
    kept = results()
    (setting,) = summarize(study(), kept).settings
    rows = probes_table(setting).texts()
    assert len(rows) == 2 * len(setting.probes) - 2  # the baseline has no dummies
    runs = {arm: [kept[("digits", "cnn", "erm", arm, seed)] for seed in SEEDS] for arm in ARMS}
    with figures.drawing():
        drawn = {name: one.svg() for name, one in probe_figures(runs, "accuracy", "here")}
    assert set(drawn) == {
        *("gradient_variance", "class_variance", "class_accuracy", "gradient_norm", "distance"),
        *("training_dummy_mass", "dummy_fraction-durm-2", "push"),
    }
    assert all(caption_of(name.partition("-")[0]) for name in drawn)
    assert "durm-2" in drawn["distance"]
    assert "largest" in drawn["dummy_fraction-durm-2"]
    arm, others = figures.COLOURS[1], figures.COLOURS[2:]  # colours mean arms: those of its dummies are all its own
    assert arm in drawn["dummy_fraction-durm-2"]
    assert not any(colour in drawn["dummy_fraction-durm-2"] for colour in others)


def test_a_last_epoch_that_was_cut_short() -> None:
    kept = results()
    for result in kept.values():
        result.probes["gradient_norm"]["ends"] = [2, 5, 6]
    (setting,) = summarize(study(), kept).settings
    found = {entry.quantity: entry.arms[0].values for entry in setting.probes}
    assert list(found["last_gradient_norm"].values()) == [4.0, 5.0, 6.0]


def test_what_was_not_defined_is_left_out_and_drawn_as_a_gap() -> None:
    """As after dummies whose probabilities are all 0 in 32 bit, or a class that came once in an epoch."""
    kept = results()
    for (*_, seed), result in kept.items():
        if seed == 0:
            probes = result.probes
            probes["gradient_variance"]["variance"][1] = [None, 3.0]
            probes["dummy_gradient"]["fraction"][-1] = [None] * len(probes["dummy_gradient"]["fraction"][-1])
            probes["dummy_gradient"]["share"][-1] = [None] * len(probes["dummy_gradient"]["share"][-1])
    (setting,) = summarize(study(), kept).settings
    seeds = {entry.quantity: [*entry.arms[1].values] for entry in setting.probes}
    for quantity in ("gradient_variance", "mean_gradient_variance", "dummy_unevenness", "dummy_share"):
        assert seeds[quantity] == ["1", "2"]
    with figures.drawing():
        runs = {arm: [kept[("digits", "cnn", "erm", arm, seed)] for seed in SEEDS] for arm in ARMS}
        assert all(drawn.svg() for _, drawn in probe_figures(runs, "accuracy", ""))


def test_arms_with_equally_many_dummies_have_figures_of_their_own() -> None:
    runs = [result for (*_, arm, _), result in results().items() if arm == "durm-2"]
    with figures.drawing():
        drawn = {name for name, _ in probe_figures({"durm-2": runs, "durm-2 smooth": runs}, "accuracy", "")}
    assert {"dummy_fraction-durm-2", "dummy_fraction-durm-2 smooth"} <= drawn


def test_without_probes_there_is_nothing_to_tell() -> None:
    bare = {key: result.model_copy(update={"probes": {}}) for key, result in results().items()}
    (setting,) = summarize(study(), bare).settings
    assert setting.probes == []
    assert probes_table(setting).rows == []
