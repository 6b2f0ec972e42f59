"""The curvature of the loss while a model is trained, on the same training samples each time."""

from typing import Any

import torch

from durm.training.callbacks.callback import Callback
from durm.training.loaders import evaluation_batches

TOLERANCE = 0.01
"""Of an eigenvalue while training: how it goes is to be seen, not its digits."""
MOST_PRODUCTS = 60


class CurvatureCallback(Callback):
    """Measures the real-class loss over the shared parameters, by which arms of different C_d compare.

    The samples are the first ones of the training set, without augmentation; the model is in eval mode.
    """

    key = "flatness"

    def setup(self) -> None:
        trainer, bundle = self.trainer, self.trainer.bundle
        samples, device = trainer.trial.flatness, trainer.engine.device
        assert samples is not None
        part = bundle.train.subset(torch.arange(min(samples, len(bundle.train))))
        self.inputs = torch.cat(list(evaluation_batches(part, bundle.input, len(part)))).to(device)
        self.targets = part.labels.to(device)
        self.model, self.num_classes = trainer.plain_model, bundle.num_classes
        self.seen: dict[str, list[Any]] = {"top_eigenvalue": [], "converged": [], "gradient_norm": []}

    def before_validation(self) -> None:
        from durm.curvature import ClassifierLoss, hessian, top_eigenvalues
        from durm.curvature.vectors import norm

        loss = ClassifierLoss(self.model, self.inputs, self.targets, num_classes=self.num_classes, kind="real")
        with hessian(loss) as matrix:
            top = top_eigenvalues(matrix, 1, tolerance=TOLERANCE, max_products=MOST_PRODUCTS)
            self.seen["top_eigenvalue"].append(top.values[0])
            self.seen["converged"].append(top.converged)
            self.seen["gradient_norm"].append(float(norm(matrix.gradient())))

    def result(self) -> dict[str, Any]:
        """What was seen, and `end`: all that `durm.curvature.measure` says of the selected weights."""
        from durm.curvature import measure

        smoothing = self.trainer.trial.train.label_smoothing
        end = measure(self.model, self.inputs, self.targets, num_classes=self.num_classes, label_smoothing=smoothing)
        return {"probes": {"flatness": {"samples": len(self.targets), **self.seen, "end": end.record()}}}

    def state(self, *, finished: bool) -> Any:
        return self.seen

    def load_state(self, state: Any) -> None:
        self.seen = state
