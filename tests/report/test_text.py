"""The sentences: every word, every kind of arm and metric, with the number, the level, the pairs and the margin."""

from typing import Any

import pytest

from durm.report import text as words
from durm.statistics.verdict import Comparison
from durm.study.records import ArmSummary, Setting, Summary

PLACE = {"data": "digits", "model": "cnn", "method": "erm"}


def comparison(**changes: Any) -> Comparison:
    values: dict[str, Any] = {
        "arm": "durm-2", "baseline": "erm", "n": 10, "difference": 0.5, "ci_family": (0.25, 0.75),
        "verdict": "better", "wins": 10, "ties": 0, "losses": 0,
    }  # fmt: skip
    untold = ("ci", "p", "p_holm", "p_min", "correlation", "variance_ratio", "p_variance", "p_variance_holm")
    return Comparison(**{**dict.fromkeys(untold), **values, **changes})


def study(*settings: list[Comparison], metric: str = "accuracy", rope: float = 0.1, **changes: Any) -> Summary:
    """Arms durm-k have k dummies, arms of other names an unknown number."""
    made = []
    for comparisons in settings:
        names = dict.fromkeys(["erm", *(c.arm for c in comparisons)])
        dummies = {name: int(name[5:]) for name in names if name.startswith("durm-")} | {"erm": 0}
        arms = [ArmSummary(arm=name, n=10, dummies=dummies.get(name)) for name in names]
        made.append(Setting(setting=PLACE, arms=arms, comparisons=comparisons))
    return Summary(study="a study", metric=metric, rope=rope, settings=made, schema_version=2, **changes)


def told(rope: float = 0.1, metric: str = "accuracy", **changes: Any) -> str:
    summary = study([one := comparison(**changes)], metric=metric, rope=rope)
    found = words.sentence(one, summary.settings[0], summary)
    assert found.startswith(words.headline(summary))
    return found


def test_better_and_worse() -> None:
    assert told() == (
        "2 dummies are better than erm on digits with cnn: +0.50 points (95 % CI +0.25 … +0.75, 10 pairs), "
        "beyond the margin of ±0.1 points."
    )
    assert told(arm="durm-1", verdict="worse", difference=-0.5, ci_family=(-0.75, -0.25)) == (
        "1 dummy is worse than erm on digits with cnn: −0.50 points (95 % CI −0.75 … −0.25, 10 pairs), "
        "beyond the margin of ±0.1 points."
    )


def test_equal() -> None:
    assert told(verdict="equal", difference=0.01, ci_family=(-0.05, 0.07)) == (
        "2 dummies are equal to erm for practical purposes on digits with cnn: +0.010 points "
        "(95 % CI −0.050 … +0.070, 10 pairs), within the margin of ±0.1 points."
    )


def test_no_detectable_effect() -> None:
    assert told(verdict="undecided", difference=0.03, ci_family=(-0.18, 0.24)) == (
        "No detectable effect of 2 dummies on digits with cnn: +0.03 points (95 % CI −0.18 … +0.24, 10 pairs), "
        "undecided at a margin of ±0.1 points; gains above 0.24 are ruled out."
    )


@pytest.mark.parametrize(
    ("interval", "begins", "ends"),
    [
        ((0.05, 0.30), "A gain from 2 dummies", "gains above 0.30 are ruled out."),
        ((-0.30, -0.05), "A loss from 2 dummies", "any gain, and losses above 0.30, are ruled out."),
    ],
)
def test_an_effect_that_may_be_too_small(interval: tuple[float, float], begins: str, ends: str) -> None:
    found = told(verdict="undecided", difference=sum(interval) / 2, ci_family=interval)
    assert found.startswith(begins)
    assert "may be too small to matter" in found
    assert "undecided at a margin of ±0.1" in found
    assert found.endswith(ends)


