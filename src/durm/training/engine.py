"""Where and how a model computes: plain PyTorch on one CPU device in 32 bit, Lightning Fabric for everything else.

Fabric's wrapper costs a fifth of a 1 ms step and its import takes seconds, so the common small case does without it.

Several processes train one model by DDP; `durm.training.launch` starts them, or joins those of torchrun.
"""

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from durm import _torchvision as _torchvision  # before lightning, which imports torchvision
from durm._ranks import launched, together
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


class Interrupted(Exception):
    """Training was asked to stop; the checkpoint is written, and running the trial again goes on from there."""


class ProcessLost(OSError):
    """Another process of the trial died. The trial is not to blame, and can go on from its checkpoint."""


def processes(trial: Trial) -> int:
    """How many train its model."""
    return max(launched(), trial.devices)


def with_engine(trial: Trial, work: Callable[[Engine], Any]) -> Any:
    """Calls `work` with the engine that the trial asks for. Where several processes were launched, all must call it."""
    check_precision(trial)
    if processes(trial) == 1 and trial.device == "cpu" and trial.precision == "32":
        return work(Plain())
    fabric = _make_fabric(trial)
    if processes(trial) == 1:
        return work(fabric)
    fabric.launch()
    try:
        with together():
            return work(fabric)
    except RuntimeError as error:
        if any(word in str(error) for word in ("gloo", "NCCL", "Connection closed by peer")):
            raise ProcessLost(f"another process of the trial died ({str(error).splitlines()[-1][:100]})") from None
        raise


def check_precision(trial: Trial) -> None:
    """Raises an `InputError` for half precision on a CPU, where Fabric would quietly take bf16-mixed."""
    if trial.device == "cpu" and trial.precision == "16-mixed":
        raise InputError("device 'cpu' with precision '16-mixed' cannot be used: half precision needs a GPU")


def check_processes(trial: Trial, samples: int, domains: int = 0) -> None:
    """Raises an `InputError` for a number of processes that cannot share the batches of so many training samples."""
    count, started = processes(trial), launched()
    if started > 1 and trial.devices not in (1, started):
        raise InputError(f"`devices` {trial.devices}: torchrun started {started} processes; leave it out")
    if count == 1:
        return
    if trial.device.partition(":")[2]:
        raise InputError(f"`device` {trial.device!r} is one device, and {count} processes need one each: take cuda")
    if samples < count:
        raise InputError(f"`devices` {count}: there are only {samples} training samples, fewer than processes")
    size = trial.train.batch_size
    together = size if domains else min(size, samples)
    if together % count:
        of = f" (all {samples} training samples)" if together < size else ""
        better = max(count, together - together % count)
        raise InputError(
            f"`batch_size` {size}: {together} samples{of} cannot be shared equally by {count} processes; "
            f"take {better}, or another number of processes"
        )


def _make_fabric(trial: Trial) -> Any:
    import lightning

    accelerator, _, index = trial.device.partition(":")
    count = processes(trial)
    here = int(os.environ["LOCAL_WORLD_SIZE"]) if count > 1 else 1
    try:
        return lightning.Fabric(
            accelerator=accelerator,
            devices=[int(index)] if index else here,
            num_nodes=count // here,
            strategy="ddp" if count > 1 else "auto",
            precision=trial.precision,
        )
    except (RuntimeError, ValueError, lightning.fabric.utilities.exceptions.MisconfigurationException) as error:
        asked = f"device {trial.device!r} with precision {trial.precision!r}"
        raise InputError(f"{asked} cannot be used: {str(error).splitlines()[0]}") from None
