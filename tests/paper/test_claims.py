"""The ledger of claims: planted effects are found, of every kind; evidence is chosen and combined as it is said."""

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from durm.errors import InputError
from durm.paper.claims import NUMBERED, VERDICTS, ledger
from durm.paper.combining import Finding, Measurement, Yardstick, combine, mean_interval
from durm.paper.evidence import read_evidence
from durm.paper.measures import change
from durm.paper.replication import page
from durm.study.rules import look_alpha
from durm.training.trial import Trial
from tests.paper.planted import add_probes, attacked, domains, gain, ratio, study, wobble

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "replication.md"
Plant = Callable[[Path, float, float], Any]
"""Puts an effect with noise into a folder of results."""


def number(words: str) -> int:
    """Of the claim whose statement has these words."""
    (found,) = [n for n, (_, claim) in enumerate(NUMBERED, 1) if words in claim.statement]
    return found


def finding(results: Path, words: str) -> Finding:
    (entry,) = ledger(results, [number(words)])
    return entry.finding


# Planted effects.


def plant_accuracy(results: Path, size: float, noise: float) -> None:
    study(results, "one", gain(size, noise))


def plant_domains(results: Path, size: float, noise: float) -> None:
    domains(results, "one", gain(size, noise), method=["erm", "dann"])


def plant_longtail(results: Path, size: float, noise: float) -> None:
    study(results, "one", gain(size, noise), data="longtail:100:digits")


def plant_mixup(results: Path, size: float, noise: float) -> None:
    study(results, "one", gain(size, noise), method=["mixup", "ema"])


def plant_early_stop(results: Path, size: float, noise: float) -> None:
    study(results, "one", gain(size, noise), train={"patience": 3})


def plant_robustness(results: Path, size: float, noise: float) -> None:
    attacked(results, "one", gain(size, noise))


def plant_robustness_at(results: Path, size: float, noise: float) -> None:
    attacked(results, "one", gain(size, noise), method=["fgsm-at", "pgd-at"])


def plant_segmentation(results: Path, size: float, noise: float) -> None:
    effect = gain(size, noise)
    study(results, "one", metrics=lambda trial: {"miou": 50 + wobble(trial.seed) + effect(trial)})


def plant_hard_classes(results: Path, size: float, noise: float) -> None:
    effect = gain(size, noise)
    ious = {"road": 95.0, "sky": 90.0, "pole": 20.0, "sign": 30.0}

    def metrics(trial: Trial) -> dict[str, float]:
        of_classes = {name: iou + (effect(trial) if iou < 50 else 0.0) for name, iou in ious.items()}
        return {"miou": 50.0} | {f"iou_{name}": iou for name, iou in of_classes.items()}

    study(results, "one", metrics=metrics)


def plant_imbalance(results: Path, size: float, noise: float) -> None:
    effect = gain(size, noise)
    data = ["longtail:10:digits", "longtail:100:digits"]
    study(results, "one", lambda trial: effect(trial) if ":100:" in trial.data else 0.0, data=data)


def plant_tail(results: Path, size: float, noise: float) -> None:
    effect = gain(size, noise)
    groups = lambda trial: {"accuracy_head": 90.0, "accuracy_tail": 40.0 + effect(trial)}  # noqa: E731
    study(results, "one", metrics=groups, data="longtail:100:digits")


def plant_few_samples(results: Path, size: float, noise: float) -> None:
    effect = gain(size, noise)
    data = ["subset:samples=10:digits", "subset:samples=100:digits"]
    study(results, "one", lambda trial: effect(trial) if "=10:" in trial.data else 0.0, data=data)


GAINS: dict[str, Plant] = {
    "ordinary classification": plant_accuracy,
    "held-out domains": plant_domains,
    "long-tailed recognition": plant_longtail,
    "adds to other regularizers": plant_early_stop,
    "segmentation better": plant_segmentation,
    "hard classes gain": plant_hard_classes,
    "ordinary training more robust": plant_robustness,
    "adversarial training more robust": plant_robustness_at,
    "Stronger attacks": plant_robustness,
    "The longer the tail": plant_imbalance,
    "the tail gains more than the head": plant_tail,
    "The fewer samples": plant_few_samples,
}


