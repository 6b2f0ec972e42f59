"""Runs a small study in the folder that is given, with frequent checkpoints: the victim of the tests that kill it."""

import sys
from pathlib import Path

from durm.study.executor import Execution, run_study
from durm.study.spec import make_study
from durm.study.store import Store

STUDY = {"name": "small", "model": "mlp", "dummies": [0, 2], "seeds": 2, "train": {"epochs": 15, "batch_size": 16}}

if __name__ == "__main__":
    store = Store.create(Path(sys.argv[1]), make_study(STUDY))
    outcome = run_study(
        store,
        Execution(workers=2, checkpoint_seconds=0.05),
        lambda event: print(event["kind"], event["trial"], flush=True),
    )
    sys.exit(len(outcome.failed) + outcome.interrupted)
