"""From images to the logits of their pixels, as a whole or through a window; what is measured, and what is written."""

import io
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from durm._files import atomic_write, make_folder
from durm.data.bundle import DataBundle, Samples
from durm.errors import InputError
from durm.heads import dummies, full_logits
from durm.metrics.segmentation import Tally

Size = tuple[int, int]
"""Height and width, in pixels."""
PIXELS_AT_ONCE = 2**18
"""Images of one size that follow each other go through the model together up to so many pixels."""


def evaluate_scenes(
    model: nn.Module,
    samples: Samples,
    bundle: DataBundle,
    device: torch.device,
    *,
    window: Size | None = None,
    stride: Size | None = None,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tally:
    """What is counted over all pixels of the samples. `window` and `stride` are those of `segment`."""
    tally = Tally(bundle.num_classes, dummies(model), bundle.class_names)
    for raw, masks in _batches(samples):
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
) -> list[Path]:
    """Writes what the model sees in each image as the servers of benchmarks want it: a grey PNG of class ids.

    Images are names and raw pixels, uint8 (3, H, W): `dict.items()`, or a generator that reads them from disk.
    Predictions are of their size, so servers want images that were not scaled. Each is written to `NAME.png` in the
    folder, without what its name has of folders and of an ending; `bundle.mask_ids` says which number each class has.
    """
    from PIL import Image

    make_folder(folder)
    ids = torch.tensor(list(bundle.mask_ids), dtype=torch.uint8)
    written: dict[Path, str] = {}
    for name, raw in images:
        path = folder / f"{Path(name).stem}.png"
        if path in written:
            raise InputError(f"{written[path]} and {name} would both be written to {path}")
        logits = segment(model, bundle.input.normalise(raw).to(device), window=window, stride=stride)
        file = io.BytesIO()
        Image.fromarray(ids[real_classes(logits, bundle.num_classes).cpu()].numpy()).save(file, "PNG")
        atomic_write(path, file.getvalue())
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
    tall, wide = window = window or (height, width)
    down, right = stride = stride or (max(1, 2 * tall // 3), max(1, 2 * wide // 3))
    if not (0 < down <= tall and 0 < right <= wide):
        raise ValueError(f"stride={stride}: expected at least 1 and at most the window of {window}")
    rows, columns = _parts(height, tall, down), _parts(width, wide, right)
    with full_logits(model):
        if len(rows) == len(columns) == 1:
            return _logits(model, images)
        total, seen = torch.zeros(()), torch.zeros(height, width, device=images.device)
        for row, column in product(rows, columns):
            logits = _logits(model, images[..., row, column]).float()
            if not total.ndim:
                total = logits.new_zeros(*logits.shape[:2], height, width)
            total[..., row, column] += logits
            seen[row, column] += 1
    return total.div_(seen)


def _parts(length: int, size: int, step: int) -> list[slice]:
    """Where the windows are along one side."""
    size = min(size, length)
    starts = [min(start, length - size) for start in range(0, length - size + step, step)]
    return [slice(start, start + size) for start in starts]


def _logits(model: nn.Module, images: Tensor) -> Tensor:
    logits: Tensor = model(images)
    given, size = tuple(logits.shape[-2:]), tuple(images.shape[-2:])
    if given != size:
        raise ValueError(f"the model gives logits of {given} pixels for an image of {size}")
    return logits


def _batches(samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
    """Raw images (B, 3, H, W) and masks (B, H, W): neighbours of one size together."""
    if samples.masks is None:
        raise ValueError("these samples have no masks, so there is nothing to compare a segmentation with")
    images: list[Tensor] = []
    masks: list[Tensor] = []
    for index in range(len(samples)):
        image = samples.inputs[index]
        fits = (len(images) + 1) * image[0].numel() <= PIXELS_AT_ONCE
        if images and not (fits and image.shape == images[0].shape):
            yield torch.stack(images), torch.stack(masks)
            images, masks = [], []
        images.append(image)
        masks.append(samples.masks[index])
    if images:
        yield torch.stack(images), torch.stack(masks)
