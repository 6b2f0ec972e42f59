"""Metrics of a classifier from its C + C_d logits: accuracy, likelihood, calibration, and what the dummies take."""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from durm.scores import dummy_hits, dummy_mass, probabilities

BINS = 15


def classification_metrics(
    logits: Tensor, targets: Tensor, num_classes: int, groups: Mapping[str, Sequence[int]] | None = None
) -> dict[str, float]:
    """Metrics of N samples, from logits of shape (N, C + C_d) and targets of shape (N,).

    Returns:
        accuracy: of the largest *real* logit, in percent.
        balanced_accuracy: the mean of the accuracies of the classes, in percent.
        accuracy_NAME: of the samples of a group of classes, if groups are given and the group has samples.
        nll: the mean cross-entropy over the real logits, which is comparable between different C_d.
        ece: the calibration error of the probabilities over the real classes, in percent.
        ece_all: the same with the dummies in the normalisation.
        dummy_mass: the mean probability on the dummies, in percent.
        dummy_hits: the share of samples whose largest logit is a dummy, in percent.
    """
    real = logits[:, :num_classes]
    over_real = probabilities(logits, num_classes)
    over_all = probabilities(logits, num_classes, over="all")[:, :num_classes]
    right = (real.argmax(1) == targets).double()
    return {
        "accuracy": 100 * right.mean().item(),
        "balanced_accuracy": 100 * _by_class(right, targets, num_classes).mean().item(),
        **{f"accuracy_{name}": value for name, value in _by_group(right, targets, groups or {}).items()},
        "nll": F.cross_entropy(real.double(), targets).item(),
        "ece": 100 * calibration_error(over_real, targets),
        "ece_all": 100 * calibration_error(over_all, targets),
        "dummy_mass": 100 * dummy_mass(logits, num_classes).double().mean().item(),
        "dummy_hits": 100 * dummy_hits(logits, num_classes).double().mean().item(),
    }


def class_accuracies(logits: Tensor, targets: Tensor, num_classes: int) -> list[float | None]:
    """The accuracy of each class, in percent; None for one without samples."""
    right = (logits[:, :num_classes].argmax(1) == targets).double()
    found = iter((100 * _by_class(right, targets, num_classes)).tolist())
    counts = torch.bincount(targets, minlength=num_classes).tolist()
    return [next(found) if count else None for count in counts]


def _by_class(right: Tensor, targets: Tensor, num_classes: int) -> Tensor:
    """The accuracy of each class that has samples."""
    counts = torch.bincount(targets, minlength=num_classes)
    hits = torch.zeros(num_classes, dtype=right.dtype).index_add_(0, targets, right)
    return hits[counts > 0] / counts[counts > 0]


def _by_group(right: Tensor, targets: Tensor, groups: Mapping[str, Sequence[int]]) -> dict[str, float]:
    chosen = {name: right[torch.isin(targets, torch.tensor(list(classes)))] for name, classes in groups.items()}
    return {name: 100 * hits.mean().item() for name, hits in chosen.items() if len(hits)}


def calibration_error(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> float:
    """The expected calibration error: |accuracy - confidence| of equal bins, averaged by their share of the samples."""
    table = reliability(probabilities, targets, bins)
    return sum(abs(right - sure) for right, sure in zip(table["correct"], table["confidence"], strict=True)) / len(
        targets
    )


def reliability(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> dict[str, list[float]]:
    """For equal bins of confidence: how many samples, the sum of their confidences, how many of them are right."""
    confidence, predicted = probabilities.double().max(1)
    index = (confidence * bins).ceil().long().clamp(1, bins) - 1

    def total(values: Tensor) -> list[float]:
        sums: list[float] = torch.zeros(bins, dtype=torch.float64).index_add_(0, index, values.double()).tolist()
        return sums

    return {
        "count": total(torch.ones_like(confidence)),
        "confidence": total(confidence),
        "correct": total(predicted == targets),
    }
