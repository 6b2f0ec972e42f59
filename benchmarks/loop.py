"""What our training loop costs: an epoch of it against a bare PyTorch loop, and against Lightning's Trainer.

    python benchmarks/loop.py --out results/loop.json

All train the same model from the same seed, on the same random images in memory, in the same order, with the same SGD
and the same cosine learning rate, on one thread: after any number of epochs their weights are the same. A timing is of
one epoch, interleaved in pairs (see pairs.py). Building, evaluation and checkpoints are not timed.

The bare loop is the least that can be written: it reads no loss and checks nothing. Ours also asks whether to stop,
checks the loss and adds it up, and looks at the clock for the next checkpoint. The Trainer is at its fastest, which is
the strictest for us: `barebones=True` (no logger, progress bar, checkpoints or sanity checks), fed with whole batches
instead of a DataLoader that collates samples, and timed inside its epochs, so that what `fit` does around them is free.

A limit holds where the 95 % interval of the median ratio reaches it or lies below; to be faster than the Trainer, the
whole interval must lie below 1. Each size has a control, the bare loop against a second bare loop: its true ratio is 1.
"""

import argparse
import logging
import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from queue import Queue

import torch
from pairs import Comparison, compare, enough_pairs, provenance, tell
from torch import Tensor, nn
from torch.nn import functional

import durm._torchvision  # noqa: F401  # before lightning, which imports torchvision

# isort: split
import lightning

from durm._random import generator
from durm.data.bundle import DataBundle, Samples, measure
from durm.training.building import build_model
from durm.training.engine import Plain
from durm.training.schedules import make_optimizer
from durm.training.trainer import RunContext
from durm.training.trainer import Trainer as DurmTrainer
from durm.training.trial import TrainSpec, Trial

CLASSES = 10
SEED = 0
WARM_UP = 3
LEARNING_RATE = 1e-4
"""Small, so that thousands of steps on random labels leave the weights near where they began, far from subnormals."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if a limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    results = (result for name in options.size or SUBJECTS for result in measure_loops(SUBJECTS[name], options.pairs))
    return tell(_HEADER, results, options.out, provenance={**provenance(), "lightning": lightning.__version__})


@dataclass(frozen=True)
class Subject:
    """A model and a batch that make a step of about the length that the limit speaks of, and how it is timed."""

    name: str
    model: str
    shape: tuple[int, int, int]
    batch_size: int
    steps: int
    pairs: int
    limit: float


@dataclass(frozen=True)
class Result:
    """A comparison with what it is of; `limit` is what it may reach, `faster` that it must lie below 1."""

    case: str
    steps_per_timing: int
    comparison: Comparison
    limit: float | None = None
    faster: bool = False

    @property
    def holds(self) -> bool:
        if self.limit is None:
            return True
        return self.comparison.high < self.limit if self.faster else self.comparison.low <= self.limit

    def record(self) -> dict[str, object]:
        measured = {"case": self.case, **asdict(self.comparison), "steps_per_timing": self.steps_per_timing}
        return measured if self.limit is None else {**measured, "limit": self.limit, "holds": self.holds}

    def row(self) -> str:
        numbers, steps = self.comparison, self.steps_per_timing
        interval = f"{numbers.low:.4f} … {numbers.high:.4f}"
        step_times = f"{numbers.usual_milliseconds / steps:.2f}, {numbers.other_milliseconds / steps:.2f}"
        limit = "" if self.limit is None else f"{'<' if self.faster else '≤'} {self.limit:.2f}"
        verdict = "" if self.limit is None else "yes" if self.holds else "NO"
        columns = f"{self.case:<38}  {step_times:>12}  {numbers.pairs:>5}  {numbers.ratio:.4f}  {interval:<15}"
        return f"{columns}  {limit:>6}  {verdict}".rstrip()


_HEADER = f"{'case':<38}  {'ms per step':>12}  pairs  median  {'95 % interval':<15}  {'limit':>6}  holds"


def measure_loops(subject: Subject, pairs: int | None = None) -> Iterator[Result]:
    """Our loop against the bare one, the control of that, and our loop against the Trainer."""
    pairs = pairs or subject.pairs
    epochs = WARM_UP + pairs

    def against_bare(arm: type[Ours] | type[Bare]) -> Comparison:
        return compare(Bare(subject, epochs), arm(subject, epochs), pairs=pairs, warm_up=WARM_UP)

    yield Result(f"{subject.name}: ours / bare", subject.steps, against_bare(Ours), subject.limit)
    yield Result(f"{subject.name}: bare / bare, control", subject.steps, against_bare(Bare))
    against_trainer = Trainer(subject, epochs).compare(Ours(subject, epochs), pairs)
    yield Result(f"{subject.name}: ours / Trainer", subject.steps, against_trainer, limit=1.0, faster=True)


class Ours:
    """Epochs of the loop that `durm.train` and the studies run, without the evaluation at their end."""

    def __init__(self, subject: Subject, epochs: int) -> None:
        self._training = DurmTrainer(_trial(subject, epochs), _bundle(subject), Plain(), RunContext())
        self.model = self._training.plain_model

    def __call__(self) -> None:
        training = self._training
        training._train_until(training.progress.step + training.loader.steps_per_epoch)


class Bare:
    """Epochs as one writes them by hand."""

    def __init__(self, subject: Subject, epochs: int) -> None:
        self.model, self._optimizer = _model_and_optimizer(subject, epochs)
        self._batches = Batches(subject)
        self._step, self._steps = 0, epochs * subject.steps

    def __call__(self) -> None:
        self.model.train()
        for images, labels in self._batches:
            for group in self._optimizer.param_groups:
                group["lr"] = LEARNING_RATE * _cosine(self._step, self._steps)
            self._optimizer.zero_grad()
            functional.cross_entropy(self.model(images), labels).backward()
            self._optimizer.step()
            self._step += 1


class Trainer:
    """Epochs of one `Trainer.fit`, compared with another arm from inside it, as it does not return between epochs.

    `compare` runs in a thread beside and hands each call over to the main one, where `fit` waits for them before each
    epoch. So both arms compute in the main thread: in another, memory is handed out otherwise, and a step of 20 ms
    takes 1 to 2 % longer.
    """

    def __init__(self, subject: Subject, epochs: int) -> None:
        self.model, optimizer = _model_and_optimizer(subject, epochs)
        self._module, self._batches = _Module(self.model, optimizer, epochs * subject.steps), Batches(subject)
        self._epochs = epochs
        self._calls: Queue[Callable[[], None] | None] = Queue()
        self._done: Queue[None] = Queue()

    def compare(self, other: Callable[[], None], pairs: int) -> Comparison:
        """`other` against the Trainer."""
        comparisons = []

        def control() -> None:
            comparisons.append(
                compare(partial(self._call, None), partial(self._call, other), pairs=pairs, warm_up=WARM_UP)
            )
            self._calls.put(None)

        threading.Thread(target=control, daemon=True).start()
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)  # it tells at length what barebones turns off
        gate = lightning.pytorch.callbacks.LambdaCallback(
            on_train_epoch_start=lambda trainer, module: self._answer(),
            on_train_epoch_end=lambda trainer, module: self._done.put(None),
            on_train_end=lambda trainer, module: self._answer(),
        )
        trainer = lightning.Trainer(accelerator="cpu", barebones=True, max_epochs=self._epochs, callbacks=[gate])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning's own use of what is deprecated in torch
            trainer.fit(self._module, self._batches)
        return comparisons[0]

    def _call(self, work: Callable[[], None] | None) -> None:
        """From the thread of `compare`: has the main thread do this, or an epoch of the Trainer's if it is None."""
        self._calls.put(work)
        self._done.get()

    def _answer(self) -> None:
        """In the main thread: does what is asked for, until that is an epoch of the Trainer's, or nothing more."""
        while (work := self._calls.get()) is not None:
            work()
            self._done.put(None)


