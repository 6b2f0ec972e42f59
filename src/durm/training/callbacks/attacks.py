"""Attacks on the trained model, on the test set."""

from typing import TYPE_CHECKING, Any

import numpy as np

from durm.training.callbacks.callback import Callback

if TYPE_CHECKING:
    from durm.training.robustness import Attempts


class AttackCallback(Callback):
    """What was attacked stands in the checkpoint, so a run that is interrupted goes on with the next batch."""

    key = "attacks"

    def setup(self) -> None:
        self.attempts: Attempts = {}

    def result(self) -> dict[str, Any]:
        """What is left of the accuracy, as `robustness` and, of each attack and surface, as a metric."""
        from durm.training.robustness import robustness

        trainer = self.trainer
        trial, bundle = trainer.trial, trainer.bundle
        found = robustness(
            trainer.plain_model, bundle.test, bundle.input, trial.attacks, limit=trial.attack_samples,
            seed=trial.seed, device=trainer.engine.device, attempts=self.attempts, on_batch=self._on_batch,
        )  # fmt: skip
        return {
            "robustness": found,
            "metrics": {f"robust_{key}": attacked.accuracy for key, attacked in found.items()},
            "outcomes": {f"robust_{key}": np.array(attacked.right, np.uint8) for key, attacked in found.items()},
        }

    def _on_batch(self) -> None:
        self.trainer.agree()
        self.trainer.checkpoint.save_if_due(finished=True)
        self.trainer.stop_if_asked(finished=True)

    def state(self, *, finished: bool) -> "Attempts":
        return self.attempts

    def load_state(self, state: Any) -> None:
        self.attempts = dict(state or {})
