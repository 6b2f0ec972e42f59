"""Metrics of semantic segmentation, pixel by pixel: IoU, accuracy, calibration, and what the dummies take.

A widened model gives C + C_d logits for every pixel. Its prediction is always the largest of the C *real* ones, so that
every labelled pixel has a class; what the dummies take is counted apart. Pixels of the mask value `IGNORED` count for
nothing.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durm._checks import whole_number
from durm._text import metric_name
from durm.metrics.classification import BINS, RELIABILITY, reliability_sums
from durm.metrics.metric import PERCENT, Compute, Family, Metric, family, measure, metric
from durm.metrics.ranking import Ranking
from durm.scores import dummy_hits, dummy_mass

IGNORED = 255
"""The mask value of pixels that do not count."""
PIXELS_TALLIED = 2**16
"""So many fit into the cache of a processor with all that is computed from them."""


class Tally:
    """Counts over pixels, image after image. Nothing is kept of a single pixel, so there may be billions.

    Args:
        num_classes: C.
        dummies: C_d.
        class_names: as metrics are called after them; numbers unless they are given.

    Attributes:
        pixels, ignored: how many are labelled, and how many are not.
        confusion: (C, C) counts; rows are the true classes, columns the predicted ones.
        confusion_by_image: the same of each image.
        confusion_all: (C, C + C_d) counts of which of all logits is the largest. A tie counts for the real class.

    Examples:
        >>> tally = Tally(num_classes=2, dummies=1)
        >>> logits = torch.tensor([[4.0, 0.0, 1.0], [0.0, 4.0, 2.0], [0.0, 0.0, 3.0]])[:, None]
        >>> tally.add(logits, torch.tensor([[0, 1, 0]]))
        >>> tally.confusion.tolist()
        [[1, 1], [0, 1]]
        >>> tally.metrics()["miou"], tally.dummy_hits_by_class.tolist()
        (50.0, [[1], [0]])
    """

    def __init__(self, num_classes: int, dummies: int = 0, class_names: Sequence[str] | None = None) -> None:
        self.num_classes = whole_number("num_classes", num_classes, minimum=2)
        self.dummies = whole_number("dummies", dummies, minimum=0)
        self.class_names = list(class_names or map(str, range(num_classes)))
        if len(self.class_names) != num_classes:
            raise ValueError(f"there are {len(self.class_names)} class names for {num_classes} classes")
        self.confusion = torch.zeros(num_classes, num_classes, dtype=torch.long)
        self.confusion_all = torch.zeros(num_classes, num_classes + dummies, dtype=torch.long)
        self.confusion_by_image: list[Tensor] = []
        self.ignored = 0
        self.nll_sum, self.mass_sum, self.ignored_mass_sum, self.ignored_hits_sum = 0.0, 0.0, 0.0, 0
        self._reliability = {over: torch.zeros(len(RELIABILITY), BINS, dtype=torch.float64) for over in ("real", "all")}
        scores = ("dummy_mass", "entropy", "max_probability")
        self._rankings = {score: Ranking() for score in scores if dummies or score != "dummy_mass"}

    def add(self, logits: Tensor, mask: Tensor) -> None:
        """Counts the pixels of one image, or of a batch of images.

        Args:
            logits: all of them, (C + C_d, H, W) or (B, C + C_d, H, W).
            mask: the true classes, (H, W) or (B, H, W); `IGNORED` where there is none.
        """
        if logits.ndim == 4:
            for one, its_mask in zip(logits, mask, strict=True):
                self.add(one, its_mask)
            return
        expected = (self.num_classes + self.dummies, *mask.shape)
        if tuple(logits.shape) != expected:
            raise ValueError(f"logits of shape {tuple(logits.shape)}: expected {expected}, with the mask's size")
        before = self.confusion.clone()
        flat = logits.flatten(1)
        targets = mask.flatten().to(logits.device)
        for first in range(0, len(targets), PIXELS_TALLIED):
            part = slice(first, first + PIXELS_TALLIED)
            self._add(flat[:, part], targets[part].long())
        self.confusion_by_image.append(self.confusion - before)

    def _add(self, logits: Tensor, targets: Tensor) -> None:
        """Counts N pixels, from logits (C + C_d, N).

        With the largest real logit z_m and r = Σ_{c≠m} e^{z_c − z_m}, the probability of m is 1 / (1 + r), so that r
        keeps its precision where the model is nearly sure, and log r is the logit of 1 − p_m.
        """
        labelled = targets != IGNORED
        if not labelled.all():
            self._add_ignored(logits[:, ~labelled])
            logits, targets = logits[:, labelled], targets[labelled]
        if not len(targets):
            return
        if targets.max() >= self.num_classes or targets.min() < 0:
            bad = next(label for label in targets.unique().tolist() if not 0 <= label < self.num_classes)
            raise ValueError(
                f"the mask has class {bad}: expected 0 to {self.num_classes - 1}, or {IGNORED} where it is ignored"
            )
        logits = logits.float().contiguous()
        real, dummy = logits[: self.num_classes], logits[self.num_classes :]
        top, predicted = real.max(0)
        below = real - top
        others = below.exp().scatter_(0, predicted[None], 0.0)
        rest = others.sum(0)
        log_total = rest.log1p()  # of the real classes, above z_m
        entropy = log_total - (below * others).sum(0) / (1 + rest)
        wrong = (predicted != targets).cpu()
        chosen, sure_of_all = predicted, 1 / (1 + rest)
        if self.dummies:
            highest, which = dummy.max(0)
            chosen = torch.where(highest > top, self.num_classes + which, predicted)
            odds = dummy.logsumexp(0) - top - log_total  # the logit of p_D
            sure_of_all = sure_of_all * torch.sigmoid(-odds)
            self.mass_sum += _sum(torch.sigmoid(odds))
            self._rankings["dummy_mass"].add(odds.cpu(), wrong)
        self.confusion += _confusion(predicted, targets, self.num_classes)
        self.confusion_all += _confusion(chosen, targets, self.num_classes + self.dummies)[: self.num_classes]
        self.nll_sum += _sum(log_total - below.gather(0, targets[None])[0])
        self._rankings["max_probability"].add(rest.log().cpu(), wrong)
        most = math.log(self.num_classes)
        share = entropy.clamp_min(0).log() - (most - entropy).clamp_min(0).log()  # the logit of entropy / log C
        self._rankings["entropy"].add(share.cpu(), wrong)
        for over, confidence in (("real", 1 / (1 + rest)), ("all", sure_of_all)):
            self._reliability[over] += reliability_sums(confidence.cpu().double(), ~wrong)

    def _add_ignored(self, logits: Tensor) -> None:
        self.ignored += logits.shape[1]
        if self.dummies:
            self.ignored_mass_sum += _sum(dummy_mass(logits, self.num_classes, dim=0))
            self.ignored_hits_sum += int(dummy_hits(logits, self.num_classes, dim=0).sum())

    def metrics(self) -> dict[str, float]:
        """Every registered metric of segmentation.

        IoU_c = (pixels of c predicted as c) / (pixels that are c, or predicted as c, or both).
        """
        if not self.pixels:
            raise ValueError("there are no labelled pixels")
        return measure("segmentation", self)

    @property
    def pixels(self) -> int:
        return int(self.confusion.sum())

    @property
    def classes(self) -> dict[str, list[float | None]]:
        """`iou` and `accuracy` of each class, in percent; None for one that does not occur."""
        right, truth = self.confusion.diagonal().tolist(), self.confusion.sum(1).tolist()
        accuracy = [100 * hits / count if count else None for hits, count in zip(right, truth, strict=True)]
        return {"iou": _class_iou(self.confusion), "accuracy": accuracy}

    @property
    def dummy_hits_by_class(self) -> Tensor:
        """How many pixels of each class go to each dummy, (C, C_d)."""
        return self.confusion_all[:, self.num_classes :]

    @property
    def reliability(self) -> dict[str, list[float]]:
        """Over the real classes, as `durm.metrics.classification.Predictions` has it."""
        return dict(zip(RELIABILITY, self._reliability["real"].tolist(), strict=True))

    @property
    def auroc_errors(self) -> dict[str, float]:
        """By how many points each AUROC can be off because scores of one bin count as equal."""
        errors = {f"auroc_{name}": ranking.auroc_error() for name, ranking in self._rankings.items()}
        return {name: 100 * error for name, error in errors.items() if error is not None}

    def calibration_error(self, over: str) -> float:
        _, confidence, correct = self._reliability[over]
        return 100 * float((correct - confidence).abs().sum()) / self.pixels

    @property
    def aurocs(self) -> dict[str, float]:
        """How well each score separates wrong pixels from right ones, in percent; absent without both kinds."""
        found = {f"auroc_{name}": ranking.auroc() for name, ranking in self._rankings.items()}
        return {name: 100 * value for name, value in found.items() if value is not None}


def _confusion(predicted: Tensor, targets: Tensor, width: int) -> Tensor:
    """How many pixels of each class (row) are predicted as each (column)."""
    return torch.bincount(targets * width + predicted, minlength=width * width).view(width, width).cpu()


def _class_iou(confusion: Tensor) -> list[float | None]:
    """In percent, from (C, C or more) counts; what is in further columns is the prediction of no class."""
    square = confusion[:, : len(confusion)]
    right = square.diagonal()
    union = confusion.sum(1) + square.sum(0) - right
    return [100 * hits / count if count else None for hits, count in zip(right.tolist(), union.tolist(), strict=True)]


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)


def _sum(values: Tensor) -> float:
    return float(values.cpu().sum(dtype=torch.float64))


def _percentage(name: str, label: str, **settings: Any) -> Callable[[Compute], Compute]:
    return metric(name, label=label, unit=PERCENT, task="segmentation", **settings)


def _miou_of(confusion: np.ndarray) -> np.ndarray:
    """From counts (…, C, C): the mean over the classes that occur or are predicted."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    return _nan_mean(right, confusion.sum(-1) + confusion.sum(-2) - right)


