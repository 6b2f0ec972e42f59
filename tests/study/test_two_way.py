"""Intervals over seeds and samples of a whole study: the formula of the design, by hand, on outcomes that are known."""

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from durm.report.page import markdown, write_report
from durm.study.reading import make_study
from durm.study.records import Summary
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from durm.training.outcomes import pack_outcomes
from durm.training.trial import Trial
from tests.study import synthetic

SEEDS, SAMPLES = 7, 400
STEP = 100 / SAMPLES
ROPE = 0.5
OVER_SEEDS = "The intervals are over seeds"

Arrays = dict[str, np.ndarray]


def draw(trial: Trial) -> Arrays:
    """Samples differ in how hard they are, and dummies help with some of them: an effect that varies over samples."""
    samples = np.random.default_rng([1, *trial.data.encode()])
    hard, helped = samples.normal(1.5, 1.0, SAMPLES), samples.normal(0.3, 0.8, SAMPLES)
    luck = np.random.default_rng([2, trial.seed, trial.dummies]).normal(0, 0.6, SAMPLES)
    margin = (hard + luck + helped * (trial.dummies > 0) + 0.05 * trial.seed).astype(np.float32)
    log_p = -np.log1p(np.exp(-margin.astype(float)))
    brier = 2 * (1 - np.exp(log_p)) ** 2
    return {
        "correct": (margin > 0).astype(np.uint8), "margin": margin,
        "log_p": log_p.astype(np.float32), "brier": brier.astype(np.float32),
    }  # fmt: skip


def metrics_of(arrays: Arrays) -> dict[str, float]:
    exact = {name: values.astype(float) for name, values in arrays.items()}
    return {
        "accuracy": 100 * exact["correct"].mean(),
        "nll": -exact["log_p"].mean(),
        "brier": exact["brier"].mean(),
        "p_true": 100 * np.exp(exact["log_p"]).mean(),
        "soft_accuracy": 100 * (1 / (1 + np.exp(-exact["margin"] / 0.1))).mean(),
    }


def keep(store: Store, trial: Trial, arrays: Arrays | None, **changes: Any) -> None:
    """A result whose metrics are those of the outcomes; None is a result of before outcomes were kept."""
    metrics = metrics_of(draw(trial) if arrays is None else arrays)
    kept: dict[str, Any] = {}
    if arrays is not None:
        content = pack_outcomes(arrays)
        hashed = hashlib.sha256(content).hexdigest()
        kept = {"outcomes": content, "outcomes_sha256": hashed, "test_sha256": f"test set of {trial.data}"}
    samples = {"train": 3000, "val": 500, "test": SAMPLES}
    plain = synthetic.result(trial, metrics["accuracy"])
    store.begin(trial)
    changed = {"metrics": plain.metrics | metrics, "samples": samples, **kept, **changes}
    store.keep(trial, synthetic.result(trial, metrics["accuracy"], **changed))


def study(folder: Path, kept: Callable[[Trial], Arrays | None] = draw, **values: Any) -> Store:
    chosen = {"dummies": [0, 1, 2], "seeds": SEEDS, "rope": ROPE, **values}
    store = Store.create(folder, make_study(chosen, "a study"))
    for trial in store.study.trials():
        keep(store, trial, kept(trial))
    return store


def summary_of(store: Store) -> Summary:
    return write_summary(store, read_results(store))


def outcomes_in(folder: Path, arm: str, name: str = "correct", data: str = "digits") -> np.ndarray:
    """Seeds × samples, read from the folder with NumPy alone."""
    rows = {}
    for path in folder.glob("trials/*/outcomes.npz"):
        trial = json.loads((path.parent / "trial.json").read_text())
        if (trial["arm"], trial["data"]) == (arm, data):
            rows[trial["seed"]] = np.load(path)[name].astype(float)
    return np.array([rows[seed] for seed in sorted(rows)])


