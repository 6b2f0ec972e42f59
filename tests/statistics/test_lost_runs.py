"""Runs that failed: a word must hold without their pairs, and with each of them at the worst value of any arm."""

import numpy as np
import pytest
from scipy import stats

from durm.statistics.verdict import LOST, Comparison, compare

SEEDS = [str(seed) for seed in range(12)]
BASELINE = {seed: 90 + 0.1 * (int(seed) % 3) for seed in SEEDS}


def shifted(by: float, seeds: list[str]) -> dict[str, float]:
    """The baseline plus `by`, a little more in every second seed."""
    return {seed: BASELINE[seed] + by + 0.01 * (int(seed) % 2) for seed in seeds}


def judge(ours: dict[str, float], lost: dict[str, list[str]], theirs: dict[str, float] = BASELINE) -> Comparison:
    (one,) = compare("erm", {"erm": theirs, "durm": ours}, rope=0.1, lost=lost)
    return one


def test_an_arm_that_fails_on_half_of_its_seeds_is_not_better_on_the_rest() -> None:
    """6 of 12 lost, the others +0.5 with p = 0.031: filled with 90.0, the mean is +0.2 ± 0.3."""
    survivors = shifted(0.5, SEEDS[:6])
    assert judge(survivors, {}).verdict == "better"
    one = judge(survivors, {"durm": SEEDS[6:]})
    assert (one.verdict, one.reason) == ("undecided", LOST)
    assert (one.n, one.lost, one.p) == (6, 6, 0.03125)
    filled = np.array([{**survivors, **dict.fromkeys(SEEDS[6:], 90.0)}[seed] - BASELINE[seed] for seed in SEEDS])
    low, high = stats.t.interval(0.95, 11, loc=filled.mean(), scale=stats.sem(filled))
    assert low < 0.1 < high


def test_lost_runs_that_cannot_change_the_word_leave_it() -> None:
    """Worse by 5 in eleven pairs; the lost run is at worst as bad as the worst of those."""
    one = judge(shifted(-5, SEEDS[:11]), {"durm": SEEDS[11:]})
    assert (one.verdict, one.reason, one.lost, one.n) == ("worse", "", 1, 11)


def test_lost_runs_of_the_baseline_count_too() -> None:
    """Worse by 0.5; but the worst value, 89.5, in place of the baseline's lost runs says better."""
    theirs = {seed: BASELINE[seed] for seed in SEEDS[:6]}
    ours = shifted(-0.5, SEEDS)
    assert judge(ours, {}, theirs).verdict == "worse"
    one = judge(ours, {"erm": SEEDS[6:]}, theirs)
    assert (one.verdict, one.reason, one.lost) == ("undecided", LOST, 6)
    better = judge(shifted(0.5, SEEDS), {"erm": SEEDS[6:]}, theirs)
    assert (better.verdict, better.lost) == ("better", 6)


def test_a_seed_that_both_lost_is_one_pair_without_a_difference() -> None:
    theirs = {seed: BASELINE[seed] for seed in SEEDS[:11]}
    one = judge(shifted(0.5, SEEDS[:11]), {"erm": SEEDS[11:], "durm": SEEDS[11:]}, theirs)
    assert (one.verdict, one.lost, one.n) == ("better", 1, 11)


def test_the_worst_value_is_that_of_any_arm() -> None:
    """A third arm that collapsed to 10 makes the one lost run of the second weigh 80 points."""
    ours = shifted(0.5, SEEDS[:11])
    values = {"erm": BASELINE, "durm": ours}
    lost = {"durm": SEEDS[11:]}
    assert compare("erm", values, rope=0.1, lost=lost)[0].verdict == "better"
    values["other"] = dict.fromkeys(SEEDS, 10.0)
    assert compare("erm", values, rope=0.1, lost=lost)[0].reason == LOST


def test_where_lower_is_better_the_worst_is_the_largest() -> None:
    survivors = shifted(-0.5, SEEDS[:6])
    values = {"erm": BASELINE, "durm": survivors}
    (one,) = compare("erm", values, rope=0.1, higher_is_better=False, lost={"durm": SEEDS[6:]})
    assert (one.verdict, one.reason) == ("undecided", LOST)


def test_a_lost_run_that_has_a_value_is_not_lost() -> None:
    one = judge(shifted(0.5, SEEDS), {"durm": SEEDS[6:]})
    assert (one.verdict, one.lost) == ("better", 0)


def test_lost_runs_give_no_word_to_what_had_none() -> None:
    one = judge(shifted(0.1, SEEDS[:6]), {"durm": SEEDS[6:]})
    assert (one.verdict, one.reason) == ("undecided", "")
    few = judge(shifted(-5, SEEDS[:5]), {"durm": SEEDS[5:]})
    assert few.reason == "too few pairs (5; a word takes 6)"


@pytest.mark.parametrize(("by", "word"), [(0.5, "undecided"), (-5.0, "worse")])
def test_arms_that_are_not_paired_have_the_same_rule(by: float, word: str) -> None:
    kept = 6 if by > 0 else 11
    values = {"erm": BASELINE, "durm": shifted(by, SEEDS[:kept])}
    (one,) = compare("erm", values, rope=0.1, unpaired=["durm"], lost={"durm": SEEDS[kept:]})
    assert (one.verdict, one.reason) == (word, LOST if by > 0 else "")
    assert one.lost == 12 - kept


def test_lost_runs_that_could_only_confirm_a_word_leave_it() -> None:
    """Worse by 5; a third arm that collapsed to 10 makes the lost run an outlier, which is against the same arm."""
    values = {"erm": BASELINE, "durm": shifted(-5, SEEDS[:11]), "other": dict.fromkeys(SEEDS, 10.0)}
    assert compare("erm", values, rope=0.1, lost={"durm": SEEDS[11:]})[0].verdict == "worse"
    both = compare(
        "erm", values | {"erm": {**BASELINE, "12": 90.0}}, rope=0.1, lost={"durm": SEEDS[11:], "erm": ["13"]}
    )
    assert both[0].reason == LOST
