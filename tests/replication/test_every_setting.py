"""Claims about every setting: exact bounds of counts, and the share of settings that DuRM wins."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from durm.replication.every_setting import never, wins
from durm.replication.finding import Criterion, Finding
from durm.replication.mean_effect import EffectEstimate
from durm.training.trial import Trial
from tests.replication.planted import attacked, domains, gain, study, wobble
from tests.replication.test_claims import finding

SHARE = Criterion("at most", 0.1, "% of samples")
WINS = Criterion("more", 50.0, "% of settings", counted="setting", paper_gain=75.0, varied=False)


def share(percent: float, samples: int | None, name: str = "a", seeds: int = 6) -> EffectEstimate:
    return EffectEstimate((name,), name, {str(seed): percent for seed in range(seeds)}, test_samples=samples)


def judged(*estimates: EffectEstimate) -> Finding:
    found = never(estimates, SHARE, counts=True)
    assert found is not None
    return found


# Counts.


def test_none_of_500_samples_leaves_0_6_percent() -> None:
    """1 − 0.05^{1/500} = 0.597 %, however many seeds looked at the same samples."""
    for seeds in (1, 6, 60):
        found = judged(share(0.0, 500, seeds=seeds))
        assert found.interval == pytest.approx((0.0, 100 * (1 - 0.05 ** (1 / 500))))
        assert (found.verdict, found.n, found.counted) == ("undecided", 500, "sample")
        assert "500 distinct samples" in found.reading


@pytest.mark.parametrize(("samples", "verdict"), [(2994, "undecided"), (2995, "holds")])
def test_the_samples_that_bound_a_thousandth(samples: int, verdict: str) -> None:
    assert math.ceil(math.log(0.05) / math.log(0.999)) == 2995
    found = judged(share(0.0, samples))
    assert found.verdict == verdict
    assert found.to_decide == ("" if verdict == "holds" else "2,995 distinct samples without one")


def test_bounds_of_a_count_are_those_of_scipy() -> None:
    found = judged(share(0.3, 1000))  # three of a thousand
    interval = stats.binomtest(3, 1000).proportion_ci(0.90)
    assert found.interval == pytest.approx((100 * interval.low, 100 * interval.high))
    assert found.verdict == "undecided"
    assert judged(share(2.0, 1000)).verdict == "does not hold"


def test_samples_of_all_test_sets_are_added_up_and_one_setting_contradicts() -> None:
    good, bad, unclear = share(0.0, 10_000, "good"), share(5.0, 10_000, "bad"), share(0.0, 100, "unclear")
    assert judged(good).verdict == "holds"
    found = judged(good, unclear)
    assert (found.verdict, found.n) == ("holds", 10_100)
    assert found.interval == pytest.approx((0.0, 100 * (1 - 0.05 ** (1 / 10_100))))
    assert [part.word for part in found.parts] == ["holds", "undecided"]
    assert judged(good, unclear, bad).verdict == "does not hold"
    assert judged(good, unclear, bad).effect == 5.0


def test_settings_that_see_the_same_samples_count_them_once() -> None:
    """Two hits of 2,000 in one setting and one of 1,500 of them in another are two of 2,000."""
    same = [replace(share(0.1, 2000, "a"), group="d"), replace(share(100 / 1500, 1500, "b"), group="d")]
    found = judged(*same, share(0.0, 3000, "c"))
    expected = stats.binomtest(2, 5000).proportion_ci(0.90)
    assert (found.verdict, found.n) == ("undecided", 5000)
    assert found.interval == pytest.approx((100 * expected.low, 100 * expected.high))


def test_hits_of_one_setting_are_not_shared_out_over_the_samples_of_another() -> None:
    """Two hits of 1,500 samples stay that, though another setting sees 500 more of the same test set."""
    found = judged(*(replace(share(100 * hits / n, n, str(n)), group="d") for hits, n in ((2, 1500), (0, 2000))))
    assert found.n == 1500
    assert found.effect == pytest.approx(100 * 2 / 1500)
    assert found.verdict == "undecided"


def test_a_share_of_unknown_samples_above_the_limit_is_not_overruled() -> None:
    assert judged(share(0.0, 10_000), share(0.05, None, "b")).verdict == "holds"
    assert judged(share(0.0, 10_000), share(0.2, None, "b")).verdict == "undecided"


def test_a_contradiction_is_corrected_for_the_number_of_settings() -> None:
    """Four of 1,000: P(4 or more | 0.1 %) = 0.019: found alone at 5 %, not as one of ten."""
    assert stats.binom.sf(3, 1000, 0.001) == pytest.approx(0.019, abs=1e-3)
    assert judged(share(0.4, 1000)).verdict == "does not hold"
    others = [share(0.0, 10_000, name) for name in "bcdefghij"]
    assert judged(share(0.4, 1000), *others).verdict == "undecided"


def test_an_unknown_number_of_samples_decides_nothing() -> None:
    found = judged(share(0.0, None))
    assert (found.verdict, found.interval) == ("undecided", None)


# Found in studies.


def on_a_lattice(samples: int) -> Callable[[Trial], dict[str, float]]:
    """Accuracies that tell the number of test samples: neighbours on the lattice of 100/N."""
    return lambda trial: {"accuracy": 100 * (round(0.8 * samples) + (trial.seed + trial.dummies) % 4) / samples}


@pytest.mark.parametrize(
    ("hits", "samples", "verdict"),
    [(0, 10_000, "holds"), (2, 10_000, "holds"), (0, 500, "undecided"), (500, 10_000, "does not hold")],
)
def test_samples_that_are_classified_as_a_dummy(hits: int, samples: int, verdict: str, tmp_path: Path) -> None:
    def metrics(trial: Trial) -> dict[str, float]:
        where = trial.model == "mlp" and trial.dummies > 0
        return {**on_a_lattice(samples)(trial), "dummy_hits": 100 * hits / samples * where}

    tested = {"samples": {"train": 3000, "val": 500, "test": samples}}
    study(tmp_path, "one", metrics=metrics, change=lambda trial: tested, model=["cnn", "mlp"])
    found = finding(tmp_path, "classified as a dummy")
    assert found.verdict == verdict, found.reading
    assert found.effect == pytest.approx(100 * hits / samples)
    assert [part.n for part in found.parts] == [samples, samples]


@pytest.mark.parametrize(("into", "verdict"), [(30.0, "does not hold"), (0.0, "undecided")])
def test_samples_that_are_attacked_into_a_dummy(into: float, verdict: str, tmp_path: Path) -> None:
    """A thousand samples are attacked; none of them leaves 0.3 %."""
    attacked(tmp_path, "one", gain(0.0), into=into)
    found = finding(tmp_path, "attacked into a dummy")
    assert (found.verdict, len(found.parts), found.n) == (verdict, 2, 1000)  # FGSM and PGD
    assert found.effect == pytest.approx(into)
    assert found.interval is not None
    if not into:
        assert found.interval[1] == pytest.approx(100 * (1 - 0.05 ** (1 / 1000)))


def test_an_old_summary_does_not_say_how_many_samples_were_attacked(tmp_path: Path) -> None:
    """The planted accuracies lie on no lattice either."""
    attacked(tmp_path, "one", gain(0.0), into=30.0)
    path = tmp_path / "one" / "summary.json"
    summary = json.loads(path.read_text())
    for entry in summary["settings"][0]["robustness"]:
        for comparison in entry["comparisons"]:
            comparison.pop("step", None)
    path.write_text(json.dumps(summary))
    assert finding(tmp_path, "attacked into a dummy").verdict == "undecided"


@pytest.mark.parametrize(("mass", "verdict"), [(0.01, "holds"), (1.0, "does not hold")])
def test_the_mean_probability_is_no_count(mass: float, verdict: str, tmp_path: Path) -> None:
    study(tmp_path, "one", metrics=lambda trial: {"dummy_mass": mass * (1 + 0.1 * wobble(trial.seed))})
    found = finding(tmp_path, "shrinks to nothing")
    assert (found.verdict, found.counted, found.n) == (verdict, "seed", 6)


def test_a_share_in_one_of_many_settings_takes_more_seeds(tmp_path: Path) -> None:
    """Of ten settings a word takes nine seeds, as of ten arms; six say only that a setting stays below."""
    data = [f"subset:samples={count}:digits" for count in range(10, 20)]
    high = lambda trial: {"dummy_mass": 1.0 + 0.1 * wobble(trial.seed) if "=10:" in trial.data else 0.0}  # noqa: E731
    study(tmp_path, "six", metrics=high, data=data)
    assert finding(tmp_path, "shrinks to nothing").verdict == "undecided"


# Wins.


def effect(mean: float, name: str, group: str = "") -> EffectEstimate:
    return EffectEstimate((name,), name, {str(seed): mean + 0.1 * wobble(seed) for seed in range(6)}, group=group)


@pytest.mark.parametrize(
    ("won", "of", "at_margin", "verdict"),
    [
        (20, 20, "holds", "holds"),
        (15, 20, "holds", "holds"),  # 51 … 91 %
        (13, 20, "undecided", "undecided"),  # 41 … 85 %
        (10, 20, "undecided", "does not hold"),  # 27 … 73 %
        (2, 20, "does not hold", "does not hold"),
        (3, 4, "undecided", "undecided"),
    ],
)
def test_the_share_of_wins(won: int, of: int, at_margin: str, verdict: str) -> None:
    found = wins([effect(1.0 if index < won else -1.0, str(index)) for index in range(of)], WINS, of)
    assert found is not None
    assert (found.verdict_margin, found.verdict) == (at_margin, verdict)
    interval = stats.binomtest(won, of).proportion_ci(0.95)
    assert found.interval == pytest.approx((100 * interval.low, 100 * interval.high))
    assert (found.effect, found.n) == (pytest.approx(100 * won / of), of)


def test_wins_of_all_tasks(tmp_path: Path) -> None:
    """One, two methods, a clean and an attacked one: five settings; both attacks are on the same runs."""
    study(tmp_path, "one", gain(2.0))
    domains(tmp_path, "two", gain(-2.0), method=["erm", "dann"])
    attacked(tmp_path, "three", gain(2.0), data="subset:samples=20:digits", accuracy=gain(2.0))
    found = finding(tmp_path, "most cases")
    assert (found.effect, found.n, found.paper_gain) == (60.0, 5, 75.0)
    assert "ahead in 3 of 5 settings" in found.reading
    assert "of ordinary classification, in 2 of 2" in found.reading
    assert found.sensitivity is None
    json.dumps(found.as_dict())
