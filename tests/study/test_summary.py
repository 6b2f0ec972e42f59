"""Every number of summary.json, worked out again from the raw files with scipy.stats and by brute force."""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from durm.study.csv_input import read_table
from durm.study.reading import make_study
from durm.study.run_table import judge_table
from durm.study.store import Store, read_summary
from durm.study.summary import read_results, write_summary
from durm.training.result import Result
from durm.training.trial import Trial
from tests.study import synthetic

ROPE = 0.25
ALPHA = 0.05
SEEDS = [3, 0, 7, 11, 4, 5, 8, 2, 9]
MODELS = ["cnn", "mlp"]
ARMS: list[dict[str, Any]] = [
    {"name": "erm"},
    {"name": "durm-2", "dummies": 2},
    {"name": "durm-1", "dummies": 1},
    {"name": "smoothing", "label_smoothing": 0.1},
    {"name": "durm-2 slow", "dummies": 2, "lr": 0.01},
    {"name": "durm-5", "dummies": 5},
]
PLAIN_DURM = ["durm-2", "durm-1", "durm-5"]
"""The arms that durm-val chooses from, in their order: dummies, and nothing else changed."""
MISSING = {
    ("mlp", "durm-2", 7),
    ("mlp", "erm", 4),
    ("mlp", "smoothing null", 0),
    *(("mlp", "durm-5", s) for s in SEEDS),
}
"""In the second setting some trials are not done, and one arm has none."""
METRICS = ("nll", "ece", "ece_all", "dummy_mass", "dummy_hits")
"""What always stands beside the accuracy."""
DAMAGED = "{"

Raw = dict[tuple[str, str], dict[str, dict[str, Any]]]
"""(model, arm) → seed → what result.json holds"""


def is_there(trial: Trial) -> bool:
    return (trial.model, trial.arm, trial.seed) not in MISSING


def accuracy(trial: Trial) -> float:
    """In steps of 0.1, so that there are ties; seeds are alike in all arms, and arms differ in mean and spread."""
    shared = np.random.default_rng([1, trial.seed, len(trial.model)]).normal(0, 0.5)
    own = np.random.default_rng([2, trial.seed, *trial.arm.encode()]).normal(0, 0.1 + 0.05 * trial.dummies)
    return round(95 + shared + own + {"durm-1": 1.5, "smoothing": -1.2}.get(trial.arm, 0.0), 1)


def invented(trial: Trial) -> Result:
    """A result in which every number differs from trial to trial; validation accuracies are whole, and often tie."""
    random = np.random.default_rng([3, trial.seed, trial.dummies, *trial.arm.encode(), *trial.model.encode()])

    def metrics(value: float) -> dict[str, float]:
        names = synthetic.result(trial, value).metrics
        return {**{name: float(random.uniform(0, 3)) for name in names}, "accuracy": value}

    cost = {
        "seconds": float(random.uniform(1, 9)),
        "seconds_per_step": float(random.uniform(0.01, 0.02)),
        "steps": int(random.integers(10, 99)),
        "peak_memory": int(random.integers(1e6, 1e9)),
        "parameters": int(random.integers(1000, 9999)),
    }
    return synthetic.result(
        trial,
        accuracy(trial),
        metrics=metrics(accuracy(trial)),
        val=metrics(float(random.integers(93, 96))),
        train=metrics(float(random.uniform(98, 100))),
        cost=cost,
    )


def fill(store: Store) -> None:
    for trial in store.study.trials():
        if is_there(trial):
            store.begin(trial)
            store.keep(trial, invented(trial))


def summary_of(store: Store) -> dict[str, Any]:
    """What stands in summary.json after it was written."""
    written = write_summary(store, read_results(store))

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is no JSON")

    read: dict[str, Any] = json.loads((store.folder / "summary.json").read_text(), parse_constant=refuse)
    assert read == written.as_json()
    return read