def _macc_of(confusion: np.ndarray) -> np.ndarray:
    return _nan_mean(np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(-1))


def _nan_mean(right: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The mean of right/count in percent, without classes that have none."""
    shares = np.divide(right, count, out=np.zeros(right.shape), where=count > 0)
    return np.asarray(100 * shares.sum(-1) / (count > 0).sum(-1))


@_percentage("miou", "mean IoU", rope=0.1, of_confusion=_miou_of)
def miou(tally: Tally) -> float:
    """The mean IoU, over the classes that occur in the masks or are predicted.

    A class that is predicted and occurs nowhere has an IoU of 0.
    """
    return _mean(tally.classes["iou"])


@_percentage("macc", "mean class accuracy", rope=0.1, resolution="sample", of_confusion=_macc_of)
def macc(tally: Tally) -> float:
    """The mean of the accuracies of the classes that occur in the masks."""
    return _mean(tally.classes["accuracy"])


@_percentage("accuracy", "accuracy", rope=0.1, resolution="sample")
def accuracy(tally: Tally) -> float:
    """Of all labelled pixels."""
    return 100 * int(tally.confusion.diagonal().sum()) / tally.pixels


@_percentage("miou_with_dummies", "mean IoU with dummies", rope=0.1)
def miou_with_dummies(tally: Tally) -> float:
    """The mean IoU if a pixel whose largest logit of all is a dummy's counts as predicted wrongly.

    It stays among the pixels of its class, and is no class's prediction: what mmsegmentation computes of C + C_d logits
    and C classes.
    """
    return _mean(_class_iou(tally.confusion_all))


@metric("nll", label="real-class NLL", higher_is_better=False, rope=0.01, task="segmentation")
def nll(tally: Tally) -> float:
    """The mean cross-entropy over the real logits."""
    return tally.nll_sum / tally.pixels


@_percentage("ece", "calibration error", higher_is_better=False, rope=0.5)
def ece(tally: Tally) -> float:
    """Calibration error over the real classes."""
    return tally.calibration_error("real")


@_percentage("ece_all", "calibration error with dummies", higher_is_better=False, rope=0.5)
def ece_all(tally: Tally) -> float:
    """The same with the dummies in the normalisation."""
    return tally.calibration_error("all")


@_percentage("dummy_mass", "dummy mass", higher_is_better=False)
def mean_dummy_mass(tally: Tally) -> float:
    """The mean probability on the dummies."""
    return 100 * tally.mass_sum / tally.pixels


@_percentage("dummy_hits", "dummy hits", higher_is_better=False)
def share_of_dummy_hits(tally: Tally) -> float:
    """The share of labelled pixels whose largest logit is a dummy's."""
    return 100 * int(tally.dummy_hits_by_class.sum()) / tally.pixels


@_percentage("dummy_mass_ignored", "dummy mass of ignored pixels")
def ignored_dummy_mass(tally: Tally) -> float | None:
    """The same of the pixels that have no label, which dummies find according to the paper."""
    return 100 * tally.ignored_mass_sum / tally.ignored if tally.ignored else None


@_percentage("dummy_hits_ignored", "dummy hits of ignored pixels")
def ignored_dummy_hits(tally: Tally) -> float | None:
    return 100 * tally.ignored_hits_sum / tally.ignored if tally.ignored else None


def _by_name(prefix: str, key: str) -> Callable[[Tally], dict[str, float]]:
    """For each class that occurs."""

    def compute(tally: Tally) -> dict[str, float]:
        values = zip(tally.class_names, tally.classes[key], strict=True)
        return {f"{prefix}{metric_name(name)}": value for name, value in values if value is not None}

    return compute


def _of(prefix: str, label: str, rope: float | None) -> Callable[[str], Metric]:
    return lambda name: Metric(
        f"{prefix}{name}", f"{label} {name.replace('_', ' ')}", PERCENT, rope=rope, task="segmentation"
    )


family(Family("iou_", "segmentation", _of("iou_", "IoU of", 0.1), _by_name("iou_", "iou")))
family(Family("acc_", "segmentation", _of("acc_", "accuracy of", 0.1), _by_name("acc_", "accuracy")))
family(Family("auroc_", "segmentation", _of("auroc_", "AUROC of wrong pixels by", None), lambda tally: tally.aurocs))
