"""How good a model of semantic segmentation is: IoU, accuracy, calibration, and what the dummies take, pixel by pixel.

A widened model gives C + C_d logits for every pixel. Its prediction is always the largest of the C *real* ones, so that
every labelled pixel has a class; what the dummies take is counted beside it. Pixels of the mask value `IGNORED` count
for nothing.
"""

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from durm._checks import whole_number
from durm._files import make_folder, write_whole
from durm._words import metric_name
from durm.data.bundle import IGNORED, DataBundle, Samples
from durm.errors import InputError
from durm.evaluation.classification import reliability
from durm.evaluation.ranking import Ranking
from durm.heads import dummies, full_logits
from durm.scores import dummy_hits, dummy_mass

Size = tuple[int, int]
"""Height and width, in pixels."""
PIXELS_AT_ONCE = 2**18
"""Images of one size that follow each other go through the model together up to so many pixels."""
PIXELS_TALLIED = 2**16
"""So many fit into the cache of a processor with all that is computed from them."""


def evaluate_scenes(
    model: nn.Module,
    samples: Samples,
    bundle: DataBundle,
    device: torch.device,
    *,
    window: Size | None = None,
    stride: Size | None = None,
    memory_format: torch.memory_format = torch.preserve_format,
    limit: int | None = None,
) -> "Tally":
    """What is counted over all pixels of the samples, or of `limit` of them that are spread evenly over all.

    The model is left in eval mode. `window` and `stride` are those of `segment`.
    """
    tally = Tally(bundle.num_classes, dummies(model), bundle.class_names)
    for raw, masks in _batches(samples, limit):
        images = bundle.input.normalise(raw).to(device, memory_format=memory_format)
        tally.add(_segment_batch(model, images, window, stride), masks)
    return tally


def write_predictions(
    model: nn.Module,
    images: Iterable[tuple[str, Tensor]],
    bundle: DataBundle,
    folder: Path,
    device: torch.device,
    *,
    window: Size | None = None,
    stride: Size | None = None,
    memory_format: torch.memory_format = torch.preserve_format,
) -> list[Path]:
    """Writes what the model sees in each image as the servers of benchmarks want it: a grey PNG of class ids.

    Args:
        model: is left in eval mode.
        images: names and raw pixels, uint8 (3, H, W), one after the other: `dict.items()`, or a generator that reads
            them from disk. Predictions are of their size, so servers want images that were not scaled.
        bundle: says how raw pixels are normalised, and by `mask_ids` which number each class has in files.
        folder: where `NAME.png` is written for each name, without what the name has of folders and of an ending.
        device: the model's.
        window: of `segment`, like `stride`.
        stride: see there.
        memory_format: of the images.

    Returns:
        The files, in the order of the images.
    """
    make_folder(folder)
    ids = torch.tensor(list(bundle.mask_ids), dtype=torch.uint8)
    written: dict[Path, str] = {}
    for name, raw in images:
        path = folder / f"{Path(name).stem}.png"
        if path in written:
            raise InputError(f"{written[path]} and {name} would both be written to {path}")
        image = bundle.input.normalise(raw)[None].to(device, memory_format=memory_format)
        logits = _segment_batch(model, image, window, stride)[0]
        write_whole(path, _png(ids[real_classes(logits, bundle.num_classes).cpu()]))
        written[path] = name
    return list(written)


def segment(model: nn.Module, image: Tensor, *, window: Size | None = None, stride: Size | None = None) -> Tensor:
    """All C + C_d logits of one image.

    Through a window, the image is seen in parts of that size, each moved by `stride` from the one before, the last ones
    moved back so that they end where the image does; where parts overlap, their logits are averaged. It is how
    mmsegmentation does it, and what models want that were trained on crops.

    Args:
        model: gives (B, C + C_d, h, w) for (B, 3, h, w). It is left in eval mode.
        image: normalised, (3, H, W), on the model's device.
        window: height and width of what is seen at once; None is the whole image. Where the image is smaller, it is
            taken as it is.
        stride: two thirds of the window unless it is given.

    Returns:
        Logits of shape (C + C_d, H, W).

    Examples:
        >>> segment(nn.Conv2d(3, 5, 1), torch.zeros(3, 40, 60), window=(32, 32)).shape
        torch.Size([5, 40, 60])
    """
    return _segment_batch(model, image[None], window, stride)[0]


def real_classes(logits: Tensor, num_classes: int) -> Tensor:
    """The prediction: which of the first C of (C + C_d, …) logits is the largest; (…)."""
    return logits[:num_classes].max(0).indices  # argmax takes three to six times as long on a CPU


