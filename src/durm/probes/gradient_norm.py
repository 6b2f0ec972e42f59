"""The Euclidean norm of the gradient of the loss, at each step and added up (Fig. 3b).

The gradient is that of the whole loss, averaged over the batch and, with DDP, over processes: look before it is
clipped, and after a `GradScaler` has unscaled it. The paper once writes a square for it; we take the norm itself. The
figure shows it added up, along epochs.

Arms of different C_d have different numbers of parameters. The norm over the shared ones, all but the dummies' rows of
the head, is the one that compares.
"""

from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from durm.probes import PROBES, State, StepState
from durm.probes._running import numbers
from durm.probes._weights import parameters, squared_norms
from durm.probes.describe import Description, ProbeFigure, Quantity

DESCRIPTION = Description(
    rank=2,
    quantities=(
        Quantity(
            "gradient_norm",
            "norm of the gradient of the shared weights, mean over all steps",
            lambda run: fmean(run.seen["shared"]),
        ),
        Quantity(
            "last_gradient_norm",
            "norm of the gradient of the shared weights, mean over the last epoch",
            lambda run: fmean(run.seen["shared"][slice(*[0, *run.seen["ends"]][-2:])]),
        ),
    ),
    figures=(
        ProbeFigure(
            "gradient_norm",
            "gradient norm, added up",
            "The norm of the gradient of the shared weights (all but the dummies' own), added up over the steps; mean "
            "and standard deviation over the seeds.",
            lambda run: run.seen["cumulative_shared"],
            corner="lower right",
        ),
    ),
)


@PROBES.register("gradient_norm")
class GradientNorm:
    """For each step `norm` and `shared`, over all parameters and over the shared ones; each added up to each epoch.

    `ends`: how many steps were taken by the end of each epoch.
    """

    description: ClassVar = DESCRIPTION

    def __init__(self, model: nn.Module) -> None:
        self._parameters = parameters(model)
        self._norms = torch.zeros(0, 2, dtype=torch.float64)
        self._on_device: list[Tensor] = []
        self._ends: list[int] = []

    def on_step(self, state: StepState) -> None:
        gradients = [(parameter.grad, shared) for parameter, shared in self._parameters if parameter.grad is not None]
        if not gradients:
            raise ValueError("no parameter has a gradient: call step() after backward() and before zero_grad()")
        shared, dummies = squared_norms(gradients)
        self._on_device.append(torch.stack([shared + dummies, shared]).sqrt())

    def on_epoch(self, state: State) -> None:
        self._ends.append(len(self._table()))

    def result(self) -> dict[str, Any]:
        norm, shared = self._table().T
        ends = torch.tensor(self._ends, dtype=torch.int64) - 1
        return {
            "norm": numbers(norm),
            "shared": numbers(shared),
            "cumulative_norm": numbers(norm.cumsum(0)[ends]),
            "cumulative_shared": numbers(shared.cumsum(0)[ends]),
            "ends": list(self._ends),
        }

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._table(), "ends": list(self._ends)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._norms, self._on_device, self._ends = state["steps"].cpu(), [], list(state["ends"])

    def _table(self) -> Tensor:
        """All steps, `(steps, 2)`. They are fetched from the device together: one at a time, each step would wait."""
        if self._on_device:
            self._norms = torch.cat([self._norms, torch.stack(self._on_device).cpu().double()])
            self._on_device = []
        return self._norms