def raw_of(folder: Path) -> Raw:
    """All that the folder holds, read without durm."""
    found: Raw = {}
    for path in folder.glob("trials/*/result.json"):
        trial = json.loads((path.parent / "trial.json").read_text())
        found.setdefault((trial["model"], trial["arm"]), {})[str(trial["seed"])] = json.loads(path.read_text())
    return found


@dataclass(frozen=True)
class Example:
    store: Store
    summary: dict[str, Any]
    raw: Raw

    def setting(self, model: str) -> dict[str, Any]:
        (found,) = [setting for setting in self.summary["settings"] if setting["setting"]["model"] == model]
        return found


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    """Six arms and their null control on nine seeds in two settings, the second of which has gaps."""
    folder = tmp_path_factory.mktemp("summary")
    study = make_study(
        {"name": "example", "model": MODELS, "arms": ARMS, "seeds": SEEDS, "rope": ROPE, "null": True}, "example"
    )
    store = Store.create(folder, study)
    fill(store)
    return Example(store, summary_of(store), raw_of(folder))


# The arms.


def check_arm(arm: dict[str, Any], results: dict[str, dict[str, Any]]) -> None:
    values = {seed: result["metrics"]["accuracy"] for seed, result in results.items()}
    assert arm["values"] == values  # unrounded: the same numbers to the last bit
    assert arm["n"] == len(values)
    assert arm["mean"] == (pytest.approx(np.mean([*values.values()]), rel=1e-12) if values else None)
    assert arm["std"] == (pytest.approx(np.std([*values.values()], ddof=1), rel=1e-9) if len(values) > 1 else None)
    metrics = {name for result in results.values() for name in result["metrics"]} - {"accuracy"}
    places = {
        **{name: ("metrics", name) for name in {*metrics, *METRICS} if not name.startswith("accuracy_")},
        "train_accuracy": ("train", "accuracy"),
        "val_accuracy": ("val", "accuracy"),
        "seconds_per_step": ("cost", "seconds_per_step"),
        "parameters": ("cost", "parameters"),
    }
    for name, (part, key) in places.items():
        expected = np.mean([result[part][key] for result in results.values()]) if results else None
        assert arm[name] == (pytest.approx(expected, rel=1e-12) if results else None), name
    assert set(arm) >= {"arm", "dummies", "n", "mean", "std", "values", *places}


@pytest.mark.parametrize("model", MODELS)
def test_the_arms(example: Example, model: str) -> None:
    arms = example.setting(model)["arms"]
    assert [(arm["arm"], arm["dummies"]) for arm in arms] == [(arm["name"], arm.get("dummies", 0)) for arm in ARMS]
    for arm in arms:
        check_arm(arm, example.raw.get((model, arm["arm"]), {}))
        assert list(arm["values"]) == [
            str(seed) for seed in SEEDS if str(seed) in arm["values"]
        ]  # in the study's order


def test_an_arm_by_hand(tmp_path: Path) -> None:
    """1, 2 and 6: mean 3, variance (4 + 1 + 9)/2 = 7."""
    store = synthetic.store(tmp_path, lambda trial: [91.0, 92.0, 96.0][trial.seed], dummies=[0, 1], seeds=3)
    arm = summary_of(store)["settings"][0]["arms"][1]
    assert (arm["mean"], arm["std"]) == (pytest.approx(93), pytest.approx(math.sqrt(7)))
    assert arm["values"] == {"0": 91.0, "1": 92.0, "2": 96.0}


# The comparisons.


def share_of_flips(differences: np.ndarray) -> float:
    """The sign-flip test by its definition, in whole tenths of a point, which is what the accuracies come in."""
    whole = [round(10 * difference) for difference in differences]
    sums = [abs(sum(flip)) for flip in itertools.product(*((value, -value) for value in whole))]
    return sum(total >= abs(sum(whole)) for total in sums) / len(sums)


