"""How flat the loss is while a model is trained, looked at on the same training samples each time."""

from typing import Any

import torch
from torch import nn

from durm.data.bundle import DataBundle
from durm.flatness import ClassifierLoss, hessian, measure, top_eigenvalues
from durm.flatness.vectors import norm
from durm.training.feeding import evaluation_batches

TOLERANCE = 0.01
"""Of an eigenvalue while training: how it goes is to be seen, not its digits."""
MOST_PRODUCTS = 60


class FlatnessWatch:
    """Looks at the real-class loss over the shared parameters, by which arms of different C_d compare.

    The samples are the first ones of the training set, without augmentation; the model is in eval mode.
    """

    def __init__(self, model: nn.Module, bundle: DataBundle, samples: int, device: torch.device) -> None:
        part = bundle.train.subset(torch.arange(min(samples, len(bundle.train))))
        self.inputs = torch.cat(list(evaluation_batches(part, bundle.input, len(part)))).to(device)
        self.targets = part.labels.to(device)
        self.model, self.num_classes = model, bundle.num_classes
        self.seen: dict[str, list[Any]] = {"top_eigenvalue": [], "converged": [], "gradient_norm": []}

    def look(self) -> None:
        """After each epoch: the largest eigenvalue of the Hessian, and the norm of the gradient."""
        with hessian(self.loss()) as matrix:
            top = top_eigenvalues(matrix, 1, tolerance=TOLERANCE, max_products=MOST_PRODUCTS)
            found = {
                "top_eigenvalue": top.values[0],
                "converged": top.converged,
                "gradient_norm": float(norm(matrix.gradient())),
            }
        for name, value in found.items():
            self.seen[name].append(value)

    def loss(self) -> ClassifierLoss:
        return ClassifierLoss(self.model, self.inputs, self.targets, num_classes=self.num_classes, kind="real")

    def result(self, label_smoothing: float) -> dict[str, Any]:
        """What was seen, and `end`: all that `durm.flatness.measure` says of the selected weights."""
        end = measure(
            self.model, self.inputs, self.targets, num_classes=self.num_classes, label_smoothing=label_smoothing
        )
        return {"samples": len(self.targets), **self.seen, "end": end.record()}
