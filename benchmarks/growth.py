"""How time and memory grow with the number of classes, of trials and of images: at most in proportion.

    python benchmarks/growth.py --out results/growth.json

- classes, 10 to 100,000: a trial of an MLP with two dummies, 20 steps of 64 samples, evaluated, on 200,000 samples of
  16 features whatever the number of classes;
- trials, 10 to 10,000: of two arms, with the result and the outcomes of a real trial of digits; to keep them all
  (store), to list their states (status), to read and judge them (summary), to write the page, and its size;
- images, 1,000 to 100,000: PNG files of 32 px in class folders; to hash, decode and split them the first time, and to
  load them again and go through them once.

Each is measured in a process of its own: seconds of CPU, which other work on the machine changes less than the clock,
and the peak of its memory so far above that at the beginning. The slope is that of the straight line through the
logarithms, and `last` that of the last tenfold alone, where what does not grow weighs least. A case holds if neither is
above the limit, 1 being proportion. Less than a tenth of a second, or than 32 MB, counts as that much.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pairs import tell

LIMIT = 1.15
PAGE_LIMIT = 10 * 10**6
LEAST = {"seconds": 0.1, "megabytes": 32.0}
"""What is less than this in all sizes is noise."""
SIZES = {
    "classes": (10, 100, 1_000, 10_000, 100_000),
    "trials": (10, 100, 1_000, 10_000),
    "images": (1_000, 10_000, 100_000),
}
Measured = dict[str, dict[str, float]]
"""What was done → seconds, megabytes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if something grows faster than in proportion."""
    options = _parser().parse_args(arguments)
    if options.measure:
        name, size = options.measure
        print(json.dumps(MEASURES[name](int(size))))
        return 0
    return tell(_HEADER, measure_growth(options.case or [*SIZES], options.largest), options.out)


@dataclass(frozen=True)
class Result:
    """What one thing takes in each size."""

    case: str
    what: str
    sizes: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def slope(self) -> float:
        return fitted_slope(self.sizes, self._above_noise)

    @property
    def last(self) -> float:
        return fitted_slope(self.sizes[-2:], self._above_noise[-2:])

    @property
    def _above_noise(self) -> list[float]:
        return [max(value, LEAST.get(self.what, 0.0)) for value in self.values]

    @property
    def holds(self) -> bool:
        if self.what == "page_bytes":
            return self.values[-1] <= PAGE_LIMIT
        return max(self.slope, self.last) <= LIMIT

    def record(self) -> dict[str, object]:
        values = dict(zip(map(str, self.sizes), self.values, strict=True))
        limit = PAGE_LIMIT if self.what == "page_bytes" else LIMIT
        found = {"case": self.case, "what": self.what, "values": values, "slope": self.slope, "last": self.last}
        return {**found, "limit": limit, "holds": self.holds}

    def row(self) -> str:
        values = "  ".join(f"{value:>9.3g}" for value in self.values)
        slopes = f"{self.slope:>5.2f}  {self.last:>5.2f}  {'yes' if self.holds else 'NO':<5}"
        return f"{self.case:<32}  {self.what:<10}  {slopes}  {values}"


_HEADER = f"{'case':<32}  {'what':<10}  slope   last  holds  from the smallest size to the largest"


def fitted_slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the least-squares line through the logarithms: values ∝ sizes^slope."""
    across, up = ([math.log(max(value, 1e-6)) for value in column] for column in (sizes, values))
    middle, height = sum(across) / len(across), sum(up) / len(up)
    spread = sum((x - middle) ** 2 for x in across)
    return sum((x - middle) * (y - height) for x, y in zip(across, up, strict=True)) / spread


def measure_growth(cases: Sequence[str], largest: int | None) -> Iterator[Result]:
    for case in cases:
        sizes = tuple(size for size in SIZES[case] if largest is None or size <= largest)
        found = [_in_process(case, size) for size in sizes]
        for step in found[0]:
            for what in found[0][step]:
                yield Result(f"{case}: {step}", what, sizes, tuple(one[step][what] for one in found))


