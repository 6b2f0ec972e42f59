"""Runs a small study in the folder that is given, with frequent checkpoints: the victim of the tests that kill it.

The second argument is the number of worker processes, 2 if it is left out; the third the address of a Ray cluster. A
study that is there goes on.
"""

import sys
from pathlib import Path

from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import run_study
from durm.study.store import Store

STUDY = {"name": "small", "model": "mlp", "dummies": [0, 2], "seeds": 2, "train": {"epochs": 40, "batch_size": 16}}

if __name__ == "__main__":
    folder, workers, address = [*sys.argv[1:], *("2", "")[len(sys.argv) - 2 :]]
    is_there = (Path(folder) / "study.yaml").exists()
    store = Store.open(Path(folder)) if is_there else Store.create(Path(folder), make_study(STUDY))
    executor = {"executor": "ray", "address": address} if address else {}
    outcome = run_study(
        store,
        Execution(workers=int(workers), checkpoint_seconds=0.05, **executor),
        lambda event: print(event["kind"], event["trial"], flush=True),
    )
    sys.exit(len(outcome.failed) + outcome.interrupted)
