"""What a piece of work in this process takes: wall clock, CPU time, memory."""

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from durm.training.result import Cost, peak_memory_of_process


def start_measuring() -> Callable[[], Cost]:
    """Call what it gives when the work is over. Work of other threads of this process counts as well."""
    _forget_peak_memory()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    return lambda: Cost(
        seconds=time.perf_counter() - wall, cpu_seconds=_cpu_seconds() - cpu, peak_memory=_peak_memory()
    )


def _cpu_seconds() -> float:
    """Of this process and of those that it started and waited for."""
    if sys.platform == "win32":
        return time.process_time()
    import resource

    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in times)


def _forget_peak_memory() -> None:
    """Linux can reset the peak; elsewhere it is that of the process since its start."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int:
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return peak_memory_of_process()
