"""Two models for small inputs, quick enough to train by the dozen on a laptop."""

from math import prod

from torch import nn


def cnn(num_classes: int, shape: tuple[int, ...]) -> nn.Module:
    """Two convolutions with batch normalisation, average pooling to 2 × 2, dropout and a linear head."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(128, num_classes),
    )


def mlp(num_classes: int, shape: tuple[int, ...]) -> nn.Module:
    """One hidden layer of 256 units with dropout, on inputs of any shape."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(prod(shape), 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, num_classes)
    )
