"""When a study that goes on until decided stops, what may be added to a folder, and what a null control changes."""

import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from scipy import stats

from durm.errors import InputError
from durm.report.text import sentence
from durm.study import runner
from durm.study.arm import Arm
from durm.study.config import Study
from durm.study.jobs import Event, Execution
from durm.study.reading import make_study
from durm.study.runner import Outcome, StudyState, run_study_to_verdict
from durm.study.store import Store
from durm.training.building import build_model, load_bundle
from durm.training.trainer import run
from durm.training.trial import Trial
from tests.study import synthetic

ROPE = 0.1
LOOKS = (6, 10, 16, 25, 40)

Gain = Callable[[int, int], float]
"""(dummies, seed) → by how much the arm is better than the baseline"""


class FakeExecutor:
    """Writes results of known accuracies and trains nothing. The trial of `fails` fails; at that of `stops` it ends."""

    def __init__(self, gain: Gain) -> None:
        self.gain = gain
        self.trained: list[list[Trial]] = []
        self.fails: tuple[str, int] | None = None
        self.stops: tuple[str, int] | None = None

    def __call__(self, store: Store, execution: Execution, tell: Callable[[Event], None]) -> Outcome:
        outcome = Outcome()
        self.trained.append([])
        for trial in store.study.trials():
            if store.is_done(trial):
                continue
            if (trial.arm, trial.seed) == self.stops:
                outcome.interrupted = True
                return outcome
            if (trial.arm, trial.seed) == self.fails:
                outcome.failed[trial.folder_name] = "it broke"
                continue
            accuracy = 95 + math.sin(trial.seed) + (self.gain(trial.dummies, trial.seed) if trial.dummies else 0.0)
            store.begin(trial)
            store.keep(trial, synthetic.result(trial, round(accuracy, 6)))
            self.trained[-1].append(trial)
        return outcome


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> FakeExecutor:
    fake = FakeExecutor(lambda dummies, seed: 0.0)
    monkeypatch.setattr(runner, "run_study", fake)
    return fake


def study(**changes: Any) -> Study:
    values: dict[str, Any] = {"name": "looking", "dummies": [0, 1], "rope": ROPE, **changes}
    return make_study(values, "the study")


def judge(folder: Path, **changes: Any) -> list[StudyState]:
    return list(run_study_to_verdict(Store.create(folder, study(**changes)), Execution()))


def seeds_of(judged: list[StudyState]) -> list[int]:
    return [len(one.store.study.seeds) for one in judged]


def normal_gain(seed: int, mean: float = 0.0, spread: float = 0.3) -> Gain:
    values = np.random.default_rng(seed).normal(mean, spread, (5, 2000)).round(3)
    return lambda dummies, seed: float(values[dummies, seed])


SLOPES = {1: 0.0006816, 2: 0.0003242}
"""c of α_k = min(c · n_k, α/m) for analyses at 6, 10, 16, 25 and 40 pairs, which tests/statistics simulates."""


def words_at(gain: Gain, dummies: int, arms: int, sizes: tuple[int, ...] = LOOKS) -> list[str]:
    """The word at each analysis, worked out with scipy: what the intervals so far share, against ±rope.

    One sample of 1,000 is a step of 0.1. Two arms take seven pairs for a word, one takes six.
    """
    low, high, words = -math.inf, math.inf, []
    for size in sizes:
        differences = np.array([gain(dummies, seed) for seed in range(size)])
        level = 1 - min(SLOPES[arms] * size, 0.05 / arms)
        error = math.sqrt((differences.var(ddof=1) + 0.1**2 / 6) / size)
        limits = stats.t.interval(level, size - 1, loc=differences.mean(), scale=error)
        low, high = max(low, limits[0]), min(high, limits[1])
        inside = -ROPE <= low <= high <= ROPE
        decided = "better" if low > ROPE else "worse" if high < -ROPE else "equal" if inside else "undecided"
        decided = "undecided" if low > high or size < {1: 6, 2: 7}[arms] else decided
        words.append(words[-1] if words and words[-1] != "undecided" else decided)  # an arm keeps its word
    return words


