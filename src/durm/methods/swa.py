"""Stochastic weight averaging (Izmailov et al., 2018): the mean of the weights after each of the last epochs.

It begins after a share of the training (`start`, three quarters); batch normalisation's statistics are then taken from
the training data again.
"""

from typing import Literal

from torch import nn

from durm._config import Share
from durm.methods.averager import Averaged, Averager, AveragerConfig, averager


@averager
class StochasticWeightAveraging(Averager):
    class Config(AveragerConfig):
        """`start` is the share of the training after which averaging begins."""

        name: Literal["swa"] = "swa"
        start: Share = 0.75

    config: Config

    def on_step(self, model: nn.Module, step: int) -> None:
        ends_epoch = step % self.length.steps_per_epoch == 0 or step == self.length.steps
        if ends_epoch and step > self.config.start * self.length.steps:
            self.average.add(model.state_dict())

    def averaged(self, steps: int) -> Averaged:
        epoch = self.length.steps_per_epoch
        first = min((int(self.config.start * self.length.steps) // epoch + 1) * epoch, self.length.steps)
        return Averaged(first, steps, self.average.count)
