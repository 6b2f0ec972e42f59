"""Metrics of a classifier from its C + C_d logits: accuracy, likelihood, calibration, and what the dummies take."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from durm.metrics.metric import PERCENT, Family, Metric, family, metric
from durm.metrics.outcomes import OUTCOMES, reduce_logits

BINS = 15
SOFTNESS = 0.1
"""Of `soft_accuracy`, in logits."""
RELIABILITY = ("count", "confidence", "correct")


@dataclass(frozen=True)
class Predictions:
    """What a classifier says about N samples: a few numbers of each, and its logits only if a metric asks for them.

    Attributes:
        samples: what became of each sample, (N,) by name: the columns of `durm.metrics.outcomes.sample_columns`.
        targets: the true classes, (N,).
        num_classes: C.
        groups: names of groups of classes, such as the tail of a long-tailed set.
        compute_logits: gives all logits, (N, C + C_d).
    """

    samples: Mapping[str, Tensor]
    targets: Tensor
    num_classes: int
    groups: Mapping[str, Sequence[int]]
    compute_logits: Callable[[], Tensor] = field(repr=False)

    @cached_property
    def logits(self) -> Tensor:
        """All of them, (N, C + C_d): they take that much memory, and in a trial one more pass over the samples."""
        return self.compute_logits()

    @property
    def real(self) -> Tensor:
        """The logits of the real classes, (N, C)."""
        return self.logits[:, : self.num_classes]

    @property
    def right(self) -> Tensor:
        """1 where the largest *real* logit is that of the true class, else 0; (N,)."""
        return self.samples["correct"]

    @property
    def outcomes(self) -> dict[str, Tensor]:
        """What a trial keeps of its test samples."""
        return {name: self.samples[name] for name in OUTCOMES}

    @cached_property
    def reliability(self) -> dict[str, list[float]]:
        """The rows of `RELIABILITY` over the bins of confidence, of the real classes."""
        return _reliability(self.samples["confidence"], self.samples["hit"])

    @property
    def class_accuracies(self) -> list[float | None]:
        """The accuracy of each class, in percent; None for one without samples."""
        found = iter((100 * _by_class(self.right, self.targets, self.num_classes)).tolist())
        counts = torch.bincount(self.targets, minlength=self.num_classes).tolist()
        return [next(found) if count else None for count in counts]


def predictions_of(
    batches: Callable[[], Iterable[Tensor]],
    targets: Tensor,
    num_classes: int,
    groups: Mapping[str, Sequence[int]] | None = None,
) -> Predictions:
    """Those of a classifier whose logits, (n, C + C_d) a batch, `batches` gives from the first sample to the last.

    It takes O(N) memory, besides a batch. `batches` is called once more if a metric asks for `logits`.
    """
    samples = reduce_logits(batches(), targets, num_classes)
    return Predictions(samples, targets, num_classes, groups or {}, lambda: torch.cat(list(batches())))


@metric(
    "accuracy",
    label="accuracy",
    unit=PERCENT,
    rope=0.1,
    resolution="sample",
    per_sample=lambda outcomes: 100.0 * outcomes["correct"],
)
def accuracy(predictions: Predictions) -> float:
    """Of the largest *real* logit, in percent."""
    return 100 * predictions.right.mean().item()


@metric("balanced_accuracy", label="balanced accuracy", unit=PERCENT, rope=0.1, resolution="sample")
def balanced_accuracy(predictions: Predictions) -> float:
    """The mean of the accuracies of the classes that have samples, in percent."""
    return 100 * _by_class(predictions.right, predictions.targets, predictions.num_classes).mean().item()


def _group_accuracies(predictions: Predictions) -> dict[str, float]:
    right, targets = predictions.right, predictions.targets
    chosen = {
        name: right[torch.isin(targets, torch.tensor(list(classes)))] for name, classes in predictions.groups.items()
    }
    return {f"accuracy_{name}": 100 * hits.mean().item() for name, hits in chosen.items() if len(hits)}


family(
    Family(
        "accuracy_",
        "classification",
        lambda name: Metric(f"accuracy_{name}", f"accuracy of {name} classes", PERCENT, True, 0.1, "sample"),
        _group_accuracies,
    )
)


@metric(
    "nll",
    label="real-class NLL",
    higher_is_better=False,
    rope=0.01,
    per_sample=lambda outcomes: -outcomes["log_p"],
)
def nll(predictions: Predictions) -> float:
    """The mean cross-entropy over the real logits, which is comparable between different C_d."""
    log_p = predictions.samples["log_p"]
    return F.nll_loss(log_p[:, None], torch.zeros_like(predictions.targets)).item()  # sums as cross_entropy does


@metric(
    "soft_accuracy",
    label="soft accuracy",
    unit=PERCENT,
    rope=0.1,
    per_sample=lambda outcomes: 50 * (1 + np.tanh(outcomes["margin"] / (2 * SOFTNESS))),
)
def soft_accuracy(predictions: Predictions) -> float:
    """The mean of σ(margin / 0.1), in percent; the margin is the right logit minus the largest other real one.

    It is the accuracy without its coin tosses: a sample on the border counts one half, however it falls.
    """
    return 100 * torch.sigmoid(predictions.samples["margin"] / SOFTNESS).mean().item()


@metric(
    "p_true",
    label="probability of the true class",
    unit=PERCENT,
    rope=0.1,
    per_sample=lambda outcomes: 100 * np.exp(outcomes["log_p"]),
)
def p_true(predictions: Predictions) -> float:
    """The mean probability of the true class among the real ones, in percent."""
    return 100 * predictions.samples["log_p"].exp().mean().item()


@metric(
    "brier",
    label="Brier score",
    higher_is_better=False,
    rope=0.001,
    per_sample=lambda outcomes: outcomes["brier"],
)
def brier(predictions: Predictions) -> float:
    """The mean of Σ_c (p_c − 1[c = y])² over the real classes."""
    return predictions.samples["brier"].mean().item()


@metric("ece", label="calibration error", unit=PERCENT, higher_is_better=False, rope=0.5)
def ece(predictions: Predictions) -> float:
    """The calibration error of the probabilities over the real classes, in percent."""
    return 100 * _calibration_error(predictions.reliability)


@metric("ece_all", label="calibration error with dummies", unit=PERCENT, higher_is_better=False, rope=0.5)
def ece_all(predictions: Predictions) -> float:
    """The same with the dummies in the normalisation."""
    return 100 * _calibration_error(_reliability(predictions.samples["confidence_all"], predictions.samples["hit_all"]))


@metric("dummy_mass", label="dummy mass", unit=PERCENT, higher_is_better=False)
def mean_dummy_mass(predictions: Predictions) -> float:
    """The mean probability on the dummies, in percent."""
    return 100 * torch.sigmoid(predictions.samples["dummy_log_odds"]).double().mean().item()


@metric("dummy_hits", label="dummy hits", unit=PERCENT, higher_is_better=False)
def share_of_dummy_hits(predictions: Predictions) -> float:
    """The share of samples whose largest logit is a dummy, in percent."""
    return 100 * predictions.samples["dummy_hit"].double().mean().item()


def _by_class(right: Tensor, targets: Tensor, num_classes: int) -> Tensor:
    """The accuracy of each class that has samples."""
    counts = torch.bincount(targets, minlength=num_classes)
    hits = torch.zeros(num_classes, dtype=right.dtype).index_add_(0, targets, right)
    return hits[counts > 0] / counts[counts > 0]


def _calibration_error(table: Mapping[str, Sequence[float]]) -> float:
    """The expected calibration error: |accuracy - confidence| of equal bins, averaged by their share of the samples."""
    gaps = (abs(right - sure) for right, sure in zip(table["correct"], table["confidence"], strict=True))
    return sum(gaps) / sum(table["count"])


def _reliability(confidence: Tensor, right: Tensor) -> dict[str, list[float]]:
    """For equal bins of confidence: how many samples, the sum of their confidences, how many of them are right."""
    sums = reliability_sums(confidence.double(), right)
    return dict(zip(RELIABILITY, sums.tolist(), strict=True))


def reliability_sums(confidence: Tensor, right: Tensor) -> Tensor:
    """The rows of `RELIABILITY`, (3, BINS), of N samples."""
    index = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
    rows = (torch.ones_like(confidence), confidence, right.double())
    return torch.stack([torch.bincount(index, values, minlength=BINS) for values in rows])
