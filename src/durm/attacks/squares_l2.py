"""The patches of the Square attack in L2 (Andriushchenko et al. 2020, section 3.4 and Algorithm 3).

A change δ of length ε is kept. A proposal takes a window, adds to δ there a pattern η of two halves with opposite
signs, each of which falls off from its middle, and pays for it with what δ has in a second window, which becomes 0. In
each channel, ‖δ‖ in both windows together stays what it was, plus its share of what is left of ε².
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

SMALLEST = 3
TILES = 5
"""The first change is a grid of so many patterns in each direction."""
_TINY = 1e-12


class Windows(NamedTuple):
    """A window for each sample: its corner, `(n, 1, 1, 1)` each, its height and its width."""

    top: Tensor
    left: Tensor
    tall: int
    wide: int

    @classmethod
    def random(cls, image: tuple[int, int], size: tuple[int, int], count: int, random: torch.Generator) -> "Windows":
        (height, width), (tall, wide) = image, size
        top = torch.randint(height - tall + 1, (count, 1, 1, 1), generator=random)
        left = torch.randint(width - wide + 1, (count, 1, 1, 1), generator=random)
        return cls(top, left, tall, wide)

    def of(self, rows: Tensor) -> "Windows":
        return self._replace(top=self.top[rows], left=self.left[rows])

    def place(self, pattern: Tensor, height: int, width: int) -> Tensor:
        """A pattern `(tall, wide)` in the window of each sample, and 0 around it: `(n, 1, height, width)`."""
        down, across = torch.arange(height)[:, None] - self.top, torch.arange(width) - self.left
        inside = (down >= 0) & (down < self.tall) & (across >= 0) & (across < self.wide)
        return pattern[down.clamp(0, self.tall - 1), across.clamp(0, self.wide - 1)] * inside


def window_size(height: int, width: int, share: float) -> tuple[int, int]:
    """An odd side of at least three, for that share of the image; a run of flat inputs."""
    side = share * width if height == 1 else math.sqrt(share * height * width)
    whole = max(round(side), SMALLEST)
    whole += whole % 2 == 0
    return min(whole, height), min(whole, width)


def pattern(tall: int, wide: int, *, turned: bool = False) -> Tensor:
    """η: two halves with opposite signs, of length 1, one above the other, or side by side if turned or one row high.

    Examples:
        >>> pattern(2, 1)
        tensor([[ 0.7071],
                [-0.7071]])
    """
    if turned or tall == 1:
        return pattern(wide, tall).T if wide > 1 else torch.ones(1, 1)
    upper = tall // 2
    return _scaled(torch.cat([_hill(upper, wide), -_hill(tall - upper, wide)]))


def _hill(tall: int, wide: int) -> Tensor:
    """Σ_{j = d}^{n} 1 / (j + 1)² at the distance d from the middle, the larger one of down and across; of length 1."""
    down, across = (torch.arange(tall) - tall // 2).abs()[:, None], (torch.arange(wide) - wide // 2).abs()
    farthest = max(tall // 2, wide // 2)
    sums = torch.tensor([1 / (j + 1) ** 2 for j in range(farthest + 1)]).flip(0).cumsum(0).flip(0)
    return _scaled(sums[torch.maximum(down, across)])


def _scaled(values: Tensor) -> Tensor:
    return values.div(torch.linalg.vector_norm(values))


def first_change(count: int, image: tuple[int, int, int], random: torch.Generator) -> Tensor:
    """A grid of patterns with random signs, `(count, channels, height, width)`, each sample of length 1."""
    channels, height, width = image
    tall, wide = max(height // TILES, 1), max(width // TILES, 1)
    change = torch.zeros(count, *image)
    for top in range(0, height - tall + 1, tall):
        for left in range(0, width - wide + 1, wide):
            signs = _signs((count, channels, 1, 1), random)
            change[:, :, top : top + tall, left : left + wide] = signs * pattern(tall, wide, turned=_coin(random))
    return change / _length(change)


def propose(change: Tensor, eps: float, share: float, count: int, rows: Tensor, random: torch.Generator) -> Tensor:
    """The next change to try, of length ε, for the changes `(n, channels, height, width)` of these rows of `count`."""
    _, channels, height, width = change.shape
    size = window_size(height, width, share)
    # Drawn for all samples, so that those left out do not shift what the others are given.
    paid, filled = (Windows.random((height, width), size, count, random).of(rows) for _ in range(2))
    signs = _signs((count, channels, 1, 1), random)[rows]
    hills = filled.place(pattern(*size, turned=size[0] == size[1] and _coin(random)), height, width).to(change)
    inside, emptied = ((one.place(torch.ones(size), height, width)).to(change) for one in (filled, paid))
    either = torch.maximum(inside, emptied)
    unused = (eps**2 - _length(change) ** 2).clamp_min(0) / channels
    budget = (_window_length(change * either) ** 2 + unused).sqrt()
    old = change * inside
    new = signs.to(change) * hills + old / (_window_length(old) + _TINY)
    new = new / (_window_length(new) + _TINY) * budget
    proposed = change * (1 - either) + new
    return eps * proposed / (_length(proposed) + _TINY)


def _window_length(change: Tensor) -> Tensor:
    """Of each channel, `(n, channels, 1, 1)`."""
    length: Tensor = torch.linalg.vector_norm(change, dim=(-2, -1), keepdim=True)
    return length


def _length(change: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(change, dim=(1, 2, 3), keepdim=True)
    return length


def _signs(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    return 2 * torch.randint(2, shape, generator=random) - 1


def _coin(random: torch.Generator) -> bool:
    return bool(torch.randint(2, (), generator=random))