class _Module(lightning.LightningModule):
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
        super().__init__()
        self.model, self._optimizer, self._steps = model, optimizer, steps

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(self.model(images), labels)

    def configure_optimizers(self) -> dict[str, object]:
        schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, lambda step: _cosine(step, self._steps))
        return {"optimizer": self._optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Batches:
    """The batches of the bare loop and the Trainer, a new epoch each time, in the order of ours."""

    def __init__(self, subject: Subject) -> None:
        bundle = _bundle(subject)
        assert isinstance(bundle.train.inputs, Tensor)
        self._images, self._labels = bundle.input.normalise(bundle.train.inputs), bundle.train.labels
        self._batch_size = subject.batch_size
        self._epochs = count()

    def __len__(self) -> int:
        return len(self._labels) // self._batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self._labels), generator=generator(SEED, "order", next(self._epochs)))
        for indices in order.split(self._batch_size):
            yield self._images[indices], self._labels[indices]


def _cosine(step: int, steps: int) -> float:
    return (1 + math.cos(math.pi * step / steps)) / 2


def _trial(subject: Subject, epochs: int) -> Trial:
    train = TrainSpec(epochs=epochs, batch_size=subject.batch_size, lr=LEARNING_RATE)
    return Trial(data="random", model=subject.model, seed=SEED, train=train)


def _model_and_optimizer(subject: Subject, epochs: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    trial = _trial(subject, epochs)
    model = build_model(trial, _bundle(subject))
    return model, make_optimizer(trial.train, model.parameters())


def _bundle(subject: Subject) -> DataBundle:
    random = torch.Generator().manual_seed(SEED)
    number = subject.batch_size * subject.steps
    images = torch.randint(256, (number, *subject.shape), generator=random, dtype=torch.uint8)
    samples = Samples(images, torch.randint(CLASSES, (number,), generator=random))
    return DataBundle(samples, samples, samples, CLASSES, [str(label) for label in range(CLASSES)], measure(images))


SUBJECTS = {
    "1ms": Subject("MLP, 1 ms", "mlp", (1, 16, 16), batch_size=64, steps=50, pairs=300, limit=1.10),
    "20ms": Subject("CNN, 20 ms", "cnn", (3, 32, 32), batch_size=40, steps=5, pairs=300, limit=1.02),
}


def _parser() -> argparse.ArgumentParser:
    defaults = ", ".join(f"{subject.pairs} for {name}" for name, subject in SUBJECTS.items())
    parser = argparse.ArgumentParser(
        description="Times an epoch of our loop against a bare PyTorch loop and against Lightning's Trainer.",
        epilog="Exit code 1 if a limit does not hold.",
    )
    parser.add_argument("--pairs", type=enough_pairs, metavar="N", help=f"pairs for each case ({defaults})")
    parser.add_argument(
        "--size", action="append", choices=SUBJECTS, help="measure steps of this length alone; may be repeated (all)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
