"""Which weights count: those of the best validation, if they are asked for; and when to stop early."""

from typing import Any

from torch import Tensor

from durm.methods.averager import copied
from durm.training.callbacks.callback import Callback


class SelectionCallback(Callback):
    """Follows the best validation, and keeps its weights where the trial selects them."""

    key = "best_state"

    def setup(self) -> None:
        trial = self.trainer.trial
        self.keeps_best = trial.average is None and (trial.select == "best-val" or trial.train.patience is not None)
        self.best_state: dict[str, Tensor] | None = None

    def on_validation(self, entry: dict[str, float]) -> None:
        progress = self.trainer.progress
        progress.waited += 1
        if (score := entry[f"val_{self.trainer.task.metric}"]) > progress.best:
            progress.best, progress.best_epoch, progress.waited = score, entry["epoch"], 0
            self.best_state = copied(self.trainer.plain_model.state_dict()) if self.keeps_best else None

    def should_stop(self) -> bool:
        """Whether as many validations as the trial is patient for were no better."""
        patience = self.trainer.trial.train.patience
        return patience is not None and self.trainer.progress.waited >= patience

    def on_end(self) -> None:
        if self.best_state is not None:
            self.trainer.plain_model.load_state_dict(self.best_state)

    def result(self) -> dict[str, Any]:
        progress = self.trainer.progress
        return {"selected_epoch": progress.best_epoch if self.keeps_best else progress.curves[-1]["epoch"]}

    def state(self, *, finished: bool) -> Any:
        return None if finished else self.best_state

    def load_state(self, state: Any) -> None:
        self.best_state = state


class DomainCallback(Callback):
    """For data with domains: the accuracy on the held-out one after each validation, for rules of selection."""

    def on_validation(self, entry: dict[str, float]) -> None:
        entry["test_accuracy"] = self.trainer.measure(self.trainer.bundle.test)["accuracy"]

    def result(self) -> dict[str, Any]:
        """The test accuracy under each rule of selecting weights."""
        trainer, curves = self.trainer, self.trainer.progress.curves
        best = max(curves, key=lambda entry: entry[f"val_{trainer.task.metric}"])  # the first of equals
        found = {
            "last": curves[-1]["test_accuracy"],
            "best-val": best["test_accuracy"],
            "oracle": max(entry["test_accuracy"] for entry in curves),
        }
        if trainer.trial.average is not None:
            found = {"average": trainer.scores.metrics["accuracy"], **found}
        return {"selections": found}
