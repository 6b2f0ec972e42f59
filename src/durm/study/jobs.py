"""What an executor does: trials, and what is measured between trials that are done."""

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from durm._text import last_line
from durm._user_code import describe_user_error
from durm.errors import InputError
from durm.study.code_record import CodeChanged, check_code_of
from durm.study.code_study import CodeTrial
from durm.study.data_record import DataChanged, check_data_of
from durm.study.store import Store
from durm.training.trial import AttackSpec, Trial

Event = dict[str, Any]
"""What happens to a trial: {"kind": "started" | "epoch" | "finished" | "measured" | "failed" | "warning",
"trial": id, …}."""
Send = Callable[[Event], None]


@dataclass(frozen=True)
class Execution:
    """How to run a study: none of it changes the numbers.

    Attributes:
        workers: trials at a time; 0 runs them in this process, or, with `ray`, as many as the cluster has room for.
        data_root: the folder of downloaded data sets.
        checkpoint_seconds: the shortest time between two checkpoints of a trial.
        num_workers: processes that read streamed images, for each trial.
        executor: a name in `durm.study.executors`; left out, `processes`, `threads` for commands, or `inline` without
            workers.
        time_limit: seconds after which a command is ended, and lost.
        accept_new_code: whether a function or command that changed since the first trial may go on.
        retry: whether trials that failed before are tried again.
        address: of a Ray cluster, `auto` or `HOST:PORT`; left out, that in RAY_ADDRESS, or Ray is started here.
        trial_cpus: cores that Ray sets aside for a trial; left out, one for each of its threads.
        trial_gpus: GPUs for a trial, such as 0.25; left out, one on device cuda, and none otherwise.
    """

    workers: int = 1
    data_root: Path | None = None
    checkpoint_seconds: float = 30.0
    num_workers: int = 0
    executor: str | None = None
    time_limit: float | None = None
    accept_new_code: bool = False
    retry: bool = True
    address: str | None = None
    trial_cpus: float | None = None
    trial_gpus: float | None = None

    def __post_init__(self) -> None:
        from durm.study.executors import EXECUTORS

        if self.executor is not None:
            _ = EXECUTORS[self.executor]
        for name in ("address", "trial_cpus", "trial_gpus"):
            if (value := getattr(self, name)) is None:
                continue
            if self.executor != "ray":
                raise InputError(f"`{name}` {value} goes with `executor` ray")
            if name == "address" or (name == "trial_gpus" and value == 0) or 0 < value <= 1:
                continue
            if not (value > 1 and float(value).is_integer()):
                raise InputError(f"`{name}` {value:g}: expected a whole number, or a share of one such as 0.25")


@dataclass(frozen=True)
class Job(ABC):
    """One piece of work on the folder of a trial, whose lock its worker holds."""

    trial: Any
    kind: ClassVar[str]

    @abstractmethod
    def is_done(self, store: Store) -> bool: ...

    @abstractmethod
    def work(self, store: Store, execution: Execution, send: Send, stop: Callable[[], bool]) -> None:
        """Does it, and keeps what came out. An error that is raised is kept as the reason why it failed."""

    def is_open(self, store: Store) -> bool:
        return not self.is_done(store) and store.error(self.trial, self.kind) is None

    def run(self, store: Store, execution: Execution, send: Send, stop: Callable[[], bool]) -> None:
        """Whatever it dies of does not take the study with it."""
        from durm.training.trainer import Interrupted

        try:
            _check_input(store, self.trial, execution)
            self.work(store, execution, send, stop)
        except Interrupted:
            return
        except Exception as error:
            reason = _reason(error)
            with suppress(OSError):  # where nothing can be written, the event says it
                store.fail(self.trial, reason, self.kind, pending=_is_no_fault(error))
            send({"kind": "failed", "trial": self.trial.id, "reason": last_line(reason, type(error).__name__)})


def _check_input(store: Store, trial: Any, execution: Execution) -> str:
    """The hash of the data or of the code that the trial depends on, if they are still those of the study."""
    if isinstance(trial, CodeTrial):
        return check_code_of(store)
    return check_data_of(store, trial, execution.data_root)