# When it stops.


@pytest.mark.parametrize(
    ("gain", "stop"),
    [
        (normal_gain(0, mean=2.0), 6),
        (normal_gain(0, mean=-2.0), 6),
        (normal_gain(3, mean=0.4), 10),
        (normal_gain(6, mean=-0.4, spread=0.35), 16),
        (normal_gain(7, mean=0.0, spread=0.12), 25),
        (normal_gain(4, mean=0.5, spread=0.5), 40),
    ],
)
def test_it_stops_at_the_first_look_that_decides(gain: Gain, stop: int, executor: FakeExecutor, tmp_path: Path) -> None:
    executor.gain = gain
    judged = judge(tmp_path, max_seeds=40)
    expected = words_at(gain, 1, arms=1)
    taken = next(k for k, word in enumerate(expected, 1) if word != "undecided")
    assert LOOKS[taken - 1] == stop
    assert seeds_of(judged) == list(LOOKS[:taken])
    assert [one.summary.settings[0].comparisons[0].verdict for one in judged] == expected[:taken]
    assert [one.is_last for one in judged] == [False] * (taken - 1) + [True]
    assert [len(trials) for trials in executor.trained] == [2 * n for n in np.diff([0, *LOOKS[:taken]])]


def test_it_goes_on_until_every_arm_is_decided(executor: FakeExecutor, tmp_path: Path) -> None:
    """The first arm is better as soon as there are seven pairs, the second only later."""
    slow = normal_gain(1, mean=0.6, spread=0.5)
    executor.gain = lambda dummies, seed: 3.0 + 0.01 * (seed % 2) if dummies == 1 else slow(2, seed)
    judged = judge(tmp_path, dummies=[0, 1, 2], max_seeds=40)
    first = [one.summary.settings[0].comparisons[0].verdict for one in judged]
    assert first == ["undecided", *["better"] * (len(judged) - 1)]
    expected = words_at(slow, 2, arms=2)
    taken = next(k for k, word in enumerate(expected, 1) if word != "undecided")
    assert taken > 2
    assert seeds_of(judged) == list(LOOKS[:taken])


def test_it_goes_on_until_every_setting_is_decided(executor: FakeExecutor, tmp_path: Path) -> None:
    executor.gain = lambda dummies, seed: 2.0 + 0.01 * (seed % 2)
    assert seeds_of(judge(tmp_path, max_seeds=12, model=["cnn", "mlp"])) == [6]
    assert len(executor.trained[0]) == 2 * 2 * 6


@pytest.mark.parametrize(
    ("most", "looks"), [(40, [6, 10, 16, 25, 40]), (12, [6, 10, 12]), (6, [6]), (2, [2]), (3, [3]), (10, [6, 10])]
)
def test_it_ends_with_the_last_look(most: int, looks: list[int], executor: FakeExecutor, tmp_path: Path) -> None:
    """Differences of ±1 in turn decide nothing."""
    executor.gain = lambda dummies, seed: (-1.0) ** seed
    judged = judge(tmp_path, max_seeds=most)
    assert seeds_of(judged) == looks
    assert [one.is_last for one in judged] == [False] * (len(looks) - 1) + [True]
    final = judged[-1].summary
    assert final.settings[0].comparisons[0].verdict == "undecided"
    assert [look.n for look in final.settings[0].comparisons[0].looks] == looks
    assert final.looked_at == looks
    assert sum("too few for a word" in warning for warning in final.warnings) == (most < 6)
    assert json.loads((tmp_path / "summary.json").read_text()) == final.as_json()
    assert Store.open(tmp_path).study.seeds == tuple(range(most))


