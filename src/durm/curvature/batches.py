"""The samples that a loss is a mean over: two tensors, or batches that are gone through again and again."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

Samples = Tensor | Iterable[tuple[Tensor, Tensor]]
"""Inputs `(N, …)`, together with targets; or batches of inputs and targets, such as those of a DataLoader."""
IGNORED = -100
"""The class index of what does not count, as everywhere in torch."""


class Batches:
    """Goes through the samples as often as it is called, and gives the same ones each time.

    Attributes:
        retained: whether all of them come at once.
    """

    def __init__(self, inputs: Samples, targets: Tensor | None, chunk: int | None) -> None:
        if isinstance(inputs, Tensor):
            if targets is None:
                raise ValueError("targets=None: inputs in a tensor need targets")
            if not len(inputs) or len(inputs) != len(targets):
                raise ValueError(
                    f"inputs of {len(inputs)} and targets of {len(targets)} samples: expected as many, at least one"
                )
            chunk = chunk or len(inputs)
            # A tensor that was made in inference mode cannot take part in a graph, its copy can.
            with torch.inference_mode(False):
                pair = [part.clone() if part.is_inference() else part for part in (inputs, targets)]
            inputs = list(zip(*(part.split(chunk) for part in pair), strict=True))
        else:
            if targets is not None or chunk is not None:
                given = "targets" if targets is not None else f"chunk={chunk}"
                raise ValueError(f"{given}: batches have targets and a size of their own")
            if isinstance(inputs, Iterator):
                raise ValueError(f"inputs of type {type(inputs).__name__} can be gone through once only; try a list")
        self.retained = isinstance(inputs, list) and len(inputs) == 1
        self._batches: Iterable[tuple[Tensor, Tensor]] = inputs
        self._losses: int | None = None

    def __call__(self, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
        losses = 0
        for batch in self._unseen():
            inputs, targets = (part.to(device) for part in batch)
            losses += _losses(targets)
            yield inputs, targets
        if losses != self._losses:
            raise ValueError(f"the batches gave {losses} targets, after {self._losses} before: expected the same ones")

    def count(self) -> tuple[int, int]:
        """How many samples there are, and how many losses the mean is of."""
        samples = losses = 0
        for _, targets in self._unseen():
            samples, losses = samples + len(targets), losses + _losses(targets)
        if not samples:
            raise ValueError("inputs: there are no samples in them")
        if not losses:
            raise ValueError(f"targets: all of them are {IGNORED}, which does not count")
        self._losses = losses
        return samples, losses

    def _unseen(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches. What they draw from the global random state is put back, so that it is the same each time."""
        with torch.random.fork_rng(devices=[]):
            batches = iter(self._batches)
        while True:
            with torch.random.fork_rng(devices=[]):
                batch = next(batches, None)
            if batch is None:
                return
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise ValueError(f"a batch of type {type(batch).__name__}: expected inputs and targets")
            yield batch


def _losses(targets: Tensor) -> int:
    if targets.is_floating_point():
        return targets[:, 0].numel()
    return int((targets != IGNORED).sum())
