"""What an averager is: it keeps a mean of weights. Without one it is the last weights, or the best on validation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from durm._config import Config
from durm._registry import Registry

Kind = TypeVar("Kind", bound="type[Averager]")


@dataclass(frozen=True)
class Length:
    """How long the training is, in optimizer steps."""

    steps: int
    steps_per_epoch: int


@dataclass(frozen=True)
class Averaged:
    """What an average is made of: the weights after steps `start` to `end`, both included, of `models` of them."""

    start: int
    end: int
    models: int


class AveragerConfig(Config):
    """The settings of an averager."""

    TAG = "name"
    name: str


class Averager(ABC):
    """Watches the weights, and gives the average at the end. Its state goes into checkpoints."""

    Config: ClassVar[type[AveragerConfig]]
    config: AveragerConfig
    takes_all: ClassVar[bool] = False
    """Whether it averages every step on purpose."""

    def __init__(self, config: AveragerConfig, model: nn.Module, length: Length) -> None:
        self.config, self.length = config, length
        self.average = Average(model.state_dict())

    @abstractmethod
    def on_step(self, model: nn.Module, step: int) -> None:
        """After optimizer step `step`, counted from 1."""

    def on_validation(self, model: nn.Module, step: int, loss: float) -> None:  # noqa: B027 (most have no use for it)
        """After each validation, which follows optimizer step `step`; `loss` is over the real classes."""

    def finish(self, model: nn.Module, batches: Callable[[], Iterator[Tensor]] | None) -> None:
        """Puts the average into the model. `batches` gives an epoch of training inputs, for batch statistics; None
        leaves these as they are.
        """
        model.load_state_dict(self.average.weights)
        if batches is not None:
            renew_batch_statistics(model, batches())

    @abstractmethod
    def averaged(self, steps: int) -> Averaged:
        """What the average is made of, after a training of so many steps that is finished."""

    def without_effect(self, steps: int) -> list[str]:
        """Sentences about an average that is none, or one of everything."""
        made = self.averaged(steps)
        if made.models < 2:
            return [f"{self.config.name} averaged nothing: it took the weights after step {made.end} alone"]
        if made.start == 1 and made.end == steps and made.models == steps and not self.takes_all:
            return [f"{self.config.name} averaged everything: the weights after each of all {steps} steps"]
        return []

    def state_dict(self) -> dict[str, Any]:
        return self.average.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.average.load_state_dict(state)


AVERAGERS: Registry[type[Averager]] = Registry("averaging", "durm.methods")


def averager(kind: Kind) -> Kind:
    """Registers an averager under the name that its Config has."""
    AVERAGERS.register(kind.Config.model_fields["name"].default)(kind)
    return kind


class Average:
    """A running mean of weights and buffers, dummies included, of `count` models; before the first it is `weights`."""

    def __init__(self, weights: Mapping[str, Tensor], count: int = 0) -> None:
        self.count = count
        self.weights = copied(weights)

    @torch.no_grad()
    def add(self, weights: Mapping[str, Tensor], share: float | None = None, count: int = 1) -> None:
        """average ← average + share · (weights − average); whole numbers, such as counters, are copied.

        Left out, the share is that of a plain mean over all models, of which `weights` are the mean of `count`.
        """
        self.count += count
        share = count / self.count if share is None else share
        for name, kept in self.weights.items():
            if kept.is_floating_point():
                kept.lerp_(weights[name].detach(), share)
            else:
                kept.copy_(weights[name])

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.weights = state["count"], state["weights"]


def copied(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in weights.items()}


def batch_norms(model: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """Its layers of batch normalisation that keep statistics."""
    norms = [layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    return [layer for layer in norms if layer.track_running_stats]


@torch.no_grad()
def renew_batch_statistics(model: nn.Module, batches: Iterator[Tensor]) -> None:
    """Takes batch normalisation's means and variances from training inputs: averaged weights have never seen any.

    Unlike in torch's `update_bn`, all other layers are in eval mode, so that dropout draws nothing.
    """
    layers = {layer: layer.momentum for layer in batch_norms(model)}
    if not layers:
        return
    was_training = model.training
    model.eval()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over all batches
        layer.train()
    for inputs in batches:
        model(inputs)
    for layer, momentum in layers.items():
        layer.momentum = momentum
    model.train(was_training)