def two_way(matrix: np.ndarray, alpha: float, step: float) -> tuple[float, float]:
    """v_s + v_t − v_e, at least v_s; Student with n − 1 degrees of freedom."""
    n, samples = matrix.shape
    v_s = (np.var(matrix.mean(1), ddof=1) + step**2 / 6) / n
    v_t = np.var(matrix.mean(0), ddof=1) / samples
    v_e = np.var(matrix.ravel(), ddof=1) / (n * samples)
    half = stats.t.isf(alpha / 2, n - 1) * math.sqrt(max(v_s + v_t - v_e, v_s))
    return matrix.mean() - half, matrix.mean() + half


def test_the_intervals_are_those_of_the_formula(tmp_path: Path) -> None:
    summary = summary_of(study(tmp_path))
    assert not any(OVER_SEEDS in warning for warning in summary.warnings)
    assert summary.over_samples
    for one in summary.settings[0].comparisons:
        matrix = 100 * (outcomes_in(tmp_path, one.arm) - outcomes_in(tmp_path, "erm"))
        assert (one.over, one.samples, one.step) == ("seeds and samples", SAMPLES, STEP)
        assert one.ci_samples == pytest.approx(two_way(matrix, 0.05, STEP), rel=1e-9)
        assert one.ci_family == pytest.approx(two_way(matrix, 0.05 / 2, STEP), rel=1e-9)
        error = math.sqrt((np.var(matrix.mean(1), ddof=1) + STEP**2 / 6) / SEEDS)
        assert one.ci == pytest.approx(stats.t.interval(0.95, SEEDS - 1, matrix.mean(), error), rel=1e-9)
        assert one.ci_samples[1] - one.ci_samples[0] > 1.05 * (one.ci[1] - one.ci[0])  # so there is something to see


@pytest.mark.parametrize("metric", ["nll", "brier", "p_true", "soft_accuracy"])
def test_metrics_without_steps(metric: str, tmp_path: Path) -> None:
    def of_sample(arm: str) -> np.ndarray:
        if metric == "soft_accuracy":
            return 100 / (1 + np.exp(-outcomes_in(tmp_path, arm, "margin") / 0.1))
        if metric == "brier":
            return outcomes_in(tmp_path, arm, "brier")
        log_p = outcomes_in(tmp_path, arm, "log_p")
        return -log_p if metric == "nll" else 100 * np.exp(log_p)

    (one,) = summary_of(study(tmp_path, metric=metric, dummies=[0, 1])).settings[0].comparisons
    assert one.step == 0
    expected = two_way(of_sample("durm-1") - of_sample("erm"), 0.05, 0.0)
    assert one.ci_samples == one.ci_family == pytest.approx(expected, rel=1e-5)


def test_where_the_test_set_depends_on_the_seed_it_is_over_seeds(tmp_path: Path) -> None:
    store = Store.create(tmp_path, make_study({"dummies": [0, 1], "seeds": SEEDS, "rope": ROPE}, "a study"))
    for trial in store.study.trials():
        keep(store, trial, draw(trial), test_sha256=f"split {trial.seed % 2}")
    check_over_seeds(store, "the test set depends on the seed")


def test_old_results_without_outcomes_are_judged_over_seeds_and_the_page_says_so(tmp_path: Path) -> None:
    summary = check_over_seeds(study(tmp_path, lambda trial: None), "did not keep what they made of each test sample")
    store = Store.open(tmp_path)
    page = write_report(store.folder, summary, store=store, results=read_results(store)).read_text()
    for text in (page, markdown(summary)):
        assert OVER_SEEDS in text


def test_without_the_outcomes_of_one_run_it_is_over_seeds(tmp_path: Path) -> None:
    store = study(tmp_path, dummies=[0, 1])
    sorted(tmp_path.glob("trials/*/outcomes.npz"))[0].unlink()
    check_over_seeds(store, "not every run has outcomes of the same test samples")