@pytest.mark.parametrize("words", GAINS)
@pytest.mark.parametrize(
    ("size", "noise", "verdict"),
    [
        (2.0, 0.05, "holds"),
        (0.0, 0.01, "does not hold"),
        (-2.0, 0.05, "does not hold"),
        (0.3, 3.0, "undecided"),
    ],
)
def test_a_gain(words: str, size: float, noise: float, verdict: str, tmp_path: Path) -> None:
    GAINS[words](tmp_path, size, noise)
    found = finding(tmp_path, words)
    assert found.verdict == verdict, found.reading
    assert (found.n, found.unit, found.studies) == (6, "points", ("one",))
    assert found.effect is not None
    assert found.interval is not None
    assert found.interval[0] <= found.effect <= found.interval[1]
    if verdict != "undecided":
        assert found.effect == pytest.approx(size, abs=0.1)


@pytest.mark.parametrize("words", GAINS)
def test_what_no_study_speaks_to_is_not_tested(words: str, tmp_path: Path) -> None:
    other = plant_accuracy if words != "ordinary classification" else plant_mixup
    other(tmp_path, 2.0, 0.05)
    found = finding(tmp_path, words)
    assert (found.verdict, found.effect, found.interval, found.n, found.studies) == ("not tested", None, None, 0, ())
    assert "it takes a study" in found.reading


@pytest.mark.parametrize(("size", "verdict"), [(2.0, "holds"), (0.0, "does not hold"), (-2.0, "does not hold")])
def test_more_than_label_smoothing(size: float, verdict: str, tmp_path: Path) -> None:
    arms = [{"name": "erm"}, {"name": "durm-2", "dummies": 2}, {"name": "smoothing", "label_smoothing": 0.1}]
    study(tmp_path, "one", gain(size), arms=arms)
    found = finding(tmp_path, "more than label smoothing")
    assert found.verdict == verdict
    assert found.parts[0].what.endswith("against smoothing")
    assert finding(tmp_path, "adds to other regularizers").verdict == "not tested"


def test_dummies_on_top_of_label_smoothing_count_beside_other_regularizers(tmp_path: Path) -> None:
    arms = [{"name": "smooth", "label_smoothing": 0.1}, {"name": "both", "label_smoothing": 0.1, "dummies": 2}]
    study(tmp_path, "arms", gain(2.0), arms=arms)
    assert finding(tmp_path, "adds to other regularizers").verdict == "holds"
    assert finding(tmp_path, "ordinary classification").verdict == "not tested"


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.1, "holds"), (1.0, "does not hold"), (10.0, "does not hold"), (None, "undecided")]
)
def test_the_variance_over_seeds(factor: float | None, verdict: str, tmp_path: Path) -> None:
    """With dummies the spread is multiplied; in eight settings, by about the same unless nothing is planted."""

    def accuracy(trial: Trial) -> float:
        level = 3 * wobble("level", trial.seed)
        scale = math.sqrt(factor) if factor else math.exp(2 * wobble(trial.model, trial.data))
        return ((scale - 1) * level + 0.01 * wobble(trial.seed, trial.data)) * (trial.dummies > 0)

    data = [f"subset:samples={count}:digits" for count in range(10, 18)]
    study(tmp_path, "one", accuracy, data=data, dummies=[0, 1], seeds=8)
    found = finding(tmp_path, "lowers the variance")
    assert found.verdict == verdict, found.reading
    assert (found.n, found.counted) == (8, "setting")
    assert "Pitman and Morgan's test" in found.reading
    if factor:
        assert found.effect == pytest.approx(100 * (factor - 1), rel=0.02, abs=2)


