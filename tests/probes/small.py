"""A small training to watch, and its logit gradients by autograd, sample by sample."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

import durm
from durm.probes import Watch

CLASSES = 3


def network(dummies: int = 2) -> nn.Module:
    torch.manual_seed(0)
    return durm.widen(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, CLASSES)), dummies)


def batches(sizes: Sequence[int] = (5, 7, 1), seed: int = 1) -> list[tuple[Tensor, Tensor]]:
    """Inputs and labels; of another number, so that streaming has unequal parts to merge."""
    random = torch.Generator().manual_seed(seed)
    return [
        (3 * torch.randn(size, 4, generator=random), torch.randint(CLASSES, (size,), generator=random))
        for size in sizes
    ]


def train(
    model: nn.Module, epochs: Sequence[Sequence[tuple[Tensor, Tensor]]], watch: Watch | None = None, **loss: Any
) -> list[list[tuple[Tensor, Tensor]]]:
    """Trains for these epochs of batches, and gives the logits and targets of each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    seen = []
    for epoch in epochs:
        seen.append([])
        for inputs, targets in epoch:
            logits = model(inputs)
            durm.cross_entropy(logits, targets, CLASSES, **loss).backward()
            if watch is not None:
                watch.step(logits, targets)
            optimizer.step()
            optimizer.zero_grad()
            seen[-1].append((logits.detach(), targets))
        if watch is not None:
            watch.epoch()
    return seen


def logit_gradients(steps: Sequence[tuple[Tensor, Tensor]], num_classes: int = CLASSES, **loss: Any) -> Tensor:
    """∂L/∂z of each sample's own loss, `(samples, C + C_d)`, by one backward pass for each."""
    rows = []
    for logits, targets in steps:
        for sample, target in zip(logits, targets, strict=True):
            own = sample.double()[None].requires_grad_()
            target = target.double() if target.is_floating_point() else target
            value = durm.cross_entropy(own, target[None], num_classes, **loss)
            rows.append(torch.autograd.grad(value, own)[0][0])
    return torch.stack(rows)


def close(found: Any, expected: Tensor) -> None:
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected.double(), rtol=1e-6, atol=1e-7)