def test_lower_is_better() -> None:
    """A loss of a tenth less is a gain; the sign is that of the number."""
    found = told(metric="nll", rope=0.01, verdict="undecided", difference=-0.004, ci_family=(-0.03, 0.022))
    assert "real-class NLL −0.004" in found
    assert "lower is better" in found
    assert "gains above 0.030 are ruled out" in found
    down = told(metric="nll", rope=0.01, verdict="undecided", difference=-0.02, ci_family=(-0.03, -0.005))
    assert down.startswith("A gain from 2 dummies")


@pytest.mark.parametrize(
    ("metric", "number"),
    [
        ("balanced_accuracy", "+0.50 points of balanced accuracy ("),
        ("miou", ": +0.50 points ("),
        ("brier", "Brier score +0.50"),
        ("throughput", "throughput +0.50 ("),
        ("value", ": +0.50 ("),
    ],
)
def test_every_metric_has_its_name_and_unit(metric: str, number: str) -> None:
    assert number in told(metric=metric)


def test_what_more_pairs_could_tell() -> None:
    wide = {"verdict": "undecided", "difference": 0.2, "ci_family": (-0.6, 1.0), "min_difference": 0.9}
    planned = told(**wide, n_for_rope=610, n_for_rope_range=(330, 1800))
    assert "10 pairs of this spread decide differences of 0.90 points or more" in planned
    assert "about 610 (330 to 1,800)" in planned
    small = told(**wide, test_samples_for_rope=12_345)
    assert "more seeds alone" in small
    assert "about 12,000 samples" in small


@pytest.mark.parametrize("reason", ["too few pairs (3; a word takes 6)", "the lost runs could change the word"])
def test_what_keeps_a_word_back(reason: str) -> None:
    found = told(verdict="undecided", n=3, reason=reason, lost=2)
    assert found.startswith(f"Undecided for 2 dummies on digits with cnn: {reason}; +0.50 points")
    assert "3 pairs, 2 lost), margin ±0.1" in found
    assert "ruled out" not in found


def test_one_pair_or_none() -> None:
    undefined: dict[str, Any] = {"verdict": "undecided", "ci_family": None}
    assert told(n=0, **{**undefined, "difference": None}).endswith("there is no pair of runs yet.")
    one = told(n=1, **undefined)
    assert "one pair decides nothing" in one
    assert "+0.50 points (1 pair)" in one


def test_unpaired_arms_have_the_runs_of_both() -> None:
    assert "unpaired, 10 and 10 runs)" in told(paired=False)


def test_an_arm_of_any_name_is_called_by_it() -> None:
    assert told(arm="smoothing").startswith("smoothing is better than erm")
    named = study([comparison(arm="fast")])
    fast = named.settings[0].model_copy(
        update={"arms": [ArmSummary(arm="erm", dummies=0), ArmSummary(arm="fast", dummies=2)]}
    )
    assert words.sentence(named.settings[0].comparisons[0], fast, named).startswith("fast is better")


def test_no_margin() -> None:
    assert "undecided at a margin of 0;" in told(rope=0.0, verdict="undecided", ci_family=(-1.0, 2.0))


def test_arms_of_one_finding_share_a_sentence() -> None:
    many = [
        comparison(arm=f"durm-{k}", verdict="undecided", difference=d, ci_family=(d - 0.2, d + 0.2))
        for k, d in ((1, 0.08), (2, 0.03), (3, 0.01))
    ]
    assert words.headline(study(many)) == (
        "No detectable effect of 1, 2 or 3 dummies on digits with cnn: +0.01 to +0.08 points "
        "(98.3 % CIs within −0.19 … +0.28, 10 pairs), undecided at a margin of ±0.1 points; "
        "gains above 0.28 are ruled out."
    )
    named = [comparison(arm=name) for name in ("a", "b")]
    assert words.headline(study(named)).startswith(
        "a and b are better than erm on digits with cnn: +0.50 points (97.5 %"
    )


