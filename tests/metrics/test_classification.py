"""Metrics of a classifier: by hand, by a plain loop, and against torchmetrics."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import durm.models  # noqa: F401 (before torchmetrics, which imports torchvision)
from durm.metrics.classification import BINS
from tests.metrics.measuring import classification_metrics


def random_logits(samples: int, classes: int, dummies: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(samples, classes + dummies, generator=random)
    return logits, torch.randint(classes, (samples,), generator=random)


def by_hand() -> tuple[Tensor, Tensor]:
    """Two classes and one dummy. The probabilities of all three, and of the two real ones alone:

    (0.6, 0.2, 0.2) → (3/4, 1/4), class 0: right;
    (0.1, 0.3, 0.6) → (1/4, 3/4), class 1: right, though the dummy has the largest logit;
    (0.5, 0.4, 0.1) → (5/9, 4/9), class 1: wrong;
    (0.2, 0.3, 0.5) → (2/5, 3/5), class 0: wrong, and the dummy has the largest logit.
    """
    probabilities = [[0.6, 0.2, 0.2], [0.1, 0.3, 0.6], [0.5, 0.4, 0.1], [0.2, 0.3, 0.5]]
    return torch.tensor(probabilities, dtype=torch.float64).log(), torch.tensor([0, 1, 1, 0])


def test_metrics_by_hand() -> None:
    """In bins of 1/15 the confidences 3/4, 3/4 share the twelfth; 5/9 is in the ninth and 3/5 on its upper edge."""
    metrics = classification_metrics(*by_hand(), num_classes=2)
    assert metrics["accuracy"] == 50
    assert metrics["nll"] == pytest.approx(-(2 * math.log(3 / 4) + math.log(4 / 9) + math.log(2 / 5)) / 4)
    assert metrics["ece"] == pytest.approx(100 * (2 * (1 - 3 / 4) + 5 / 9 + 3 / 5) / 4)
    assert metrics["dummy_mass"] == pytest.approx(100 * (0.2 + 0.6 + 0.1 + 0.5) / 4)
    assert metrics["dummy_hits"] == 50


def test_the_calibration_error_with_dummies_by_hand() -> None:
    """The confidences are the largest real ones, 0.6, 0.3, 0.5 and 0.3: the two of 0.3, one right, share a bin."""
    metrics = classification_metrics(*by_hand(), num_classes=2)
    assert metrics["ece_all"] == pytest.approx(100 * (abs(1 - 0.6) + abs(1 - 0.3 + 0 - 0.3) + abs(0 - 0.5)) / 4)


def test_shares_are_in_percent_and_the_likelihood_is_not() -> None:
    logits = torch.tensor([[9.0, -9.0, -99.0]] * 3)
    metrics = classification_metrics(logits, torch.tensor([0, 0, 0]), num_classes=2)
    assert metrics["accuracy"] == 100
    assert metrics["nll"] == pytest.approx(0, abs=1e-7)
    assert metrics["ece"] == pytest.approx(0, abs=1e-4)
    assert metrics["dummy_mass"] == pytest.approx(0, abs=1e-4)
    assert metrics["dummy_hits"] == 0
    wrong = classification_metrics(logits, torch.tensor([1, 1, 1]), num_classes=2)
    assert wrong["accuracy"] == 0
    assert wrong["nll"] == pytest.approx(18)
    assert wrong["ece"] == pytest.approx(100)
    assert classification_metrics(-logits, torch.tensor([0, 0, 0]), num_classes=2)["dummy_hits"] == 100


def test_without_dummies_nothing_is_theirs() -> None:
    metrics = classification_metrics(*random_logits(50, 4, 0), num_classes=4)
    assert metrics["dummy_mass"] == metrics["dummy_hits"] == 0
    assert metrics["ece"] == metrics["ece_all"]


@pytest.mark.parametrize("dummies", [1, 3])
def test_what_is_of_the_real_classes_does_not_depend_on_the_dummies(dummies: int) -> None:
    logits, targets = random_logits(200, 5, dummies)
    wide = classification_metrics(logits, targets, 5)
    narrow = classification_metrics(logits[:, :5], targets, 5)
    for name in ("accuracy", "nll", "ece"):
        assert wide[name] == pytest.approx(narrow[name], rel=1e-12)
    assert wide["ece_all"] != pytest.approx(narrow["ece_all"])


@pytest.mark.parametrize(
    ("confidences", "right", "error"),
    [
        ([0.9], [True], 0.1),
        ([0.9, 0.6], [True, False], (0.1 + 0.6) / 2),
        ([0.61, 0.65], [True, False], abs(1 - 0.61 - 0.65) / 2),
        ([0.61, 0.65, 0.99], [True, False, True], (abs(1 - 0.61 - 0.65) + 0.01) / 3),
        ([0.75] * 4, [True, True, True, False], 0.0),
        ([1.0, 0.99], [True, True], 0.01 / 2),
    ],
)
def test_calibration_error_by_hand(confidences: list[float], right: list[bool], error: float) -> None:
    confidence = torch.tensor(confidences, dtype=torch.float64)
    targets = (~torch.tensor(right)).long()
    logits = torch.stack([confidence, 1 - confidence], 1).log()
    assert classification_metrics(logits, targets, 2)["ece"] == pytest.approx(100 * error, abs=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 3), st.integers(0, 10**6))
def test_metrics_follow_a_plain_loop(samples: int, classes: int, dummies: int, seed: int) -> None:
    logits, targets = random_logits(samples, classes, dummies, seed)
    bins = {"ece": [0.0] * BINS, "ece_all": [0.0] * BINS}
    sums = dict.fromkeys(("accuracy", "nll", "dummy_mass", "dummy_hits"), 0.0)
    for row, target in zip(logits.double().tolist(), targets.tolist(), strict=True):
        real, dummy = [math.exp(z) for z in row[:classes]], [math.exp(z) for z in row[classes:]]
        predicted = real.index(max(real))
        sums["accuracy"] += 100 * (predicted == target) / samples
        sums["nll"] -= math.log(real[target] / sum(real)) / samples
        sums["dummy_mass"] += 100 * sum(dummy) / sum(real + dummy) / samples
        sums["dummy_hits"] += 100 * (max(dummy, default=0) > max(real)) / samples
        for name, total in (("ece", sum(real)), ("ece_all", sum(real + dummy))):
            confidence = max(real) / total
            bins[name][math.ceil(confidence * BINS) - 1] += (predicted == target) - confidence
    metrics = classification_metrics(logits, targets, classes)
    for name, value in sums.items():
        assert metrics[name] == pytest.approx(value, rel=1e-5, abs=1e-5)
    for name, gaps in bins.items():
        assert metrics[name] == pytest.approx(100 * sum(map(abs, gaps)) / samples, abs=1e-4)


@pytest.mark.parametrize("classes", [2, 10])
def test_the_calibration_error_is_that_of_torchmetrics(classes: int) -> None:
    from torchmetrics.classification import MulticlassCalibrationError

    for seed in range(5):
        logits, targets = random_logits(500, classes, 2, seed)
        theirs = MulticlassCalibrationError(classes, n_bins=15, norm="l1")(logits[:, :classes].softmax(1), targets)
        assert classification_metrics(logits, targets, classes)["ece"] == pytest.approx(100 * theirs.item(), abs=1e-3)


def test_accuracy_by_class_and_by_group_by_hand() -> None:
    """Class 0: 3 of 4 right; class 1: 1 of 2; class 2: 0 of 1; class 3 has no sample. The mean is 5/12."""
    targets = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    predicted = torch.tensor([0, 0, 0, 1, 1, 0, 0])
    logits = torch.nn.functional.one_hot(predicted, 6).double()
    metrics = classification_metrics(logits, targets, 4, {"head": [0], "tail": [1, 2], "none": [3]})
    assert metrics["accuracy"] == pytest.approx(400 / 7)
    assert metrics["balanced_accuracy"] == pytest.approx(100 * 5 / 12)
    assert metrics["accuracy_head"] == 75
    assert metrics["accuracy_tail"] == pytest.approx(100 / 3)
    assert "accuracy_none" not in metrics
    assert "accuracy_head" not in classification_metrics(logits, targets, 4)