def _reason(error: Exception) -> str:
    """What is kept. Its last line is what is shown: of an error in the user's own code where that was."""
    expected = isinstance(error, InputError | ArithmeticError | OSError)
    reason = str(error) if expected else traceback.format_exc()
    in_user_code = None if isinstance(error, InputError) else describe_user_error(error)
    return reason if in_user_code is None else f"{traceback.format_exc()}\n{in_user_code}"


def _is_no_fault(error: Exception) -> bool:
    """Whether a trial may well succeed another time: no memory, no disk, data that were changed meanwhile."""
    if isinstance(error, DataChanged | CodeChanged):
        return True
    if getattr(error, "pending", False):
        return True
    if isinstance(error, OSError):
        return not isinstance(error, FileNotFoundError | PermissionError)
    return isinstance(error, MemoryError) or "out of memory" in str(error) or "can't allocate memory" in str(error)


@dataclass(frozen=True)
class TrialJob(Job):
    """A trial, by the runner that it asks for."""

    kind = "trial"

    def is_done(self, store: Store) -> bool:
        return store.is_done(self.trial)

    def work(self, store: Store, execution: Execution, send: Send, stop: Callable[[], bool]) -> None:
        from durm.study.runners import runner_of
        from durm.training.trainer import RunContext

        trial = self.trial

        def event(kind: str, **more: Any) -> None:
            send({"kind": kind, "trial": trial.id, **more})

        event("started", name=trial.folder_name)
        context = RunContext(
            folder=store.begin(trial),
            data_root=execution.data_root,
            checkpoint_seconds=execution.checkpoint_seconds,
            num_workers=execution.num_workers,
            progress=lambda entry, epochs: event("epoch", epochs=epochs, **entry),
            stop=stop,
            warn=lambda sentence: event("warning", message=sentence),
        )
        result = runner_of(trial)(trial, store.study, execution, context)
        seen = "code_sha256" if isinstance(trial, CodeTrial) else "data_sha256"
        where = result.provenance.model_copy(update={seen: self._check_again(store, execution)})
        result = result.model_copy(update={"provenance": where})
        store.keep(trial, result)
        event("finished", metrics=result.metrics, seconds=result.cost.seconds)

    def _check_again(self, store: Store, execution: Execution) -> str:
        """Images may be read from disk until the end. Weights that saw other ones in between are of no use."""
        try:
            return _check_input(store, self.trial, execution)
        except DataChanged:
            (store.trial_folder(self.trial) / "checkpoint.pt").unlink(missing_ok=True)
            raise


@dataclass(frozen=True)
class TransferJob(Job):
    """How attacks on a trial's model fool the baseline's of the same seed, and the other way round, once both are done.

    If what was made on the baseline fools an arm more often than what was made on the arm itself, the arm's gradients
    are masked, and its white-box robustness means little.
    """

    baseline: Trial
    attack: AttackSpec
    kind = "transfer"

    def is_done(self, store: Store) -> bool:
        return bool(store.transfer(self.trial))

    def work(self, store: Store, execution: Execution, send: Send, stop: Callable[[], bool]) -> None:
        """Keeps the accuracy of each model on what was made for the other, in percent."""
        from durm.training.inference import load_model
        from durm.training.robustness import transfer

        send({"kind": "started", "trial": self.trial.id})
        paths = [store.trial_folder(trial) / "checkpoint.pt" for trial in (self.trial, self.baseline)]
        trusted = store.trusted_code
        (ours, _, bundle), (theirs, _, _) = (
            load_model(path, execution.data_root, trust_code=trusted) for path in paths
        )
        data, limit = (bundle.test, bundle.input, self.attack), self.trial.attack_samples
        found = {
            "from_baseline": transfer(theirs, ours, *data, limit=limit),
            "to_baseline": transfer(ours, theirs, *data, limit=limit),
        }
        store.keep_transfer(self.trial, found)
        send({"kind": "measured", "trial": self.trial.id})
