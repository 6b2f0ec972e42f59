"""The Euclidean norm of the gradient of the loss, at each step and added up (Fig. 3b).

The gradient is that of the whole loss, averaged over the batch and, with DDP, over processes: look before it is
clipped, and after a `GradScaler` has unscaled it. The paper once writes a square for it; we take the norm itself. The
figure shows it added up, along epochs.

Arms of different C_d have different numbers of parameters. The norm over the shared ones, all but the dummies' rows of
the head, is the one that compares.
"""

from typing import Any

import torch
from torch import Tensor, nn

from durm.probes import PROBES, State, StepState
from durm.probes._running import numbers
from durm.probes._weights import parameters, squared_norms


@PROBES.register("gradient_norm")
class GradientNorm:
    """For each step `norm` and `shared`, over all parameters and over the shared ones; each added up to each epoch.

    `ends`: how many steps were taken by the end of each epoch.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = parameters(model)
        self._steps: list[list[float]] = []
        self._waiting: list[Tensor] = []
        self._ends: list[int] = []

    def on_step(self, state: StepState) -> None:
        gradients = [(parameter.grad, shared) for parameter, shared in self._parameters if parameter.grad is not None]
        if not gradients:
            raise ValueError("no parameter has a gradient: call step() after backward() and before zero_grad()")
        shared, dummies = squared_norms(gradients)
        self._waiting.append(torch.stack([shared + dummies, shared]).sqrt())

    def on_epoch(self, state: State) -> None:
        self._read()
        self._ends.append(len(self._steps))

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
        self._steps, self._waiting, self._ends = state["steps"].tolist(), [], list(state["ends"])

    def _table(self) -> Tensor:
        """`(steps, 2)`."""
        self._read()
        return torch.tensor(self._steps, dtype=torch.float64).reshape(-1, 2)

    def _read(self) -> None:
        """Fetches from the device what has been waiting there; at each step it would have to be waited for."""
        if self._waiting:
            self._steps += torch.stack(self._waiting).tolist()
            self._waiting = []