@pytest.mark.parametrize(
    ("ratio", "noise", "verdict"),
    [(1.0, 0.001, "holds"), (1.005, 0.001, "holds"), (1.05, 0.001, "does not hold"), (1.0, 0.3, "undecided")],
)
def test_the_cost_by_studies(ratio: float, noise: float, verdict: str, tmp_path: Path) -> None:
    def cost(trial: Trial) -> dict[str, Any]:
        factor = (ratio if trial.dummies else 1.0) * math.exp(noise * wobble(trial.arm, trial.seed))
        steps = {"seconds_per_step": 0.01, "steps": 1000, "peak_memory": 1, "parameters": 5000}
        return {"cost": {"seconds": 10.0 * (trial.seed + 1) * factor, **steps}}

    study(tmp_path, "one", change=cost)
    found = finding(tmp_path, "almost free")
    assert found.verdict == verdict, found.reading
    if noise < 0.1:
        assert found.effect == pytest.approx(100 * (ratio - 1), abs=0.2)


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.98, 1.005), "holds"), ((1.02, 1.04), "does not hold"), ((0.99, 1.03), "undecided")],
)
def test_the_cost_by_interleaved_timings(interval: tuple[float, float], verdict: str, tmp_path: Path) -> None:
    plant_accuracy(tmp_path, 0.0, 0.01)
    cases = [("net training step", interval), ("mlp training step", (0.99, 1.0)), ("net eval forward", (2.0, 3.0))]
    results = [{"case": case, "ratio": sum(i) / 2, "low": i[0], "high": i[1], "pairs": 50} for case, i in cases]
    (tmp_path / "anything.json").write_text(json.dumps({"dummies": 2, "results": results}))
    (tmp_path / "other.json").write_text(json.dumps({"results": [{"case": "loop training step"}]}))
    found = finding(tmp_path, "almost free")
    assert (found.verdict, found.studies, found.n) == (verdict, ("anything.json",), 50)
    assert "“net training step”" in found.reading


@pytest.mark.parametrize(
    ("slope", "noise", "verdict"),
    [(0.0, 0.01, "holds"), (1.0, 0.01, "does not hold"), (-1.0, 0.01, "does not hold"), (0.0, 2.0, "undecided")],
)
def test_the_number_of_dummies(slope: float, noise: float, verdict: str, tmp_path: Path) -> None:
    effect = lambda trial: slope * math.log2(max(1, trial.dummies)) + gain(5.0, noise)(trial)  # noqa: E731
    study(tmp_path, "one", effect, dummies=[0, 1, 2, 4, 16])
    found = finding(tmp_path, "how many dummies")
    assert found.verdict == verdict, found.reading
    if noise < 1:
        assert found.effect == pytest.approx(4 * slope, abs=0.05)  # 16 is 2⁴


PROBES = [
    ("variance of the gradient", "mean_gradient_variance", {1.1: "holds", 1.0: "does not hold", 0.9: "does not hold"}),
    ("gradient is larger", "gradient_norm", {1.1: "holds", 1.0: "does not hold", 0.9: "does not hold"}),
    ("flatter minima", "top_eigenvalue", {0.9: "holds", 1.0: "does not hold", 1.1: "does not hold"}),
    ("equally far", "distance", {1.0: "holds", 1.1: "does not hold", 0.9: "does not hold"}),
]


@pytest.mark.parametrize(("words", "quantity", "expected"), PROBES)
def test_probes(words: str, quantity: str, expected: dict[float, str], tmp_path: Path) -> None:
    plant_accuracy(tmp_path, 0.0, 0.01)
    assert finding(tmp_path, words).verdict == "not tested"
    for size, verdict in expected.items():
        add_probes(tmp_path, "one", {quantity: ratio(size)})
        found = finding(tmp_path, words)
        assert found.verdict == verdict, (size, found.reading)
        assert (found.n, found.unit) == (6, "%")
        assert found.effect == pytest.approx(100 * (size - 1), abs=0.2)
    add_probes(tmp_path, "one", {quantity: ratio(1.0, noise=0.5)})
    assert finding(tmp_path, words).verdict == "undecided"


