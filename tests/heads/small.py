"""Small models and inputs that the tests of the heads share."""

import torch
from torch import Tensor, nn


def mlp(classes: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, classes))


def batch(samples: int = 4, width: int = 8) -> Tensor:
    return torch.randn(samples, width, generator=torch.Generator().manual_seed(1))


CONVOLUTIONS = {
    "conv1d": (lambda: nn.Conv1d(4, 5, 3, padding=1, padding_mode="circular"), (2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 5, (1, 3), stride=2), (2, 4, 9, 9)),
    "conv3d": (lambda: nn.Conv3d(4, 5, 2, dilation=2, bias=False), (2, 4, 5, 5, 5)),
    "linear": (lambda: nn.Linear(4, 5, bias=False), (2, 3, 4)),
}
