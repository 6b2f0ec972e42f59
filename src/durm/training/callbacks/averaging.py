"""An average of weights takes the place of the last ones."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from torch import Tensor

from durm.methods import AVERAGERS, Length
from durm.training.callbacks.callback import Callback


class AveragingCallback(Callback):
    key = "averager"

    def setup(self) -> None:
        config = self.trainer.trial.average
        assert config is not None
        length = Length(self.trainer.steps, self.trainer.loader.steps_per_epoch)
        self.averager = AVERAGERS[config.name](config, self.trainer.plain_model, length)
        self.finished: dict[str, Any] | None = None  # what it adds to the result, once the average is in the model

    def on_step(self) -> None:
        self.averager.on_step(self.trainer.plain_model, self.trainer.progress.step)

    def on_validation(self, entry: dict[str, float]) -> None:
        self.averager.on_validation(self.trainer.plain_model, self.trainer.progress.step, entry["val_nll"])

    def on_end(self) -> None:
        if self.finished is None:
            frozen, steps = self.trainer.trial.train.freeze_batchnorm, self.trainer.progress.step
            self.averager.finish(self.trainer.plain_model, None if frozen else self._epoch_of_inputs)
            made, warnings = asdict(self.averager.averaged(steps)), self.averager.without_effect(steps)
            self.finished = {"averaging": made, "warnings": warnings}

    def result(self) -> dict[str, Any]:
        return self.finished or {}

    def state(self, *, finished: bool) -> Any:
        return {"finished": self.finished} if finished else self.averager.state_dict()

    def load_state(self, state: Any) -> None:
        if state is None:  # an earlier version finished it, and kept no more than the averaged weights
            self.finished = {}
        elif "finished" in state:
            self.finished = state["finished"]
        else:
            self.averager.load_state_dict(state)

    def _epoch_of_inputs(self) -> Iterator[Tensor]:
        """An epoch of training inputs, augmented as for one more epoch, for the plain model in its own precision."""
        trainer = self.trainer
        precision = next(trainer.plain_model.parameters()).dtype
        batches = trainer.task.loader().epoch(trainer.epochs)  # whole ones, also where several processes share them
        inputs = (trainer.on_device(batch).inputs for batch in batches)
        return (values.to(precision) if values.is_floating_point() else values for values in inputs)
