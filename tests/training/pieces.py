"""A run that is cut off again and again."""

from pathlib import Path

from durm.training.result import Result
from durm.training.trainer import Interrupted, RunContext, run
from durm.training.trial import Trial


def run_in_pieces(described: Trial, folder: Path, steps: int) -> tuple[Result, int]:
    """The trial, stopped after every so many steps and taken up again; and how often it was stopped."""
    steps_left = 0

    def stop() -> bool:
        nonlocal steps_left
        steps_left -= 1
        return steps_left < 0

    interruptions = 0
    while True:
        steps_left = steps
        try:
            return run(described, RunContext(folder=folder, stop=stop)), interruptions
        except Interrupted:
            interruptions += 1
