"""What keeping the outcomes of each test sample costs, as a share of a whole trial.

    python benchmarks/outcomes.py --out results/outcomes.json

Keeping them is: their computation from the logits, packing, hashing, writing outcomes.npz to the disk, and the hash of
the test set. A trial is building, training, validating and testing a small CNN with two dummies, its checkpoint and
curves written: that of the digits with the default 20 epochs, and one with the sizes of CIFAR-10, 10,000 test images
of 32 px, but one epoch of 2,000 training images only: a real one takes so much longer that its share is far less. Both
on one thread, in interleaved pairs (see pairs.py). Most of keeping is waiting for the disk (fsync). The limit holds
where the 95 % interval of the median ratio, keeping by trial, reaches it or lies below.
"""

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from pairs import Comparison, compare, enough_pairs, tell

from durm._files import atomic_write
from durm.data.bundle import DataBundle, Samples, measure
from durm.metrics.outcomes import sample_outcomes
from durm.training.building import load_bundle
from durm.training.engine import Plain
from durm.training.outcomes import pack_outcomes, samples_sha256
from durm.training.tasks import _compact
from durm.training.trainer import RunContext, Trainer
from durm.training.trial import TrainSpec, Trial

LIMIT = 0.01
CLASSES = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if a limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    return tell(_HEADER, measure_outcomes(options.size or [*SUBJECTS], options.pairs), options.out)


@dataclass(frozen=True)
class Result:
    """A comparison with what it is of."""

    case: str
    comparison: Comparison

    @property
    def holds(self) -> bool:
        return self.comparison.low <= LIMIT

    def record(self) -> dict[str, object]:
        return {"case": self.case, **asdict(self.comparison), "limit": LIMIT, "holds": self.holds}

    def row(self) -> str:
        numbers = self.comparison
        times = f"{numbers.usual_milliseconds:.0f}, {numbers.other_milliseconds:.2f}"
        interval = f"{numbers.low:.4f} … {numbers.high:.4f}"
        columns = f"{self.case:<24}  {times:>14}  {numbers.pairs:>5}  {numbers.ratio:.4f}  {interval:<15}"
        return f"{columns}  ≤ {LIMIT:g}  {'yes' if self.holds else 'NO'}"


_HEADER = f"{'case':<24}  {'milliseconds':>14}  pairs  median  {'95 % interval':<15}  limit   holds"


def measure_outcomes(names: Sequence[str], pairs: int) -> Iterator[Result]:
    for name in names:
        trial, bundle = SUBJECTS[name]()
        with TemporaryDirectory() as folder:
            keep, whole = keeping(bundle, Path(folder)), training(trial, bundle, Path(folder))
            yield Result(f"{name}: keeping / trial", compare(whole, keep, pairs=pairs, warm_up=1))


def training(trial: Trial, bundle: DataBundle, folder: Path) -> Callable[[], object]:
    def run() -> None:
        trainer = Trainer(trial, bundle, Plain(), RunContext(folder=folder))
        trainer.fit()
        trainer.result()

    return run


def keeping(bundle: DataBundle, folder: Path) -> Callable[[], object]:
    random = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(len(bundle.test), bundle.num_classes, generator=random)

    def run() -> None:
        outcomes = sample_outcomes(logits, bundle.test.labels, logits.argmax(1))
        content = pack_outcomes({name: _compact(name, values) for name, values in outcomes.items()})
        hashlib.sha256(content).hexdigest()
        atomic_write(folder / "outcomes.npz", content)
        samples_sha256(bundle.test)

    return run


def digits() -> tuple[Trial, DataBundle]:
    trial = Trial(data="digits", model="cnn", seed=0, dummies=2)
    return trial, load_bundle(trial, None)


def cifar(train: int = 2_000, test: int = 10_000) -> tuple[Trial, DataBundle]:
    random = torch.Generator().manual_seed(0)

    def samples(number: int) -> Samples:
        images = torch.randint(256, (number, 3, 32, 32), generator=random, dtype=torch.uint8)
        return Samples(images, torch.randint(CLASSES, (number,), generator=random))

    parts = samples(train), samples(test // 10), samples(test)
    names = [str(label) for label in range(CLASSES)]
    trial = Trial(data="random", model="cnn", seed=0, dummies=2, train=TrainSpec(epochs=1))
    return trial, DataBundle(*parts, CLASSES, names, measure(parts[0].inputs))  # type: ignore[arg-type]


SUBJECTS: dict[str, Callable[[], tuple[Trial, DataBundle]]] = {"digits": digits, "cifar": cifar}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times keeping the outcomes of test samples against the trial that they are of.",
        epilog="Exit code 1 if a limit does not hold: if the whole interval lies above it.",
    )
    parser.add_argument("--pairs", type=enough_pairs, default=10, metavar="N", help="pairs for each size (10)")
    parser.add_argument(
        "--size", action="append", choices=SUBJECTS, help="measure this size alone; may be repeated (all of them)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
