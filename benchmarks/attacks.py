"""What our PGD costs: ten steps of it against ten bare forward and input-gradient passes.

    python benchmarks/attacks.py --out results/attacks.json

The model has two dummies and a `Normalised` around it, the images are random, the labels are what the model says of
them, so that there is something to attack; all on one thread. The bare passes are the least that an attack can do: the
cross-entropy and its gradient with respect to the inputs, and nothing is made of that. Ours also takes the steps,
projects them, and keeps the best point of each sample. For the last point that takes a forward pass of its own, about
half a pass, of the samples that are not yet fooled. At ε = 8/255 most are fooled by then, as are those of a model that
was trained without attacks, and the limit is for this case; beside it stands the worst one, an ε at which none is.

A timing is of ten passes, interleaved in pairs (see pairs.py). The limit holds where the 95 % interval of the median
ratio reaches it or lies below; the control is the bare passes against the same again, whose true ratio is 1.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import overhead
import torch
from overhead import Result
from pairs import compare, enough_pairs, tell
from torch import Tensor, nn
from torch.nn import functional

import durm
import durm.models
from durm.attacks import Attack, Normalised

CLASSES = 10
STEPS = 10
SEED = 0
WARM_UP = 2
FOOLED, NOT_FOOLED = 8 / 255, 1e-7
"""An ε at which most samples are fooled, and one at which none is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if the limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    return tell(overhead._HEADER, measure_attack(SUBJECTS[options.size], options.pairs), options.out)


@dataclass(frozen=True)
class Subject:
    """A model, the shape of its batch, and how it is timed."""

    name: str
    model: str
    batch: tuple[int, int, int, int]
    pairs: int
    limit: float


def measure_attack(subject: Subject, pairs: int | None = None) -> Iterator[Result]:
    """Our PGD against the bare passes, where it fools most samples and where it fools none, and the control."""
    model, images, labels = make(subject)
    bare = bare_passes(model, images, labels)
    for case, arm, limit in (
        ("PGD-10", ours(model, images, labels, FOOLED), subject.limit),
        ("PGD-10, none fooled", ours(model, images, labels, NOT_FOOLED), None),
        ("bare passes, control", bare_passes(model, images, labels), None),
    ):
        comparison = compare(bare, arm, pairs=pairs or subject.pairs, warm_up=WARM_UP)
        yield Result(f"{subject.name}: {case}", limit, STEPS, comparison)


def make(subject: Subject) -> tuple[nn.Module, Tensor, Tensor]:
    """The model in eval mode, images in [0, 1], and what it says of them."""
    torch.manual_seed(SEED)
    model = durm.widen(durm.models.build(subject.model, CLASSES, subject.batch[1:]), overhead.DUMMIES)
    mean, std = torch.tensor(127.5), torch.tensor(64.0)
    wrapped = Normalised(model, mean, std, scale=255).eval()
    images = torch.rand(subject.batch, generator=torch.Generator().manual_seed(SEED))
    with torch.no_grad():
        return wrapped, images, wrapped(images).argmax(1)


def ours(model: nn.Module, images: Tensor, labels: Tensor, eps: float) -> Callable[[], Tensor]:
    attack = Attack("pgd", eps, steps=STEPS)
    return lambda: attack(model, images, labels)


def bare_passes(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], None]:
    """Passes as one writes them by hand."""
    points = images.clone().requires_grad_()

    def passes() -> None:
        for _ in range(STEPS):
            torch.autograd.grad(functional.cross_entropy(model(points), labels), points)

    return passes


SUBJECTS = {
    "resnet18": Subject("ResNet-18 at 32 px", "resnet18", (16, 3, 32, 32), pairs=60, limit=1.05),
    "tiny": Subject("CNN at 8 px", "cnn", (4, 1, 8, 8), pairs=60, limit=1.05),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times ten steps of PGD against ten bare forward and input-gradient passes.",
        epilog="Exit code 1 if the limit does not hold: if the whole interval lies above it.",
    )
    parser.add_argument("--pairs", type=enough_pairs, metavar="N", help="pairs for each case (60)")
    parser.add_argument(
        "--size", choices=SUBJECTS, default="resnet18", help="the model; tiny is a trial of the script (resnet18)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
