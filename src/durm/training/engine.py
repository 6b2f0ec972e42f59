"""Where and how a model computes: plain PyTorch on one CPU device in 32 bit, Lightning Fabric for everything else.

Fabric's wrapper costs a fifth of a 1 ms step and its import takes seconds, so the common small case does without it.
"""

import os
import socket
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from durm import _torchvision as _torchvision  # before lightning, which imports torchvision
from durm.errors import InputError
from durm.training.trial import Trial


class Engine(Protocol):
    """What the loop needs to know of the devices."""

    device: torch.device
    rank: int
    ranks: int

    def setup(self, model: nn.Module, make: Callable[[nn.Module], torch.optim.Optimizer]) -> tuple[nn.Module, Any]: ...

    def wrap(self, module: nn.Module) -> nn.Module:
        """A module that is trained beside the model."""

    def backward(self, loss: Tensor) -> None: ...


class Plain:
    """One CPU device, 32 bit: the model and the optimizer are what they are."""

    device = torch.device("cpu")
    rank = 0
    ranks = 1

    def setup(self, model: nn.Module, make: Callable[[nn.Module], torch.optim.Optimizer]) -> tuple[nn.Module, Any]:
        return model, make(model)

    def wrap(self, module: nn.Module) -> nn.Module:
        return module

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

    def wrap(self, module: nn.Module) -> nn.Module:
        wrapped: nn.Module = self.fabric.setup_module(module)
        return wrapped

    def backward(self, loss: Tensor) -> None:
        self.fabric.backward(loss)


def with_engine(trial: Trial, work: Callable[[Engine], Any]) -> Any:
    """Calls `work` with the engine that the trial asks for, in one process for each device; gives what rank 0 gives."""
    check_precision(trial)
    if trial.devices > 1:
        return _in_processes(trial, work)
    if trial.device == "cpu" and trial.precision == "32":
        return work(Plain())
    return work(Fabric(_make_fabric(trial)))


def check_precision(trial: Trial) -> None:
    """Raises an `InputError` for half precision on a CPU, where Fabric would quietly take bf16-mixed."""
    if trial.device == "cpu" and trial.precision == "16-mixed":
        raise InputError("device 'cpu' with precision '16-mixed' cannot be used: half precision needs a GPU")


def _make_fabric(trial: Trial) -> Any:
    import lightning

    accelerator, _, index = trial.device.partition(":")
    try:
        return lightning.Fabric(
            accelerator=accelerator,
            devices=[int(index)] if index else trial.devices,
            strategy="ddp" if trial.devices > 1 else "auto",
            precision=trial.precision,
        )
    except (RuntimeError, ValueError, lightning.fabric.utilities.exceptions.MisconfigurationException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"device {trial.device!r} with precision {trial.precision!r} cannot be used: {reason}"
        ) from None


def _in_processes(trial: Trial, work: Callable[[Engine], Any]) -> Any:
    """One process for each device, started as torchrun starts them, which Fabric recognises.

    Fabric's own launcher imports lightning in the new process before `durm._torchvision` could be.
    """
    results = torch.multiprocessing.get_context("spawn").SimpleQueue()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn(_process, (trial, work, port, results), nprocs=trial.devices)
    return results.get()


def _process(rank: int, trial: Trial, work: Callable[[Engine], Any], port: int, results: Any) -> None:
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(trial.devices),
        "LOCAL_WORLD_SIZE": str(trial.devices),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "TORCHELASTIC_RUN_ID": "durm",
    }
    fabric = _make_fabric(trial)
    fabric.launch()
    result = work(Fabric(fabric))
    if rank == 0:
        results.put(result)
    torch.distributed.destroy_process_group()