def closed_test(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction by what it is: the closed test in which every subset is judged by Bonferroni."""
    counted = [1.0 if p is None else p for p in p_values]
    subsets = [s for size in range(1, len(counted) + 1) for s in itertools.combinations(range(len(counted)), size)]
    levels = {subset: min(1.0, len(subset) * min(counted[index] for index in subset)) for subset in subsets}
    return [
        None if p is None else max(level for subset, level in levels.items() if index in subset)
        for index, p in enumerate(p_values)
    ]


STEP = 0.1
"""One of the 1,000 test samples that were invented, in points."""


def interval(differences: np.ndarray, alpha: float) -> tuple[float, float] | None:
    """Student's, with the variance of rounding to a lattice, step²/12 in each arm."""
    n = len(differences)
    if n < 2:
        return None
    error = math.sqrt((np.var(differences, ddof=1) + STEP**2 / 6) / n)
    low, high = stats.t.interval(1 - alpha, n - 1, loc=differences.mean(), scale=error)
    return float(low), float(high)


def word(limits: tuple[float, float] | None, rope: float) -> str:
    if limits is None:
        return "undecided"
    low, high = limits
    inside = -rope <= low and high <= rope
    return "better" if low > rope else "worse" if high < -rope else "equal" if inside else "undecided"


def fewest(alpha: float) -> int:
    """Of pairs whose differences could all have one sign by chance with a probability of at most α."""
    return next(n for n in itertools.count(1) if 2 / 2**n <= alpha)


def smallest_n(spread: float, alpha: float, rope: float) -> int | None:
    """With which half the interval is as wide as rope, one after the other."""
    n = np.arange(fewest(alpha), 100_001)
    enough = stats.t.isf(alpha / 2, n - 1) * spread / np.sqrt(n) <= rope
    return int(n[enough][0]) if enough.any() else None


def near(value: Any) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-6, abs=1e-9)


def check_family(
    comparisons: list[dict[str, Any]],
    family: list[tuple[str, str]],
    values: dict[str, dict[str, float]],
    results: dict[str, dict[str, dict[str, Any]]],
) -> None:
    """All fields of all comparisons that are corrected together."""
    assert [(one["arm"], one["baseline"]) for one in comparisons] == family
    share = ALPHA / len(family)
    p_values: list[float | None] = []
    p_variances: list[float | None] = []
    for one, (arm, baseline) in zip(comparisons, family, strict=True):
        seeds = [seed for seed in values[baseline] if seed in values[arm]]
        theirs = np.array([values[baseline][seed] for seed in seeds])
        ours = np.array([values[arm][seed] for seed in seeds])
        differences = np.round(ours - theirs, 6)
        n = len(seeds)
        assert set(one) == {
            *("arm", "baseline", "n", "difference", "ci", "ci_family", "p", "p_holm", "p_min", "wins", "ties"),
            *("losses", "correlation", "seeds_needed", "variance_ratio", "p_variance", "p_variance_holm"),
            *("verdict", "looks", "cost_ratio", "ci_samples", "over", "win_probability", "win_interval"),
            *("min_difference", "n_for_rope", "n_for_rope_range", "test_samples_for_rope", "reason", "lost"),
            *("paired", "step", "samples", "variance_samples", "variance_residual", "warnings"),
        }
        assert (one["over"], one["paired"], one["lost"], one["step"]) == ("seeds", True, 0, STEP)
        outcomes = ("ci_samples", "samples", "variance_samples", "variance_residual", "test_samples_for_rope")
        assert [one[key] for key in outcomes] == [None] * 5  # no outcomes were kept
        assert one["looks"] == []
        assert one["n"] == n
        assert one["difference"] == (near(np.mean(differences)) if n else None)
        assert one["ci"] == near(interval(differences, ALPHA))
        assert one["ci_family"] == near(interval(differences, share))
        enough = n >= fewest(share)
        if arm == "durm-val":
            assert (one["verdict"], "not judged" in one["reason"]) == (None, True)
        else:
            assert one["verdict"] == (word(interval(differences, share), ROPE) if enough else "undecided")
            assert ("too few pairs" in one["reason"]) == (not enough)
        signs = [(differences > 0).sum(), (differences == 0).sum(), (differences < 0).sum()]
        assert [one["wins"], one["ties"], one["losses"]] == signs
        p_values.append(share_of_flips(differences) if n else None)
        assert one["p"] == near(p_values[-1])
        assert one["p_min"] == (near(2 / 2**n) if n else None)
        defined = n > 2 and np.ptp(ours) > 0 and np.ptp(theirs) > 0
        assert one["correlation"] == (near(stats.pearsonr(ours, theirs).statistic) if defined else None)
        assert one["variance_ratio"] == (near(np.var(ours, ddof=1) / np.var(theirs, ddof=1)) if defined else None)
        has_test = defined and np.ptp(differences) > 0
        p_variances.append(float(stats.pearsonr(ours + theirs, ours - theirs).pvalue) if has_test else None)
        assert one["p_variance"] == near(p_variances[-1])
        won = signs[0] + signs[1] / 2
        assert one["win_probability"] == (near(won / n) if n else None)
        jeffreys = stats.beta.ppf([0.025, 0.975], won + 0.5, n - won + 0.5)
        assert one["win_interval"] == (pytest.approx(jeffreys, abs=0.02) if n and 0 < won < n else one["win_interval"])
        spread = math.sqrt(np.var(differences, ddof=1) + STEP**2 / 6) if n > 1 else None
        assert one["seeds_needed"] is None
        assert one["n_for_rope"] == (None if spread is None else smallest_n(spread, share, ROPE))
        if spread is not None and one["n_for_rope_range"] is not None:
            ends = [spread * math.sqrt((n - 1) / stats.chi2.ppf(p, n - 1)) for p in (0.95, 0.05)]
            assert one["n_for_rope_range"] == [smallest_n(end, share, ROPE) for end in ends]
        half = None if spread is None else stats.t.isf(share / 2, n - 1) * spread / math.sqrt(n)
        assert one["min_difference"] == (near(ROPE + half) if enough and half is not None else None)
        seconds = [[results[name][seed]["cost"]["seconds_per_step"] for seed in seeds] for name in (arm, baseline)]
        assert one["cost_ratio"] == (near(np.median(np.divide(*seconds))) if n else None)
    assert [one["p_holm"] for one in comparisons] == [near(p) for p in closed_test(p_values)]
    assert [one["p_variance_holm"] for one in comparisons] == [near(p) for p in closed_test(p_variances)]