@pytest.mark.parametrize("damage", ["cut", "another run's"])
def test_a_run_with_damaged_outcomes_is_to_run_again(damage: str, tmp_path: Path) -> None:
    """Another run's is a whole file, but not the one that the result was made with."""
    store = study(tmp_path, dummies=[0, 1])
    path, other = sorted(tmp_path.glob("trials/*/outcomes.npz"))[:2]
    path.write_bytes(path.read_bytes()[:-40] if damage == "cut" else other.read_bytes())
    summary = summary_of(store)
    assert summary.done == 2 * SEEDS - 1
    (one,) = summary.settings[0].comparisons
    assert (one.n, one.over) == (SEEDS - 1, "seeds and samples")


def check_over_seeds(store: Store, reason: str) -> Summary:
    """The interval that decides is that over seeds, and a warning says why."""
    summary = summary_of(store)
    arms = {arm.arm: arm.values for arm in summary.settings[0].arms}
    comparisons = summary.settings[0].comparisons
    for one in comparisons:
        values = np.array([arms[one.arm][seed] - arms["erm"][seed] for seed in arms["erm"]])
        error = math.sqrt((np.var(values, ddof=1) + STEP**2 / 6) / SEEDS)
        expected = stats.t.interval(1 - 0.05 / len(comparisons), SEEDS - 1, values.mean(), error)
        assert one.ci_family == pytest.approx(expected, rel=1e-6)
        assert (one.over, one.ci_samples, one.samples) == ("seeds", None, None)
    (warning,) = [text for text in summary.warnings if OVER_SEEDS in text]
    assert reason in warning
    return summary


def test_a_mean_over_held_out_domains_adds_a_share_of_each(tmp_path: Path) -> None:
    """(v_t − v_e)/k² of each of k = 2 test sets, and steps of √Σstep²/k."""
    data = ["pacs:photo", "pacs:sketch"]
    values = {"data": data, "dummies": [0, 1], "seeds": SEEDS, "rope": ROPE}
    store = Store.create(tmp_path, make_study(values, "a study"))
    for trial in store.study.trials():
        keep(store, trial, draw(trial), held_out=trial.data.removeprefix("pacs:"))
    (average,) = summary_of(store).averages
    (one,) = average.comparisons
    matrices = [100 * np.subtract(*(outcomes_in(tmp_path, a, data=d) for a in ("durm-1", "erm"))) for d in data]
    added = 0.0
    for matrix in matrices:
        v_t, v_e = np.var(matrix.mean(0), ddof=1) / SAMPLES, np.var(matrix.ravel(), ddof=1) / matrix.size
        assert v_t > v_e
        added += (v_t - v_e) / 4
    values_of_seeds = np.mean([matrix.mean(1) for matrix in matrices], 0)
    step = math.sqrt(2 * STEP**2) / 2
    error = math.sqrt((np.var(values_of_seeds, ddof=1) + step**2 / 6) / SEEDS + added)
    assert one.step == pytest.approx(step)
    expected = stats.t.interval(0.95, SEEDS - 1, values_of_seeds.mean(), error)
    assert one.ci_samples == one.ci_family == pytest.approx(expected, rel=1e-9)


def test_interim_analyses_are_over_the_samples_of_their_own_seeds(tmp_path: Path) -> None:
    summary = summary_of(study(tmp_path, dummies=[0, 1], seeds=10, max_seeds=10, rope=0.01))
    (one,) = summary.settings[0].comparisons
    matrix = 100 * (outcomes_in(tmp_path, "durm-1") - outcomes_in(tmp_path, "erm"))
    assert [look.n for look in one.looks] == [6, 10]
    expected = [two_way(matrix[: look.n], look.alpha, STEP) for look in one.looks]
    assert [look.interval for look in one.looks] == [pytest.approx(limits, rel=1e-9) for limits in expected]
    assert one.ci_family == pytest.approx((max(x for x, _ in expected), min(y for _, y in expected)), rel=1e-9)


