"""How one trial is run, one runner to a file: durm's own training loop, a Python function, a command."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from durm._registry import Registry
from durm.errors import InputError
from durm.study.base import AnyTrial, BaseStudy
from durm.study.jobs import Execution
from durm.training.result import Result
from durm.training.trainer import RunContext

Runner = Callable[[Any, BaseStudy, Execution, RunContext], Result]
"""From a trial of a study to its result. It may raise; what it keeps for later goes into `context.folder`."""
RUNNERS: Registry[Runner] = Registry("runner", "durm.study.runners")


def runner_of(trial: AnyTrial) -> Runner:
    return RUNNERS[trial.runner]


class RunFailed(InputError):
    """Code that is not durm's did not give a result. `pending` if it may well do so another time: it was killed."""

    def __init__(self, reason: str, *, pending: bool = False) -> None:
        super().__init__(reason)
        self.pending = pending


def read_metrics(given: Any, source: str, name: str | None = None) -> dict[str, float]:
    """Metrics from a number, which is called by the name or `value`, or from a mapping of names to numbers; what is no
    number there is passed over.

    Raises:
        RunFailed: if there is no number, or one that is not finite.
    """
    values = given if isinstance(given, Mapping) else {name or "value": given}
    found = {str(key): number for key, value in values.items() if (number := _number(value)) is not None}
    if not found:
        shown = f"{type(given).__name__} {str(given)[:80]!r}" if given is not None else "None"
        raise RunFailed(f'{source} is {shown}; expected a number, or names with numbers such as {{"accuracy": 93.1}}')
    for key, number in found.items():
        if not math.isfinite(number):
            raise RunFailed(f"{source}: {key} is {number}, which is not finite")
    return found


def _number(value: Any) -> float | None:
    """Also of numpy and torch: anything that holds one number."""
    if isinstance(value, str | bytes | bool) or value is None or getattr(value, "shape", ()) != ():
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
