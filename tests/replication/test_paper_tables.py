"""The paper's own tables, pooled: against figures of the audit, and a small example worked by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from durm.replication.paper_tables import CellGain, cell_gains, mean_gain, pool, pooled_tables


def test_table_8_with_two_dummies_gives_the_figures_of_the_audit() -> None:
    found = pool(cell_gains(8, [2]))
    assert (found.cells, found.wins) == (18, 15)
    assert found.interval is not None
    assert found.random is not None
    assert found.random_interval is not None
    assert [round(x, 2) for x in (found.mean, *found.interval)] == [0.39, 0.09, 0.68]
    assert [round(x, 2) for x in (found.random, *found.random_interval)] == [0.17, -0.06, 0.39]


def test_the_39_wins_of_the_text_are_those_of_table_8() -> None:
    gains = cell_gains(8)
    assert len(gains) == 54
    assert sum(one.gain > 0 for one in gains) == 39


def test_three_cells_by_hand() -> None:
    """w = 1, 1, 1/4; ḡ = (0 + 1 + 2/4)/2.25 = 2/3; Q = 4/9 + 1/9 + 4/9 = 1 < 2, so τ = 0: one middle for both."""
    found = pool([CellGain(0.0, 1.0), CellGain(1.0, 1.0), CellGain(2.0, 2.0)])
    middle = 2 / 3
    assert found.fixed == pytest.approx(middle)
    assert found.tau == 0.0
    assert found.random == pytest.approx(middle)
    assert found.fixed_interval == pytest.approx((middle - 1.96 / 1.5, middle + 1.96 / 1.5))


def test_random_effects_by_hand() -> None:
    """Two cells 0 and 4 of error 1: ḡ = 2, Q = 8, τ² = (8 − 1)/(2 − 2/2) = 7; Hartung and Knapp: √(8/8/(2/8)) = 2."""
    found = pool([CellGain(0.0, 1.0), CellGain(4.0, 1.0)])
    assert found.tau == pytest.approx(math.sqrt(7))
    assert found.random == pytest.approx(2.0)
    half = stats.t.ppf(0.975, 1) * 2.0
    assert found.random_interval == pytest.approx((2 - half, 2 + half))


def test_a_table_without_deviations_has_the_plain_mean_alone() -> None:
    found = pooled_tables()["Table 3, validation mIoU, C_d = 1"]
    assert (found.cells, found.fixed, found.random) == (6, None, None)
    assert found.interval is not None


def test_the_mean_gain_of_adversarial_training_by_hand() -> None:
    """Table 12, trained on PGD: 46.85 without; 46.89, 46.65, 47.10 with one to three dummies."""
    gains = cell_gains(12, method="pgd-at")
    assert mean_gain(gains) == pytest.approx(np.mean([0.04, -0.20, 0.25]))