# Segmentation.

IMAGES, CLASSES = 12, 3


def confusion(trial: Trial) -> np.ndarray:
    """Counts of each image, most of them on the diagonal; dummies help in images of odd number."""
    shared = np.random.default_rng([5, trial.seed]).integers(2, 40, (IMAGES, CLASSES, CLASSES))
    own = np.random.default_rng([6, trial.seed, trial.dummies]).integers(0, 15, (IMAGES, CLASSES, CLASSES))
    helped = 60 * trial.dummies * (np.arange(IMAGES) % 2)[:, None, None] * np.eye(CLASSES, dtype=int)
    return (shared + own + 150 * np.eye(CLASSES, dtype=int) + helped).astype(np.int32)


def miou(counts: np.ndarray) -> float:
    hits = counts.diagonal()
    return float(100 * np.mean(hits / (counts.sum(0) + counts.sum(1) - hits)))


def macc(counts: np.ndarray) -> float:
    return float(100 * np.mean(counts.diagonal() / counts.sum(1)))


@pytest.mark.parametrize(("metric", "value"), [("miou", miou), ("macc", macc)])
def test_segmentation_by_the_jackknife(metric: str, value: Callable[[np.ndarray], float], tmp_path: Path) -> None:
    """Every image is left out in turn, in a plain loop; macc counts pixels, and has their step too."""
    values = {"data": "segmentation:/data/scenes", "metric": metric, "dummies": [0, 1], "seeds": SEEDS, "rope": 0.1}
    store = Store.create(tmp_path, make_study(values, "a study"))
    pixels = 0
    counts: dict[tuple[str, int], np.ndarray] = {}
    for trial in store.study.trials():
        found = counts[trial.arm, trial.seed] = confusion(trial)
        total = found.sum(0)
        pixels = pixels or int(total.sum())
        content = pack_outcomes({"confusion": found})
        iou = [100 * hit / (row + column - hit) for hit, row, column in
               zip(total.diagonal(), total.sum(0), total.sum(1), strict=True)]  # fmt: skip
        plain = synthetic.result(trial, 90.0)
        changes = {
            "metrics": plain.metrics | {"miou": miou(total), "macc": macc(total)},
            "val": plain.val | {"miou": 50.0, "macc": 50.0},
            "classes": {"iou": iou}, "confusion": total.tolist(), "outcomes": content,
            "outcomes_sha256": hashlib.sha256(content).hexdigest(), "test_sha256": "scenes",
        }  # fmt: skip
        store.begin(trial)
        store.keep(trial, synthetic.result(trial, 90.0, **changes))
    (one,) = summary_of(store).settings[0].comparisons
    left_out, gains = np.zeros((SEEDS, IMAGES)), np.zeros(SEEDS)
    for seed in range(SEEDS):
        ours, theirs = counts["durm-1", seed], counts["erm", seed]
        gains[seed] = value(ours.sum(0)) - value(theirs.sum(0))
        for image in range(IMAGES):
            rest = [place for place in range(IMAGES) if place != image]
            left_out[seed, image] = value(ours[rest].sum(0)) - value(theirs[rest].sum(0))

    def jackknife(values: np.ndarray) -> float:
        return float((IMAGES - 1) / IMAGES * ((values - values.mean()) ** 2).sum())

    step = 0.0 if metric == "miou" else 100 / pixels
    v_s = (np.var(gains, ddof=1) + step**2 / 6) / SEEDS
    v_t = jackknife(left_out.mean(0))
    v_e = float(np.mean([jackknife(row) for row in left_out])) / SEEDS
    error = math.sqrt(max(v_s + v_t - v_e, v_s))
    assert (one.over, one.samples) == ("seeds and samples", IMAGES)
    assert v_t > v_e
    expected = stats.t.interval(0.95, SEEDS - 1, gains.mean(), error)
    assert one.ci_samples == one.ci_family == pytest.approx(expected, rel=1e-6)
