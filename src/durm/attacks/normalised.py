"""A model that takes images in [0, 1], whatever normalisation it was trained with."""

import torch
from torch import Tensor, nn


class Normalised(nn.Module):
    """Takes inputs in [0, 1] and gives the model what it was trained on: model((x · scale - mean) / std).

    An attack's ε and box are in units of [0, 1]; a model usually is not. With the wrong units ε is too large or too
    small by the factor std, and there is no error.

    `durm.dummies`, `durm.full_logits` and the others reach the model through it.

    Args:
        model: the classifier.
        mean: broadcastable to a sample, in raw units: one number, or (channels, 1, 1) for images.
        std: likewise.
        scale: the raw value of white: 1 if the model's raw inputs were in [0, 1] already, 255 for bytes.

    Examples:
        >>> model = Normalised(nn.Linear(4, 3), mean=torch.tensor(127.5), std=torch.tensor(64.0), scale=255)
        >>> model(torch.rand(2, 4)).shape
        torch.Size([2, 3])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, mean: Tensor, std: Tensor, scale: float = 1.0) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise ValueError(f"scale={scale}: expected the raw value of white, such as 1 or 255")
        if not torch.all(std > 0):
            raise ValueError(f"std has the value {std.min().item():.4g}: expected numbers above 0")
        self.model, self.scale = model, scale
        self.register_buffer("mean", mean.detach().clone())
        self.register_buffer("std", std.detach().clone())

    def forward(self, inputs: Tensor) -> Tensor:
        for name, value in (("mean", self.mean), ("std", self.std)):
            # (3,) would be taken along the width of an image: an error at most widths, a wrong model at one.
            if value.numel() > 1 and value.ndim != inputs.ndim - 1:
                raise ValueError(
                    f"{name} of shape {tuple(value.shape)}: expected one number, or one axis for each of a sample's, "
                    f"{tuple(inputs.shape[1:])}; for channels (channels, 1, 1)"
                )
        logits: Tensor = self.model((inputs * self.scale - self.mean) / self.std)
        return logits

    def extra_repr(self) -> str:
        return f"mean={self.mean.flatten().tolist()[:3]}, std={self.std.flatten().tolist()[:3]}, scale={self.scale:g}"
