"""Scores of uncertainty against their formulas, and what they are worth against scikit-learn and by hand."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from scipy.stats import entropy
from sklearn.metrics import roc_auc_score, roc_curve

import durm
from durm.metrics.uncertainty import aurc, auroc, fpr95, risk_coverage, uncertainty_scores


def drawn(seed: int, decimals: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores with ties, of known samples and of others."""
    random = np.random.default_rng(seed)
    return tuple(torch.tensor(random.normal(mean, 1, size).round(decimals)) for mean, size in ((0, 83), (0.7, 57)))


def test_the_scores_are_their_formulas() -> None:
    logits = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    real, p = logits[:, :3].double().numpy(), softmax(logits[:, :3].double().numpy(), axis=1)
    scores = uncertainty_scores(logits, num_classes=3)
    expected = {
        "dummy_mass": torch.logit(durm.dummy_mass(logits.double(), 3)).numpy(),
        "msp": np.log(1 - p.max(1)),
        "max_logit": -real.max(1),
        "energy": -logsumexp(real, axis=1),
        "entropy": entropy(p, axis=1),
    }
    assert list(scores) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(scores[name].numpy(), values, rtol=1e-9)
    assert "dummy_mass" not in uncertainty_scores(logits[:, :3], num_classes=3)


def test_sure_samples_stay_apart() -> None:
    """1 − max p of both is 0 in double precision."""
    scores = uncertainty_scores(torch.tensor([[60.0, 0.0], [70.0, 0.0]]), num_classes=2)["msp"]
    torch.testing.assert_close(scores, torch.tensor([-60.0, -70.0]).double())


@pytest.mark.parametrize("decimals", [0, 1, 8])
def test_open_set_recognition_agrees_with_scikit_learn(decimals: int) -> None:
    known, unknown = drawn(1, decimals)
    labels = np.r_[np.zeros(len(known)), np.ones(len(unknown))]
    every = np.r_[known, unknown]
    assert auroc(known, unknown) == pytest.approx(roc_auc_score(labels, every), abs=1e-12)
    accepted_unknown, accepted_known, _ = roc_curve(1 - labels, -every, drop_intermediate=False)
    assert fpr95(known, unknown) == pytest.approx(accepted_unknown[accepted_known >= 0.95].min(), abs=1e-12)


def test_risk_and_coverage_by_hand() -> None:
    """Sorted by score: right, wrong, right, wrong. Risks 0, 1/2, 1/3, 2/4, whose mean is 1/3."""
    score, wrong = torch.tensor([0.9, 0.1, 0.5, 0.3]), torch.tensor([True, False, False, True])
    torch.testing.assert_close(risk_coverage(score, wrong), torch.tensor([0, 1 / 2, 1 / 3, 1 / 2]).double())
    assert aurc(score, wrong) == pytest.approx(1 / 3)
    assert aurc(torch.zeros(4), wrong) == pytest.approx(1 / 2)  # no order at all: the error rate
    assert aurc(-score, wrong) == pytest.approx((1 + 1 / 2 + 2 / 3 + 1 / 2) / 4)


def test_ties_count_as_the_mean_over_their_orders() -> None:
    score, wrong = drawn(2, 0)[0], torch.arange(83) % 3 == 0
    random = np.random.default_rng(0)
    means = []
    for _ in range(4000):
        order = np.lexsort((random.random(len(score)), score.numpy()))
        means.append((np.cumsum(wrong.numpy()[order]) / np.arange(1, 84)).mean())
    assert aurc(score, wrong) == pytest.approx(np.mean(means), abs=4 * np.std(means) / np.sqrt(4000))


def test_bad_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        auroc(torch.empty(0), torch.ones(2))
    with pytest.raises(ValueError, match="NaN"):
        fpr95(torch.tensor([0.0, torch.nan]), torch.ones(2))
