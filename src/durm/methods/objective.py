"""What an objective is: from a model and a batch to the loss that is minimised."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from durm._config import Config
from durm._registry import Registry
from durm.data.bundle import InputFormat
from durm.errors import InputError
from durm.losses import cross_entropy

Kind = TypeVar("Kind", bound="type[Objective]")
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
class ObjectiveContext:
    """What an objective may know about the training.

    Whatever is random about an objective is a function of (seed, purpose, step): then it is the same for every
    arm, and after a resume.

    Attributes:
        num_classes: C.
        label_smoothing: over the real classes.
        auxiliary: the weight of the loss of auxiliary heads.
        class_counts: the training samples of each class.
        seed: of the trial.
        domains: how many domains there are to train on.
        steps: how long the training is, in optimizer steps; 0 where that is not known.
        model: the plain model, before it is wrapped for devices.
        input: how raw inputs are normalised.
        on_logits: called with the logits and targets of every cross-entropy that is taken; it is how probes see them.
    """

    num_classes: int
    label_smoothing: float = 0.0
    auxiliary: float = 0.4
    class_counts: tuple[int, ...] = ()
    seed: int = 0
    domains: int = 0
    steps: int = 0
    model: nn.Module | None = None
    input: InputFormat | None = None
    on_logits: Callable[[Tensor, Tensor], None] | None = None


class ObjectiveConfig(Config):
    """The settings of an objective."""

    TAG = "name"
    name: str


class Objective(ABC):
    """Gives the loss of a batch. The model has C + C_d logits; labels are below C.

    Attributes:
        least_domains: how many domains there must be to train on.
        extra_module: a module of its own that is trained with the model, at `lr_scale` times its learning rate.
        extra_weight_decay: of that module; None is the model's.
        clip_norm: the largest norm of the model's gradient; None does not clip.
        restart_step: before this step the optimizer forgets its moments; None never does.
        attack_passes: how many forward and backward passes of an attack each step takes.
        is_adversarial: whether it trains on attacked samples, and gives up accuracy on clean ones for that.
    """

    Config: ClassVar[type[ObjectiveConfig]]
    config: ObjectiveConfig
    least_domains: ClassVar[int] = 0
    extra_module: nn.Module | None = None
    lr_scale: float = 1.0
    extra_weight_decay: float | None = None
    clip_norm: float | None = None
    restart_step: int | None = None
    attack_passes: int = 0
    is_adversarial: ClassVar[bool] = False

    def __init__(self, config: ObjectiveConfig, context: ObjectiveContext) -> None:
        self.config, self.context = config, context
        least, count = self.least_domains, context.domains
        if count < least:
            has = {0: "none", 1: "one alone"}.get(count, str(count))
            raise InputError(
                f"method {config.name!r} needs {least} or more domains to train on, and the data have {has}; data with "
                "domains are digits-domains, pacs or domains:PATH"
            )

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch) -> Tensor: ...

    def without_effect(self, steps: int) -> list[str]:
        """Sentences about settings that changed nothing in a training of so many steps."""
        return []

    def state_dict(self) -> dict[str, Any]:
        """What the loss depends on besides the model, the batch and `extra_module`; it goes into checkpoints."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 (most have none)
        """Takes up such a state."""


OBJECTIVES: Registry[type[Objective]] = Registry("method", "durm.methods")


def objective(kind: Kind) -> Kind:
    """Registers an objective under the name that its Config has."""
    OBJECTIVES.register(kind.Config.model_fields["name"].default)(kind)
    return kind


def risk(logits: Tensor | tuple[Tensor, ...], targets: Tensor, context: ObjectiveContext) -> Tensor:
    """The mean cross-entropy over C + C_d logits, with the label smoothing of the training.

    A model with auxiliary heads gives their logits after its own: theirs count `auxiliary` times, and no probe sees
    them. The mean over no pixels at all, as of crops in which nothing is labelled, is 0.
    """
    if isinstance(logits, tuple):
        own, *others = logits
        return risk(own, targets, context) + context.auxiliary * sum(_loss(other, targets, context) for other in others)
    if context.on_logits is not None:
        context.on_logits(logits.detach(), targets)
    return _loss(logits, targets, context)


def _loss(logits: Tensor, targets: Tensor, context: ObjectiveContext) -> Tensor:
    loss = cross_entropy(logits, targets, context.num_classes, label_smoothing=context.label_smoothing)
    has_pixels = targets.ndim > 1 and not targets.is_floating_point()
    return loss if not has_pixels or (targets != NO_TARGET).any() else 0 * logits.sum()
