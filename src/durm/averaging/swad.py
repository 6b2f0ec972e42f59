"""Stochastic weight averaging densely, SWAD (Cha et al., 2021): the mean of the weights after every step of a valley.

The validation loss, here that of the real classes, is looked at every so often, at t_1, t_2, …

- The valley begins at t_s, the first loss that the next `swad_converge` − 1 do not undercut. Its threshold is
  `swad_ratio` times the mean of these `swad_converge` losses.
- It ends at t_e, the last look before `swad_tolerance` losses in a row that all lie above the threshold; or with the
  training.

The average is over all steps t_s ≤ t ≤ t_e. If no valley has begun when the training ends, it is over the steps between
the last two looks. Batch normalisation's statistics are then taken anew from the training data.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from durm.averaging import AVERAGERS, Average, Course, copied, renew_batch_statistics


@dataclass(frozen=True)
class Segment:
    """The steps after one look up to the next, `end`: the mean of their weights, the last of them, and its loss."""

    mean: Average
    last: dict[str, Tensor]
    end: int
    loss: float

    def state_dict(self) -> dict[str, Any]:
        return {"mean": self.mean.state_dict(), "last": self.last, "end": self.end, "loss": self.loss}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Segment":
        mean = Average(state["mean"]["weights"], state["mean"]["count"])
        return cls(mean, state["last"], state["end"], state["loss"])


@AVERAGERS.register("swad")
class DenselyAveraged:
    """`start` and `end` are t_s and t_e, None as long as they are not known."""

    def __init__(self, model: nn.Module, course: Course) -> None:
        self.course = course
        self.start: int | None = None
        self.end: int | None = None
        self.threshold = 0.0
        self.average = Average(model.state_dict())
        self.running = Average(model.state_dict())
        self.queue: deque[Segment] = deque()

    def on_step(self, model: nn.Module, step: int) -> None:
        if self.end is None:
            self.running.add(model.state_dict())

    def on_validation(self, model: nn.Module, step: int, loss: float) -> None:
        if self.end is not None:
            return
        self.queue.append(Segment(self.running, copied(model.state_dict()), step, loss))
        self.running = Average(model.state_dict())
        if self.start is None:
            self._seek_start()
        else:
            self._seek_end()

    def _seek_start(self) -> None:
        """The queue holds the last looks that could all belong to the beginning of a valley."""
        count = self.course.swad_converge
        if len(self.queue) > count:
            self.queue.popleft()
        losses = [segment.loss for segment in self.queue]
        if len(losses) == count and losses[0] == min(losses):
            first = self.queue.popleft()
            self.start, self.threshold = first.end, self.course.swad_ratio * sum(losses) / count
            self.average.add(first.last)

    def _seek_end(self) -> None:
        """The queue holds the looks that could all belong to the end of the valley; those before are averaged."""
        while len(self.queue) > self.course.swad_tolerance:
            self._take()
        if len(self.queue) == self.course.swad_tolerance and all(s.loss > self.threshold for s in self.queue):
            first = self.queue[0]
            self.end = first.end - first.mean.count
            self.queue.clear()

    def _take(self) -> None:
        mean = self.queue.popleft().mean
        self.average.add(mean.weights, count=mean.count)

    def finish(self, model: nn.Module, batches: Callable[[], Iterator[Tensor]]) -> None:
        """The training ends with a look, so that every step is in a segment."""
        if self.start is None:
            self.average = self.queue[-1].mean
        while self.start is not None and self.queue:
            self._take()
        model.load_state_dict(self.average.weights)
        renew_batch_statistics(model, batches())

    def state_dict(self) -> dict[str, Any]:
        return {
            **{"start": self.start, "end": self.end, "threshold": self.threshold},
            **{"average": self.average.state_dict(), "running": self.running.state_dict()},
            "queue": [segment.state_dict() for segment in self.queue],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start, self.end, self.threshold = state["start"], state["end"], state["threshold"]
        self.average.load_state_dict(state["average"])
        self.running.load_state_dict(state["running"])
        self.queue = deque(Segment.from_state_dict(segment) for segment in state["queue"])