def test_looks_that_contradict_each_other_decide_nothing(executor: FakeExecutor, tmp_path: Path) -> None:
    """The first six differences lie close around the edge of the region, all others far beyond it."""
    executor.gain = lambda dummies, seed: 0.1 + 0.005 * (-1.0) ** seed if seed < 6 else 3.0
    judged = judge(tmp_path, max_seeds=40)
    assert seeds_of(judged) == list(LOOKS)
    (comparison,) = judged[-1].summary.settings[0].comparisons
    assert comparison.ci_family is not None
    low, high = comparison.ci_family
    assert low > high
    assert comparison.verdict == "undecided"
    assert words_at(executor.gain, 1, arms=1) == ["undecided"] * len(LOOKS)
    assert "the analyses contradict each other" in sentence(
        comparison, judged[-1].summary.settings[0], judged[-1].summary
    )


def test_the_same_again_trains_nothing_and_judges_once(executor: FakeExecutor, tmp_path: Path) -> None:
    executor.gain = normal_gain(3, mean=0.4)
    before = judge(tmp_path, max_seeds=40)[-1].summary
    executor.trained.clear()
    (again,) = judge(tmp_path, max_seeds=40)
    assert executor.trained == [[]]
    assert again.summary == before


def test_a_fixed_number_of_seeds_is_judged_once(executor: FakeExecutor, tmp_path: Path) -> None:
    executor.gain = lambda dummies, seed: (-1.0) ** seed
    (judged,) = judge(tmp_path, seeds=7)
    assert judged.is_last
    assert (judged.summary.done, judged.summary.trials, judged.summary.looked_at) == (14, 14, [7])
    assert len(judged.results) == 14


def test_a_trial_that_fails_ends_it(executor: FakeExecutor, tmp_path: Path) -> None:
    executor.gain = lambda dummies, seed: (-1.0) ** seed
    executor.fails = ("durm-1", 7)
    judged = judge(tmp_path, max_seeds=40)
    assert seeds_of(judged) == [6, 10]
    assert judged[-1].is_last
    assert list(judged[-1].outcome.failed.values()) == ["it broke"]
    assert judged[-1].summary.settings[0].comparisons[0].n == 9
    assert judged[-1].summary.looked_at == [6, 10]


def test_an_interrupted_study_ends_and_goes_on_where_it_had_come_to(executor: FakeExecutor, tmp_path: Path) -> None:
    """The seeds of the second look are kept in study.yaml, so the next run does not begin at the first."""
    executor.gain = lambda dummies, seed: (-1.0) ** seed
    executor.stops = ("durm-1", 8)
    judged = judge(tmp_path, max_seeds=16)
    assert seeds_of(judged) == [6, 10]
    assert (judged[-1].outcome.interrupted, judged[-1].is_last) == (True, True)
    assert Store.open(tmp_path).study.seeds == tuple(range(10))
    executor.stops = None
    executor.trained.clear()
    assert seeds_of(judge(tmp_path, max_seeds=16)) == [10, 16]
    left = [(trial.arm, trial.seed) for trial in executor.trained[0]]
    assert left == [("durm-1", 8), ("erm", 9), ("durm-1", 9)]
    assert len(executor.trained[1]) == 12


def test_it_tells_who_follows_of_what_is_about_to_run(executor: FakeExecutor, tmp_path: Path) -> None:
    executor.gain = lambda dummies, seed: (-1.0) ** seed
    told: list[list[Trial]] = []

    def follow(trials: list[Trial]) -> nullcontext[Callable[[Event], None]]:
        told.append(trials)
        return nullcontext(lambda event: None)

    list(run_study_to_verdict(Store.create(tmp_path, study(max_seeds=10)), Execution(), follow))
    assert told == executor.trained
    assert [{trial.seed for trial in trials} for trials in told] == [set(range(6)), set(range(6, 10))]


# What may be added to a folder.


