"""Probes watch every step of a training."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from durm._ranks import of_all, rank
from durm.training.callbacks.callback import Callback


class ProbesCallback(Callback):
    key = "watch"

    def setup(self) -> None:
        from durm.probes import watch

        trial, objective = self.trainer.trial, self.trainer.objective
        self.watch = watch(self.trainer.plain_model, trial.probes, label_smoothing=trial.train.label_smoothing)
        self.logits: list[tuple[Tensor, Tensor]] = []  # and targets, of every cross-entropy of a step
        objective.context = replace(objective.context, on_logits=lambda *seen: self.logits.append(seen))

    def on_backward(self) -> None:
        logits, targets = (torch.cat(parts) for parts in zip(*self.logits, strict=True))
        self.logits.clear()
        self.watch.step(logits, targets)

    def before_validation(self) -> None:
        self.watch.epoch()

    def result(self) -> dict[str, Any]:
        return {"probes": self.watch.results()}

    def state(self, *, finished: bool) -> Any:
        """Of all processes, as one; an epoch's parts would otherwise be lost with their number."""
        return self.watch.merge_states(of_all(self.watch.state_dict()))

    def load_state(self, state: Any) -> None:
        self.watch.load_state_dict(state, counts=rank() == 0)