@pytest.mark.parametrize(("multiple", "verdict"), [(1.02, "holds"), (1.5, "does not hold")])
def test_equal_parts_of_the_dummies(multiple: float, verdict: str, tmp_path: Path) -> None:
    """One dummy has all of it, and says nothing."""
    plant_accuracy(tmp_path, 0.0, 0.01)
    value = lambda dummies, seed: 1.0 if dummies < 2 else multiple + 0.001 * wobble(seed)  # noqa: E731
    add_probes(tmp_path, "one", {"dummy_unevenness": value})
    found = finding(tmp_path, "equal part")
    assert found.verdict == verdict
    assert found.effect == pytest.approx(100 * (multiple - 1), abs=0.1)


@pytest.mark.parametrize(
    ("level", "noise", "verdict"),
    [(0.6, 0.05, "holds"), (-0.6, 0.05, "does not hold"), (0.0, 0.01, "does not hold"), (0.1, 0.5, "undecided")],
)
def test_eigenvalue_and_norm(level: float, noise: float, verdict: str, tmp_path: Path) -> None:
    """Of each run a correlation; of a seed the mean over its arms."""
    plant_accuracy(tmp_path, 0.0, 0.01)
    value = lambda dummies, seed: level + noise * wobble(seed) + 0.01 * dummies  # noqa: E731
    add_probes(tmp_path, "one", {"eigenvalue_norm_correlation": value})
    found = finding(tmp_path, "Top eigenvalue")
    assert (found.verdict, found.n) == (verdict, 6), found.reading


# What never happens: one setting is enough to contradict.


@pytest.mark.parametrize(("hits", "verdict"), [(0.0, "holds"), (0.02, "holds"), (5.0, "does not hold")])
def test_samples_that_are_classified_as_a_dummy(hits: float, verdict: str, tmp_path: Path) -> None:
    def metrics(trial: Trial) -> dict[str, float]:
        where = trial.model == "mlp" and trial.dummies > 0
        return {"dummy_hits": hits * where + 0.001 * abs(wobble(trial.seed)) * where}

    study(tmp_path, "one", metrics=metrics, model=["cnn", "mlp"])
    found = finding(tmp_path, "classified as a dummy")
    assert found.verdict == verdict, found.reading
    assert found.effect == pytest.approx(hits, abs=0.001)
    assert len(found.parts) == 2


def test_samples_that_are_attacked_into_a_dummy(tmp_path: Path) -> None:
    """A summary that keeps the mean alone, as those of before do, cannot tell; one that keeps the seeds can."""
    attacked(tmp_path, "one", gain(0.0), into=30.0)
    path = tmp_path / "one" / "summary.json"
    summary = json.loads(path.read_text())
    arms = [arm for entry in summary["settings"][0]["robustness"] for arm in entry["arms"]]
    for arm in arms:
        del arm["into_dummies_values"]
    path.write_text(json.dumps(summary))
    found = finding(tmp_path, "attacked into a dummy")
    assert (found.verdict, len(found.parts)) == ("undecided", 2)  # FGSM and PGD
    for arm in arms:
        if arm["into_dummies"] is not None:
            arm["into_dummies_values"] = {str(seed): 30 + wobble(seed) for seed in range(6)}
    path.write_text(json.dumps(summary))
    told = finding(tmp_path, "attacked into a dummy")
    assert (told.verdict, told.n) == ("does not hold", 6)
    assert told.effect == pytest.approx(30, abs=1)
    assert found.effect == pytest.approx(30)


def test_a_mean_of_none_is_none_in_every_seed(tmp_path: Path) -> None:
    attacked(tmp_path, "one", gain(0.0), into=0.0)
    found = finding(tmp_path, "attacked into a dummy")
    assert (found.verdict, found.effect, found.n) == ("holds", 0.0, 6)