@pytest.mark.parametrize(
    ("before", "after"),
    [(12, 40), (7, 10), (40, 30), (40, 16), (None, 40), (40, None), (40, 100), (6, 40), (16, 25), (40, 50)],
)
def test_the_plan_of_a_study_cannot_be_changed(before: int | None, after: int | None, tmp_path: Path) -> None:
    """The level of each analysis depends on the last one."""
    Store.create(tmp_path, study(max_seeds=before, seeds=6))
    kept = (tmp_path / "study.yaml").read_text()
    with pytest.raises(InputError, match="max_seeds was"):
        Store.create(tmp_path, study(max_seeds=after, seeds=6))
    assert (tmp_path / "study.yaml").read_text() == kept


def test_a_study_that_ended_undecided_does_not_go_on_with_a_later_last_analysis(
    executor: FakeExecutor, tmp_path: Path
) -> None:
    executor.gain = lambda dummies, seed: (-1.0) ** seed
    judge(tmp_path, max_seeds=10)
    with pytest.raises(InputError, match="max_seeds was 10 and is now 16"):
        judge(tmp_path, max_seeds=16)


# The levels.


def levels_of(judged: list[StudyState]) -> list[float]:
    return [look.alpha for look in judged[-1].summary.settings[0].comparisons[0].looks]


def test_a_new_study_pins_the_rules_of_its_levels(executor: FakeExecutor, tmp_path: Path) -> None:
    """min(c · n_k, 0.05), of which the last spends nearly all."""
    executor.gain = lambda dummies, seed: (-1.0) ** seed
    judged = judge(tmp_path, max_seeds=40)
    assert yaml.safe_load((tmp_path / "study.yaml").read_text())["versions"]["verdict"] == 2
    assert levels_of(judged) == pytest.approx([SLOPES[1] * size for size in LOOKS], rel=1e-3)


def test_a_study_of_version_1_keeps_its_levels(executor: FakeExecutor, tmp_path: Path) -> None:
    """study.yaml of then has no version of the verdict: 6α/(πk)²."""
    executor.gain = lambda dummies, seed: (-1.0) ** seed
    judge(tmp_path, max_seeds=16)
    path = tmp_path / "study.yaml"
    before = yaml.safe_load(path.read_text())
    del before["versions"]["verdict"]
    path.write_text(yaml.safe_dump(before, sort_keys=False))
    judged = judge(tmp_path, max_seeds=16)
    assert levels_of(judged) == pytest.approx([6 * 0.05 / (math.pi * k) ** 2 for k in (1, 2, 3)])
    assert "verdict" not in yaml.safe_load(path.read_text())["versions"]


def test_an_arm_keeps_its_word_while_others_go_on(executor: FakeExecutor, tmp_path: Path) -> None:
    """Better at 10 pairs, and then lost again: by 16 pairs its differences are as often −4 as +2."""
    executor.gain = lambda dummies, seed: (-1.0) ** seed if dummies == 2 else 2.0 + 0.1 * (seed % 2) - 6 * (seed > 9)
    judged = judge(tmp_path, dummies=[0, 1, 2], max_seeds=16)
    words = [[c.verdict for c in one.summary.settings[0].comparisons] for one in judged]
    assert words == [["undecided"] * 2, ["better", "undecided"], ["better", "undecided"]]


