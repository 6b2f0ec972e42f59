"""How the benchmarks here measure: as ratios of two things timed in turn, in one run on one machine.

A time in milliseconds says as much about the machine as about the code. So each benchmark times two things side by
side: a pair is one timing of each, in alternating order, and gives one ratio. What disturbs the machine for longer than
a pair disturbs both, and what disturbs it for shorter makes an outlier, which the median does not mind.

    comparison = compare(usual, ours, pairs=200)
    comparison.ratio, comparison.low, comparison.high  # median of ours / usual, and its 95 % interval
"""

import argparse
import gc
import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from math import comb
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Protocol

import torch

import durm
from durm.training.result import machine

FEWEST_PAIRS = 6
"""With fewer, even the range from the least ratio to the greatest covers the median with less than 95 %."""


@dataclass(frozen=True)
class Comparison:
    """The median ratio of two times with its 95 % interval, and the median times themselves."""

    pairs: int
    ratio: float
    low: float
    high: float
    usual_milliseconds: float
    other_milliseconds: float


def compare(
    usual: Callable[[], object],
    other: Callable[[], object],
    *,
    pairs: int,
    block: int = 1,
    warm_up: int = 5,
    clock: Callable[[], int] = perf_counter_ns,
) -> Comparison:
    """Times `other` against `usual` in interleaved pairs; a ratio above 1 says that `other` takes longer.

    Args:
        usual: what is timed first in the even pairs.
        other: what is timed first in the odd ones.
        pairs: how many pairs are kept.
        block: how many calls one timing is of; for calls so short that the clock and the scheduler would show.
        warm_up: how many pairs go before, unkept.
        clock: what tells the time, in nanoseconds; `time.process_time_ns` for work of one process on a busy machine.
    """
    times: list[tuple[int, int]] = []
    collecting = gc.isenabled()
    gc.disable()  # as timeit does: its pauses would fall on whichever is being timed
    try:
        for pair in range(-warm_up, pairs):
            if pair % 2 == 0:
                usual_time = _nanoseconds(usual, block, clock)
                other_time = _nanoseconds(other, block, clock)
            else:
                other_time = _nanoseconds(other, block, clock)
                usual_time = _nanoseconds(usual, block, clock)
            if pair >= 0:
                times.append((usual_time, other_time))
    finally:
        if collecting:
            gc.enable()
    ratios = [other_time / usual_time for usual_time, other_time in times]
    low, high = median_interval(ratios)
    usual_median, other_median = (median(column) / block / 1e6 for column in zip(*times, strict=True))
    return Comparison(pairs, median(ratios), low, high, usual_median, other_median)


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """A distribution-free confidence interval for the median of the distribution that the values come from.

    The number of n independent values that lie below the median is binomial, B(n, 1/2). So the interval from the r-th
    smallest value to the r-th greatest misses the median with probability 2 P(B <= r - 1), and at most that if the
    distribution has atoms; r is the greatest for which this is at most 1 - level. Exact for any n, no normal
    approximation (Thompson, On confidence ranges for the median…, Ann. Math. Statist. 7, 1936; Conover, Practical
    Nonparametric Statistics, 3rd ed., section 3.2).

    Raises:
        ValueError: if there are too few values for any interval of that level.

    Example:
        >>> median_interval(range(1, 11))  # covers with 1 - 2 (1 + 10) / 1024 = 0.9785
        (2, 9)
    """
    count = len(values)
    rank, ways = 0, 1  # ways: how many of the 2^n outcomes have at most `rank` values below the median
    while 2 * ways / 2**count <= 1 - level:
        rank += 1
        ways += comb(count, rank)
    if rank == 0:
        raise ValueError(f"{count} values are too few for an interval of level {level}")
    ordered = sorted(values)
    return ordered[rank - 1], ordered[count - rank]


def provenance() -> dict[str, str | int]:
    """What the numbers of a run were measured with."""
    return {
        "durm": durm.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count() or 1,
        "commit": machine().commit or "unknown",
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def _nanoseconds(call: Callable[[], object], block: int, clock: Callable[[], int]) -> int:
    start = clock()
    for _ in range(block):
        call()
    return clock() - start


def _cpu() -> str:
    """The name of the processor, from Linux where it gives one."""
    listing = Path("/proc/cpuinfo")
    for line in listing.read_text().splitlines() if listing.exists() else []:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown"


def enough_pairs(text: str) -> int:
    """The value of a `--pairs` flag: at least so many that the interval exists."""
    if not text.isdecimal() or int(text) < FEWEST_PAIRS:
        raise argparse.ArgumentTypeError(f"expected a whole number, at least {FEWEST_PAIRS}, not {text!r}")
    return int(text)


class Told(Protocol):
    """A comparison as a benchmark tells of it: a row of its table, a record for JSON, and whether its limit holds."""

    @property
    def holds(self) -> bool: ...

    def row(self) -> str: ...

    def record(self) -> dict[str, object]: ...


def tell(header: str, results: Iterable[Told], out: Path | None, **about: object) -> int:
    """Prints results as they come, and writes them with what there is to know about them; the exit code.

    That is 1 if a limit does not hold. `about` may bring a `provenance` of its own.
    """
    print(header)
    kept = []
    for result in results:
        print(result.row(), flush=True)
        kept.append(result)
    if out:
        record = {"provenance": provenance(), **about, "results": [result.record() for result in kept]}
        out.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if all(result.holds for result in kept) else 1
