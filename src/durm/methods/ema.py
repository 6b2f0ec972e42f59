"""Exponential moving average: after every step, average ← d · average + (1 − d) · weights.

In the beginning the decay is smaller, min(d, (1 + t)/(10 + t)) after t steps, so that short runs do not keep their
random start. Buffers, such as the statistics of batch normalisation, are averaged alike.
"""

from collections.abc import Callable, Iterator
from typing import Literal

from torch import Tensor, nn

from durm._config import Share
from durm.methods.averager import Averaged, Averager, AveragerConfig, averager


@averager
class ExponentialMovingAverage(Averager):
    class Config(AveragerConfig):
        """`decay` is d."""

        name: Literal["ema"] = "ema"
        decay: Share = 0.999

    config: Config
    takes_all = True

    def on_step(self, model: nn.Module, step: int) -> None:
        self.average.add(model.state_dict(), 1 - min(self.config.decay, (1 + step) / (10 + step)))

    def averaged(self, steps: int) -> Averaged:
        return Averaged(1, steps, self.average.count)

    def finish(self, model: nn.Module, batches: Callable[[], Iterator[Tensor]] | None) -> None:
        model.load_state_dict(self.average.weights)
