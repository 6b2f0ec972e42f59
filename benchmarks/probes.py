"""What watching costs: training a ResNet-18 with C_d = 2 and all probes on, against the same training without.

    python benchmarks/probes.py --out results/probes.json

Both train the same model from the same seed on the same random batches by SGD with momentum and plain cross-entropy, on
one thread, and have the same weights at every step. A timing is of an epoch of 10 steps and its end, so that it holds
one look at the distance from the start, which is taken every 10 steps; the timings are interleaved in pairs (see
pairs.py). The limit holds where the 95 % interval of the median ratio reaches it or lies below. The control is the
training without probes against a second copy of itself: its true ratio is 1.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import overhead
import torch
from pairs import compare, enough_pairs, tell
from torch import nn

from durm.probes import PROBES, watch

STEPS = 10
WARM_UP = 2
LIMIT = 1.03
BATCH_SIZES = {"resnet18": 128, "mlp": 128}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if the limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    probes = options.probe or PROBES.names()
    results = measure_probes(options.model, probes, options.pairs)
    return tell(overhead._HEADER, results, options.out, dummies=overhead.DUMMIES, probes=probes)


def measure_probes(model: str, probes: Sequence[str], pairs: int) -> Iterator[overhead.Result]:
    """Watched against alone, and the control of that."""
    name = f"{overhead.SUBJECTS[model].name}, batch {BATCH_SIZES[model]}"
    for case, other, limit in ((name, Watched(model, probes), LIMIT), (f"{name}, control", Alone(model), None)):
        comparison = compare(Alone(model), other, pairs=pairs, warm_up=WARM_UP)
        yield overhead.Result(case, limit, STEPS, comparison)


class Alone:
    """Epochs of a plain loop."""

    def __init__(self, model: str) -> None:
        subject = overhead.SUBJECTS[model]
        random = torch.Generator().manual_seed(overhead.SEED)
        shape = (STEPS, BATCH_SIZES[model], *subject.batch[1:])
        self._batches = torch.randn(shape, generator=random)
        self._labels = torch.randint(overhead.CLASSES, shape[:2], generator=random)
        self.model = overhead._model(subject, overhead.DUMMIES).train()
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=overhead.LEARNING_RATE, momentum=0.9)

    def __call__(self) -> None:
        for images, labels in zip(self._batches, self._labels, strict=True):
            self._optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(images), labels).backward()
            self._optimizer.step()


class Watched(Alone):
    """The same loop with two lines more."""

    def __init__(self, model: str, probes: Sequence[str]) -> None:
        super().__init__(model)
        self.watch = watch(self.model, probes)

    def __call__(self) -> None:
        for images, labels in zip(self._batches, self._labels, strict=True):
            self._optimizer.zero_grad()
            logits = self.model(images)
            nn.functional.cross_entropy(logits, labels).backward()
            self.watch.step(logits, labels)
            self._optimizer.step()
        self.watch.epoch()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times training with probes against the same training without.",
        epilog="Exit code 1 if the limit does not hold: if the whole interval lies above it.",
    )
    parser.add_argument("--pairs", type=enough_pairs, default=20, metavar="N", help="pairs for each case (20)")
    parser.add_argument("--model", choices=BATCH_SIZES, default="resnet18", help="the model that is trained (resnet18)")
    parser.add_argument("--probe", action="append", help="watch with this probe alone; may be repeated (all of them)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