def test_seeds_added_to_a_fixed_study(executor: FakeExecutor, tmp_path: Path) -> None:
    """The k-th analysis has level 6α/(πk)²/m, here of two arms; to judge the same seeds again costs nothing."""
    executor.gain = normal_gain(3, mean=0.5)
    for seeds, k in ((8, None), (12, 2), (12, 2), (13, 3)):
        (judged,) = judge(tmp_path, seeds=seeds, dummies=[0, 1, 2])
        alpha = 0.05 if k is None else 6 * 0.05 / (math.pi * k) ** 2
        for comparison in judged.summary.settings[0].comparisons:
            differences = np.array([executor.gain(int(comparison.arm[-1]), seed) for seed in range(seeds)])
            error = math.sqrt((differences.var(ddof=1) + 0.1**2 / 6) / seeds)
            limits = stats.t.interval(1 - alpha / 2, seeds - 1, differences.mean(), error)
            alone = stats.t.interval(0.95, seeds - 1, differences.mean(), error)
            assert comparison.ci_family == pytest.approx(limits, rel=1e-6)
            assert comparison.ci == pytest.approx(alone, rel=1e-6)
        noted = [warning for warning in judged.summary.warnings if "Seeds were added" in warning]
        assert len(noted) == (k is not None)
        assert all(f"number {k} in a series" in warning for warning in noted)


def test_seeds_and_looks_exclude_each_other() -> None:
    for seeds in (7, [0, 1, 2, 3, 4, 6], [5, 4, 3, 2, 1, 0]):
        with pytest.raises(
            InputError, match="seeds and max_seeds exclude each other: the study is analysed at 6, 10, 16, 20"
        ):
            study(max_seeds=20, seeds=seeds)
    plan = study(max_seeds=20, seeds=10).plan
    assert plan is not None
    assert plan.seeds == [[str(seed) for seed in range(size)] for size in (6, 10)]


def test_a_null_control_may_be_added_and_trains_nothing_else(executor: FakeExecutor, tmp_path: Path) -> None:
    judge(tmp_path, seeds=2)
    executor.trained.clear()
    (judged,) = judge(tmp_path, seeds=2, null=True)
    assert [trial.arm for trial in executor.trained[0]] == ["erm null", "durm-1 null"] * 2
    assert [one.n for one in judged.summary.settings[0].null_control.comparisons] == [2, 2]
    with pytest.raises(InputError, match="null was true and is now false"):
        Store.create(tmp_path, study(seeds=2))


def test_the_region_of_practical_equivalence_may_not_change(tmp_path: Path) -> None:
    """It has to be said before the results are seen."""
    Store.create(tmp_path, study(seeds=2))
    kept = (tmp_path / "study.yaml").read_text()
    with pytest.raises(InputError, match=r"rope was 0.1 and is now 0.2"):
        Store.create(tmp_path, study(seeds=2, rope=0.2))
    assert (tmp_path / "study.yaml").read_text() == kept


def test_an_arm_may_be_added_to_a_study_that_was_decided(executor: FakeExecutor, tmp_path: Path) -> None:
    executor.gain = lambda dummies, seed: 2.0 + 0.01 * (seed % 2) if dummies == 1 else (-1.0) ** seed
    assert seeds_of(judge(tmp_path, max_seeds=10)) == [6]
    assert seeds_of(judge(tmp_path, max_seeds=10, dummies=[0, 1, 2])) == [6, 10]


# What a null control changes.


def test_the_null_of_an_arm_with_dummies_has_other_dummies() -> None:
    arm = Arm.model_validate({"name": "durm-2", "dummies": 2, "lr": 0.1})
    assert arm.null().written() == {"name": "durm-2 null", "dummies": 2, "train.lr": 0.1, "dummy_seed": 1}
    assert arm.null().null().overrides["dummy_seed"] == 2
    assert not arm.null().counts_dummies_only  # so durm-val does not choose from it


def test_the_null_of_an_arm_without_dummies_has_a_disturbed_head() -> None:
    for values in ({"name": "erm", "dummies": 0}, {"name": "smoothing", "train.label_smoothing": 0.1}):
        arm = Arm.model_validate(values)
        assert arm.null().written() == {**values, "name": f"{arm.name} null", "head_noise": 1e-6}


