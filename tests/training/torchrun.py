"""`torchrun -m tests.training.torchrun FOLDER`: one trial over the processes, with a checkpoint after every step.

With DURM_TEST_DIES=n the last process kills itself in its n-th training step.
"""

import os
import signal
import sys
from pathlib import Path

from durm.training import launch
from durm.training.trainer import RunContext, run
from durm.training.trial import TrainSpec, Trial
from tests.training.plain import network

STEPS = 20


def deadly(num_classes: int) -> object:
    model, steps = network(num_classes), 0

    def count(module: object, inputs: object) -> None:
        nonlocal steps
        steps += model.training
        if steps == int(os.environ.get("DURM_TEST_DIES", "0")) and os.environ.get("RANK") == "1":
            os.kill(os.getpid(), signal.SIGKILL)

    model.register_forward_pre_hook(count)
    return model


def trial() -> Trial:
    train = {"iterations": STEPS, "batch_size": 32, "validate_every": 5, "augment": "crop-flip", "lr": 0.1}
    return Trial(
        data="digits",
        model="tests.training.torchrun:deadly",
        dummies=2,
        probes=("gradient_variance", "dummy_mass", "gradient_norm", "distance"),
        train=TrainSpec.model_validate(train),
    )


if __name__ == "__main__":
    if launch.join():
        run(trial(), RunContext(folder=Path(sys.argv[1]), checkpoint_seconds=0))
        launch.release(0)
    else:
        sys.exit(launch.follow())
