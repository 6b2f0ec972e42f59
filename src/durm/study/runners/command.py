"""A command: any program of any language, by a small protocol.

The program finds the seed, the arm and its parameters in its arguments, and in DURM_SEED, DURM_ARM, DURM_PARAMS (JSON);
DURM_FOLDER is a folder of the trial's, in which it may keep checkpoints. It gives its metrics as `metrics.json` in that
folder, or as the last line that it prints: a JSON object, or a number.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from durm._files import make_folder, read_bytes, remove
from durm.study.base import BaseStudy
from durm.study.code_study import CodeStudy, CodeTrial
from durm.study.command_line import fill, split_command
from durm.study.jobs import Execution
from durm.study.output import LimitedFile
from durm.study.runners import RUNNERS, RunFailed, read_metrics
from durm.training.result import SCHEMA_VERSION, Cost, Result, machine
from durm.training.trainer import Interrupted, RunContext

GRACE_SECONDS = 10.0
"""Between SIGTERM and SIGKILL."""
POLL_SECONDS = 0.2
clock = time.monotonic
CHUNK = 1 << 16
FROM_OUTSIDE = [getattr(signal, name) for name in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name)]
"""Signals that others send, as when the memory is full; after them a trial is pending, not lost."""


@RUNNERS.register("command")
def run(trial: CodeTrial, study: BaseStudy, execution: Execution, context: RunContext) -> Result:
    assert isinstance(study, CodeStudy)
    assert context.folder is not None
    assert trial.run.command is not None
    files, printed = context.folder / "files", context.folder / "stdout.txt"
    if printed.exists():
        _kill_earlier(files)
    make_folder(files)
    remove(files / "metrics.json")
    words = fill(
        split_command(trial.run.command),
        {**trial.params, "seed": trial.seed, "arm": trial.arm, "folder": str(files.resolve())},
    )
    with LimitedFile(printed) as out, LimitedFile(context.folder / "stderr.txt") as err:
        code, cost = _Program(words, _environment(trial, files, execution.workers)).follow(
            out, err, context.stop, execution.time_limit
        )
    if code != 0:
        raise _failure(code, err.last_line() or out.last_line())
    return Result(
        schema_version=SCHEMA_VERSION,
        trial=trial.id,
        metrics=_metrics(files / "metrics.json", out, study.metric),
        cost=cost,
        provenance=machine(),
    )


def _environment(trial: CodeTrial, files: Path, workers: int) -> dict[str, str]:
    return {
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // max(1, workers))),
        **os.environ,
        "DURM_SEED": str(trial.seed),
        "DURM_ARM": trial.arm,
        "DURM_FOLDER": str(files.resolve()),
        "DURM_PARAMS": json.dumps(trial.params),
    }


class _Program:
    """A program that runs in a process group of its own."""

    def __init__(self, words: list[str], environment: Mapping[str, str]) -> None:
        pipe: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.started = clock()
        self.process = subprocess.Popen(words, env=environment, start_new_session=True, **pipe)
        self.over = threading.Event()
        self.usage: Any = None

    def follow(
        self, out: LimitedFile, err: LimitedFile, stop: Callable[[], bool], time_limit: float | None
    ) -> tuple[int, Cost]:
        """Its exit code and cost. What it prints goes into the files.

        Raises:
            Interrupted: if it was asked to stop.
            RunFailed: if it took too long.
        """
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        readers = [_reading(self.process.stdout, out), _reading(self.process.stderr, err)]
        threading.Thread(target=self._wait, daemon=True).start()
        try:
            while not self.over.wait(POLL_SECONDS):
                if stop():
                    raise Interrupted
                if time_limit is not None and clock() - self.started > time_limit:
                    raise RunFailed(f"it took longer than the time limit of {time_limit:g} seconds")
        finally:
            self._end()
            for reader in readers:
                reader.join(GRACE_SECONDS)  # a process that left the group may hold the pipe
        seconds = clock() - self.started
        cpu = self.usage.ru_utime + self.usage.ru_stime
        memory = self.usage.ru_maxrss * 1024
        return self.process.returncode, Cost(seconds=seconds, cpu_seconds=cpu, peak_memory=memory)

    def _wait(self) -> None:
        """The system says at its end what it took."""
        _, status, self.usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.over.set()

    def _end(self) -> None:
        """Ends what is left of the group: SIGTERM first, SIGKILL after a while."""
        if not self.over.is_set():
            self._signal(signal.SIGTERM)
            self.over.wait(GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        self.over.wait()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def _reading(pipe: IO[bytes], file: LimitedFile) -> threading.Thread:
    def read() -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), CHUNK):
                file.write_bytes(chunk)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _failure(code: int, last_line: str) -> RunFailed:
    if code < 0:
        name = signal.Signals(-code).name
        return RunFailed(f"the program was ended by {name}", pending=-code in FROM_OUTSIDE)
    return RunFailed(f"the program ended with exit code {code}: {last_line[:200] or 'it said nothing'}")


def _metrics(path: Path, out: LimitedFile, name: str | None) -> dict[str, float]:
    content = read_bytes(path)
    if content is not None:
        try:
            return read_metrics(json.loads(content), "metrics.json")
        except (ValueError, RecursionError) as error:
            if isinstance(error, RunFailed):
                raise
            raise RunFailed(f"metrics.json is not valid JSON: {error}") from None
    line = out.last_line()
    if not line:
        raise RunFailed("the program printed nothing; expected a number or a JSON object as its last line")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = line
    if isinstance(value, bool) or not isinstance(value, int | float | dict):
        raise RunFailed(f"the last line {line[:80]!r} is neither a number nor a JSON object")
    return read_metrics(value, "the last line", name)


def _kill_earlier(files: Path) -> None:
    """A durm that was killed may have left its program behind; it must not write into the folder from now on."""
    mark = f"DURM_FOLDER={files.resolve()}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            pid = int(environment.parent.name)
            if mark in environment.read_bytes().split(b"\0") and pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