@pytest.mark.parametrize(("full", "verdict"), [(0.0, "holds"), (3.0, "does not hold"), (-3.0, "does not hold")])
def test_attacks_through_all_logits(full: float, verdict: str, tmp_path: Path) -> None:
    attacked(tmp_path, "one", gain(0.0), full=full)
    found = finding(tmp_path, "DuRM's own loss")
    assert found.verdict == verdict, found.reading
    assert found.effect == pytest.approx(full, abs=0.05)
    assert len(found.parts) == 2  # FGSM and PGD; Square goes through the real ones alone


# In every setting.


def test_every_setting_is_better(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(2.0))
    domains(tmp_path, "two", gain(2.0), method=["erm", "dann"])
    attacked(tmp_path, "three", gain(2.0), data="subset:samples=20:digits", accuracy=gain(2.0))
    found = finding(tmp_path, "every setting")
    assert found.verdict == "holds", found.reading
    assert (found.effect, found.n) == (100.0, 6)  # one, two methods, one clean and two attacks


@pytest.mark.parametrize(("size", "verdict"), [(-2.0, "does not hold"), (0.0, "does not hold")])
def test_one_setting_that_is_not_contradicts(size: float, verdict: str, tmp_path: Path) -> None:
    study(tmp_path, "one", gain(2.0))
    study(tmp_path, "two", gain(size), model="mlp")
    found = finding(tmp_path, "every setting")
    assert found.verdict == verdict
    assert found.effect == 50


def test_one_setting_that_cannot_tell_leaves_it_open(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(2.0))
    study(tmp_path, "two", gain(0.3, noise=3.0), model="mlp")
    assert finding(tmp_path, "every setting").verdict == "undecided"


# Claims that are computed.


def test_theory_and_the_papers_own_table(tmp_path: Path) -> None:
    plant_accuracy(tmp_path, 0.0, 0.01)
    assert finding(tmp_path, "has mean 0").verdict == "does not hold"
    assert finding(tmp_path, "smallest of T").verdict == "holds"
    assert finding(tmp_path, "smallest of T").effect == pytest.approx(0.5)
    assert finding(tmp_path, "nearest to zero").verdict == "does not hold"
    bars = finding(tmp_path, "error bars")
    assert (bars.verdict, bars.n) == ("does not hold", 54)
    assert "in 7 of 54" in bars.reading  # counted by hand in Table 8


# Which evidence counts.


def test_folders_may_have_any_name(tmp_path: Path) -> None:
    study(tmp_path, "zzz", gain(2.0), name="anything")
    assert finding(tmp_path, "ordinary classification").studies == ("zzz",)


def test_more_dummies_than_the_papers_are_about_their_number_alone(tmp_path: Path) -> None:
    effect = lambda trial: -50.0 * (trial.dummies > 3) + gain(2.0)(trial)  # noqa: E731
    study(tmp_path, "one", effect, dummies=[0, 1, 2, 40])
    found = finding(tmp_path, "ordinary classification")
    assert found.effect == pytest.approx(2.0, abs=0.1)
    assert finding(tmp_path, "how many dummies").verdict == "does not hold"


def test_arms_that_change_something_else_too_are_no_pairs(tmp_path: Path) -> None:
    arms = [{"name": "erm"}, {"name": "durm", "dummies": 2, "lr": 0.1}]
    study(tmp_path, "one", gain(2.0), arms=arms)
    assert finding(tmp_path, "ordinary classification").verdict == "not tested"


def test_single_domains_are_no_classification(tmp_path: Path) -> None:
    domains(tmp_path, "one", gain(2.0))
    assert [setting.data for setting in read_evidence(tmp_path).settings] == ["pacs"]
    assert finding(tmp_path, "ordinary classification").verdict == "not tested"


