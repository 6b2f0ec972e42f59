"""A Python function of a seed and the parameters of the arm, which gives a number or a dict of numbers."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from durm.errors import InputError
from durm.study.base import BaseStudy
from durm.study.code_study import CodeStudy, CodeTrial
from durm.study.jobs import Execution
from durm.study.output import LimitedFile
from durm.study.runners import RUNNERS, read_metrics
from durm.study.usage import start_measuring
from durm.training.result import SCHEMA_VERSION, Result, machine
from durm.training.trainer import RunContext


@RUNNERS.register("function")
def run(trial: CodeTrial, study: BaseStudy, execution: Execution, context: RunContext) -> Result:
    """Calls it here. In a worker process, what it prints goes to stdout.txt and stderr.txt of the trial."""
    assert isinstance(study, CodeStudy)
    assert context.folder is not None
    if study.function is None:
        raise InputError(f"the function {trial.run.function} lies in no file; go on with it by durm.compare in Python")
    measured = start_measuring()
    with _printing_to(context.folder) if execution.workers else contextlib.nullcontext():
        given = study.function(trial.seed, **trial.params)
    cost = measured()
    torch = getattr(sys.modules.get("torch"), "__version__", None)
    return Result(
        schema_version=SCHEMA_VERSION,
        trial=trial.id,
        metrics=read_metrics(given, f"what {trial.run.function} returned", study.metric),
        cost=cost,
        provenance=machine().model_copy(update={"torch": torch}),
    )


@contextlib.contextmanager
def _printing_to(folder: Path) -> Iterator[None]:
    with (
        LimitedFile(folder / "stdout.txt") as out,
        LimitedFile(folder / "stderr.txt") as err,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        yield
