"""Sums over vectors of millions of entries, and rows of such vectors.

In 32 bit one sum over eleven million entries is off by up to 1e-3. So it is taken slice by slice, and the slices are
added up in 64 bit.
"""

import math
from collections.abc import Iterator
from functools import reduce
from operator import iadd

import torch
from torch import Tensor

SLICE = 2**15
"""Entries that are summed in the precision of the vectors; of several rows they fit into a processor's cache."""
BLOCK = 8
"""Rows by which a basis grows."""


def dot(first: Tensor, second: Tensor) -> float:
    """The inner product of two vectors `(n,)`."""
    product: float = _dots(first[None], second).item()
    return product


def norm(vector: Tensor) -> float:
    """The Euclidean norm of a vector `(n,)`."""
    return math.sqrt(dot(vector, vector))


def unit(vector: Tensor) -> Tensor:
    """The vector with norm 1; 0 stays 0."""
    length = norm(vector)
    return vector / length if length else vector


class Basis:
    """Orthonormal vectors `(n,)`, one for each row, of which there come more."""

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, vector: Tensor) -> None:
        if self._count % BLOCK == 0:
            self._blocks.append(vector.new_empty(BLOCK, len(vector)))
        self._blocks[-1][self._count % BLOCK] = vector
        self._count += 1

    def reject(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """What is left of a vector without its part in the span, and the coordinates of that part, `(len(self),)`.

        By Gram and Schmidt, and again where little is left, because rounding would leave some of the span in it: twice
        is enough (Kahan and Parlett).
        """
        coordinates = torch.zeros(len(self), dtype=torch.float64)
        before = norm(vector)
        while True:
            part = torch.cat([_dots(rows, vector) for rows in self._rows()])
            vector = vector - self.combine(part)
            coordinates += part
            after = norm(vector)
            if after > before / 2 or not after:
                return vector, coordinates
            before = after

    def combine(self, coordinates: Tensor) -> Tensor:
        """The vector of these coordinates, `(len(self),)`; or several vectors, `(k, len(self))` to `(k, n)`."""
        parts = coordinates.split([len(rows) for rows in self._rows()], -1)
        total: Tensor = reduce(iadd, (part.to(rows) @ rows for part, rows in zip(parts, self._rows(), strict=True)))
        return total

    def _rows(self) -> Iterator[Tensor]:
        for index, block in enumerate(self._blocks):
            yield block[: self._count - index * BLOCK]


def _dots(rows: Tensor, vector: Tensor) -> Tensor:
    """The inner products of rows `(m, n)` with a vector `(n,)`, as `(m,)` in 64 bit on the CPU."""
    pairs = zip(rows.split(SLICE, 1), vector.split(SLICE), strict=True)
    return torch.stack([row @ part for row, part in pairs]).cpu().double().sum(0)