@torch.no_grad()
def _segment_batch(model: nn.Module, images: Tensor, window: Size | None, stride: Size | None) -> Tensor:
    """(B, C + C_d, H, W) of images of one size."""
    model.eval()
    height, width = images.shape[-2:]
    tall, wide = window or (height, width)
    step_down, step_right = stride or (max(1, 2 * tall // 3), max(1, 2 * wide // 3))
    if not (0 < step_down <= tall and 0 < step_right <= wide):
        raise ValueError(
            f"stride={(step_down, step_right)}: expected at least 1 and at most the window of {(tall, wide)}"
        )
    rows, columns = _parts(height, tall, step_down), _parts(width, wide, step_right)
    with full_logits(model):
        if len(rows) == len(columns) == 1:
            return _of_size(model(images), (height, width))
        total, seen = None, torch.zeros(height, width, device=images.device)
        for row in rows:
            for column in columns:
                part = images[..., row, column]
                logits = _of_size(model(part), (part.shape[-2], part.shape[-1])).float()
                if total is None:
                    total = logits.new_zeros(len(images), logits.shape[1], height, width)
                total[..., row, column] += logits
                seen[row, column] += 1
    assert total is not None
    return total.div_(seen)


def _parts(length: int, size: int, step: int) -> list[slice]:
    """Where the windows are along one side."""
    size = min(size, length)
    starts = [min(start, length - size) for start in range(0, length - size + step, step)]
    return [slice(start, start + size) for start in starts]


def _of_size(logits: Tensor, size: Size) -> Tensor:
    if logits.shape[-2:] != size:
        raise ValueError(f"the model gives logits of {tuple(logits.shape[-2:])} pixels for an image of {size}")
    return logits


def _batches(samples: Samples, limit: int | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Raw images (B, 3, H, W) and masks (B, H, W): neighbours of one size together."""
    if samples.masks is None:
        raise ValueError("these samples have no masks, so there is nothing to compare a segmentation with")
    count = len(samples)
    chosen = range(count) if limit is None or limit >= count else [place * count // limit for place in range(limit)]
    images: list[Tensor] = []
    masks: list[Tensor] = []
    for index in chosen:
        image = samples.inputs[index]
        fits = (len(images) + 1) * image[0].numel() <= PIXELS_AT_ONCE
        if images and not (fits and image.shape == images[0].shape):
            yield torch.stack(images), torch.stack(masks)
            images, masks = [], []
        images.append(image)
        masks.append(samples.masks[index])
    if images:
        yield torch.stack(images), torch.stack(masks)


def _png(pixels: Tensor) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(file, "PNG")
    return file.getvalue()


class Tally:
    """Counts over pixels, image after image. Nothing is kept of a single pixel, so there may be billions.

    Args:
        num_classes: C.
        dummies: C_d.
        class_names: as metrics are called after them; numbers unless they are given.

    Attributes:
        pixels, ignored: how many are labelled, and how many are not.
        confusion: (C, C) counts; rows are the true classes, columns the predicted ones.
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
        self.ignored = 0
        self._nll, self._mass, self._ignored_mass, self._ignored_hits = 0.0, 0.0, 0.0, 0
        self._reliability: dict[str, dict[str, Tensor]] = {"real": {}, "all": {}}
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
        flat = logits.flatten(1)
        targets = mask.flatten().to(logits.device)
        for first in range(0, len(targets), PIXELS_TALLIED):
            part = slice(first, first + PIXELS_TALLIED)
            self._add(flat[:, part], targets[part].long())

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
            self._mass += _sum(torch.sigmoid(odds))
            self._rankings["dummy_mass"].add(odds.cpu(), wrong)
        self.confusion += _confusion(predicted, targets, self.num_classes)
        self.confusion_all += _confusion(chosen, targets, self.num_classes + self.dummies)[: self.num_classes]
        self._nll += _sum(log_total - below.gather(0, targets[None])[0])
        self._rankings["max_probability"].add(rest.log().cpu(), wrong)
        most = math.log(self.num_classes)
        share = entropy.clamp_min(0).log() - (most - entropy).clamp_min(0).log()  # the logit of entropy / log C
        self._rankings["entropy"].add(share.cpu(), wrong)
        self._add_reliability("real", 1 / (1 + rest), wrong)
        self._add_reliability("all", sure_of_all, wrong)

    def _add_ignored(self, logits: Tensor) -> None:
        self.ignored += logits.shape[1]
        if self.dummies:
            self._ignored_mass += _sum(dummy_mass(logits, self.num_classes, dim=0))
            self._ignored_hits += int(dummy_hits(logits, self.num_classes, dim=0).sum())

    def _add_reliability(self, over: str, confidence: Tensor, wrong: Tensor) -> None:
        """Of the predicted class alone, which is then class 0; for wrong pixels another one is the true one."""
        sums = self._reliability[over]
        for name, values in reliability(confidence.cpu()[:, None], wrong.long()).items():
            sums[name] = sums.get(name, 0) + torch.tensor(values, dtype=torch.float64)

    def metrics(self) -> dict[str, float]:
        """What the counts say.

        IoU_c = (pixels of c predicted as c) / (pixels that are c, or predicted as c, or both).

        Returns:
            miou: the mean IoU in percent, over the classes that occur in the masks or are predicted. A class that is
                predicted and occurs nowhere has an IoU of 0.
            macc: the mean of the accuracies of the classes that occur in the masks, in percent.
            accuracy: of all labelled pixels, in percent.
            miou_with_dummies: the mean IoU if a pixel whose largest logit of all is a dummy's counts as predicted
                wrongly: it stays among the pixels of its class, and is no class's prediction. It is what
                mmsegmentation computes of C + C_d logits and C classes.
            iou_NAME, acc_NAME: for each class that occurs.
            nll: the mean cross-entropy over the real logits.
            ece, ece_all: calibration error over the real classes, and with the dummies in the normalisation; percent.
            dummy_mass: the mean probability on the dummies, in percent.
            dummy_hits: the share of labelled pixels whose largest logit is a dummy's, in percent.
            dummy_mass_ignored, dummy_hits_ignored: the same of the pixels that have no label, which dummies find
                according to the paper. Absent where there are none.
            auroc_dummy_mass, auroc_entropy, auroc_max_probability: how well wrong pixels are told from right ones by
                p_D, by the entropy over the real classes, and by 1 − the largest probability of these, in percent; 50
                is chance. Absent where there are no wrong pixels, or no right ones, or no dummies.
        """
        pixels = self.pixels
        if not pixels:
            raise ValueError("there are no labelled pixels")
        found = {
            "miou": _mean(self.classes["iou"]),
            "macc": _mean(self.classes["accuracy"]),
            "accuracy": 100 * int(self.confusion.diagonal().sum()) / pixels,
            "miou_with_dummies": _mean(_class_iou(self.confusion_all)),
        }
        for key, values in (("iou", self.classes["iou"]), ("acc", self.classes["accuracy"])):
            for name, value in zip(self.class_names, values, strict=True):
                if value is not None:
                    found[f"{key}_{metric_name(name)}"] = value
        found |= {
            "nll": self._nll / pixels,
            "ece": self._calibration_error("real"),
            "ece_all": self._calibration_error("all"),
            "dummy_mass": 100 * self._mass / pixels,
            "dummy_hits": 100 * int(self.dummy_hits_by_class.sum()) / pixels,
        }
        if self.ignored:
            found["dummy_mass_ignored"] = 100 * self._ignored_mass / self.ignored
            found["dummy_hits_ignored"] = 100 * self._ignored_hits / self.ignored
        aurocs = {name: ranking.auroc() for name, ranking in self._rankings.items()}
        return found | {f"auroc_{name}": 100 * value for name, value in aurocs.items() if value is not None}

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
        """Over the real classes, as `durm.evaluation.classification.reliability` gives it."""
        return {name: values.tolist() for name, values in self._reliability["real"].items()}

    @property
    def auroc_errors(self) -> dict[str, float]:
        """By how many points each AUROC can be off because scores of one bin are not told apart."""
        errors = {f"auroc_{name}": ranking.auroc_error() for name, ranking in self._rankings.items()}
        return {name: 100 * error for name, error in errors.items() if error is not None}

    def _calibration_error(self, over: str) -> float:
        sums = self._reliability[over]
        return 100 * float((sums["correct"] - sums["confidence"]).abs().sum()) / self.pixels


def _confusion(predicted: Tensor, targets: Tensor, width: int) -> Tensor:
    from durm import _torchvision as _torchvision  # isort: skip
    from torchmetrics.functional.classification import multiclass_confusion_matrix  # seconds, so only when needed

    counts: Tensor = multiclass_confusion_matrix(predicted, targets, width, validate_args=False)  # they were checked
    return counts.cpu()


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