def _in_process(case: str, size: int) -> Measured:
    command = [sys.executable, __file__, "--measure", case, str(size)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{case} {size}: {done.stderr}")
    measured: Measured = json.loads(done.stdout.splitlines()[-1])
    return measured


class Meter:
    """CPU time of steps of this process and its children, and the peak of the memory, above that at the beginning."""

    def __init__(self) -> None:
        self.steps: Measured = {}
        self.before = _peak()

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        value = work()
        seconds = time.process_time() - start
        self.steps[name] = {"seconds": seconds, "megabytes": max(0.0, _peak() - self.before)}
        return value


def _peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def classes(count: int) -> Measured:
    import numpy as np
    import torch

    from durm.training.trainer import RunContext, run
    from durm.training.trial import TrainSpec, Trial

    with TemporaryDirectory() as folder:
        os.environ["DURM_CACHE"] = f"{folder}/cache"
        random, samples = np.random.default_rng(0), 200_000
        labels = np.arange(samples) % count
        inputs = random.normal(size=(samples, 16)).astype(np.float32)
        path = Path(folder) / "data.npz"
        np.savez(path, x_train=inputs, y_train=labels, x_test=inputs[:1000], y_test=labels[:1000],
                 x_val=inputs[:1000], y_val=labels[:1000])  # fmt: skip
        run(Trial(data="digits", model="mlp", train=TrainSpec(iterations=2)))  # what the first trial imports
        torch.set_num_threads(1)
        train = TrainSpec(iterations=20, batch_size=64)
        trial = Trial(data=f"arrays:{path}", model="mlp", dummies=2, train=train)
        meter = Meter()
        meter("a trial", lambda: run(trial, RunContext(folder=Path(folder))))
    return meter.steps


def trials(count: int) -> Measured:
    from durm.report.page import write_report
    from durm.study.reading import make_study
    from durm.study.status import study_status
    from durm.study.store import Store
    from durm.study.summary import read_results, write_summary
    from durm.training.trainer import run

    described = {"name": "growth", "data": "digits", "model": "mlp", "dummies": [0, 2], "train": {"epochs": 3}}
    study = make_study({**described, "seeds": count // 2})
    result = run(make_study({**described, "seeds": 1}).trials()[1])
    with TemporaryDirectory() as folder:
        small = Store.create(Path(folder) / "small", make_study({**described, "seeds": 6}))
        _keep_all(small, result)
        results = read_results(small)
        write_report(small.folder, write_summary(small, results), store=small, results=results)  # what is imported once
        store = Store.create(Path(folder) / "study", study)
        meter = Meter()
        meter("store", lambda: _keep_all(store, result))
        meter("status", lambda: study_status(Store.open(store.folder), time.time()))
        store = Store.open(store.folder)
        results = meter("read", lambda: read_results(store))
        summary = meter("summary", lambda: write_summary(store, results))
        page = meter("page", lambda: write_report(store.folder, summary, store=store, results=results))
        meter.steps["page"]["page_bytes"] = page.stat().st_size
        if keep := os.environ.get("DURM_GROWTH_PAGE"):
            Path(keep).write_bytes(page.read_bytes())
    return meter.steps


def _keep_all(store: Any, result: Any) -> None:
    from durm.study.base import AnyTrial

    for number, trial in enumerate(store.study.runs()):
        one: AnyTrial = trial
        store.begin(one)
        accuracy = result.metrics["accuracy"] + (number * 7919 % 1000) / 500
        metrics = {**result.metrics, "accuracy": accuracy}
        store.keep(one, result.model_copy(update={"trial": one.id, "metrics": metrics}))


def images(count: int) -> Measured:
    import numpy as np
    from PIL import Image

    from durm.data import load, manifest, reading
    from durm.training.loaders import TrainLoader

    with TemporaryDirectory() as folder:
        os.environ["DURM_CACHE"] = f"{folder}/cache"
        root, random = Path(folder) / "data", np.random.default_rng(0)
        for number in range(count):
            place = root / f"class{number % 10}" / f"{number // 10 // 1000}"
            if number // 10 % 1000 == 0:
                place.mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray(random.integers(0, 256, (32, 32, 3), dtype=np.uint8))
            picture.save(place / f"{number}.png", compress_level=1)
        time.sleep(manifest.FRESH_NANOSECONDS / 1e9)
        name = f"folder:{root}"
        meter = Meter()
        meter("hash", lambda: manifest.manifest_of(name))
        meter("decode and split", lambda: load(name, seed=0))
        reading._read.cache_clear()
        bundle = meter("load again", lambda: load(name, seed=0))

        def epoch() -> None:
            for _ in TrainLoader(bundle.train, bundle.input, "crop-flip", 64, seed=0).epoch(0):
                pass

        meter("an epoch of batches", epoch)
    return meter.steps


MEASURES: dict[str, Callable[[int], Measured]] = {"classes": classes, "trials": trials, "images": images}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Measures how time and memory grow with classes, trials and images.",
        epilog="Exit code 1 if something grows faster than in proportion, or a page is larger than 10 MB.",
    )
    parser.add_argument("--case", action="append", choices=SIZES, help="measure this alone; may be repeated (all)")
    parser.add_argument("--largest", type=int, metavar="N", help="leave out sizes above this")
    parser.add_argument("--measure", nargs=2, metavar=("CASE", "N"), help="one size, in this process, as JSON")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
