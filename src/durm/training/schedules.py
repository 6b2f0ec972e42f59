"""Learning rates and optimizers. A schedule is a function of the step alone, so a resumed run needs no state for it."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from durm._text import pluralize
from durm.training.trial import TrainSpec


def learning_rate(spec: TrainSpec, step: int, total: int, steps_per_epoch: int) -> float:
    """The learning rate of optimizer step `step`, counted from 0, of `total` steps.

    Over the first w = warmup steps it is lr (step + 1) / w. Then, with t of T the share of the remaining steps done,

        constant  lr
        step      lr gamma^(epochs done // step_epochs)
        cosine    min_lr + (lr - min_lr) (1 + cos(pi t / T)) / 2
        poly      min_lr + (lr - min_lr) (1 - t / T)^power
    """
    if step < spec.warmup:
        return spec.lr * (step + 1) / spec.warmup
    done = (step - spec.warmup) / max(1, total - spec.warmup)
    if spec.schedule == "constant":
        return spec.lr
    if spec.schedule == "step":
        return spec.lr * math.pow(spec.gamma, step // steps_per_epoch // spec.step_epochs)
    if spec.schedule == "cosine":
        return spec.min_lr + (spec.lr - spec.min_lr) * (1 + math.cos(math.pi * done)) / 2
    return spec.min_lr + (spec.lr - spec.min_lr) * math.pow(1 - done, spec.power)


def without_effect(spec: TrainSpec, steps: int) -> list[str]:
    """A sentence about a warm-up that a training of so many steps did not finish."""
    if spec.warmup <= steps:
        return []
    reached = f"the training had {pluralize(steps, 'step')} and ended at {spec.lr * steps / spec.warmup:.3g}"
    return [f"`lr` {spec.lr:g} was never reached: `warmup` is {spec.warmup}, {reached}"]


def make_optimizer(
    spec: TrainSpec,
    parameters: Iterable[nn.Parameter],
    extra_module: nn.Module | None = None,
    lr_scale: float = 1.0,
    extra_weight_decay: float | None = None,
) -> torch.optim.Optimizer:
    """The optimizer of a model, and of a module trained with it at `lr_scale` times its learning rate."""
    trained: list[dict[str, Any]] = [{"params": [p for p in parameters if p.requires_grad], "lr_scale": 1.0}]
    if extra_module is not None:
        decay = {} if extra_weight_decay is None else {"weight_decay": extra_weight_decay}
        trained.append({"params": list(extra_module.parameters()), "lr_scale": lr_scale, **decay})
    shared: dict[str, Any] = {"lr": spec.lr, "weight_decay": spec.weight_decay}
    if spec.optimizer == "sgd":
        return torch.optim.SGD(trained, momentum=spec.momentum, nesterov=spec.nesterov, **shared)
    kind = torch.optim.AdamW if spec.optimizer == "adamw" else torch.optim.Adam
    return kind(trained, betas=spec.betas, **shared)
