"""What a model is trained to tell: how its batches are made, and what is measured of it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from durm.data.bundle import DataBundle, Samples
from durm.data.scenes import SceneAugmentation
from durm.errors import InputError
from durm.evaluation.classification import class_accuracies, classification_metrics, reliability
from durm.heads import full_logits
from durm.scores import probabilities
from durm.training.feeding import Batches, Feed, SceneFeed, evaluation_batches
from durm.training.trial import Trial

EVALUATION_BATCH = 256
SCENE_AUGMENTATIONS = ("none", "flip", "scene", "scene-jitter")


@dataclass(frozen=True)
class Scores:
    """What is measured on samples.

    Attributes:
        metrics: by name.
        reliability: see `durm.evaluation.classification.reliability`.
        classes: by name, a value for each class; None where a class has no samples.
        confusion: of segmentation, for each class (row) how many of its pixels have each of the C + C_d logits as their
            largest.
    """

    metrics: dict[str, float]
    reliability: dict[str, list[float]]
    classes: dict[str, list[float | None]] = field(default_factory=dict)
    confusion: list[list[int]] = field(default_factory=list)


class Task(ABC):
    """`metric` is the one by which the best weights are chosen; `train_samples` of the training set are evaluated."""

    metric: ClassVar[str]
    train_samples: ClassVar[int]

    def __init__(self, trial: Trial, bundle: DataBundle, device: torch.device) -> None:
        self.trial, self.bundle, self.device = trial, bundle, device
        self.memory_format = torch.channels_last if trial.train.channels_last else torch.preserve_format

    @abstractmethod
    def feed(self, rank: int = 0, ranks: int = 1, num_workers: int = 0) -> Batches[Any]:
        """The training batches; of each, the part of this rank."""

    @abstractmethod
    def scores(self, model: nn.Module, samples: Samples) -> Scores:
        """The model is left in eval mode."""


def make_task(trial: Trial, bundle: DataBundle, device: torch.device) -> Task:
    check_recipe(trial, bundle)
    return TASKS[bundle.task](trial, bundle, device)


def check_recipe(trial: Trial, bundle: DataBundle) -> None:
    """Raises an `InputError` for crops, windows, augmentations and attacks that the data cannot have."""
    augment, shape, data = trial.train.augment, bundle.input.shape, f"data {trial.data!r}"
    if bundle.task == "segmentation":
        if augment is not None and augment not in SCENE_AUGMENTATIONS:
            known = ", ".join(map(repr, SCENE_AUGMENTATIONS))
            raise InputError(f"augment {augment!r} is for images with one label; for {data} expected one of {known}")
        if trial.attacks:
            raise InputError(f"attacks are on classifiers, and {data} have a label for each pixel")
        return
    if augment in ("scene", "scene-jitter"):
        raise InputError(f"augment {augment!r} is for images with masks, and {data} have none")
    for name, size in (("crop", trial.train.crop), ("window", trial.window)):
        if size is not None:
            raise InputError(f"{name} {size[0]},{size[1]} is for images with masks, and {data} have none")
    if augment not in (None, "none") and len(shape) != 3:
        raise InputError(f"augment {augment!r} takes images, and the samples have shape {shape}")


class Classification(Task):
    """One label for each sample."""

    metric = "accuracy"
    train_samples = 10_000

    def feed(self, rank: int = 0, ranks: int = 1, num_workers: int = 0) -> Feed:
        spec, bundle = self.trial.train, self.bundle
        augment = spec.augment or bundle.augment
        return Feed(bundle.train, bundle.input, augment, spec.batch_size, self.trial.seed, rank, ranks, num_workers)

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


class Segmentation(Task):
    """One label for each pixel."""

    metric = "miou"
    train_samples = 200

    def feed(self, rank: int = 0, ranks: int = 1, num_workers: int = 0) -> SceneFeed:
        spec, bundle = self.trial.train, self.bundle
        return SceneFeed(
            bundle.train, bundle.input, self.augmentation, spec.batch_size, self.trial.seed, rank, ranks, num_workers
        )

    @property
    def crop(self) -> tuple[int, int]:
        """The size that the trial names, or that of the first training image."""
        _, height, width = self.bundle.input.shape
        return self.trial.train.crop or (height, width)

    @property
    def augmentation(self) -> SceneAugmentation:
        spec, format = self.trial.train, self.bundle.input
        kind = spec.augment or "scene"
        scaled = kind in ("scene", "scene-jitter")
        red, green, blue = (round(value) for value in format.mean.flatten().tolist())
        return SceneAugmentation(
            crop=self.crop,
            scales=spec.scales if scaled else (1.0, 1.0),
            flip=kind != "none",
            jitter=kind == "scene-jitter",
            fill=(red, green, blue),
        )

    def scores(self, model: nn.Module, samples: Samples) -> Scores:
        from durm.evaluation.segmentation import evaluate_scenes

        tally = evaluate_scenes(
            model, samples, self.bundle, self.device,
            window=self.trial.window, stride=self.trial.window_stride, memory_format=self.memory_format,
        )  # fmt: skip
        return Scores(tally.metrics(), tally.reliability, tally.classes, tally.confusion_all.tolist())


TASKS: dict[str, type[Task]] = {"classification": Classification, "segmentation": Segmentation}
