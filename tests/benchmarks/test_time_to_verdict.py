from importlib import import_module
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("time_to_verdict")


def test_the_seconds_are_those_of_the_start_the_trials_and_the_further_analyses(module):
    assert module.Cost(10, 2, 3).of(module.Ended(6, 1, "equal")) == 10 + 12 * 2
    assert module.Cost(10, 2, 3).of(module.Ended(16, 3, "equal")) == 10 + 32 * 2 + 2 * 3


def test_both_rules_end_where_they_must(module):
    """A large difference at once; what is as wide as 100 pairs cannot tell, never."""
    none = module.SampleVariance(1000, 0.0, 0.0)
    large = np.tile([4.9, 5.1], 50)
    wide = np.tile([-5.0, 5.0], 50)
    for end in (module.end_by_version_1, lambda drawn: module.end_now(drawn, none)):
        assert end(large) == module.Ended(6, 1, "better")
        assert end(-large) == module.Ended(6, 1, "worse")
        assert end(wide) == module.Ended(100, 7, "undecided")


def test_version_1_took_the_level_of_the_series_and_what_the_intervals_have_in_common(module):
    """s = 0.1 · √(n/(n − 1)): t · s/√n of n = 6, 10, 16 pairs is 0.13, 0.11, 0.09 at its levels; so it ends at 16."""
    drawn = np.tile([-0.1, 0.1], 50)
    assert module.end_by_version_1(drawn) == module.Ended(16, 3, "equal")


def test_the_finished_pairs_are_those_of_the_study(module):
    differences, samples = module.finished_pairs()
    assert len(differences) == 200
    assert differences.mean() == pytest.approx(-0.005)  # as its report says
    assert samples.added == 0


def test_twenty_draws_of_equal_cost(module):
    cost = module.Cost(0, 1, 0)
    result = module.time_to_verdict(cost, cost, draws=20)
    assert result.low <= result.ratio <= result.high
    assert result.mean_cpu_seconds[0] / result.mean_cpu_seconds[1] == pytest.approx(result.ratio)
