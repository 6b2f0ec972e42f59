"""A model whose first training step kills the process, as running out of memory does."""

import os
import signal

import torch
from torch import Tensor, nn


class Deadly(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(input)


def network(num_classes: int) -> nn.Module:
    return Deadly(nn.Flatten(), nn.Linear(64, num_classes))
