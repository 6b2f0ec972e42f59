"""MNIST in domains, rotated or coloured, and the same of scikit-learn's digits, which need no files.

Rotated (Ghifary et al., 2015): 0, 15, 30, 45, 60 and 75 degrees against the clock.

Colored (Arjovsky et al., 2019): is the digit below 5? The label is flipped with a probability of 25 %. An image is red
or green by its label, but has the other colour with 10 % (domain +90), 20 % (+80) or 90 % (-90). So colour predicts
the label better than the shape does (75 % at best), until the third domain, where it misleads.

As in DomainBed, training and test images are pooled, and each is in one domain only. Which one, and its draws, are the
same for every seed.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from durm._random import generator
from durm.data import LOADERS, DataOptions
from durm.data.bundle import DataBundle, Samples, joined
from durm.data.digits import PIXEL_MAX, load_digits, rotated
from durm.data.domains import KnownDomains, one_of, without_domain
from durm.data.images import Mnist
from durm.data.reading import ReadData

DEGREES = (0, 15, 30, 45, 60, 75)
OTHER_COLOUR = {"+90": 0.1, "+80": 0.2, "-90": 0.9}
"""The probability of the colour of the other label, by domain."""
FLIPPED = 0.25
MADE = "no image is in two domains; training and test images are pooled"


def dealt(every: Samples, domains: int) -> list[Samples]:
    """The samples, shuffled and dealt out to so many domains."""
    order = torch.randperm(len(every), generator=generator(0, "domains", domains))
    return [every.subset(order[number::domains]) for number in range(domains)]


def rotated_domains(every: Samples, pixel_max: int) -> ReadData:
    parts = {}
    for degrees, mine in zip(DEGREES, dealt(every, len(DEGREES)), strict=True):
        pixels = rotated(mine.inputs.float(), degrees) if degrees else mine.inputs  # type: ignore[union-attr]
        parts[str(degrees)] = replace(mine, inputs=pixels.round().clamp(0, pixel_max).to(torch.uint8))  # type: ignore[union-attr]
    return ReadData(parts, list("0123456789"), notes=[MADE])


def colored_domains(every: Samples, pixel_max: int) -> ReadData:
    """Inputs (N, 2, height, width): the image is in the first channel or in the second, and the other one is 0."""
    parts = {}
    for (domain, other), mine in zip(OTHER_COLOUR.items(), dealt(every, len(OTHER_COLOUR)), strict=True):
        random = generator(0, "colored", domain)
        flipped, recoloured = (torch.rand(len(mine), generator=random) < share for share in (FLIPPED, other))
        labels = (mine.labels < 5) ^ flipped
        channels = torch.stack([~(labels ^ recoloured), labels ^ recoloured], 1)
        pixels = channels[:, :, None, None].to(torch.uint8) * mine.inputs  # type: ignore[operator]
        parts[domain] = replace(mine, inputs=pixels, labels=labels.long())
    note = f"the label is whether a digit is below 5, flipped with a probability of {100 * FLIPPED:g} %"
    return ReadData(parts, ["5 to 9", "0 to 4"], notes=[MADE, note])


class _Made(KnownDomains):
    """Domains that `make` makes of a data set without any."""

    pixel_max = 255
    make: Callable[[Samples, int], ReadData]

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        domain = one_of(self.name, self.held_out(path)[1], self.domain_names)
        return without_domain(self.name, self.every(options), domain, seed, pixel_max=self.pixel_max)

    @abstractmethod
    def every(self, options: DataOptions) -> ReadData: ...


class _OfMnist(_Made, Mnist):
    def every(self, options: DataOptions) -> ReadData:
        return self.kept("", options)

    def read(self, source: Path, options: DataOptions) -> ReadData:
        read = super().read(source, options)
        return self.make(joined(*read.parts.values()), self.pixel_max)


class _OfDigits(_Made):
    pixel_max = PIXEL_MAX

    @cache  # noqa: B019 - there is one loader of each kind
    def every(self, options: DataOptions) -> ReadData:
        return self.make(load_digits(), self.pixel_max)


class RotatedMnist(_OfMnist):
    """Rotated MNIST: 70,000 images in 6 domains (0, 15, … 75 degrees), 10 classes; MNIST/raw/."""

    name = "rotatedmnist"
    domain_names, classes = tuple(map(str, DEGREES)), 10
    make = staticmethod(rotated_domains)


class ColoredMnist(_OfMnist):
    """Colored MNIST: 70,000 images in 3 domains (+90, +80, -90), 2 classes that colour predicts; MNIST/raw/."""

    name = "coloredmnist"
    domain_names, classes = tuple(OTHER_COLOUR), 2
    make = staticmethod(colored_domains)


class RotatedDigits(_OfDigits):
    """The digits in 6 domains (0, 15, … 75 degrees), 10 classes; comes with scikit-learn."""

    name = "rotated-digits"
    domain_names, classes = tuple(map(str, DEGREES)), 10
    make = staticmethod(rotated_domains)


class ColoredDigits(_OfDigits):
    """The digits in 3 domains (+90, +80, -90), 2 classes that colour predicts; comes with scikit-learn."""

    name = "colored-digits"
    domain_names, classes = tuple(OTHER_COLOUR), 2
    make = staticmethod(colored_domains)


for loader in (RotatedMnist(), ColoredMnist(), RotatedDigits(), ColoredDigits()):
    LOADERS.register(loader.name)(loader)
