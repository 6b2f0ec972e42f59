"""Eq. (2) of the paper in plain Python floats, written from the formula, one sample after the other."""

import math
from collections.abc import Sequence

Row = Sequence[float]


def log_normaliser(logits: Row) -> float:
    top = max(logits)
    return top + math.log(sum(math.exp(value - top) for value in logits))


def dummy_mass(logits: Row, classes: int) -> float:
    total = log_normaliser(logits)
    return sum(math.exp(value - total) for value in logits[classes:])


def soft_targets(label: int, classes: int, smoothing: float) -> list[float]:
    return [(1 - smoothing) * (c == label) + smoothing / classes for c in range(classes)]


def sample_loss(logits: Row, targets: Row, weights: Row) -> float:
    """-sum_c w_c t_c log p_c over the real classes, with p normalised over all logits."""
    total = log_normaliser(logits)
    return -sum(w * t * (z - total) for w, t, z in zip(weights, targets, logits, strict=False))


def index_loss(
    rows: Sequence[Row],
    labels: Sequence[int],
    classes: int,
    weights: Row | None,
    smoothing: float,
    ignore: int,
    reduction: str,
) -> float | list[float]:
    """As torch defines it for class indices: the mean is over the weights of the targets that count."""
    given = weights or [1.0] * classes
    losses, mass = [], 0.0
    for logits, label in zip(rows, labels, strict=True):
        if label == ignore:
            losses.append(0.0)
            continue
        losses.append(sample_loss(logits, soft_targets(label, classes, smoothing), given))
        mass += given[label]
    return _reduce(losses, mass, reduction)


def soft_loss(
    rows: Sequence[Row], targets: Sequence[Row], weights: Row | None, smoothing: float, reduction: str
) -> float | list[float]:
    """As torch defines it for probabilities: the mean is over the samples, whatever their weights."""
    classes = len(targets[0])
    given = weights or [1.0] * classes
    smoothed = [[(1 - smoothing) * t + smoothing / classes for t in target] for target in targets]
    losses = [sample_loss(logits, target, given) for logits, target in zip(rows, smoothed, strict=True)]
    return _reduce(losses, len(losses), reduction)


def _reduce(losses: list[float], mass: float, reduction: str) -> float | list[float]:
    if reduction == "none":
        return losses
    return sum(losses) / mass if reduction == "mean" else sum(losses)
