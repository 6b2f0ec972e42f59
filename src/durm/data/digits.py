"""scikit-learn's digits: 1,797 images of 8 × 8 pixels, 10 classes, part of that library: nothing is downloaded.

As `digits-domains`, a quarter of them are rotated, others inverted, blurred or noisy. Every digit belongs to one
domain, the same for every seed, so no image of the held-out domain is seen in another form.
"""

import gzip
import math
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, avg_pool2d, grid_sample

from durm._random import generator
from durm.data import LOADERS, DataOptions, Loader
from durm.data.bundle import DataBundle, Samples, measure, split_by_seed, stratified_split
from durm.data.domains import KnownDomains, one_of, without_domain
from durm.data.reading import ReadData
from durm.errors import InputError

TEST_SAMPLES = 1000
"""So many that one of them weighs 0.1 points of accuracy, which is also the default region of practical equivalence."""

PIXEL_MAX = 16
"""The pixels are whole numbers from 0 to 16."""

DEGREES = 30
NOISE = 4.0


class Digits(Loader):
    """Handwritten digits of 8 × 8 pixels, 10 classes; comes with scikit-learn."""

    classes = 10

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        learn, test = _learn_and_test()
        train, val = split_by_seed(learn, 0.25, seed, "val")
        assert isinstance(train.inputs, torch.Tensor)
        notes = [f"{TEST_SAMPLES} images are the test set, the same for every seed; validation is split off by seed"]
        return DataBundle(train, val, test, 10, list("0123456789"), measure(train.inputs, PIXEL_MAX), notes=notes)


@cache
def _learn_and_test() -> tuple[Samples, Samples]:
    every = load_digits()
    rest, test = stratified_split(every.labels, TEST_SAMPLES / len(every), generator(0, "digits", "test"))
    return every.subset(rest), every.subset(test)


def load_digits() -> Samples:
    """All of them, uint8 of shape (N, 1, 8, 8).

    From the file of scikit-learn, without importing it: that takes a second and a half in each process.
    """
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise InputError("data 'digits' come with scikit-learn, which is not installed: pip install scikit-learn")
    with gzip.open(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz") as file:
        rows = torch.from_numpy(np.loadtxt(file, delimiter=",", dtype=np.uint8))
    return Samples(rows[:, :-1].reshape(-1, 1, 8, 8).contiguous(), rows[:, -1].long())


class DigitsDomains(KnownDomains):
    """The digits in 4 domains (rotated, inverted, blurred, noisy), 10 classes; comes with scikit-learn."""

    name = "digits-domains"
    classes = 10
    domain_names = ("rotated", "inverted", "blurred", "noisy")

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        domain = one_of(self.name, self.held_out(path)[1], self.domain_names)
        return without_domain(self.name, _read(), domain, seed, pixel_max=PIXEL_MAX)


def rotated(images: Tensor, degrees: float = DEGREES) -> Tensor:
    """Against the clock about the middle, between four pixels bilinearly; what comes in from outside is 0."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    # From places in the result to those in the image: the other way round, but y points down.
    turn = torch.tensor([[cos, -sin, 0.0], [sin, cos, 0.0]], dtype=images.dtype)
    grid = affine_grid(turn.expand(len(images), 2, 3), list(images.shape), align_corners=False)
    return grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def inverted(images: Tensor) -> Tensor:
    """16 − x."""
    return PIXEL_MAX - images


def blurred(images: Tensor) -> Tensor:
    """The mean over 3 × 3 pixels, of which those outside are 0."""
    return avg_pool2d(images, 3, stride=1, padding=1)


def noisy(images: Tensor) -> Tensor:
    """With normal noise, of standard deviation 4, that is always the same."""
    random = generator(0, "digits-domains", "noise")
    return images + NOISE * torch.randn(images.shape, dtype=images.dtype, generator=random)


TRANSFORMATIONS = {"rotated": rotated, "inverted": inverted, "blurred": blurred, "noisy": noisy}


@cache
def _read() -> ReadData:
    """The samples of each domain: uint8 of shape (N, 1, 8, 8), rounded and cut off at 0 and 16."""
    every = load_digits()
    places, random = torch.empty_like(every.labels), generator(0, "digits-domains")
    for digit in range(10):
        members = (every.labels == digit).nonzero().flatten()
        shuffled = members[torch.randperm(len(members), generator=random)]
        places[shuffled] = torch.arange(len(members)) % len(TRANSFORMATIONS)
    parts = {}
    for number, (domain, transformed) in enumerate(TRANSFORMATIONS.items()):
        mine = every.subset((places == number).nonzero().flatten())
        pixels = transformed(mine.inputs.double()).round().clamp(0, PIXEL_MAX).to(torch.uint8)  # type: ignore[union-attr]
        parts[domain] = replace(mine, inputs=pixels)
    return ReadData(parts, list("0123456789"))


LOADERS.register("digits")(Digits())
LOADERS.register("digits-domains")(DigitsDomains())
