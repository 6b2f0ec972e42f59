"""Runs a small study in the folder that is given, with frequent checkpoints: the victim of the tests that kill it.

The second argument is the number of worker processes, 2 if it is left out; the third the address of a Ray cluster. A
study that is there goes on.
"""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import run_study
from durm.study.store import Store

STUDY = {"name": "small", "model": "mlp", "dummies": [0, 2], "seeds": 2, "train": {"epochs": 15, "batch_size": 16}}


def run(folder: Path, say: Callable[[str], Any], study: dict[str, Any] = STUDY, **execution: Any) -> int:
    """The number of trials that failed, and one more if it was interrupted."""
    is_there = (folder / "study.yaml").exists()
    store = Store.open(folder) if is_there else Store.create(folder, make_study(study))
    outcome = run_study(
        store,
        Execution(**{"workers": 2, "checkpoint_seconds": 0.05, **execution}),
        lambda event: say(f"{event['kind']} {event['trial']}"),
    )
    return len(outcome.failed) + outcome.interrupted


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under nohup
    folder, workers, address = [*sys.argv[1:], *("2", "")[len(sys.argv) - 2 :]]
    ray = {"executor": "ray", "address": address} if address else {}
    sys.exit(run(Path(folder), lambda line: print(line, flush=True), workers=int(workers), **ray))