def numbers_of(example: Example, model: str) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, Any]]]:
    names = [arm["name"] for arm in ARMS]
    every = [*names, *(f"{name} null" for name in names)]
    in_order = {
        name: {str(seed): found[str(seed)] for seed in SEEDS if str(seed) in found}
        for name in every
        for found in [example.raw.get((model, name), {})]
    }
    values = {name: {seed: r["metrics"]["accuracy"] for seed, r in found.items()} for name, found in in_order.items()}
    return values, in_order


@pytest.mark.parametrize("model", MODELS)
def test_the_comparisons(example: Example, model: str) -> None:
    values, results = numbers_of(example, model)
    family = [(arm["name"], "erm") for arm in ARMS[1:]]
    check_family(example.setting(model)["comparisons"], family, values, results)


def test_the_example_has_every_word_ties_and_an_arm_without_pairs(example: Example) -> None:
    """So that the test above has something to find."""
    comparisons = [one for setting in example.summary["settings"] for one in setting["comparisons"]]
    assert {one["verdict"] for one in comparisons} >= {"better", "worse", "undecided"}
    assert any(one["ties"] for one in comparisons)
    assert {one["n"] for one in comparisons} == {0, 7, 8, 9}


@pytest.mark.parametrize("model", MODELS)
def test_the_null_control_compares_each_arm_with_itself(example: Example, model: str) -> None:
    values, results = numbers_of(example, model)
    control = example.setting(model)["null_control"]
    names = [arm["name"] for arm in ARMS]
    assert [(arm["arm"], arm["dummies"]) for arm in control["arms"]] == [
        (f"{arm['name']} null", arm.get("dummies", 0)) for arm in ARMS
    ]
    for arm in control["arms"]:
        check_arm(arm, example.raw.get((model, arm["arm"]), {}))
    check_family(control["comparisons"], [(f"{name} null", name) for name in names], values, results)


