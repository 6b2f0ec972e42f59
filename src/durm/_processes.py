"""Worker processes: how they are started, and what keeps interrupts from them meanwhile.

To import torch takes a second or more. So a fork server of `multiprocessing` imports what the trials need once, while
the study is read and checked, and the workers are forked from it, in milliseconds, also those of the next
interim analysis. It computes nothing, which makes that safe: OpenMP and CUDA are not at work in it, and OpenBLAS, which
starts threads when it is imported, ends them before a fork. Each worker says how many threads it takes.

Workers are spawned, and import for themselves, where there is no such server (Windows), where its process could hold
what must not be forked (macOS; GPUs), and before Python 3.11, which would look for modules in the current folder.
"""

import atexit
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

from durm._user_code import safe_path

INTERRUPTS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Ctrl-C; what schedulers and shutdowns send; what a terminal that closes sends."""

CAN_FORK = sys.platform == "linux" and sys.version_info >= (3, 11) and not sys.flags.ignore_environment
WORKER = "durm.study.executors.processes"
TRAINING = ("durm.study.runners.training", "torch._dynamo")
"""What training imports; the latter by the first step of an optimizer."""
WITHOUT_TIMM = ("cnn", "mlp", "lstm", "transformer")
_preloaded = {WORKER: None}


def start_server(*models: str) -> None:
    """Starts the fork server, unless it runs, which imports what is needed to train those models; or else a function.

    It returns at once. The server ends with this process.
    """
    if not CAN_FORK:
        return
    from multiprocessing import forkserver

    from_timm = any(name not in WITHOUT_TIMM and ":" not in name for name in models)
    _preloaded.update(dict.fromkeys([*(TRAINING if models else ()), *(("timm",) if from_timm else ())]))
    _start_tracker()
    with _same_modules(), safe_path(), held_back():  # it must outlive an interrupt; its workers end by themselves
        forkserver.set_forkserver_preload([*_preloaded])
        forkserver.ensure_running()
    atexit.unregister(_end_server_of)
    atexit.register(_end_server_of, os.getpid())


def end_server() -> None:
    """Ends the fork server, if there is one. It may still be importing, for a command that found something wrong."""
    from multiprocessing.forkserver import _forkserver

    pid = getattr(_forkserver, "_forkserver_pid", None)
    if pid is not None:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            _forkserver._stop()  # type: ignore[attr-defined]


def start_process(target: Any, arguments: tuple[Any, ...], *, on_gpu: bool = False) -> Any:
    """Starts a process, which begins with interrupts held back and should call `began_in` first."""
    methods = [*(("forkserver",) if CAN_FORK and not on_gpu else ()), "spawn"]
    for method in methods:
        if method == "forkserver":
            start_server()
        _start_tracker()
        context: Any = multiprocessing.get_context(method)
        process = context.Process(target=target, args=arguments)
        try:
            with safe_path(), held_back():
                process.start()
        except (ConnectionError, EOFError):  # the fork server was killed, or could not import something
            if method == "spawn":
                raise
        else:
            return process
    raise AssertionError


def began_in(environment: dict[str, str]) -> None:
    """In the new process: the environment is that of the parent now, and the random numbers of numpy are its own."""
    os.environ.clear()
    os.environ.update(environment)
    if (random := sys.modules.get("numpy.random")) is not None:
        random.seed()


@contextmanager
def held_back() -> Iterator[None]:
    """Interrupts wait until the end of the context. A process that is started in it begins with them held back."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_tracker() -> None:
    """It lets interrupts through when it is started, and must not while they are held back."""
    if hasattr(signal, "pthread_sigmask"):
        with safe_path():
            resource_tracker.ensure_running()


@contextmanager
def _same_modules() -> Iterator[None]:
    """Python that is started within looks for modules where this process does, but never in the current folder."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _end_server_of(owner: int) -> None:
    if os.getpid() == owner:
        end_server()
