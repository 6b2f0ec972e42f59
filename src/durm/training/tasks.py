"""The task of a model, classification or segmentation: how its batches are made, and what is measured of it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from durm._ranks import rank, size, tensors_of_all
from durm.data.bundle import DataBundle, Samples
from durm.data.segmentation_augment import SceneAugmentation
from durm.errors import InputError
from durm.heads import full_logits
from durm.metrics import measure
from durm.metrics.classification import predictions_of
from durm.training.loaders import Batches, SegmentationLoader, TrainLoader, raw_batches
from durm.training.segmentation import evaluate_scenes
from durm.training.trial import Trial

EVALUATION_BATCH = 256
EVALUATION_LOGITS = 2**25
"""The most logits of a batch: 128 MB in single precision. Heads of up to 131,072 logits have whole batches."""
SCENE_AUGMENTATIONS = ("none", "flip", "scene", "scene-jitter")


@dataclass(frozen=True)
class Scores:
    """What is measured on samples; the fields are those of `durm.training.result.Result`.

    `outcomes` has what became of each sample: see `durm.metrics.outcomes`; of scenes, confusion counts.
    """

    metrics: dict[str, float]
    reliability: dict[str, list[float]]
    classes: dict[str, list[float | None]] = field(default_factory=dict)
    confusion: list[list[int]] = field(default_factory=list)
    outcomes: dict[str, np.ndarray] = field(default_factory=dict)


class Task(ABC):
    """`metric` is the one by which the best weights are chosen; `train_samples` of the training set are evaluated."""

    metric: ClassVar[str]
    train_samples: ClassVar[int]
    loader_kind: ClassVar[type[Batches[Any]]]

    def __init__(self, trial: Trial, bundle: DataBundle, device: torch.device, num_workers: int = 0) -> None:
        self.trial, self.bundle, self.device, self.num_workers = trial, bundle, device, num_workers
        self.memory_format = torch.channels_last if trial.train.channels_last else torch.preserve_format

    def loader(self, rank: int = 0, ranks: int = 1) -> Batches[Any]:
        """The training batches; of each, the part of this rank."""
        bundle, size, seed = self.bundle, self.trial.train.batch_size, self.trial.seed
        return self.loader_kind(
            bundle.train, bundle.input, self.augmentation, size, seed, rank, ranks, self.num_workers
        )

    @property
    @abstractmethod
    def augmentation(self) -> Any:
        """That of the trial, or what suits the data."""

    @abstractmethod
    def scores(self, model: nn.Module, samples: Samples) -> Scores:
        """The model is left in eval mode."""


def make_task(trial: Trial, bundle: DataBundle, device: torch.device, num_workers: int = 0) -> Task:
    check_recipe(trial, bundle)
    return TASKS[bundle.task](trial, bundle, device, num_workers)


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
    for name, sides in (("crop", trial.train.crop), ("window", trial.window)):
        if sides is not None:
            raise InputError(f"{name} {sides[0]},{sides[1]} is for images with masks, and {data} have none")
    if augment not in (None, "none") and len(shape) != 3:
        raise InputError(f"augment {augment!r} takes images, and the samples have shape {shape}")


class Classification(Task):
    """One label for each sample."""

    metric = "accuracy"
    train_samples = 10_000
    loader_kind = TrainLoader

    @property
    def augmentation(self) -> str:
        return self.trial.train.augment or self.bundle.augment

    @torch.no_grad()
    def scores(self, model: nn.Module, samples: Samples) -> Scores:
        model.eval()
        predictions = predictions_of(
            lambda: self.logits(model, samples), samples.labels, self.bundle.num_classes, self.bundle.groups
        )
        return Scores(
            metrics=measure("classification", predictions),
            reliability=predictions.reliability,
            classes={"accuracy": predictions.class_accuracies},
            outcomes={name: _compact(name, values) for name, values in predictions.outcomes.items()},
        )

    def logits(self, model: nn.Module, samples: Samples) -> Iterator[Tensor]:
        """All logits, (n, C + C_d), batch by batch. Several processes share the batches, and each gets all logits."""
        width = self.bundle.num_classes + self.trial.dummies
        most = max(1, min(EVALUATION_BATCH, EVALUATION_LOGITS // width))
        order = torch.arange(len(samples)).split(most)
        own = [order[min(place + rank(), len(order) - 1)] for place in range(0, len(order), size())]  # as many for all
        batches = map(self.bundle.input.normalise, raw_batches(samples.inputs, own, self.num_workers))
        with full_logits(model):
            for turn, batch in enumerate(batches):
                logits = model(batch.to(self.device, memory_format=self.memory_format)).float()
                if size() == 1:
                    yield logits.cpu()
                    continue
                rows = logits.new_zeros(most, width)
                rows[: len(logits)] = logits
                for indices, part in zip(order[turn * size() :], tensors_of_all(rows), strict=False):
                    yield part[: len(indices)].cpu()


def _compact(name: str, values: torch.Tensor) -> np.ndarray:
    """As it is kept: `correct` in bytes, the rest in single precision."""
    return values.numpy().astype(np.uint8 if name == "correct" else np.float32)


class Segmentation(Task):
    """One label for each pixel."""

    metric = "miou"
    train_samples = 200
    loader_kind = SegmentationLoader

    @property
    def crop(self) -> tuple[int, int]:
        """The size that the trial names, or that of the first training image."""
        _, height, width = self.bundle.input.shape
        return self.trial.train.crop or (height, width)

    @property
    def augmentation(self) -> SceneAugmentation:
        spec = self.trial.train
        kind = spec.augment or "scene"
        red, green, blue = (round(value) for value in self.bundle.input.mean.flatten().tolist())
        return SceneAugmentation(
            crop=self.crop,
            scales=spec.scales if kind.startswith("scene") else (1.0, 1.0),
            flip=kind != "none",
            jitter=kind == "scene-jitter",
            fill=(red, green, blue),
        )

    def scores(self, model: nn.Module, samples: Samples) -> Scores:
        sizes = {"window": self.trial.window, "stride": self.trial.window_stride}
        tally = evaluate_scenes(model, samples, self.bundle, self.device, memory_format=self.memory_format, **sizes)
        counts = torch.stack(tally.confusion_by_image).numpy().astype(np.int32)
        confusion = tally.confusion_all.tolist()
        return Scores(tally.metrics(), tally.reliability, tally.classes, confusion, {"confusion": counts})


TASKS: dict[str, type[Task]] = {"classification": Classification, "segmentation": Segmentation}