@pytest.mark.parametrize("model", MODELS)
def test_the_derived_arm_is_chosen_on_validation_for_each_seed(example: Example, model: str) -> None:
    """The best validation accuracy, of equals the one that the study names first; only seeds that all have."""
    values, results = numbers_of(example, model)
    derived = example.setting(model)["derived"]
    seeds = [str(seed) for seed in SEEDS if all(str(seed) in results[name] for name in PLAIN_DURM)]
    if model == "mlp":  # one of the candidates has no results
        assert not seeds
        assert derived == {"arms": [], "comparisons": []}
        return
    scores = {seed: [results[name][seed]["val"]["accuracy"] for name in PLAIN_DURM] for seed in seeds}
    chosen = {seed: PLAIN_DURM[found.index(max(found))] for seed, found in scores.items()}
    assert any(found.count(max(found)) > 1 for found in scores.values())
    assert len(set(chosen.values())) > 1
    (arm,) = derived["arms"]
    assert (arm["arm"], arm["dummies"], arm["chosen"]) == ("durm-val", None, chosen)
    taken = {seed: results[name][seed] for seed, name in chosen.items()}
    check_arm(arm, taken)
    values["durm-val"] = {seed: result["metrics"]["accuracy"] for seed, result in taken.items()}
    check_family(derived["comparisons"], [("durm-val", "erm")], values, {**results, "durm-val": taken})


def test_one_number_of_dummies_leaves_nothing_to_choose(tmp_path: Path) -> None:
    store = synthetic.store(tmp_path, lambda trial: 95.0 + trial.seed, dummies=[0, 2], seeds=2)
    assert summary_of(store)["settings"][0]["derived"] == {"arms": [], "comparisons": []}


# Interim analyses.


def test_the_analyses_of_a_study_that_goes_on_until_decided(tmp_path: Path) -> None:
    """Two arms at 6 and 10 of 40 seeds: levels 0.0003242 · n (tests/statistics); the verdict is of what they share."""
    store = synthetic.store(tmp_path, accuracy, dummies=[0, 1, 5], seeds=10, max_seeds=40, rope=ROPE)
    summary = summary_of(store)
    assert summary["max_seeds"] == 40
    raw = raw_of(tmp_path)
    for one in summary["settings"][0]["comparisons"]:
        differences = np.array(
            [
                round(raw["cnn", one["arm"]][str(s)]["metrics"]["accuracy"], 6)
                - round(raw["cnn", "erm"][str(s)]["metrics"]["accuracy"], 6)
                for s in range(10)
            ]
        )
        spent = [0.0003242 * n for n in (6, 10)]
        limits = [interval(differences[:n], alpha) for n, alpha in zip((6, 10), spent, strict=True)]
        assert [look["n"] for look in one["looks"]] == [6, 10]
        assert [look["alpha"] for look in one["looks"]] == [near(alpha) for alpha in spent]
        assert [look["interval"] for look in one["looks"]] == [near(pair) for pair in limits]
        low, high = (pick(pair[side] for pair in limits if pair) for side, pick in ((0, max), (1, min)))
        assert one["ci_family"] == [near(low), near(high)]
        assert one["verdict"] == word((low, high), ROPE)
        assert one["ci"] == near(interval(differences, ALPHA))


# The rest of the summary.


