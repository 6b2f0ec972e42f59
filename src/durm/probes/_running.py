"""What is kept of the samples of an epoch as they go by: sums and moments, brought together over processes at its end.

They stay tensors on the device of the logits, so that no step waits for the device.
"""

import math
from typing import Any, ClassVar, Generic, TypeVar

import torch
import torch.distributed
from torch import Tensor, nn

CHUNK = 2**16
"""Rows that are turned to 64 bit at a time: a batch of images has millions of pixels."""


def wide(value: Tensor) -> Tensor:
    """In 64 bit; on Apple's GPUs, which have no such numbers, in 32."""
    return value.to(torch.float32 if value.device.type == "mps" else torch.float64)


def numbers(values: Any) -> Any:
    """A tensor, or a nested list of numbers, as a list for JSON: what is not finite is None."""
    if isinstance(values, Tensor):
        values = values.tolist()
    if isinstance(values, list):
        return [numbers(value) for value in values]
    return values if math.isfinite(values) else None


class Sums:
    """Named sums over the samples of an epoch."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}

    def add(self, **rows: Tensor) -> None:
        """Takes in one row for each sample, `(M, ...)`."""
        for name, values in rows.items():
            for part in values.split(CHUNK):
                added = wide(part).sum(0)
                self._sums[name] = self._sums[name] + added if name in self._sums else added

    def take(self) -> dict[str, Tensor]:
        """The sums over all processes, on the CPU; then all are 0 again."""
        taken = {name: torch.stack(_of_all_processes(value)).sum(0).cpu() for name, value in self._sums.items()}
        self._sums = {}
        return taken

    def state_dict(self) -> dict[str, Any]:
        return dict(self._sums)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums = dict(state)

    @staticmethod
    def merge(states: list[dict[str, Any]]) -> dict[str, Any]:
        """The state of one process that has seen the samples of all."""
        return {name: torch.stack([state[name].cpu() for state in states]).sum(0) for name in states[0]}


class Moments:
    """Count, mean and summed squared deviations of each of K values over the samples of an epoch, in one pass.

    Two parts A and B merge as in Chan, Golub and LeVeque (1979): with δ = mean_B − mean_A and n = n_A + n_B,

        mean = mean_A + δ · n_B / n        deviations = deviations_A + deviations_B + δ² · n_A · n_B / n
    """

    def __init__(self) -> None:
        self._parts: list[Tensor] = []

    def add(self, values: Tensor, counted: Tensor) -> None:
        """Takes in `(M, K)` values; rows that are not `counted`, `(M,)`, must be 0."""
        for part, weight in zip(map(wide, values.split(CHUNK)), map(wide, counted.split(CHUNK)), strict=True):
            count = weight.sum()
            mean = part.sum(0) / count.clamp(min=1)
            deviations = ((part - mean).square() * weight[:, None]).sum(0)
            self._parts = _merged(self._parts, [count, mean, deviations])

    def take(self) -> tuple[int, Tensor, Tensor]:
        """Count, mean and variance (n − 1) over all processes, on the CPU; then it is empty again."""
        everywhere = zip(*map(_of_all_processes, self._parts), strict=True)
        self._parts = []
        merged: list[Tensor] = []
        for parts in everywhere:
            merged = _merged(merged, list(parts))
        count, mean, deviations = (part.cpu() for part in merged)
        return int(count), mean, deviations / (count - 1)

    def state_dict(self) -> dict[str, Any]:
        return {"parts": list(self._parts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._parts = list(state["parts"])

    @staticmethod
    def merge(states: list[dict[str, Any]]) -> dict[str, Any]:
        """The state of one process that has seen the samples of all."""
        merged: list[Tensor] = []
        for state in states:
            merged = _merged(merged, [part.cpu() for part in state["parts"]])
        return {"parts": merged}


Running = TypeVar("Running", Sums, Moments)


class EpochProbe(Generic[Running]):
    """What probes with an entry for each epoch have in common: what is running, and the entries so far.

    `entries` are their names; each is a list in the result, empty at first. `gathered` is the class of what is running.
    """

    entries: ClassVar[tuple[str, ...]]
    gathered: type[Running]

    def __init__(self, model: nn.Module) -> None:
        self.running: Running = self.gathered()
        self._epochs: dict[str, list[Any]] = {name: [] for name in self.entries}

    def enter(self, **values: Tensor | int) -> None:
        """Adds an entry of each name."""
        for name, value in values.items():
            self._epochs[name].append(numbers(value))

    def result(self) -> dict[str, Any]:
        return {name: list(values) for name, values in self._epochs.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"running": self.running.state_dict(), "epochs": self.result()}

    @classmethod
    def merge(cls, states: list[dict[str, Any]]) -> dict[str, Any]:
        return {**states[0], "running": cls.gathered.merge([state["running"] for state in states])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.running.load_state_dict(state["running"])
        self._epochs = {name: list(values) for name, values in state["epochs"].items()}


def _merged(first: list[Tensor], second: list[Tensor]) -> list[Tensor]:
    if not first:
        return second
    (count, mean, deviations), (more, second_mean, second_deviations) = first, second
    total = count + more
    share = more / total.clamp(min=1)
    apart = second_mean - mean
    return [total, mean + apart * share, deviations + second_deviations + apart.square() * count * share]


def _of_all_processes(value: Tensor) -> list[Tensor]:
    """What each process has under this name, in the same order in all of them."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [value]
    values = [torch.empty_like(value) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(values, value)
    return values
