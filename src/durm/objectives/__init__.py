"""What is minimised, one objective to a file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from durm._registry import Registry
from durm.data.bundle import InputFormat
from durm.losses import cross_entropy

NO_TARGET = -100
"""What stands for an ignored pixel in a batch: the `ignore_index` that every loss of PyTorch has by default."""


@dataclass(frozen=True)
class Batch:
    """Normalised inputs, their labels, the number of the step that they are for, and the domains that they are from.

    Of data with domains every batch has equally many samples of each; `domains` is of shape (N,). Labels of pixels are
    (N, H, W), and NO_TARGET where there is none.
    """

    inputs: Tensor
    targets: Tensor
    step: int = 0
    domains: Tensor | None = None


@dataclass(frozen=True)
class Problem:
    """What an objective may know: C, the training samples of each class, the seed, the domains, the model, the inputs.

    `look` is called with the logits and targets of every cross-entropy that is taken; it is how probes see them. The
    rest are settings, which `durm.training.trial.TrainSpec` has under the same names and explains.

    Whatever is random about an objective is a function of (seed, purpose, step): then it is the same for every
    arm, and after a resume.
    """

    num_classes: int
    label_smoothing: float = 0.0
    auxiliary: float = 0.4
    mixup_alpha: float = 1.0
    dann_weight: float = 1.0
    dann_lr_scale: float = 1.0
    vrex_weight: float = 10.0
    vrex_anneal: int = 500
    rsc_features: float = 1 / 3
    rsc_batch: float = 1 / 3
    mmd_weight: float = 1.0
    at_eps: float = 8 / 255
    at_norm: str = "linf"
    at_steps: int = 10
    at_step_size: float | None = None
    at_through: str = "full"
    at_clean: float = 0.0
    class_counts: tuple[int, ...] = ()
    seed: int = 0
    domains: int = 0
    model: nn.Module | None = None
    input: InputFormat | None = None
    look: Callable[[Tensor, Tensor], None] | None = None


class Objective(Protocol):
    """Gives the loss of a batch. The model has C + C_d logits; labels are below C."""

    def __init__(self, problem: Problem) -> None: ...

    def loss(self, model: nn.Module, batch: Batch) -> Tensor: ...


@runtime_checkable
class WithModule(Protocol):
    """An objective with a module of its own, which is trained with the model at `lr_scale` times its learning rate."""

    module: nn.Module
    lr_scale: float


@runtime_checkable
class WithAttack(Protocol):
    """An objective that attacks every batch, with so many passes forward and backward."""

    passes: int


def risk(logits: Tensor | tuple[Tensor, ...], targets: Tensor, problem: Problem) -> Tensor:
    """The mean cross-entropy over C + C_d logits, with the label smoothing of the training.

    A model with auxiliary heads gives their logits after its own: theirs count `auxiliary` times, and nothing looks at
    them. The mean over no pixels at all, as of crops in which nothing is labelled, is 0.
    """
    if isinstance(logits, tuple):
        own, *others = logits
        return risk(own, targets, problem) + problem.auxiliary * sum(_loss(other, targets, problem) for other in others)
    if problem.look is not None:
        problem.look(logits.detach(), targets)
    return _loss(logits, targets, problem)


def _loss(logits: Tensor, targets: Tensor, problem: Problem) -> Tensor:
    loss = cross_entropy(logits, targets, problem.num_classes, label_smoothing=problem.label_smoothing)
    has_pixels = targets.ndim > 1 and not targets.is_floating_point()
    return loss if not has_pixels or (targets != NO_TARGET).any() else 0 * logits.sum()


OBJECTIVES: Registry[type[Objective]] = Registry("method", "durm.objectives")
