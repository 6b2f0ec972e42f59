"""The squared distance of the weights from where they began, ‖w_t − w_0‖² (Fig. 3a).

w_t are the parameters (not buffers) after t updates, w_0 a copy of them from when the probe was made. The shared
parameters are those that arms of different C_d have in common, all but the dummies' rows of the head, which are apart.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from durm._checks import whole_number
from durm.probes import PROBES, State, StepState
from durm.probes._running import numbers
from durm.probes._weights import parameters, squared_norms
from durm.probes.describe import Description, ProbeFigure, Quantity, WatchedRun


def _at_validations(run: WatchedRun) -> list[float]:
    at = dict(zip(run.seen["steps"], run.seen["shared"], strict=True))
    return [at[step] for step in run.steps]


DESCRIPTION = Description(
    rank=3,
    quantities=(
        Quantity(
            "distance", "squared distance of the shared weights from the start", lambda run: run.seen["shared"][-1]
        ),
    ),
    figures=(
        ProbeFigure(
            "distance",
            "squared distance from the start",
            "How far the shared weights (all but the dummies' own) have come from where they began, squared; mean and "
            "standard deviation over the seeds.",
            _at_validations,
            corner="lower right",
        ),
    ),
)


@PROBES.register("distance")
class Distance:
    """After `steps` updates `shared` and `dummies`: every so many steps from 0 on, and at the end of each epoch."""

    description: ClassVar = DESCRIPTION

    def __init__(self, model: nn.Module, every: int = 10) -> None:
        self._every = whole_number("every", every, minimum=1)
        self._parameters = parameters(model)
        self._start = [parameter.detach().clone() for parameter, _ in self._parameters]
        self._steps: list[int] = []
        self._squares: list[Tensor] = []

    def on_step(self, state: StepState) -> None:
        if state.step % self._every == 0:
            self.on_epoch(state)

    def on_epoch(self, state: State) -> None:
        if self._steps and self._steps[-1] == state.step:  # at the end of the epoch before
            return
        pairs = zip(self._parameters, self._start, strict=True)
        moved = ((parameter.detach() - start, shared) for (parameter, shared), start in pairs)
        self._steps.append(state.step)
        self._squares.append(squared_norms(moved))

    def result(self) -> dict[str, Any]:
        shared, dummies = self._table().T
        return {"steps": list(self._steps), "shared": numbers(shared), "dummies": numbers(dummies)}

    def state_dict(self) -> dict[str, Any]:
        return {"start": self._start, "steps": list(self._steps), "squares": self._table()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for start, saved in zip(self._start, state["start"], strict=True):
            start.copy_(saved)
        self._steps, self._squares = list(state["steps"]), list(state["squares"])

    def _table(self) -> Tensor:
        """`(len(steps), 2)`."""
        return torch.stack(self._squares) if self._squares else torch.zeros(0, 2)