def test_regularizers_of_a_setting(tmp_path: Path) -> None:
    study(tmp_path, "a", method="mixup+ema", train={"patience": 2})
    study(tmp_path, "b", train={"momentum": 0.0})
    study(tmp_path, "c", train={"weight_decay": 0.0})
    study(tmp_path, "d")
    found = {setting.study: setting.regularizers(setting.spec.arms[0]) for setting in read_evidence(tmp_path).settings}
    assert found == {"a": ["mixup", "ema", "early stop"], "b": ["L2"], "c": ["momentum"], "d": []}


def test_the_mean_over_domains_is_that_of_the_summary(tmp_path: Path) -> None:
    summary = domains(tmp_path, "one", gain(2.0, noise=1.0))
    (setting,) = read_evidence(tmp_path).settings
    for arm in summary["averages"][0]["arms"]:
        assert setting.values(arm["arm"], "accuracy") == pytest.approx(arm["values"])


def test_one_setting_has_the_interval_of_its_study(tmp_path: Path) -> None:
    summary = study(tmp_path, "one", gain(2.0, noise=1.0), dummies=[0, 1])
    found = finding(tmp_path, "ordinary classification")
    (comparison,) = summary["settings"][0]["comparisons"]
    assert found.effect == pytest.approx(comparison["difference"])
    assert found.interval == pytest.approx(comparison["ci"])
    assert found.p == pytest.approx(comparison["p"])


# How it is combined.


def some(seed: int, n: int, size: float = 1.0, first: int = 0) -> Measurement:
    values = np.random.default_rng(seed).normal(size, 1.0, n)
    return Measurement((f"study {seed}",), f"setting {seed}", {str(first + i): float(v) for i, v in enumerate(values)})


def test_settings_with_the_same_seeds_are_averaged_seed_by_seed() -> None:
    one, two = some(1, 8), some(2, 8)
    found = combine([one, two], Yardstick("more"))
    assert found is not None
    means = (one.array + two.array) / 2
    assert found.interval == pytest.approx(stats.t.interval(0.95, 7, means.mean(), stats.sem(means)))
    assert found.n == 8


def test_settings_with_other_seeds_are_independent() -> None:
    one, two = some(1, 4), some(2, 9)
    found = combine([one, two], Yardstick("more"))
    assert found is not None
    error = math.hypot(stats.sem(one.array), stats.sem(two.array)) / 2
    middle = (one.array.mean() + two.array.mean()) / 2
    assert found.interval == pytest.approx(stats.t.interval(0.95, 3, middle, error))
    assert found.n == 13
    assert found.studies == ("study 1", "study 2")


def test_a_setting_counts_as_much_as_another_however_noisy() -> None:
    noisy = Measurement(("a",), "a", {str(seed): 10.0 * (-1) ** seed for seed in range(10)})
    sharp = Measurement(("b",), "b", {str(seed): 1.0 for seed in range(4)})
    found = combine([noisy, sharp], Yardstick("more"))
    assert found is not None
    assert found.effect == pytest.approx(0.5)
    assert found.verdict == "undecided"


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_the_interval_of_groups_covers_as_often_as_it_says(spread: float) -> None:
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        groups = [(1 / 3, random.normal(0, spread, 3)), (2 / 3, random.normal(0, 1, 8))]
        interval = mean_interval(groups, 0.05)
        assert interval is not None
        covered += interval[0] <= 0 <= interval[1]
    assert covered / 2000 >= 0.94


def test_the_same_runs_in_two_studies_count_once(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(2.0, noise=1.0))
    alone = finding(tmp_path, "ordinary classification")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    both = finding(tmp_path, "ordinary classification")
    assert (both.interval, both.n, both.studies) == (alone.interval, 6, ("one",))


def test_runs_that_a_longer_study_has_too_count_there(tmp_path: Path) -> None:
    study(tmp_path, "a-short", gain(2.0, noise=1.0))
    study(tmp_path, "b-long", gain(2.0, noise=1.0), seeds=10)
    found = finding(tmp_path, "ordinary classification")
    assert (found.n, found.studies) == (10, ("b-long",))


