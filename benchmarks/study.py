"""What a second worker is worth: a study of 16 trials in two worker processes against one after another in one.

    python benchmarks/study.py --out results/study.json

The trials are of the CNN on digits, of about a second each, on one thread. A timing is of the whole study, in a
new folder, from the first 'started' event to the last 'finished' one, by the clock of the process that starts the
workers: that leaves out the start-up, in which the processes are spawned and import torch, and which is recorded apart.
What the second worker is later to start than the first is counted, to our disadvantage.

The two are timed in pairs, in alternating order (see pairs.py). The ratio is of the times, one worker by two; the limit
holds where its 95 % interval reaches it or lies above. The machine must have two idle cores: other work on it leaves
the second worker less to gain.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from pairs import enough_pairs, median_interval, provenance

from durm.study.config import Study
from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import run_study
from durm.study.store import Store

WORKERS = 2
LIMIT = 1.6
STUDY = make_study(
    {"name": "speed", "data": "digits", "model": "cnn", "dummies": [0, 2], "seeds": 8, "train": {"epochs": 25}}
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if the limit does not hold."""
    options = _parser().parse_args(arguments)
    result = measure_study(STUDY, options.pairs)
    print(_HEADER)
    print(result.row())
    if options.out:
        about = {**provenance(), "threads": STUDY.threads}
        options.out.write_text(json.dumps({"provenance": about, "results": [result.record()]}, indent=2) + "\n")
    return 0 if result.holds else 1


@dataclass(frozen=True)
class Timing:
    """Seconds from the call to the first event of a trial, and from there to the end of the last trial."""

    start_up: float
    work: float


@dataclass(frozen=True)
class Result:
    """The median ratio with its 95 % interval, and the median seconds: of work by number of workers, of start-up."""

    case: str
    pairs: int
    ratio: float
    low: float
    high: float
    one_worker_seconds: float
    two_workers_seconds: float
    one_worker_start_up: float
    two_workers_start_up: float

    @property
    def holds(self) -> bool:
        return self.high >= LIMIT

    def record(self) -> dict[str, object]:
        return {**asdict(self), "limit": LIMIT, "holds": self.holds}

    def row(self) -> str:
        seconds = f"{self.one_worker_seconds:.1f}, {self.two_workers_seconds:.1f}"
        start_up = f"{self.one_worker_start_up:.1f}, {self.two_workers_start_up:.1f}"
        interval = f"{self.low:.2f} … {self.high:.2f}"
        columns = f"{self.case:<29}  {seconds:>10}  {start_up:>10}  {self.pairs:>5}  {self.ratio:>6.2f}  {interval:<13}"
        return f"{columns}  ≥ {LIMIT:g}  {'yes' if self.holds else 'NO'}"


_HEADER = f"{'case':<29}  {'seconds':>10}  {'start-up':>10}  pairs  median  {'95 % interval':<13}  limit  holds"


def measure_study(study: Study, pairs: int) -> Result:
    """The study with one worker against the study with two, one after the other, in alternating order."""
    timings: dict[int, list[Timing]] = {1: [], WORKERS: []}
    for pair in range(pairs):
        for workers in (1, WORKERS) if pair % 2 == 0 else (WORKERS, 1):
            timings[workers].append(time_study(study, workers))
    one, two = timings[1], timings[WORKERS]
    ratios = [alone.work / together.work for alone, together in zip(one, two, strict=True)]
    low, high = median_interval(ratios)
    return Result(
        f"{len(study.trials())} trials: 1 worker / {WORKERS}",
        pairs,
        median(ratios),
        low,
        high,
        *(median(timing.work for timing in side) for side in (one, two)),
        *(median(timing.start_up for timing in side) for side in (one, two)),
    )


def time_study(study: Study, workers: int) -> Timing:
    """Runs the whole study in a folder that is removed afterwards.

    Raises:
        RuntimeError: if a trial fails, as then the time says nothing.
    """
    times: dict[str, list[float]] = {"started": [], "finished": []}

    def note(event: dict[str, object]) -> None:
        times.setdefault(str(event["kind"]), []).append(perf_counter())

    with TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "study", study)
        called = perf_counter()
        outcome = run_study(store, Execution(workers=workers), note)
    if len(outcome.done) < len(study.trials()):
        raise RuntimeError(f"not all trials were done: {outcome.failed}")
    return Timing(times["started"][0] - called, times["finished"][-1] - times["started"][0])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times a study with two workers against the same study with one, start-up apart.",
        epilog="Exit code 1 if the limit does not hold: if the whole interval lies below it.",
    )
    parser.add_argument("--pairs", type=enough_pairs, default=6, metavar="N", help="pairs, a minute or so each (6)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
