"""Attacks on the trained model, on the test set."""

from typing import Any

import numpy as np

from durm.training.callbacks.callback import Callback


class AttackCallback(Callback):
    def result(self) -> dict[str, Any]:
        """What is left of the accuracy, as `robustness` and, of each attack and surface, as a metric."""
        from durm.training.robustness import robustness

        trainer = self.trainer
        trial, bundle = trainer.trial, trainer.bundle
        found = robustness(
            trainer.plain_model, bundle.test, bundle.input, trial.attacks,
            limit=trial.attack_samples, seed=trial.seed, device=trainer.engine.device,
        )  # fmt: skip
        return {
            "robustness": found,
            "metrics": {f"robust_{key}": attacked.accuracy for key, attacked in found.items()},
            "outcomes": {f"robust_{key}": np.array(attacked.right, np.uint8) for key, attacked in found.items()},
        }