def test_runs_of_a_study_with_more_arms_count_there(tmp_path: Path) -> None:
    """Also where the other study has fewer arms and fewer seeds; of the variance over seeds as well."""
    study(tmp_path, "all", gain(2.0, noise=1.0), seeds=10)
    before = [finding(tmp_path, words) for words in ("ordinary classification", "variance over seeds")]
    study(tmp_path, "some", gain(2.0, noise=1.0), dummies=[0, 2])
    after = [finding(tmp_path, words) for words in ("ordinary classification", "variance over seeds")]
    assert after == before


def test_new_dummies_beside_known_runs_without_are_evidence(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(2.0, noise=1.0), dummies=[0, 1])
    study(tmp_path, "two", gain(2.0, noise=1.0), dummies=[0, 2], seeds=7)
    assert finding(tmp_path, "ordinary classification").n == 13


def test_levels_that_differ_otherwise_too_are_not_compared(tmp_path: Path) -> None:
    data = [f"longtail:{ratio}:subset:samples={samples}:digits" for ratio, samples in (("1e1", 50), ("1e2", 100))]
    study(tmp_path, "one", gain(2.0), data=data)
    assert finding(tmp_path, "The longer the tail").verdict == "not tested"
    assert finding(tmp_path, "ordinary classification").verdict == "not tested"
    assert finding(tmp_path, "long-tailed recognition").verdict == "holds"


def test_a_damaged_part_of_a_summary_is_named(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(2.0))
    path = tmp_path / "one" / "summary.json"
    summary = json.loads(path.read_text())
    summary["settings"][0]["probes"] = [{"quantity": "distance"}]
    path.write_text(json.dumps(summary))
    with pytest.raises(InputError, match="is damaged: it is not the summary"):
        read_evidence(tmp_path)


def test_a_study_that_was_looked_at_again_has_a_wider_interval(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(2.0, noise=1.0), dummies=[0, 1])
    once = finding(tmp_path, "ordinary classification")
    path = tmp_path / "one" / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"looked_at": [3, 6]}))
    twice = finding(tmp_path, "ordinary classification")
    assert once.interval is not None
    assert twice.interval is not None
    widths = [found[1] - found[0] for found in (once.interval, twice.interval)]
    quantiles = [stats.t.ppf(1 - alpha / 2, 5) for alpha in (0.05, look_alpha(2))]
    assert widths[1] / widths[0] == pytest.approx(quantiles[1] / quantiles[0])


def test_one_pair_decides_nothing(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(50.0), seeds=1)
    found = finding(tmp_path, "ordinary classification")
    assert (found.verdict, found.n, found.interval) == ("undecided", 1, None)
    assert found.effect == pytest.approx(50, abs=0.1)
    study(tmp_path, "two", gain(20.0), seeds=[3], data="longtail:1:digits")
    study(tmp_path, "three", gain(20.0), seeds=[1], model="mlp")
    found = finding(tmp_path, "ordinary classification")
    assert "(2 seeds, 2 settings): one number in each setting decides nothing." in found.reading


def test_few_differences_that_are_all_equal_decide_nothing() -> None:
    values = {str(seed): 1.0 for seed in range(3)}
    found = combine([Measurement(("a",), "a", values)], Yardstick("more"))
    assert found is not None
    assert (found.verdict, found.interval, found.parts[0].word) == ("undecided", None, "undecided")
    assert "may agree by chance" in found.reading
    more = combine([Measurement(("a",), "a", {str(seed): 1.0 for seed in range(6)})], Yardstick("more"))
    assert more is not None
    assert (more.verdict, more.interval) == ("holds", (1.0, 1.0))
    share = combine([Measurement(("a",), "a", dict.fromkeys(values, 0.0))], Yardstick("at most", unit="% of samples"))
    assert share is not None
    assert share.verdict == "holds"


