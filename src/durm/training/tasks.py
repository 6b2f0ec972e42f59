"""What a model is trained to tell: how its batches are made, and what is measured of it."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from durm.data.bundle import DataBundle, Samples
from durm.evaluation.classification import class_accuracies, classification_metrics, reliability
from durm.heads import full_logits
from durm.scores import probabilities
from durm.training.feeding import Feed, evaluation_batches
from durm.training.trial import Trial

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Scores:
    """What is measured on samples.

    Attributes:
        metrics: by name.
        reliability: see `durm.evaluation.classification.reliability`.
        classes: by name, a value for each class; None where a class has no samples.
    """

    metrics: dict[str, float]
    reliability: dict[str, list[float]]
    classes: dict[str, list[float | None]] = field(default_factory=dict)


class Task(Protocol):
    """`metric` is the one by which the best weights are chosen; `train_samples` of the training set are evaluated."""

    metric: str
    train_samples: int

    def feed(self, rank: int = 0, ranks: int = 1, num_workers: int = 0) -> Feed:
        """The training batches; of each, the part of this rank."""

    def scores(self, model: nn.Module, samples: Samples) -> Scores:
        """The model is left in eval mode."""


def make_task(trial: Trial, bundle: DataBundle, device: torch.device) -> Task:
    return Classification(trial, bundle, device)


class Classification:
    """One label for each sample."""

    metric = "accuracy"
    train_samples = 10_000

    def __init__(self, trial: Trial, bundle: DataBundle, device: torch.device) -> None:
        self.trial, self.bundle, self.device = trial, bundle, device
        self.memory_format = torch.channels_last if trial.train.channels_last else torch.preserve_format

    def feed(self, rank: int = 0, ranks: int = 1, num_workers: int = 0) -> Feed:
        spec, bundle = self.trial.train, self.bundle
        augment = spec.augment or bundle.augment
        return Feed(
            bundle.train, bundle.input, augment, spec.batch_size, self.trial.seed, rank, ranks, num_workers
        )  # fmt: skip

    def scores(self, model: nn.Module, samples: Samples) -> Scores:
        logits, classes = self.predict(model, samples), self.bundle.num_classes
        return Scores(
            metrics=classification_metrics(logits, samples.labels, classes, self.bundle.groups),
            reliability=reliability(probabilities(logits, classes), samples.labels),
            classes={"accuracy": class_accuracies(logits, samples.labels, classes)},
        )

    @torch.no_grad()
    def predict(self, model: nn.Module, samples: Samples) -> Tensor:
        """All C + C_d logits of the samples."""
        model.eval()
        with full_logits(model):
            batches = evaluation_batches(samples, self.bundle.input, EVALUATION_BATCH)
            on_device = (inputs.to(self.device, memory_format=self.memory_format) for inputs in batches)
            return torch.cat([model(inputs).float().cpu() for inputs in on_device])
