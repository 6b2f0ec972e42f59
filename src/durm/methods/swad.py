"""Stochastic weight averaging densely, SWAD (Cha et al., 2021): the mean of the weights after every step of a valley.

The validation loss, here that of the real classes, is measured every so often, at t_1, t_2, …

- The valley begins at t_s, the first loss that the next `converge` − 1 do not undercut. Its threshold is
  `ratio` times the mean of these `converge` losses.
- It ends at t_e, the last validation before `tolerance` losses in a row that all lie above the threshold; or with the
  training.

The average is over all steps t_s ≤ t ≤ t_e. If no valley has begun when the training ends, it is over the steps between
the last two validations. Batch normalisation's statistics are then taken again from the training data.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, TypedDict

from pydantic import Field
from torch import Tensor, nn

from durm._config import Positive
from durm.methods.averager import Average, Averaged, Averager, AveragerConfig, Length, averager, copied


class Segment(TypedDict):
    """The steps after one validation up to the next, `end`: the mean of their weights, the last of them, its loss."""

    mean: dict[str, Any]
    last: dict[str, Tensor]
    end: int
    loss: float


@averager
class DenselyAveraged(Averager):
    """`start` and `end` are t_s and t_e, None as long as they are not known."""

    class Config(AveragerConfig):
        """How a valley is found.

        Attributes:
            converge: validation losses that must not undercut the one where the valley begins.
            tolerance: losses in a row above the threshold that end it.
            ratio: the threshold as a multiple of the mean of the first `converge` losses.
        """

        name: Literal["swad"] = "swad"
        converge: Positive = 3
        tolerance: Positive = 6
        ratio: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.3

    config: Config

    def __init__(self, config: Config, model: nn.Module, length: Length) -> None:
        super().__init__(config, model, length)
        self.start: int | None = None
        self.end: int | None = None
        self.threshold = 0.0
        self.running = Average(model.state_dict())
        self.queue: deque[Segment] = deque()

    def on_step(self, model: nn.Module, step: int) -> None:
        if self.end is None:
            self.running.add(model.state_dict())

    def on_validation(self, model: nn.Module, step: int, loss: float) -> None:
        if self.end is not None:
            return
        last = copied(model.state_dict())
        self.queue.append(Segment(mean=self.running.state_dict(), last=last, end=step, loss=loss))
        self.running = Average(model.state_dict())
        if self.start is None:
            self._seek_start()
        else:
            self._seek_end()

    def _seek_start(self) -> None:
        """The queue holds the last validations that could all belong to the beginning of a valley."""
        count = self.config.converge
        if len(self.queue) > count:
            self.queue.popleft()
        losses = [segment["loss"] for segment in self.queue]
        if len(losses) == count and losses[0] == min(losses):
            first = self.queue.popleft()
            self.start, self.threshold = first["end"], self.config.ratio * sum(losses) / count
            self.average.add(first["last"])

    def _seek_end(self) -> None:
        """The queue holds the validations that could all belong to the end of the valley; those before are averaged."""
        while len(self.queue) > self.config.tolerance:
            self._take()
        if len(self.queue) == self.config.tolerance and all(segment["loss"] > self.threshold for segment in self.queue):
            first = self.queue[0]
            self.end = first["end"] - first["mean"]["count"]
            self.queue.clear()

    def _take(self) -> None:
        self.average.add(**self.queue.popleft()["mean"])

    def averaged(self, steps: int) -> Averaged:
        if self.start is None:
            return Averaged(steps - self.average.count + 1, steps, self.average.count)
        return Averaged(self.start, steps if self.end is None else self.end, self.average.count)

    def without_effect(self, steps: int) -> list[str]:
        if self.start is not None:
            return super().without_effect(steps)
        first = self.averaged(steps).start
        return [
            f"swad found no valley in the validation loss, which takes {self.config.converge} validations: it averaged "
            f"{'everything' if first == 1 else 'what lies between the last two'}, steps {first} to {steps} of {steps}"
        ]

    def finish(self, model: nn.Module, batches: Callable[[], Iterator[Tensor]] | None) -> None:
        """The training ends with a validation, so that every step is in a segment."""
        if self.start is None:
            self.average.load_state_dict(self.queue[-1]["mean"])
        while self.start is not None and self.queue:
            self._take()
        super().finish(model, batches)

    def state_dict(self) -> dict[str, Any]:
        return {
            **{"start": self.start, "end": self.end, "threshold": self.threshold},
            **{"average": self.average.state_dict(), "running": self.running.state_dict()},
            "queue": list(self.queue),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start, self.end, self.threshold = state["start"], state["end"], state["threshold"]
        self.average.load_state_dict(state["average"])
        self.running.load_state_dict(state["running"])
        self.queue = deque(state["queue"])
