"""What a classifier makes of each sample, against a plain loop over single samples and the definitions."""

import math

import pytest
import torch
from torch import Tensor

from durm.metrics.metric import find_metric
from durm.metrics.outcomes import sample_outcomes
from tests.metrics.measuring import classification_metrics

CLASSES, DUMMIES, SAMPLES = 4, 2, 60


@pytest.fixture(scope="module")
def logits() -> Tensor:
    """Some are nearly certain; the last two samples have two equal real logits."""
    found = torch.randn(SAMPLES, CLASSES + DUMMIES, generator=torch.Generator().manual_seed(0))
    found[:5] *= 40
    found[-2:, :2] = 3.0
    return found


@pytest.fixture(scope="module")
def targets() -> Tensor:
    labels = torch.randint(0, CLASSES, (SAMPLES,), generator=torch.Generator().manual_seed(1))
    labels[-2:] = torch.tensor([0, 1])  # of two equal logits argmax takes the first
    return labels


def outcomes_of(logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
    real = logits[:, :CLASSES]
    return sample_outcomes(real, targets, real.argmax(1))


def by_hand(logits: Tensor, targets: Tensor) -> list[dict[str, float]]:
    """Sample by sample, in Python's own numbers."""
    found = []
    for row, target in zip(logits.tolist(), targets.tolist(), strict=True):
        real = row[:CLASSES]
        top = max(real)
        total = math.fsum(math.exp(value - top) for value in real)
        p = [math.exp(value - top) / total for value in real]
        found.append(
            {
                "correct": float(real.index(top) == target),
                "margin": real[target] - max(value for c, value in enumerate(real) if c != target),
                "log_p": real[target] - top - math.log(total),
                "brier": math.fsum((share - (c == target)) ** 2 for c, share in enumerate(p)),
            }
        )
    return found


def test_they_are_those_of_a_plain_loop(logits: Tensor, targets: Tensor) -> None:
    found, expected = outcomes_of(logits, targets), by_hand(logits, targets)
    assert set(found) == {"correct", "margin", "log_p", "brier"}
    for name, values in found.items():
        assert values.tolist() == pytest.approx([one[name] for one in expected], rel=1e-12, abs=1e-13), name
    assert found["correct"][-2:].tolist() == [1.0, 0.0]
    assert found["margin"][-2:].tolist() == [0.0, 0.0]


def test_the_metrics_are_means_of_them(logits: Tensor, targets: Tensor) -> None:
    """Of the real classes alone: dummies change none of them."""
    expected = by_hand(logits, targets)
    sigmoid = [1 / (1 + math.exp(-one["margin"] / 0.1)) if one["margin"] > -60 else 0.0 for one in expected]
    for given in (logits, logits[:, :CLASSES]):
        found = classification_metrics(given, targets, CLASSES)
        assert found["accuracy"] == pytest.approx(100 * sum(one["correct"] for one in expected) / SAMPLES)
        assert found["soft_accuracy"] == pytest.approx(100 * sum(sigmoid) / SAMPLES)
        assert found["p_true"] == pytest.approx(100 * sum(math.exp(one["log_p"]) for one in expected) / SAMPLES)
        assert found["nll"] == pytest.approx(-sum(one["log_p"] for one in expected) / SAMPLES)
        assert found["brier"] == pytest.approx(sum(one["brier"] for one in expected) / SAMPLES)


@pytest.mark.parametrize("name", ["accuracy", "soft_accuracy", "p_true", "nll", "brier"])
def test_the_value_of_a_metric_is_the_mean_of_its_values_of_the_samples(
    name: str, logits: Tensor, targets: Tensor
) -> None:
    """That is what the interval over samples rests on; outcomes are kept in single precision."""
    metric = find_metric(name)
    assert metric is not None
    assert metric.per_sample is not None
    kept = {key: value.float().numpy() for key, value in outcomes_of(logits, targets).items()}
    values = metric.per_sample(kept)
    assert values.shape == (SAMPLES,)
    assert values.mean() == pytest.approx(classification_metrics(logits, targets, CLASSES)[name], rel=1e-6)
