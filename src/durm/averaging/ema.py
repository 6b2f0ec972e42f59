"""Exponential moving average: after every step, average ← d · average + (1 − d) · weights.

In the beginning the decay is smaller, min(d, (1 + t)/(10 + t)) after t steps, so that short runs do not keep their
random start. Buffers, such as the statistics of batch normalisation, are averaged alike.
"""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from durm.averaging import AVERAGERS, Average, Course


@AVERAGERS.register("ema")
class ExponentialMovingAverage:
    def __init__(self, model: nn.Module, course: Course) -> None:
        self.decay = course.ema_decay
        self.average = Average(model.state_dict())

    def on_step(self, model: nn.Module, step: int) -> None:
        self.average.add(model.state_dict(), 1 - min(self.decay, (1 + step) / (10 + step)))

    def finish(self, model: nn.Module, batches: Callable[[], Iterator[Tensor]]) -> None:
        model.load_state_dict(self.average.weights)

    def state_dict(self) -> dict[str, Any]:
        return self.average.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.average.load_state_dict(state)
