"""Where and how a model computes: plain PyTorch on one CPU device in 32 bit, Lightning Fabric for everything else.

Fabric's wrapper costs a fifth of a 1 ms step and its import takes seconds, so the common small case does without it.
"""

import multiprocessing
import os
import socket
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from durm import _torchvision as _torchvision  # before lightning, which imports torchvision
from durm.errors import InputError
from durm.training.trial import Trial


class Plain:
    """One CPU device, 32 bit: the part of Lightning Fabric that the loop needs, with nothing to wrap."""

    device = torch.device("cpu")
    global_rank = 0
    world_size = 1

    def setup(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[nn.Module, Any]:
        return model, optimizer

    def setup_module(self, module: nn.Module) -> nn.Module:
        return module

    def backward(self, loss: Tensor) -> None:
        loss.backward()


Engine: TypeAlias = Any
"""`Plain`, or a `lightning.Fabric`."""


def with_engine(trial: Trial, work: Callable[[Engine], Any]) -> Any:
    """Calls `work` with the engine that the trial asks for, in one process for each device; gives what rank 0 gives."""
    check_precision(trial)
    if trial.devices > 1:
        return _in_processes(trial, work)
    if trial.device == "cpu" and trial.precision == "32":
        return work(Plain())
    return work(_make_fabric(trial))


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
        asked = f"device {trial.device!r} with precision {trial.precision!r}"
        raise InputError(f"{asked} cannot be used: {str(error).splitlines()[0]}") from None


def _in_processes(trial: Trial, work: Callable[[Engine], Any]) -> Any:
    """One process for each device, started as torchrun starts them, which Fabric recognises.

    Fabric's own launcher imports lightning in the new process before `durm._torchvision` could be.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with multiprocessing.get_context("spawn").Manager() as manager:  # a pipe would block on results of over 64 KiB
        results = manager.dict()
        spawn(_process, (trial, work, port, results), nprocs=trial.devices)
        return results[0]


def _process(rank: int, trial: Trial, work: Callable[[Engine], Any], port: int, results: Any) -> None:
    own, size = str(rank), str(trial.devices)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "durm"}
    os.environ |= {"RANK": own, "LOCAL_RANK": own, "GROUP_RANK": "0", "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    fabric = _make_fabric(trial)
    fabric.launch()
    result = work(fabric)
    if rank == 0:
        results[0] = result
    torch.distributed.destroy_process_group()
