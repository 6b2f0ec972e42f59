"""What is minimised, one objective to a file."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from durm._registry import Registry


@dataclass(frozen=True)
class Batch:
    """Normalised inputs and their labels."""

    inputs: Tensor
    targets: Tensor


class Objective(Protocol):
    """Gives the loss of a batch. The model has C + C_d logits; `num_classes` is C."""

    def __init__(self, num_classes: int, label_smoothing: float) -> None: ...

    def loss(self, model: nn.Module, batch: Batch) -> Tensor: ...


OBJECTIVES: Registry[type[Objective]] = Registry("method", "durm.objectives")
