"""What evaluation costs: metrics from logits that are reduced as they come, against keeping all of them.

    python benchmarks/evaluation.py --out results/evaluation.json

Both arms are given the logits of a widened model (C_d = 2) in batches of 256, as a model gives them, and compute every
metric, the reliability and the accuracy of each class. `kept` joins the batches and computes from all logits at once
what durm computed so before, which takes memory for samples × classes; ours is what `Classification.scores` does. Both
give the same bits. On one thread, in interleaved pairs (see pairs.py); the limit holds where the 95 % interval of the
median ratio, ours by kept, reaches it or lies below.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from pairs import Comparison, compare, enough_pairs, tell
from torch import Tensor

from durm.metrics import measure
from durm.metrics.classification import RELIABILITY, SOFTNESS, predictions_of, reliability_sums
from durm.metrics.outcomes import sample_outcomes
from durm.scores import dummy_hits, dummy_mass, probabilities

DUMMIES = 2
BATCH = 256
LIMIT = 1.02


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if a limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    sizes = options.size or SUBJECTS
    return tell(_HEADER, (measure_evaluation(SUBJECTS[name], options.pairs) for name in sizes), options.out)


@dataclass(frozen=True)
class Subject:
    """How many samples and classes, and how it is timed."""

    name: str
    samples: int
    classes: int
    pairs: int
    block: int


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
        times = f"{numbers.usual_milliseconds:.2f}, {numbers.other_milliseconds:.2f}"
        interval = f"{numbers.low:.3f} … {numbers.high:.3f}"
        columns = f"{self.case:<41}  {times:>14}  {numbers.pairs:>5}  {numbers.ratio:>6.3f}  {interval:<15}"
        return f"{columns}  ≤ {LIMIT:g}  {'yes' if self.holds else 'NO'}"


_HEADER = f"{'case':<41}  {'milliseconds':>14}  pairs  median  {'95 % interval':<15}  limit   holds"


def measure_evaluation(subject: Subject, pairs: int | None = None) -> Result:
    batches, targets = make(subject)
    arms = (partial(arm, batches, targets, subject.classes) for arm in (kept, ours))
    case = f"{subject.name}, {subject.samples:,} × {subject.classes:,}: ours / kept"
    return Result(case, compare(*arms, pairs=pairs or subject.pairs, block=subject.block))


def make(subject: Subject) -> tuple[list[Tensor], Tensor]:
    random = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(subject.samples, subject.classes + DUMMIES, generator=random)
    targets = torch.randint(subject.classes, (subject.samples,), generator=random)
    return [part.clone() for part in logits.split(BATCH)], targets


Found = tuple[dict[str, float], dict[str, list[float]], list[float | None]]


def ours(batches: Sequence[Tensor], targets: Tensor, classes: int) -> Found:
    predictions = predictions_of(lambda: batches, targets, classes)
    return measure("classification", predictions), predictions.reliability, predictions.class_accuracies


def kept(batches: Sequence[Tensor], targets: Tensor, classes: int) -> Found:
    """From all logits at once, each metric by its own formula."""
    logits = torch.cat(list(batches))
    real = logits[:, :classes]
    right = (real.argmax(1) == targets).double()
    counts = torch.bincount(targets, minlength=classes)
    hits = torch.zeros(classes, dtype=torch.float64).index_add_(0, targets, right)
    outcomes = sample_outcomes(real, targets, real.argmax(1))
    over_all = probabilities(logits, classes, over="all")[:, :classes]
    metrics = {
        "accuracy": 100 * right.mean().item(),
        "balanced_accuracy": 100 * (hits[counts > 0] / counts[counts > 0]).mean().item(),
        "nll": F.cross_entropy(real.double(), targets).item(),
        "soft_accuracy": 100 * torch.sigmoid(outcomes["margin"] / SOFTNESS).mean().item(),
        "p_true": 100 * outcomes["log_p"].exp().mean().item(),
        "brier": outcomes["brier"].mean().item(),
        "ece": 100 * calibration_error(probabilities(logits, classes), targets),
        "ece_all": 100 * calibration_error(over_all, targets),
        "dummy_mass": 100 * dummy_mass(logits, classes).double().mean().item(),
        "dummy_hits": 100 * dummy_hits(logits, classes).double().mean().item(),
    }
    return metrics, reliability(probabilities(logits, classes), targets), class_accuracies(logits, targets, classes)


def class_accuracies(logits: Tensor, targets: Tensor, classes: int) -> list[float | None]:
    right = (logits[:, :classes].argmax(1) == targets).double()
    counts = torch.bincount(targets, minlength=classes)
    hits = torch.zeros(classes, dtype=torch.float64).index_add_(0, targets, right)
    found = iter((100 * (hits[counts > 0] / counts[counts > 0])).tolist())
    return [next(found) if count else None for count in counts.tolist()]


def calibration_error(probabilities: Tensor, targets: Tensor) -> float:
    table = reliability(probabilities, targets)
    gaps = (abs(right - sure) for right, sure in zip(table["correct"], table["confidence"], strict=True))
    return sum(gaps) / sum(table["count"])


def reliability(probabilities: Tensor, targets: Tensor) -> dict[str, list[float]]:
    confidence, predicted = probabilities.max(1)
    sums = reliability_sums(confidence.double(), predicted == targets)
    return dict(zip(RELIABILITY, sums.tolist(), strict=True))


SUBJECTS = {
    "digits": Subject("digits", 250, 10, pairs=200, block=10),
    "cifar": Subject("CIFAR", 10_000, 10, pairs=100, block=2),
    "imagenet": Subject("1,000 classes", 5_000, 1_000, pairs=20, block=1),
    "tiny": Subject("tiny", 300, 5, pairs=20, block=1),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times metrics from logits that are reduced batch by batch against metrics from all logits.",
        epilog="Exit code 1 if a limit does not hold: if the whole interval lies above it.",
    )
    defaults = ", ".join(f"{subject.pairs} for {name}" for name, subject in SUBJECTS.items())
    parser.add_argument("--pairs", type=enough_pairs, metavar="N", help=f"pairs for each size ({defaults})")
    parser.add_argument(
        "--size", action="append", choices=SUBJECTS, help="measure this size alone; may be repeated (all of them)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
