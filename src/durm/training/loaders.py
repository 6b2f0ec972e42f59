"""Batches in an order, and with augmentations, that are functions of the seed and the epoch.

Neither the number of workers nor a resumed run can change them: the order of an epoch is drawn from (seed, epoch), the
augmentation of sample i from (seed, epoch, i), or, where samples can recur, that of the i-th place in the epoch.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader

from durm._random import generator
from durm.data.bundle import IGNORED, InputFormat, LazyImages, MappedRows, Samples
from durm.data.segmentation_augment import SceneAugmentation, scene_batches
from durm.methods import NO_TARGET, Batch


def epoch_order(samples: int, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
    """The batches of an epoch as tensors of indices. An incomplete last batch is dropped, unless it is the only one."""
    batches = list(torch.randperm(samples, generator=generator(seed, "order", epoch)).split(batch_size))
    return batches[:-1] if len(batches) > 1 and len(batches[-1]) < batch_size else batches


def domain_order(domains: Tensor, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
    """The batches of an epoch as tensors of indices, each with `batch_size` samples of every domain, domain by domain.

    An epoch has as many samples as there are, so small domains come round more often than large ones, each time in a
    new order.
    """
    members = [(domains == domain).nonzero().flatten() for domain in range(int(domains.max()) + 1)]
    steps = max(1, len(domains) // (batch_size * len(members)))
    drawn = []
    for domain, own in enumerate(members):
        random = generator(seed, "order", epoch, domain)
        rounds = -(-steps * batch_size // len(own))
        order = torch.cat([torch.randperm(len(own), generator=random) for _ in range(rounds)])
        drawn.append(own[order[: steps * batch_size]].view(steps, batch_size))
    return list(torch.cat(drawn, 1))


@dataclass(frozen=True)
class Augmentation:
    """Random crops (after padding by an eighth of the side) and horizontal flips of a whole batch of images at once.

    RandAugment (two operations of magnitude 9) comes on top of them, image by image, from torchvision.
    """

    kind: str

    @property
    def crops(self) -> bool:
        return self.kind in ("crop-flip", "randaugment")

    def draws(self, samples: int, side: int, seed: int, epoch: int) -> Tensor | None:
        """For each sample of an epoch: the offsets of its crop, whether it is flipped, and a seed; of shape (N, 4)."""
        if self.kind == "none":
            return None
        random = generator(seed, "augment", epoch)
        reach = 2 * (side // 8) + 1 if self.crops else 1
        offsets = torch.randint(reach, (samples, 2), generator=random)
        flips = torch.randint(2, (samples, 1), generator=random)
        seeds = torch.randint(2**31, (samples, 1), generator=random)
        return torch.cat([offsets, flips, seeds], 1)

    def apply(self, images: Tensor, draws: Tensor) -> Tensor:
        """Images of shape (B, channels, height, width) under their draws, of shape (B, 4)."""
        cropped = self._crop_and_flip(images, draws)
        if self.kind != "randaugment":
            return cropped
        return torch.stack([_rand_augment(*each) for each in zip(cropped, draws[:, 3].tolist(), strict=True)])

    def _crop_and_flip(self, images: Tensor, draws: Tensor) -> Tensor:
        """A crop is a set of rows, each a run of memory, so one `index_select` over all runs of the batch does it. A
        flipped crop is taken from the flipped image, from the other side.
        """
        samples, channels, height, width = images.shape
        pad = width // 8 if self.crops else 0
        padded = F.pad(images, (pad, pad, pad, pad))
        both = torch.stack([padded, padded.flip(-1)])
        top, left, flip = (draw.view(-1, 1, 1) for draw in draws[:, :3].to(images.device).unbind(1))
        left = torch.where(flip == 1, 2 * pad - left, left)
        sample, channel, row = (
            torch.arange(count, device=images.device).view(shape)
            for count, shape in ((samples, (-1, 1, 1)), (channels, (-1, 1)), (height, (-1,)))
        )
        plane = (flip * samples + sample) * channels + channel
        starts = (plane * (height + 2 * pad) + top + row) * (width + 2 * pad) + left
        runs = both.flatten().unfold(0, width, 1)
        return runs.index_select(0, starts.flatten()).view(images.shape)


def _rand_augment(image: Tensor, seed: int) -> Tensor:
    """The image under operations that are a function of the seed; the global generator is left as it was."""
    from durm import _torchvision as _torchvision  # isort: skip
    from torchvision.transforms import v2

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        changed: Tensor = v2.RandAugment()(image)
    return changed


Augment = TypeVar("Augment")


@dataclass(eq=False)
class Batches(ABC, Generic[Augment]):
    """The training batches, epoch by epoch, ready for the model. Of data with domains each has equally many of all."""

    samples: Samples
    format: InputFormat
    augment: Augment
    batch_size: int
    seed: int
    rank: int = 0
    ranks: int = 1
    num_workers: int = 0

    def __post_init__(self) -> None:
        first = self._order(0)
        self.steps_per_epoch, self.samples_per_step = len(first), len(first[0])

    @abstractmethod
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from the `start`-th on; of each batch, the part of this rank."""

    def _order(self, epoch: int) -> list[Tensor]:
        if self.samples.domains is None:
            return epoch_order(len(self.samples), self.batch_size, self.seed, epoch)
        return domain_order(self.samples.domains, self.batch_size, self.seed, epoch)

    def _own(self, batches: list[Tensor], start: int) -> list[Tensor]:
        return [batch[self.rank :: self.ranks] for batch in batches[start:]]


