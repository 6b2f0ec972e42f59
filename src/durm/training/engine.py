"""Where and how a model computes: plain PyTorch on one CPU device in 32 bit, Lightning Fabric for everything else.

Fabric's wrapper costs a fifth of a 1 ms step and its import takes seconds, so the common small case does without it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from durm import _torchvision as _torchvision  # before lightning, which imports torchvision
from durm.errors import InputError
from durm.training.trial import Trial


class Engine(Protocol):
    """What the loop needs to know of the devices."""

    device: torch.device
    rank: int
    ranks: int

    def setup(self, model: nn.Module, make: Callable[[nn.Module], torch.optim.Optimizer]) -> tuple[nn.Module, Any]: ...

    def backward(self, loss: Tensor) -> None: ...


class Plain:
    """One CPU device, 32 bit: the model and the optimizer are what they are."""

    device = torch.device("cpu")
    rank = 0
    ranks = 1

    def setup(self, model: nn.Module, make: Callable[[nn.Module], torch.optim.Optimizer]) -> tuple[nn.Module, Any]:
        return model, make(model)

    def backward(self, loss: Tensor) -> None:
        loss.backward()


class Fabric:
    """GPUs, several devices, other precisions: Lightning Fabric wraps the model and the optimizer."""

    def __init__(self, fabric: Any) -> None:
        self.fabric = fabric
        self.device: torch.device = fabric.device
        self.rank: int = fabric.global_rank
        self.ranks: int = fabric.world_size

    def setup(self, model: nn.Module, make: Callable[[nn.Module], torch.optim.Optimizer]) -> tuple[nn.Module, Any]:
        wrapped, optimizer = self.fabric.setup(model, make(model))
        return wrapped, optimizer

    def backward(self, loss: Tensor) -> None:
        self.fabric.backward(loss)


def with_engine(trial: Trial, work: Callable[[Engine], Any]) -> Any:
    """Calls `work` with the engine that the trial asks for, in one process for each device; gives what rank 0 gives."""
    if trial.device == "cpu" and trial.devices == 1 and trial.precision == "32":
        return work(Plain())
    import lightning

    accelerator, _, index = trial.device.partition(":")
    devices: int | list[int] = [int(index)] if index else trial.devices
    try:
        fabric = lightning.Fabric(
            accelerator=accelerator,
            devices=devices,
            strategy="ddp_spawn" if trial.devices > 1 else "auto",
            precision=trial.precision,
        )
    except (RuntimeError, ValueError, lightning.fabric.utilities.exceptions.MisconfigurationException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"device {trial.device!r} with precision {trial.precision!r} cannot be used: {reason}"
        ) from None
    if trial.devices > 1:
        return fabric.launch(partial(_in_process, work=work))
    return work(Fabric(fabric))


def _in_process(fabric: Any, work: Callable[[Engine], Any]) -> Any:
    return work(Fabric(fabric))
