"""AUROC from histograms, against the exact one."""

import pytest
import torch
from sklearn.metrics import roc_auc_score

from durm.metrics.ranking import Ranking


def ranked(logits: torch.Tensor, wrong: torch.Tensor) -> Ranking:
    ranking = Ranking()
    ranking.add(logits, wrong)
    return ranking


@pytest.mark.parametrize("centre", [-50.0, -20.0, 0.0, 10.0])
@pytest.mark.parametrize("spread", [0.3, 2.0, 5.0])
def test_it_is_that_of_scikit_learn(centre: float, spread: float) -> None:
    random = torch.Generator().manual_seed(0)
    wrong = torch.rand(4000, generator=random) < 0.1
    logits = centre + spread * (torch.randn(4000, generator=random, dtype=torch.float64) + wrong)
    ranking, exact = ranked(logits.float(), wrong), roc_auc_score(wrong, logits)
    value, error = ranking.auroc(), ranking.auroc_error()
    assert value is not None
    assert error is not None
    assert value == pytest.approx(exact, abs=1e-3)
    assert abs(value - exact) <= error + 1e-4  # what float32 adds


def test_it_knows_when_bins_are_too_wide() -> None:
    """Right and wrong are told apart by less than the width of a bin: the AUROC is 1, and counted as a tie."""
    ranking = ranked(torch.tensor([0.0001, 0.00015]), torch.tensor([False, True]))
    assert (ranking.auroc(), ranking.auroc_error()) == (0.5, 0.5)


def test_scores_of_nought_and_of_one_and_of_nothing() -> None:
    logits = torch.tensor([-torch.inf, torch.inf, -torch.inf, torch.nan])
    assert ranked(logits, torch.tensor([False, True, True, False])).auroc() == pytest.approx((1 + 1 + 0.5 + 0) / 4)


@pytest.mark.parametrize("wrong", [[True, True], [False, False], []])
def test_without_both_kinds_there_is_none(wrong: list[bool]) -> None:
    ranking = ranked(torch.zeros(len(wrong)), torch.tensor(wrong, dtype=torch.bool))
    assert ranking.auroc() is None
    assert ranking.auroc_error() is None
