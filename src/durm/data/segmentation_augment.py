"""Scenes, images with masks that have a label for every pixel, augmented together.

What is done to a sample is a function of the seed, the epoch and its index, so arms and workers see the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from durm._random import generator
from durm.data.bundle import IGNORED, Samples
from durm.data.image_files import to_tensor
from durm.errors import InputError

CROPS = 11
"""How many crops are looked at for one that no class fills: the first and ten more, as in mmsegmentation."""

DRAWN = 7 + 2 * CROPS
"""Numbers drawn for a sample: scale, flip, five for the colours, top and left of each crop."""


@dataclass(frozen=True)
class SceneAugmentation:
    """Random scaling, cropping, flipping and colours, of an image and its mask alike.

    What is done to a sample is a function of its draw alone. The order, the padding at the right and at the bottom, and
    the colours (`_recoloured`) are those of mmsegmentation's pipelines.

    Attributes:
        crop: height and width of what comes out; None is all of the scaled scene.
        scales: the factor of both sides is uniform between these.
        flip: left and right are swapped for half of the samples.
        jitter: brightness, contrast, saturation and hue of the image are changed, each for half of the samples.
        cat_max_ratio: a crop of whose labelled pixels one class has this share or more is drawn again, up to ten times;
            1 takes the first.
        fill: the colour around images that are smaller than the crop, such as the mean; the mask is IGNORED there.
    """

    crop: tuple[int, int] | None
    scales: tuple[float, float] = (1.0, 1.0)
    flip: bool = False
    jitter: bool = False
    cat_max_ratio: float = 0.75
    fill: tuple[int, int, int] = (0, 0, 0)

    def __post_init__(self) -> None:
        if self.crop is not None and min(self.crop) < 1:
            raise InputError(f"crop {self.crop}: expected a height and a width of at least one pixel")
        if not 0 < self.scales[0] <= self.scales[1]:
            raise InputError(f"scales {self.scales}: expected two factors above 0, the smaller one first")

    def draws(self, samples: int, seed: int, epoch: int) -> Tensor:
        """For each sample of an epoch, numbers between 0 and 1; (samples, DRAWN) in float64."""
        return torch.rand((samples, DRAWN), generator=generator(seed, "augment", epoch), dtype=torch.float64)

    def apply(self, image: Tensor, mask: Tensor, draw: Tensor | Sequence[float]) -> tuple[Tensor, Tensor]:
        """Image (3, H, W) and mask (H, W), both uint8, under one row of `draws`: the same, of the size of the crop."""
        scale, flip, *rest = draw.tolist() if isinstance(draw, Tensor) else draw
        colours, places = rest[:5], list(zip(rest[5::2], rest[6::2], strict=True))
        labels, box = self._crop(mask, scale, places)
        rows, columns = labels.shape
        whole = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
        picture = whole.resize((columns, rows), Image.Resampling.BILINEAR, box)
        if self.flip and flip < 0.5:
            picture, labels = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT), labels.flip(1)
        if self.jitter:
            picture = _recoloured(picture, colours)
        return self._padded(to_tensor(picture), labels)

    def _crop(
        self, mask: Tensor, scale: float, places: Sequence[tuple[float, float]]
    ) -> tuple[Tensor, tuple[float, float, float, float]]:
        """The chosen crop of the scaled mask, and the box (left, top, right, bottom) that it is of the scene as it was.

        Pillow scales that box alone, to the same pixels as a crop of the scaled scene would have, for less work.
        """
        height, width = mask.shape
        low, high = self.scales
        factor = low + (high - low) * scale
        tall, wide = (max(1, int(side * factor + 0.5)) for side in (height, width))
        rows, columns = (tall, wide) if self.crop is None else (min(self.crop[0], tall), min(self.crop[1], wide))
        for down, right in places:
            top, left = int(down * (tall - rows + 1)), int(right * (wide - columns + 1))
            crop = mask[_nearest(top, rows, tall, height)][:, _nearest(left, columns, wide, width)]
            if self.cat_max_ratio >= 1 or _is_varied(crop, self.cat_max_ratio):
                break
        bottom, end = min(height, (top + rows) * height / tall), min(width, (left + columns) * width / wide)
        return crop, (left * width / wide, top * height / tall, end, bottom)

    def _padded(self, image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        rows, columns = mask.shape
        if self.crop is None or self.crop == (rows, columns):
            return image, mask
        colour = torch.tensor(self.fill, dtype=torch.uint8).view(3, 1, 1)
        wide_image, wide_mask = colour.repeat(1, *self.crop), torch.full(self.crop, IGNORED, dtype=torch.uint8)
        wide_image[:, :rows, :columns], wide_mask[:rows, :columns] = image, mask
        return wide_image, wide_mask


def _nearest(start: int, count: int, scaled: int, length: int) -> Tensor:
    """Which pixels of a side of `length`, scaled to `scaled`, lie under the `count` from `start` on."""
    return (2 * torch.arange(start, start + count) + 1) * length // (2 * scaled)


def _is_varied(mask: Tensor, most: float) -> bool:
    """Whether there are two classes or more, and each has a smaller share of the labelled pixels than `most`."""
    counts = torch.bincount(mask.flatten(), minlength=256)[:IGNORED]
    largest, labelled = int(counts.max()), int(counts.sum())
    return 0 < largest < labelled and largest < most * labelled


def _recoloured(picture: Image.Image, numbers: Sequence[float]) -> Image.Image:
    """Brightness, contrast, saturation and hue as in mmsegmentation's PhotoMetricDistortion.

    ±32 added to all channels, all multiplied by 0.5 to 1.5 (before or after the next two), saturation multiplied by 0.5
    to 1.5, hue turned by up to a tenth of the circle. Of the five numbers the first tells when contrast comes; each of
    the others leaves its property alone below 0.5, and above it says by how much it is changed.
    """
    contrast_last, *chances = numbers
    brightness, contrast, saturation, hue = (None if each < 0.5 else 4 * each - 3 for each in chances)  # -1 to 1

    def contrasted(picture: Image.Image) -> Image.Image:
        return picture if contrast is None else picture.point(_curve(1 + contrast / 2) * 3)

    if brightness is not None:
        picture = picture.point(_curve(1, 32 * brightness) * 3)
    if contrast_last < 0.5:
        picture = contrasted(picture)
    if saturation is not None or hue is not None:
        hues, saturations, values = picture.convert("HSV").split()
        if saturation is not None:
            saturations = saturations.point(_curve(1 + saturation / 2))
        if hue is not None:
            hues = hues.point([(value + round(25.6 * hue)) % 256 for value in range(256)])
        picture = Image.merge("HSV", (hues, saturations, values)).convert("RGB")
    return picture if contrast_last < 0.5 else contrasted(picture)


def _curve(factor: float, offset: float = 0) -> list[int]:
    """What becomes of each byte that is multiplied and added to."""
    return [min(255, max(0, round(value * factor + offset))) for value in range(256)]


class AugmentedScenes(Dataset[tuple[Tensor, Tensor]]):
    """Image and mask of the sample `index` under `draw`, for pairs (index, draw); without augmentation as they are."""

    def __init__(self, samples: Samples, augmentation: SceneAugmentation | None) -> None:
        self._samples, self._augmentation = samples, augmentation

    def __getitem__(self, item: tuple[int, Sequence[float]]) -> tuple[Tensor, Tensor]:
        index, draw = item
        assert self._samples.masks is not None
        image, mask = self._samples.inputs[index], self._samples.masks[index]
        return (image, mask) if self._augmentation is None else self._augmentation.apply(image, mask, draw)


def scene_batches(
    samples: Samples,
    augmentation: SceneAugmentation | None,
    order: Sequence[Tensor],
    draws: Sequence[Tensor],
    num_workers: int = 0,
) -> "DataLoader[tuple[Tensor, Tensor]]":
    """Batches of raw images (B, 3, h, w) and masks (B, h, w), both uint8, whatever the number of workers.

    `order` has the indices of each batch, and `draws` a draw for each of its samples, (B, DRAWN). Without augmentation
    the scenes of a batch must be of one size.
    """
    batches = [list(zip(each.tolist(), drawn.tolist(), strict=True)) for each, drawn in zip(order, draws, strict=True)]
    scenes = AugmentedScenes(samples, augmentation)
    # The generator is given, because a DataLoader otherwise draws from the global one.
    return DataLoader(scenes, batch_sampler=batches, num_workers=num_workers, generator=generator(0, "loader"))