def test_single_settings_are_corrected_for_their_number() -> None:
    measurements = [some(seed, 6) for seed in range(5)]
    found = combine(measurements, Yardstick("more"))
    assert found is not None
    for part, one in zip(found.parts, measurements, strict=True):
        expected = stats.t.interval(1 - 0.05 / 5, 5, one.array.mean(), stats.sem(one.array))
        assert part.interval == pytest.approx(expected)


@pytest.mark.parametrize(
    ("wanted", "interval", "verdict"),
    [
        ("more", (0.2, 0.3), "holds"),
        ("more", (-0.05, 0.05), "does not hold"),
        ("more", (-0.3, -0.2), "does not hold"),
        ("more", (0.0, 0.3), "undecided"),
        ("less", (-0.3, -0.2), "holds"),
        ("less", (0.2, 0.3), "does not hold"),
        ("same", (-0.05, 0.05), "holds"),
        ("same", (0.2, 0.3), "does not hold"),
        ("same", (-0.05, 0.2), "undecided"),
        ("at most", (-5.0, 0.05), "holds"),
        ("at most", (0.2, 0.3), "does not hold"),
        ("at most", (0.0, 0.2), "undecided"),
        ("more", None, "undecided"),
        ("at most", None, "undecided"),
    ],
)
def test_from_interval_to_verdict(wanted: Any, interval: tuple[float, float] | None, verdict: str) -> None:
    assert Yardstick(wanted).verdict(interval) == verdict


def test_relative_changes_are_told_in_percent() -> None:
    values = {str(seed): math.log(1.1) + 0.001 * wobble(seed) for seed in range(6)}
    found = combine([Measurement(("a",), "a", values)], Yardstick("more", 1.0, "%", relative=True))
    assert found is not None
    assert found.effect == pytest.approx(10, abs=0.1)
    assert found.verdict == "holds"


def test_change_over_levels() -> None:
    assert change({2.0: {"0": 1.0}, 8.0: {"0": 4.0}})["0"] == pytest.approx(3.0)
    assert change({1.0: {"0": 0.0}, 2.0: {"0": 1.0}, 4.0: {"0": 2.0}})["0"] == pytest.approx(2.0)
    assert change({1.0: {"0": 0.0}}) == {}


# The ledger as a whole.


def test_every_claim_says_what_it_is(tmp_path: Path) -> None:
    plant_accuracy(tmp_path, 2.0, 0.05)
    entries = ledger(tmp_path)
    assert [entry.number for entry in entries] == list(range(1, len(NUMBERED) + 1))
    for entry in entries:
        assert entry.finding.verdict in VERDICTS
        assert entry.finding.reading.endswith(".")
        assert entry.claim.where
        assert entry.claim.test
        json.dumps(entry.as_dict(), allow_nan=False)
    assert len({entry.claim.statement for entry in entries}) == len(entries)


def test_the_readings_have_the_numbers(tmp_path: Path) -> None:
    plant_accuracy(tmp_path, 2.0, 0.05)
    found = finding(tmp_path, "ordinary classification")
    assert re.fullmatch(
        r"\+[12]\.\d+ points \(interval \+1\.\d+ … \+2\.\d+, 6 seeds, 1 setting\): "
        r"beyond the ±0\.1 points that count as none\.",
        found.reading,
    ), found.reading


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")
def test_the_committed_page_is_what_the_committed_results_give() -> None:
    assert PAGE.read_text() == page(ledger(ROOT / "results")), "run `make claims`"


def test_damaged_results_are_named(tmp_path: Path) -> None:
    plant_accuracy(tmp_path, 2.0, 0.05)
    table = tmp_path / "one" / "results.csv"
    table.write_text(re.sub(r",[78]\d\.\d+(?=,)", ",many", table.read_text()))
    with pytest.raises(InputError, match=r"one/results\.csv is damaged: accuracy is not always a number"):
        ledger(tmp_path)