def test_the_shape_that_the_design_promises(example: Example) -> None:
    summary = example.summary
    assert list(summary) == [
        *("schema_version", "study", "metric", "unit", "higher_is_better", "rope", "select", "max_seeds", "settings"),
        *("averages", "across", "trials", "done", "lost", "looked_at", "search", "warnings", "cost", "provenance"),
    ]
    assert summary["schema_version"] == 2
    assert (summary["study"], summary["metric"], summary["higher_is_better"]) == ("example", "accuracy", True)
    assert (summary["rope"], summary["select"], summary["max_seeds"]) == (ROPE, "last", None)
    assert [s["setting"] for s in summary["settings"]] == [
        {"data": "digits", "model": model, "method": "erm"} for model in MODELS
    ]
    for setting in summary["settings"]:
        assert list(setting) == [
            *("setting", "arms", "comparisons", "secondary", "robustness", "classes", "probes", "derived"),
            *("null_control", "domains"),
        ]
        assert setting["classes"] == {}  # they have labels of samples, not of pixels
        assert setting["domains"] is None
        assert (setting["arms"][0]["arm"], setting["arms"][0]["dummies"]) == ("erm", 0)
        assert {one["baseline"] for one in setting["comparisons"]} == {"erm"}
        assert all(isinstance(seed, str) for arm in setting["arms"] for seed in arm["values"])


def test_what_is_done(example: Example) -> None:
    assert example.summary["trials"] == 2 * 2 * len(ARMS) * len(SEEDS)
    assert example.summary["done"] == example.summary["trials"] - len(MISSING)
    assert example.summary["looked_at"] == [9]


def test_the_cost_is_that_of_all_trials(example: Example) -> None:
    costs = [result["cost"] for found in example.raw.values() for result in found.values()]
    assert example.summary["cost"] == {
        "seconds": near(math.fsum(cost["seconds"] for cost in costs)),
        "steps": sum(cost["steps"] for cost in costs),
        "peak_memory": max(cost["peak_memory"] for cost in costs),
    }


def test_provenance_of_trials_that_ran_alike(example: Example) -> None:
    first = next(iter(next(iter(example.raw.values())).values()))["provenance"]
    keys = ("durm", "torch", "python", "system", "device", "device_name", "threads", "commit", "processes")
    assert example.summary["provenance"] == {key: first.get(key) for key in keys}


def test_no_number_is_undefined(example: Example) -> None:
    def numbers(value: Any) -> Iterator[float]:
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from numbers(item)
        elif isinstance(value, float):
            yield value

    found = list(numbers(example.summary))
    assert len(found) > 500
    assert all(map(math.isfinite, found))


def test_the_summary_of_a_study_without_results(tmp_path: Path) -> None:
    summary = summary_of(synthetic.store(tmp_path, lambda trial: None, dummies=[0, 1], seeds=6))
    assert (summary["done"], summary["trials"], summary["looked_at"]) == (0, 12, [])
    assert summary["cost"] == {"seconds": 0, "steps": 0, "peak_memory": 0}
    assert set(summary["provenance"].values()) == {None}
    (setting,) = summary["settings"]
    (one,) = setting["comparisons"]
    assert (one["n"], one["verdict"], one["difference"], one["ci"], one["p"]) == (0, "undecided", None, None, None)
    assert [(arm["n"], arm["mean"], arm["std"], arm["values"]) for arm in setting["arms"]] == [(0, None, None, {})] * 2


def test_a_study_is_decided_when_every_arm_of_every_setting_is(tmp_path: Path) -> None:
    """Half a point in every pair decides; in the last setting and arm the pairs differ by up to two points."""

    def gain(trial: Trial) -> float:
        noisy = (trial.model, trial.dummies) == ("mlp", 2)
        return 95.0 + (trial.seed % 3 - 0.5 if noisy else 0.5 * trial.dummies)

    some = summary_of(synthetic.store(tmp_path, gain, model=MODELS, dummies=[0, 1, 2], seeds=7))
    words = [[one["verdict"] for one in setting["comparisons"]] for setting in some["settings"]]
    assert words == [["better", "better"], ["better", "undecided"]]
    whole = read_summary(tmp_path / "summary.json")
    assert not whole.is_decided
    assert whole.model_copy(update={"settings": whole.settings[:1]}).is_decided


# Warnings.


def warnings_of(folder: Path, **study: Any) -> list[str]:
    """Of a study of enough seeds and test samples, unless it says otherwise; its differences are not all equal."""
    values = {"dummies": [0, 1], "seeds": 6, "rope": 0.1} | study
    return others(summary_of(synthetic.store(folder, accuracy, **values))["warnings"])