class TrainLoader(Batches[str]):
    """Samples with one label each."""

    @cached_property
    def _ready(self) -> Tensor | None:
        """All inputs as the model takes them, where no epoch changes them."""
        inputs = self.samples.inputs
        return self.format.normalise(inputs) if isinstance(inputs, Tensor) and self.augment == "none" else None

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        samples, order = self.samples, self._order(epoch)
        places, count = order, len(samples)
        if (
            samples.domains is not None
        ):  # a sample may come twice in an epoch, so it is the place in it that is drawn for
            count = self.steps_per_epoch * self.samples_per_step
            places = list(torch.arange(count).split(self.samples_per_step))
        augmentation = Augmentation(self.augment)
        draws = augmentation.draws(count, self.format.shape[-1], self.seed, epoch)
        order, places = self._own(order, start), self._own(places, start)
        batches = raw_batches(samples.inputs if self._ready is None else self._ready, order, self.num_workers)
        for indices, place, inputs in zip(order, places, batches, strict=True):
            if draws is not None:
                inputs = augmentation.apply(inputs, draws[place])
            if self._ready is None:
                inputs = self.format.normalise(inputs)
            domains = None if samples.domains is None else samples.domains[indices]
            yield Batch(inputs, samples.labels[indices], domains=domains)


class SegmentationLoader(Batches[SceneAugmentation]):
    """Scenes with a label for each pixel: normalised images (B, 3, h, w) and their classes (B, h, w)."""

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        draws = self.augment.draws(len(self.samples), self.seed, epoch)
        order = self._own(self._order(epoch), start)
        drawn = [draws[part] for part in order]
        for images, masks in scene_batches(self.samples, self.augment, order, drawn, self.num_workers):
            targets = masks.long()
            yield Batch(self.format.normalise(images), targets.masked_fill_(targets == IGNORED, NO_TARGET))


def evaluation_batches(
    samples: Samples, format: InputFormat, batch_size: int, num_workers: int = 0
) -> Iterator[Tensor]:
    """The normalised inputs, in their own order."""
    order = torch.arange(len(samples)).split(batch_size)
    return map(format.normalise, raw_batches(samples.inputs, order, num_workers))


def raw_batches(inputs: Tensor | LazyImages, order: Sequence[Tensor], num_workers: int = 0) -> Iterator[Tensor]:
    """The inputs of each batch as they are: from memory, or read from disk by so many processes."""
    if isinstance(inputs, MappedRows):
        return map(inputs.take, order)
    if isinstance(inputs, Tensor):
        return (inputs.index_select(0, indices) for indices in order)
    batches = [indices.tolist() for indices in order]
    # The generator is given, because a DataLoader otherwise draws from the global one.
    loader = DataLoader(inputs, batch_sampler=batches, num_workers=num_workers, generator=generator(0, "loader"))  # type: ignore[arg-type, var-annotated]
    return iter(loader)
