"""Which weights are kept, one averager to a file. Without one it is the last weights, or the best on validation."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from durm._registry import Registry


@dataclass(frozen=True)
class Course:
    """What an averager may know of the training: how long it is, and its own settings.

    `durm.training.trial.TrainSpec` has these under the same names and explains them.
    """

    steps: int
    steps_per_epoch: int
    ema_decay: float = 0.999
    swa_start: float = 0.75
    swad_converge: int = 3
    swad_tolerance: int = 6
    swad_ratio: float = 1.3


class Averager(Protocol):
    """Watches the weights, and gives the average at the end. Its state goes into checkpoints."""

    def __init__(self, model: nn.Module, course: Course) -> None: ...

    def on_step(self, model: nn.Module, step: int) -> None:
        """After optimizer step `step`, counted from 1."""

    def finish(self, model: nn.Module, batches: Callable[[], Iterator[Tensor]]) -> None:
        """Puts the average into the model. `batches` gives an epoch of training inputs, for batch statistics."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@runtime_checkable
class WatchesValidation(Averager, Protocol):
    """An averager that also wants to know the validation loss."""

    def on_validation(self, model: nn.Module, step: int, loss: float) -> None:
        """After each validation, which follows optimizer step `step`; `loss` is over the real classes."""


AVERAGERS: Registry[type[Averager]] = Registry("averaging", "durm.averaging")


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


@torch.no_grad()
def renew_batch_statistics(model: nn.Module, batches: Iterator[Tensor]) -> None:
    """Batch normalisation's means and variances anew, from training inputs: averaged weights have never seen any."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    layers = [layer for layer in layers if layer.track_running_stats]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.eval()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over all batches
        layer.train()
    for inputs in batches:
        model(inputs)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)
