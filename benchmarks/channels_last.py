"""What `train.channels_last` is worth on a CPU: a training step with that memory format against one without.

    python benchmarks/channels_last.py --out results/channels_last.json

Both arms are the same model from the same seed, with two dummies, the same batch of 64, SGD with momentum and
cross-entropy, on one thread. The images come as a loader has them and get their format within the step. They are timed
in interleaved pairs (see pairs.py). There is no limit: a study says which of the two it trains with, and all its arms
do; the losses differ in their last digits.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from pairs import Comparison, compare, enough_pairs, tell

import durm
from durm import models

BATCH, CLASSES, DUMMIES = 64, 10, 2


@dataclass(frozen=True)
class Subject:
    """A model, the shape of an image, and the steps of one timing."""

    model: str
    shape: tuple[int, int, int]
    steps: int


SUBJECTS = {
    "digits": Subject("cnn", (1, 8, 8), 5),
    "cnn": Subject("cnn", (3, 32, 32), 1),
    "resnet": Subject("test_resnet", (3, 32, 32), 1),
}


@dataclass(frozen=True)
class Result:
    """A comparison with what it is of."""

    case: str
    comparison: Comparison
    holds: bool = True

    def record(self) -> dict[str, object]:
        return {"case": self.case, **asdict(self.comparison)}

    def row(self) -> str:
        of = self.comparison
        times = f"{of.usual_milliseconds:.2f}, {of.other_milliseconds:.2f}"
        return f"{self.case:<52}  {times:>14}  {of.pairs:>5}  {of.ratio:>6.3f}  {of.low:.3f} … {of.high:.3f}"


_HEADER = f"{'case':<52}  {'milliseconds':>14}  pairs  median  95 % interval"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints a table."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    return tell(_HEADER, (measure(SUBJECTS[name], options.pairs) for name in options.case or SUBJECTS), options.out)


def measure(subject: Subject, pairs: int) -> Result:
    arms = (training_step(subject, kind) for kind in (torch.preserve_format, torch.channels_last))
    case = f"{subject.model} at {subject.shape[-1]} px: channels-last / contiguous"
    return Result(case, compare(*arms, pairs=pairs, block=subject.steps))


def training_step(subject: Subject, memory_format: torch.memory_format) -> Callable[[], float]:
    """One step, which gives its loss."""
    torch.manual_seed(0)
    model = durm.widen(models.build(subject.model, CLASSES, subject.shape), DUMMIES).train()
    model.to(memory_format=memory_format)  # type: ignore[call-overload]
    images, labels = torch.randn(BATCH, *subject.shape), torch.randint(CLASSES, (BATCH,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step() -> float:
        optimizer.zero_grad()
        loss = durm.cross_entropy(model(images.to(memory_format=memory_format)), labels, num_classes=CLASSES)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Times a training step with channels-last against one without.")
    parser.add_argument("--pairs", type=enough_pairs, default=40, metavar="N", help="pairs of each case (40)")
    parser.add_argument("--case", action="append", choices=SUBJECTS, help="measure this alone; may be repeated (all)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
