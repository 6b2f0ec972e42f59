"""Stochastic weight averaging (Izmailov et al., 2018): the mean of the weights after each of the last epochs.

It begins after a share of the training (`swa_start`, three quarters); batch normalisation's statistics are then taken
anew from the training data.
"""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from durm.averaging import AVERAGERS, Average, Course, renew_batch_statistics


@AVERAGERS.register("swa")
class StochasticWeightAveraging:
    def __init__(self, model: nn.Module, course: Course) -> None:
        self.course = course
        self.average = Average(model.state_dict())

    def on_step(self, model: nn.Module, step: int) -> None:
        ends_epoch = step % self.course.steps_per_epoch == 0 or step == self.course.steps
        if ends_epoch and step > self.course.swa_start * self.course.steps:
            self.average.add(model.state_dict())

    def finish(self, model: nn.Module, batches: Callable[[], Iterator[Tensor]]) -> None:
        model.load_state_dict(self.average.weights)
        renew_batch_statistics(model, batches())

    def state_dict(self) -> dict[str, Any]:
        return self.average.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.average.load_state_dict(state)
