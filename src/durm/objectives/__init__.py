"""What is minimised, one objective to a file."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from durm._registry import Registry


@dataclass(frozen=True)
class Batch:
    """Normalised inputs, their labels, and the number of the step that they are for."""

    inputs: Tensor
    targets: Tensor
    step: int = 0


@dataclass(frozen=True)
class Problem:
    """What an objective may know: C, how the training is set up, the training samples of each class, the seed.

    Whatever is random about an objective is a function of (seed, purpose, step): then it is the same for every
    arm, and after a resume.
    """

    num_classes: int
    label_smoothing: float = 0.0
    mixup_alpha: float = 1.0
    class_counts: tuple[int, ...] = ()
    seed: int = 0


class Objective(Protocol):
    """Gives the loss of a batch. The model has C + C_d logits; labels are below C."""

    def __init__(self, problem: Problem) -> None: ...

    def loss(self, model: nn.Module, batch: Batch) -> Tensor: ...


OBJECTIVES: Registry[type[Objective]] = Registry("method", "durm.objectives")
