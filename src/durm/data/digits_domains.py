"""Domains without a download: scikit-learn's digits, a quarter of them rotated, others inverted, blurred or noisy.

Every digit belongs to one domain, the same for every seed, so no image of the held-out domain is seen in another form.
"""

import math
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, avg_pool2d, grid_sample

from durm._random import generator
from durm.data import LOADERS, DataOptions
from durm.data.bundle import DataBundle, Samples
from durm.data.digits import WHITE
from durm.data.domains import KnownDomains, one_of, without_domain

DEGREES = 30
NOISE = 4.0


class DigitsDomains(KnownDomains):
    """The digits in 4 domains (rotated, inverted, blurred, noisy), 10 classes; comes with scikit-learn."""

    takes_image_size = False

    name = "digits-domains"
    domain_names = ("rotated", "inverted", "blurred", "noisy")

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        domain = one_of(self.name, self.held_out(path)[1], self.domain_names)
        bundle = without_domain(self.name, _parts(), [str(digit) for digit in range(10)], domain, seed)
        return replace(bundle, input=replace(bundle.input, white=WHITE))


def rotated(images: Tensor) -> Tensor:
    """By 30° against the clock about the middle, between four pixels bilinearly; what comes in from outside is 0."""
    cos, sin = math.cos(math.radians(DEGREES)), math.sin(math.radians(DEGREES))
    # From places in the result to those in the image: the other way round, but y points down.
    turn = torch.tensor([[cos, -sin, 0.0], [sin, cos, 0.0]], dtype=images.dtype)
    grid = affine_grid(turn.expand(len(images), 2, 3), list(images.shape), align_corners=False)
    return grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def inverted(images: Tensor) -> Tensor:
    """16 − x."""
    return WHITE - images


def blurred(images: Tensor) -> Tensor:
    """The mean over 3 × 3 pixels, of which those outside are 0."""
    return avg_pool2d(images, 3, stride=1, padding=1)


def noisy(images: Tensor) -> Tensor:
    """With normal noise, of standard deviation 4, that is always the same."""
    random = generator(0, "digits-domains", "noise")
    return images + NOISE * torch.randn(images.shape, dtype=images.dtype, generator=random)


TRANSFORMATIONS = {"rotated": rotated, "inverted": inverted, "blurred": blurred, "noisy": noisy}


@cache
def _parts() -> dict[str, Samples]:
    """The samples of each domain: uint8 of shape (N, 1, 8, 8), rounded and cut off at 0 and 16."""
    from sklearn.datasets import load_digits

    values, targets = load_digits(return_X_y=True)
    images, labels = torch.from_numpy(values).reshape(-1, 1, 8, 8).double(), torch.from_numpy(targets).long()
    places, random = torch.empty_like(labels), generator(0, "digits-domains")
    for digit in range(10):
        members = (labels == digit).nonzero().flatten()
        shuffled = members[torch.randperm(len(members), generator=random)]
        places[shuffled] = torch.arange(len(members)) % len(TRANSFORMATIONS)
    parts = {}
    for number, (domain, transformed) in enumerate(TRANSFORMATIONS.items()):
        mine = (places == number).nonzero().flatten()
        pixels = transformed(images[mine]).round().clamp(0, WHITE).to(torch.uint8)
        parts[domain] = Samples(pixels, labels[mine])
    return parts


LOADERS.register("digits-domains")(DigitsDomains())
