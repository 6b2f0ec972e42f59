"""What our training loop costs on data with domains: an epoch of it against a loop that is written by hand.

    python benchmarks/domains.py --out results/domains.json

Both train the same ResNet from the same seed by plain ERM, with the same SGD and the same cosine learning rate, on one
thread. Each step has equally many images of each of three domains, of which the smaller come round more often; they
are drawn from uint8 tensors in memory, flipped at random and normalised. Both draw the same numbers, so after any
number of epochs their weights are the same.

A timing is of one epoch, interleaved in pairs (see pairs.py). Building, evaluation and checkpoints are not timed. The
limit holds where the 95 % interval of the median ratio of the times, ours by the other, reaches it or lies below; the
control is the loop by hand against a second one, whose true ratio is 1.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import overhead
import torch
from pairs import compare, enough_pairs, tell
from torch import Tensor
from torch.nn import functional

from durm._random import generator
from durm.data.bundle import DataBundle, Samples, measure
from durm.training.building import build_model
from durm.training.engine import Plain
from durm.training.schedules import make_optimizer
from durm.training.trainer import RunContext
from durm.training.trainer import Trainer as DurmTrainer
from durm.training.trial import TrainSpec, Trial

CLASSES = 7
SEED = 0
WARM_UP = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if the limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    return tell(_HEADER, measure_domains(SUBJECTS[options.size], options.pairs), options.out)


@dataclass(frozen=True)
class Subject:
    """A model, how many images each domain has, how many of each are in a step, and how it is timed."""

    name: str
    model: str
    shape: tuple[int, int, int]
    images: tuple[int, ...]
    batch_size: int
    pairs: int
    limit: float

    @property
    def images_per_step(self) -> int:
        return self.batch_size * len(self.images)

    @property
    def steps(self) -> int:
        """In an epoch."""
        return sum(self.images) // self.images_per_step


@dataclass(frozen=True)
class Result(overhead.Result):
    """A comparison with the images of one timing, by which its times are told as images per second."""

    images_per_timing: int

    @property
    def images_per_second(self) -> tuple[float, float]:
        """Of what is compared, and of what it is compared with."""
        numbers = self.comparison
        ours, other = (
            1000 * self.images_per_timing / milliseconds
            for milliseconds in (numbers.other_milliseconds, numbers.usual_milliseconds)
        )
        return ours, other

    def record(self) -> dict[str, object]:
        ours, other = self.images_per_second
        return {**super().record(), "images_per_second": ours, "usual_images_per_second": other}

    def row(self) -> str:
        numbers = self.comparison
        speeds = ", ".join(f"{speed:,.0f}" for speed in self.images_per_second)
        interval = f"{numbers.low:.4f} … {numbers.high:.4f}"
        limit, verdict = ("", "") if self.limit is None else (f"≤ {self.limit:.2f}", "yes" if self.holds else "NO")
        columns = f"{self.case:<42}  {speeds:>12}  {numbers.pairs:>5}  {numbers.ratio:.4f}  {interval:<15}"
        return f"{columns}  {limit:>6}  {verdict}".rstrip()


_HEADER = f"{'case':<42}  {'images/s':>12}  pairs  median  {'95 % interval':<15}  {'limit':>6}  holds"


def measure_domains(subject: Subject, pairs: int | None = None) -> Iterator[Result]:
    """Our loop against the one by hand, and the control of that."""
    pairs = pairs or subject.pairs
    epochs = WARM_UP + pairs
    for arm, case, limit in ((Ours, "ours / by hand", subject.limit), (ByHand, "by hand / by hand, control", None)):
        comparison = compare(ByHand(subject, epochs), arm(subject, epochs), pairs=pairs, warm_up=WARM_UP)
        images = subject.steps * subject.images_per_step
        yield Result(f"{subject.name}: {case}", limit, subject.steps, comparison, images)


class Ours:
    """Epochs of the loop that `durm.train` and the studies run, without the evaluation at their end."""

    def __init__(self, subject: Subject, epochs: int) -> None:
        self._training = DurmTrainer(_trial(subject, epochs), _bundle(subject), Plain(), RunContext())
        self.model = self._training.plain_model

    def __call__(self) -> None:
        training = self._training
        training._train_until(training.progress.step + training.loader.steps_per_epoch)


class ByHand:
    """Epochs as one writes them: for each domain a list of indices, cut into batches."""

    def __init__(self, subject: Subject, epochs: int) -> None:
        trial, bundle = _trial(subject, epochs), _bundle(subject)
        assert isinstance(bundle.train.inputs, Tensor)
        assert bundle.train.domains is not None
        self.model = build_model(trial, bundle)
        self._optimizer = make_optimizer(trial.train, self.model.parameters())
        self._images, self._labels, self._format = bundle.train.inputs, bundle.train.labels, bundle.input
        self._members = [(bundle.train.domains == domain).nonzero().flatten() for domain in range(len(subject.images))]
        self._subject, self._epochs = subject, count()
        self._step, self._steps = 0, epochs * subject.steps

    def __call__(self) -> None:
        self.model.train()
        epoch, subject = next(self._epochs), self._subject
        streams = [self._stream(domain, epoch) for domain in range(len(subject.images))]
        flips = self._flips(epoch)
        for step in range(subject.steps):
            part = slice(step * subject.batch_size, (step + 1) * subject.batch_size)
            indices = torch.cat([stream[part] for stream in streams])
            flipped = flips[step * subject.images_per_step :][: subject.images_per_step]
            images = self._images[indices]
            images = torch.where(flipped, images.flip(-1), images).float()
            images = (images - self._format.mean) / self._format.std
            for group in self._optimizer.param_groups:
                group["lr"] = overhead.LEARNING_RATE * (1 + math.cos(math.pi * self._step / self._steps)) / 2
            self._optimizer.zero_grad()
            functional.cross_entropy(self.model(images), self._labels[indices]).backward()
            self._optimizer.step()
            self._step += 1

    def _stream(self, domain: int, epoch: int) -> Tensor:
        """The samples of the domain in a random order, and again in another, as many as an epoch needs."""
        own, random = self._members[domain], generator(SEED, "order", epoch, domain)
        rounds = math.ceil(self._subject.steps * self._subject.batch_size / len(own))
        return torch.cat([own[torch.randperm(len(own), generator=random)] for _ in range(rounds)])

    def _flips(self, epoch: int) -> Tensor:
        """For each place of the epoch whether it is flipped, (N, 1, 1, 1). Ours draws crops first, of no size here."""
        random, places = generator(SEED, "augment", epoch), self._subject.steps * self._subject.images_per_step
        torch.randint(1, (places, 2), generator=random)
        return torch.randint(2, (places, 1, 1, 1), generator=random).bool()


def _trial(subject: Subject, epochs: int) -> Trial:
    train = TrainSpec(epochs=epochs, batch_size=subject.batch_size, lr=overhead.LEARNING_RATE, augment="flip")
    return Trial(data="random", model=subject.model, seed=SEED, train=train)


def _bundle(subject: Subject) -> DataBundle:
    random, number = torch.Generator().manual_seed(SEED), sum(subject.images)
    images = torch.randint(256, (number, *subject.shape), generator=random, dtype=torch.uint8)
    domains = torch.arange(len(subject.images)).repeat_interleave(torch.tensor(subject.images))
    samples = Samples(images, torch.randint(CLASSES, (number,), generator=random), domains)
    names, classes = [str(domain) for domain in range(len(subject.images))], [str(label) for label in range(CLASSES)]
    return DataBundle(samples, samples, samples, CLASSES, classes, measure(images), domain_names=names)


SUBJECTS = {
    "resnet": Subject(
        "small ResNet at 64 px", "test_resnet", (3, 64, 64), (40, 60, 80), batch_size=10, pairs=100, limit=1.05
    ),
    "tiny": Subject("CNN at 8 px", "cnn", (1, 8, 8), (10, 20, 30), batch_size=4, pairs=60, limit=1.05),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times an epoch of our loop on three domains against a loop that is written by hand.",
        epilog="Exit code 1 if the limit does not hold: if the whole interval lies above it.",
    )
    parser.add_argument("--pairs", type=enough_pairs, metavar="N", help="pairs for each case (100, tiny: 60)")
    parser.add_argument(
        "--size", choices=SUBJECTS, default="resnet", help="the model; tiny is a trial of the script (resnet)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