def others(warnings: list[str]) -> list[str]:
    """Without the one that outcomes were not kept, which all of these studies have."""
    return [warning for warning in warnings if "did not keep what they made of each test sample" not in warning]


def test_a_sound_study_has_no_warnings_but_that_its_intervals_are_over_seeds(tmp_path: Path) -> None:
    (warning,) = summary_of(synthetic.store(tmp_path, accuracy, dummies=[0, 1], seeds=6))["warnings"]
    assert "over seeds" in warning
    assert others([warning]) == []


def test_it_warns_of_missing_trials(example: Example) -> None:
    assert f"{len(MISSING)} of {example.summary['trials']} trials are not done yet" in example.summary["warnings"][0]


@pytest.mark.parametrize(
    ("seeds", "arms", "counted"),
    [(5, 1, "5 pairs"), (1, 1, "1 pair of"), (6, 3, "6 pairs"), (6, 1, None), (7, 3, None)],
)
def test_it_warns_of_few_seeds(seeds: int, arms: int, counted: str | None, tmp_path: Path) -> None:
    """2/2ⁿ is 0.0625 for five, 0.031 for six and 0.016 for seven, which is below 0.05/3."""
    found = [w for w in warnings_of(tmp_path, seeds=seeds, dummies=[*range(arms + 1)]) if "too few for a word" in w]
    assert len(found) == (counted is not None)
    for warning in found:
        assert warning.startswith(str(counted))
        assert f"takes {6 if arms == 1 else 7} for" in warning


def test_it_warns_of_few_pairs_in_a_study_of_many_seeds(tmp_path: Path) -> None:
    store = synthetic.store(tmp_path, lambda t: accuracy(t) if t.seed < 3 else None, dummies=[0, 1], seeds=10)
    assert any("3 pairs of runs: too few" in warning for warning in summary_of(store)["warnings"])


@pytest.mark.parametrize(("rope", "warned"), [(0.1, False), (0.0999, True), (0.0, True)])
def test_it_warns_if_one_test_sample_weighs_more_than_the_region(rope: float, warned: bool, tmp_path: Path) -> None:
    """The invented test set has 1,000 samples: one is 0.1 points."""
    found = warnings_of(tmp_path, rope=rope)
    assert len(found) == warned
    assert all("digits (1000 samples) weighs 0.1 points" in warning for warning in found)


def test_that_warning_counts_further_data(tmp_path: Path) -> None:
    (warning,) = warnings_of(tmp_path, rope=0.05, data=["digits", "other", "third"])
    assert "digits (1000 samples) and of 2 others weighs 0.1 points or less" in warning


def test_it_warns_of_seeds_that_were_added_after_a_look(tmp_path: Path) -> None:
    assert warnings_of(tmp_path, seeds=6) == []
    assert warnings_of(tmp_path, seeds=6) == []  # to judge the same again is no harm
    (warning,) = warnings_of(tmp_path, seeds=8)
    assert "(at 6, 8 seeds)" in warning
    assert "number 2 in a series" in warning
    assert json.loads((tmp_path / "summary.json").read_text())["looked_at"] == [6, 8]


def test_a_look_at_an_unfinished_study_is_a_look(tmp_path: Path) -> None:
    """Otherwise one failing trial would hide that seeds were added. A single pair shows nothing, and is none."""
    unfinished = synthetic.store(tmp_path, lambda t: accuracy(t) if t.seed else None, dummies=[0, 1], seeds=6)
    assert summary_of(unfinished)["looked_at"] == [6]
    assert summary_of(synthetic.store(tmp_path, accuracy, dummies=[0, 1], seeds=8))["looked_at"] == [6, 8]
    one = synthetic.store(tmp_path / "one", accuracy, dummies=[0, 1], seeds=1)
    assert summary_of(one)["looked_at"] == []


def test_a_study_until_decided_may_add_seeds(tmp_path: Path) -> None:
    assert warnings_of(tmp_path, seeds=6, max_seeds=40) == []
    assert warnings_of(tmp_path, seeds=10, max_seeds=40) == []
    assert json.loads((tmp_path / "summary.json").read_text())["looked_at"] == [6, 10]


