"""Which weights are kept, one averager to a file. Without one it is the last weights, or the best on validation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from durm._registry import Registry


@dataclass(frozen=True)
class Course:
    """What an averager may know of the training: how long it is, and its own settings."""

    steps: int
    steps_per_epoch: int
    ema_decay: float = 0.999
    swa_start: float = 0.75


class Averager(Protocol):
    """Watches the weights, and gives the average at the end. Its state goes into checkpoints."""

    def __init__(self, model: nn.Module, course: Course) -> None: ...

    def on_step(self, model: nn.Module, step: int) -> None:
        """After optimizer step `step`, counted from 1."""

    def finish(self, model: nn.Module, batches: Callable[[], Iterator[Tensor]]) -> None:
        """Puts the average into the model. `batches` gives an epoch of training inputs, for batch statistics."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


AVERAGERS: Registry[type[Averager]] = Registry("averaging", "durm.averaging")


class Average:
    """A running copy of a model's weights and buffers, dummies included."""

    def __init__(self, model: nn.Module) -> None:
        self.count = 0
        self.weights = {name: value.detach().clone() for name, value in model.state_dict().items()}

    @torch.no_grad()
    def add(self, model: nn.Module, share: float) -> None:
        """average ← average + share · (weights − average); whole numbers, such as counters, are copied."""
        for name, value in model.state_dict().items():
            kept = self.weights[name]
            if kept.is_floating_point():
                kept.lerp_(value.detach(), share)
            else:
                kept.copy_(value)
        self.count += 1

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.weights = state["count"], state["weights"]


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