def test_the_null_of_constant_logits_has_a_disturbed_head_and_that_of_frozen_ones_other_dummies() -> None:
    constant, frozen = (
        Arm.model_validate({"name": kind, "dummies": 2, "kind": kind}) for kind in ("constant", "frozen")
    )
    assert constant.null().overrides == {"dummies": 2, "kind": "constant", "head_noise": 1e-6}
    assert frozen.null().overrides == {"dummies": 2, "kind": "frozen", "dummy_seed": 1}
    assert not frozen.counts_dummies_only


def test_the_trials_of_a_null_control_differ_from_their_arms_in_nothing_else() -> None:
    trials = {trial.arm: trial for trial in study(seeds=[4], null=True).trials()}
    assert list(trials) == ["erm", "durm-1", "erm null", "durm-1 null"]
    assert trials["erm null"] == trials["erm"].model_copy(update={"arm": "erm null", "head_noise": 1e-6})
    assert trials["durm-1 null"] == trials["durm-1"].model_copy(update={"arm": "durm-1 null", "dummy_seed": 1})
    assert [trial.id for trial in study(seeds=[4]).trials()] == [trials["erm"].id, trials["durm-1"].id]


def weights(**trial: Any) -> dict[str, torch.Tensor]:
    """The initial weights of the small CNN on digits; the head is `10`."""
    made = Trial.model_validate({"data": "digits", "model": "cnn", "seed": 3, **trial})
    model = build_model(made, load_bundle(made))
    return {name: value.clone() for name, value in model.state_dict().items()} | {"random": torch.get_rng_state()}


def test_another_dummy_seed_changes_only_the_dummy_rows() -> None:
    plain, null, again = weights(dummies=2), weights(dummies=2, dummy_seed=1), weights(dummies=2, dummy_seed=1)
    assert plain.keys() == null.keys()
    for name, value in plain.items():
        if not name.startswith("10."):
            assert torch.equal(value, null[name]), name
    for name in ("10.weight", "10.bias"):
        assert torch.equal(plain[name][:10], null[name][:10])
        assert not (plain[name][10:] == null[name][10:]).any()
    spreads = [float(found["10.weight"][10:].std()) for found in (plain, null)]
    assert spreads == pytest.approx([float(plain["10.weight"][:10].std())] * 2, rel=0.25)  # drawn in the same way
    assert all(torch.equal(value, again[name]) for name, value in null.items())
    assert not torch.equal(null["10.weight"], weights(dummies=2, dummy_seed=2)["10.weight"])


def test_head_noise_changes_only_the_head_and_hardly() -> None:
    plain, null, again = weights(), weights(head_noise=1e-6), weights(head_noise=1e-6)
    assert plain.keys() == null.keys()
    for name, value in plain.items():
        if not name.startswith("10."):
            assert torch.equal(value, null[name]), name
    noise = (null["10.weight"].double() - plain["10.weight"].double()).flatten()
    assert float(noise.std()) == pytest.approx(1e-6, rel=0.1)
    assert abs(float(noise.mean())) < 4e-6 / math.sqrt(len(noise))
    assert 0 < float((null["10.bias"] - plain["10.bias"]).abs().max()) < 1e-5
    assert all(torch.equal(value, again[name]) for name, value in null.items())


def test_the_noise_is_another_one_for_another_seed() -> None:
    noises = [weights(seed=seed, head_noise=1e-3)["10.weight"] - weights(seed=seed)["10.weight"] for seed in (3, 4)]
    assert float((noises[0] - noises[1]).abs().mean()) > 1e-4


def test_a_null_arm_trains_nearly_like_its_arm() -> None:
    """Three steps: other weights in the last bits, all but the same losses."""
    arm, null = (
        run(Trial(data="digits", model="cnn", head_noise=noise, train={"iterations": 3})) for noise in (0.0, 1e-6)
    )
    assert arm.weights_sha256 != null.weights_sha256
    assert null.curves[0]["val_nll"] == pytest.approx(arm.curves[0]["val_nll"], abs=1e-3)
    assert null.curves[0]["val_nll"] != arm.curves[0]["val_nll"]