@pytest.mark.parametrize("content", ["", DAMAGED, "{}"])
def test_a_damaged_summary_is_written_anew(content: str, tmp_path: Path) -> None:
    store = synthetic.store(tmp_path, accuracy, dummies=[0, 1], seeds=6)
    (tmp_path / "summary.json").write_text(content)
    assert summary_of(store)["looked_at"] == [6]


@pytest.mark.parametrize("content", ["[]", "3", "null", '{"looked_at": null}'])
def test_a_summary_of_another_shape_is_written_anew(content: str, tmp_path: Path) -> None:
    test_a_damaged_summary_is_written_anew(content, tmp_path)


def test_mixed_versions_are_a_list_and_a_warning(tmp_path: Path) -> None:
    store = synthetic.store(tmp_path, accuracy, dummies=[0, 1], seeds=6)
    for trial in store.study.trials():
        if trial.seed > 3:
            result = synthetic.result(trial, accuracy(trial))
            where = result.provenance.model_copy(update={"torch": "2.14.0", "threads": 2})
            store.keep(trial, result.model_copy(update={"provenance": where}))
    summary = summary_of(store)
    assert summary["provenance"]["torch"] == ["2.13.0", "2.14.0"]
    assert summary["provenance"]["threads"] == [1, 2]
    assert summary["provenance"]["durm"] == "0.1"
    (warning,) = others(summary["warnings"])
    assert "torch, threads differ" in warning


@pytest.mark.parametrize(("seeds", "word"), [(2, "undecided"), (5, "undecided"), (6, "better")])
def test_differences_that_are_all_equal_have_an_interval(seeds: int, word: str, tmp_path: Path) -> None:
    """t · 0.1/√(6n): two accuracies of 1,000 samples agree to a sample now and then. Six of one sign make a word."""
    store = synthetic.store(tmp_path, lambda t: 95 + t.seed + 0.5 * t.dummies, dummies=[0, 1], seeds=seeds)
    (one,) = summary_of(store)["settings"][0]["comparisons"]
    half = stats.t.isf(0.025, seeds - 1) * 0.1 / math.sqrt(6 * seeds)
    assert one["ci"] == one["ci_family"] == pytest.approx([0.5 - half, 0.5 + half])
    assert one["verdict"] == word


def test_a_run_that_collapsed_is_named_with_its_setting(tmp_path: Path) -> None:
    """One pair of eight lies thirty points below the others."""

    def collapsing(trial: Trial) -> float:
        return accuracy(trial) - 30 * ((trial.model, trial.dummies, trial.seed) == ("mlp", 1, 4))

    store = synthetic.store(tmp_path, collapsing, model=MODELS, dummies=[0, 1], seeds=8)
    found = [warning for warning in summary_of(store)["warnings"] if warning.startswith("durm-1 (")]
    assert all(warning.startswith("durm-1 (digits, mlp, erm): ") for warning in found)
    assert any("1 of 8 differences lies more than 5 robust standard deviations" in warning for warning in found)
    assert any("skewed" in warning for warning in found)


def close(one: Any, other: Any) -> bool:
    """The same names and words, and numbers that agree but for rounding."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return bool(one == (pytest.approx(other, rel=1e-9) if isinstance(other, float) else other))


def test_the_rows_can_be_judged_again(tmp_path: Path) -> None:
    """results.csv holds what the summary was made of: `durm verdict` comes to the same."""
    store = synthetic.store(tmp_path, accuracy, dummies=[0, 1, 2], seeds=7, model=["cnn", "mlp"])
    summary = summary_of(store)
    again = judge_table(read_table(tmp_path / "results.csv"), rope=0.1).as_json()
    for ours, theirs in zip(summary["settings"], again["settings"], strict=True):
        assert theirs["setting"]["setting"] == " ".join(ours["setting"].values())
        for one, other in zip(ours["comparisons"], theirs["comparisons"], strict=True):
            assert close(other, {**one, "cost_ratio": None})
