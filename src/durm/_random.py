"""Random generators that belong to one purpose each.

Two runs that share a seed stay paired only if no consumer of randomness can shift another one's stream. So nobody draws
from the global generator: each takes its own, derived from the seed and from what the numbers are for.
"""

import hashlib

import torch


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator that is a function of `seed` and `purpose` alone, e.g. `generator(0, "order", epoch)`."""
    return torch.Generator().manual_seed(derived_seed(seed, *purpose))


def derived_seed(seed: int, *purpose: str | int) -> int:
    """A seed for that purpose: for what must draw from the global generator, such as initialisers and dropout."""
    key = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")
