"""What durm adds to a trial that is a function or a command, in milliseconds of CPU.

    python benchmarks/own_code.py --out results/own_code.json

A study of many trials that do nothing, against one of few: the difference of their CPU times (of this process and of
all its children), divided by that of their numbers of trials, is what one trial costs. Starting the workers, which a
study pays once, is recorded apart. From the cost of a command, that of the program itself is taken off, run as often by
subprocess alone. The order alternates; the limit holds where the 95 % interval of the median reaches below it.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from pairs import median_interval, provenance

import durm
from durm._processes import end_server

FEW, MANY = 10, 110
"""Seeds of two arms."""
LIMIT = 50.0
PROGRAM = ["/bin/echo", "1"]


def nothing(seed: int, shift: int) -> float:
    """A trial that costs nothing."""
    return float(seed % 7 + shift)


@dataclass(frozen=True)
class Cost:
    """Milliseconds of CPU for each trial, with a 95 % interval of the median; seconds of CPU to start."""

    case: str
    repeats: int
    milliseconds: float
    low: float
    high: float
    start_up_seconds: float

    @property
    def holds(self) -> bool:
        return self.low <= LIMIT

    def row(self) -> str:
        interval = f"{self.low:.1f} … {self.high:.1f}"
        return f"{self.case:<10} {self.milliseconds:>6.1f} ms  {interval:<14}  start-up {self.start_up_seconds:.1f} s"


def cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def seconds(work: Callable[[], object]) -> float:
    before = cpu()
    work()
    return cpu() - before


def study(seeds: int, **what: object) -> Callable[[], object]:
    arms = {"a": {"shift": 0}, "b": {"shift": 1}}

    def run() -> None:
        with TemporaryDirectory() as folder:
            durm.compare(arms=arms, seeds=seeds, out=Path(folder) / "s", workers=1, quiet=True, **what)  # type: ignore[arg-type]
        end_server()  # so that what its workers took is counted

    return run


def programs() -> None:
    for _ in range(2 * (MANY - FEW)):
        subprocess.run(PROGRAM, capture_output=True, check=True)


def measure(case: str, repeats: int) -> Cost:
    what: dict[str, object] = {"function": nothing}
    if case == "command":
        what = {"command": " ".join(PROGRAM)}
    found, start_ups = [], []
    for repeat in range(repeats):
        sizes = (FEW, MANY) if repeat % 2 == 0 else (MANY, FEW)
        taken = {size: seconds(study(size, **what)) for size in sizes}
        own = seconds(programs) if case == "command" else 0.0
        each = (taken[MANY] - taken[FEW] - own) / (2 * (MANY - FEW))
        found.append(1000 * each)
        start_ups.append(taken[FEW] - 2 * FEW * each)
    low, high = median_interval(found)
    return Cost(case, repeats, median(found), low, high, median(start_ups))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU that durm adds to a trial of a function or a command.")
    parser.add_argument("--repeats", type=int, default=6, metavar="N", help="studies of each size (6)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    options = parser.parse_args(arguments)
    results = [measure(case, options.repeats) for case in ("function", "command")]
    for result in results:
        print(result.row())
    if options.out:
        about = provenance()
        rows = [{**asdict(result), "limit": LIMIT, "holds": result.holds} for result in results]
        options.out.write_text(json.dumps({"provenance": about, "results": rows}, indent=2) + "\n")
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