def test_several_findings_come_in_the_order_of_the_words() -> None:
    mixed = [
        comparison(arm="a", verdict="undecided", difference=0.1, ci_family=(-1.0, 1.0)),
        comparison(arm="b", verdict="equal", difference=0.0, ci_family=(-0.05, 0.05)),
        comparison(arm="c", verdict="worse", difference=-0.5, ci_family=(-0.75, -0.25)),
        comparison(arm="d"),
    ]
    headline = words.headline(study(mixed, lost=2))
    places = [headline.index(text) for text in ("d is better", "c is worse", "b is equal", "no detectable effect of a")]
    assert places == sorted(places)
    for text in ("+0.50", "−0.50", "98.8 % CIs", "10 pairs", "margin ±0.1 points", "2 runs lost"):
        assert text in headline


def test_several_settings() -> None:
    nothing = comparison(verdict="undecided", difference=0.0, ci_family=(-0.3, 0.2))
    same = words.headline(study([nothing], [nothing], [nothing]))
    assert same.startswith(
        "No detectable effect of 2 dummies in 3 settings: 0.00 points (95 % CIs within −0.30 … +0.20"
    )
    mixed = words.headline(study([comparison()], [nothing], [comparison(verdict="worse", difference=-1.0)]))
    assert mixed == (
        "3 comparisons with erm in 3 settings: 1 better, 1 worse, 1 undecided (95 % CIs, 10 pairs, margin ±0.1 points)."
    )


def test_one_arm() -> None:
    assert words.headline(study([])) == words.ONE_ARM


@pytest.mark.parametrize(("arms", "level"), [(1, "95 %"), (2, "97.5 %"), (3, "98.3 %"), (10, "99.5 %")])
def test_the_level_is_that_of_the_family(arms: int, level: str) -> None:
    """1 − 0.05/m."""
    family = [comparison(arm=f"arm {k}") for k in range(arms)]
    summary = study(family)
    assert words.confidence(summary.settings[0], family[0], summary) == level


def test_an_analysis_that_was_not_planned_has_a_higher_level() -> None:
    """The second of a series: 6 · 0.05/(2π)²."""
    one = comparison()
    again = study([one], looked_at=[10, 20])
    assert words.confidence(again.settings[0], one, again) == "99.24 %"
    planned = study([one], looked_at=[6, 10], max_seeds=40)
    assert words.confidence(planned.settings[0], one, planned) == "95 %"


def test_the_place() -> None:
    def place(domains: list[str] | None = None, **setting: str) -> str:
        return words.place(Setting(setting=setting, arms=[ArmSummary(arm="erm", n=10)], domains=domains))

    assert place(data="digits", model="cnn", method="erm") == "on digits with cnn"
    assert place(data="digits", model="cnn", method="mixup") == "on digits with cnn, mixup"
    average = place(["photo", "sketch"], data="pacs", model="cnn", method="erm")
    assert average == "on pacs with cnn, mean over 2 held-out domains"
    assert place(setting="my table") == "in my table"
    assert place() == ""


def test_numbers_in_words() -> None:
    assert [words.signed(value) for value in (0.126, -0.126, 0.0, -0.001, 0.001, None)] == [
        *("+0.13", "−0.13", "0.00", "0.00", "0.00", "–"),
    ]
    assert [words.plain(value) for value in (97.126, -1.0, None)] == ["97.13", "−1.00", "–"]
    assert [words.p_value(p) for p in (1.0, 0.0312, 0.001, 0.00095, 1e-5, None)] == [
        *("1.000", "0.031", "0.001", "9.5e-04", "1.0e-05", "–"),
    ]
    assert words.bounds((-0.5, 0.25)) == "−0.50 … +0.25"
    assert words.bounds(None) == "–"


@pytest.mark.parametrize(
    ("interval", "rope", "expected"),
    [
        ([-5.0, 5.0], 0.1, 2),
        ([-0.05, 0.05], 0.1, 3),
        ([0.0, 0.0], 0.1, 2),
        ([0.0, 0.0], 0.0, 2),
        ([-1.0, 1.0], 0.001, 4),
        ([-1e-20, 1e-20], 0.1, 8),
        (None, 0.1, 2),
    ],
)
def test_decimals_show_two_digits_of_what_is_finest(interval: list[float] | None, rope: float, expected: int) -> None:
    assert words.decimals(interval, rope) == expected
