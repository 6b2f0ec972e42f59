"""What the top eigenvalue of the Hessian costs: durm's Lanczos against PyHessian, on one ResNet-18.

    pip install --no-deps --target FOLDER pyhessian
    python benchmarks/curvature.py --pyhessian FOLDER --out results/curvature.json

PyHessian (Yao et al. 2020) is no dependency. The loss is that of a ResNet-18 at 32 px on 512 generated images, ten
classes of noise around a pattern each, after twenty steps of training on them: nobody looks at the spectrum of an
untrained network or of random labels. All on one thread. Both arms are timed from the model to the eigenvalue: each
computes the loss and, with its graph, the gradient once, and takes products with the Hessian over the graph that it
keeps. Times are of the processor.

- PyHessian, `hessian(…).eigenvalues(tol=…)`: power iteration from a random vector. It stops when λ changes by less than
  a tolerance (1e-3 by default), and gives the λ before that.
- Ours, `top_eigenvalues(…, tolerance=…)`: Lanczos' method from a random vector. It stops when the residual ‖Hv − λv‖ is
  less than the tolerance (1e-3 by default) times λ, and the bound of what it may have missed less than ten times that.

A tolerance is not an error, and means something else in each. So they are compared in three ways, read off the same
runs: each with the loosest power of ten as tolerance with which all its runs come within 1e-4 of the reference, which
the limit is for; each at its default tolerance, with the errors that this has; and told, each up to its first λ within
1e-4, which nobody knows beforehand, but which leaves the rules out of it. The reference is ours to a residual of 1e-4,
which in exact arithmetic is an error of about 1e-8.

They are timed in pairs, in alternating order, each pair from starts of its own. The ratio is of the times, PyHessian by
ours; the limit holds where its 95 % interval reaches it or lies above. With fewer than six pairs the interval is the
range.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import torch
from pairs import FEWEST_PAIRS, median_interval, tell
from torch import Tensor, nn
from torch.nn import functional

import durm.models
from durm.curvature import ClassifierLoss, hessian, top_eigenvalues
from durm.curvature.lanczos import has_converged, ritz_pairs

CLASSES = 10
SEED = 0
WITHIN = 1e-4
LIMIT = 1.5
EXACT = 1e-4
"""The residual of the reference."""
MOST_PRODUCTS = 1000
DEFAULT = 1e-3
"""The tolerance of both, if none is given."""
TOLD = "told"
TOLERANCES = {"pyhessian": (1e-3, 1e-4, 1e-5, 1e-6), "ours": (1e-1, 1e-2, 1e-3)}
"""Those that are looked at."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if the limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    if options.pyhessian is not None:
        sys.path.insert(0, str(options.pyhessian))
    try:
        library = import_module("pyhessian.hessian")
    except ImportError:
        print("curvature.py: PyHessian is not there; --pyhessian takes the folder it was installed in", file=sys.stderr)
        return 2
    return tell(_HEADER, measure_curvature(library, SUBJECTS[options.size], options.pairs), options.out)


@dataclass(frozen=True)
class Subject:
    """A model, the shape of the images, and for how many steps it is trained on them."""

    name: str
    model: str
    batch: tuple[int, int, int, int]
    steps: int


class Stop(NamedTuple):
    """Where a rule stops a run; the error is a share of the reference."""

    seconds: float
    products: int
    error: float


Stops = dict[str | float, Stop]
"""Tolerance, or told → where the run stops."""


@dataclass(frozen=True)
class Result:
    """The median ratio with its 95 % interval; of each arm the median seconds and products, and the largest error.

    `tolerances` are those of the rules; there are none where the arms are told when to stop.
    """

    case: str
    limit: float | None
    pairs: int
    ratio: float
    low: float
    high: float
    cpu_seconds: dict[str, float]
    products: dict[str, float]
    errors: dict[str, float]
    tolerances: dict[str, float] | None
    eigenvalue: float

    @property
    def holds(self) -> bool:
        return self.limit is None or self.high >= self.limit

    def record(self) -> dict[str, object]:
        measured = asdict(self)
        return {**measured, "holds": self.holds} if self.limit else {k: v for k, v in measured.items() if k != "limit"}

    def row(self) -> str:
        seconds, products = (
            ", ".join(f"{value:.3g}" for value in part.values()) for part in (self.cpu_seconds, self.products)
        )
        errors = ", ".join(f"{value:.1e}" for value in self.errors.values())
        interval = f"{self.low:.2f} … {self.high:.2f}"
        columns = f"{self.case:<40}  {seconds:>12}  {products:>8}  {errors:>16}  {self.pairs:>5}  {self.ratio:>6.2f}"
        columns += f"  {interval:<13}"
        return f"{columns}  ≥ {self.limit:g}  {'yes' if self.holds else 'NO'}" if self.limit else columns.rstrip()


_HEADER = (
    f"{'case: PyHessian / ours':<40}  {'CPU seconds':>12}  products  {'errors':>16}  pairs  median  "
    f"{'95 % interval':<13}  limit  holds"
)


def measure_curvature(library: Any, subject: Subject, pairs: int) -> Iterator[Result]:
    """PyHessian against ours to the same accuracy, by default, and told when to stop.

    Raises:
        RuntimeError: if one of them is not accurate at its tightest tolerance, as then the time says nothing.
    """
    model, images, labels = make(subject)
    loss = ClassifierLoss(model, images, labels, num_classes=CLASSES)
    (reference,) = top_eigenvalues(loss, tolerance=EXACT, seed=SEED).values
    runs: dict[str, list[Stops]] = {name: [] for name in ARMS}
    for pair in range(pairs):
        for name in ARMS if pair % 2 == 0 else reversed(ARMS):
            runs[name].append(ARMS[name](library, model, images, labels, pair + 1, reference))
    chosen = {name: loosest(name, runs[name]) for name in ARMS}
    defaults = dict.fromkeys(ARMS, DEFAULT)
    for case, limit, rules, shown in (
        (f"within {WITHIN:g}", LIMIT, chosen, chosen),
        ("default tolerances", None, defaults, defaults),
        (f"told within {WITHIN:g}", None, dict.fromkeys(ARMS, TOLD), None),
    ):
        stops = {name: [run[rules[name]] for run in runs[name]] for name in ARMS}
        ratios = [theirs.seconds / ours.seconds for theirs, ours in zip(*stops.values(), strict=True)]
        low, high = median_interval(ratios) if pairs >= FEWEST_PAIRS else (min(ratios), max(ratios))
        yield Result(
            f"{subject.name}, {case}",
            limit,
            pairs,
            median(ratios),
            low,
            high,
            {name: median(stop.seconds for stop in stops[name]) for name in ARMS},
            {name: median(stop.products for stop in stops[name]) for name in ARMS},
            {name: max(stop.error for stop in stops[name]) for name in ARMS},
            shown,
            reference,
        )


def loosest(name: str, runs: Sequence[Stops]) -> float:
    """The loosest tolerance with which all runs are accurate."""
    for tolerance in TOLERANCES[name]:
        if all(tolerance in run and run[tolerance].error <= WITHIN for run in runs):
            return tolerance
    raise RuntimeError(f"{name}: not all runs are within {WITHIN:g} at {TOLERANCES[name][-1]:g}: {runs}")


def ours(_: object, model: nn.Module, images: Tensor, labels: Tensor, seed: int, reference: float) -> Stops:
    started, stops = process_time(), Stops()
    with hessian(ClassifierLoss(model, images, labels, num_classes=CLASSES)) as matrix:
        for products, pairs in enumerate(ritz_pairs(matrix, 1, seed), 1):
            error = abs(float(pairs.values[0]) - reference) / reference
            stop = Stop(process_time() - started, products, error)
            if error <= WITHIN:
                stops.setdefault(TOLD, stop)
            for tolerance in TOLERANCES["ours"]:
                if has_converged(pairs, tolerance):
                    stops.setdefault(tolerance, stop)
            if len(stops) == len(TOLERANCES["ours"]) + 1:
                return stops
    raise AssertionError


def pyhessian(library: Any, model: nn.Module, images: Tensor, labels: Tensor, seed: int, reference: float) -> Stops:
    """Its own run at the tightest tolerance, of which each product is noted: looser ones stop it earlier."""
    stops: Stops = {}
    values: list[float] = []
    product = library.hessian_vector_product
    started = process_time()

    def noted(gradient: Any, parameters: Any, vector: Any) -> Any:
        image = product(gradient, parameters, vector)
        value = library.group_product(image, vector).item()
        stop = Stop(process_time() - started, len(values) + 1, abs(value - reference) / reference)
        if stop.error <= WITHIN:
            stops.setdefault(TOLD, stop)
        if values:
            before = values[-1]
            given = stop._replace(error=abs(before - reference) / reference)
            for tolerance in TOLERANCES["pyhessian"]:
                if abs(before - value) / (abs(before) + 1e-6) < tolerance:
                    stops.setdefault(tolerance, given)
        values.append(value)
        return image

    library.hessian_vector_product = noted
    try:
        torch.manual_seed(seed)
        matrix = library.hessian(model, nn.CrossEntropyLoss(), data=(images, labels), cuda=False)
        ((given,), _) = matrix.eigenvalues(maxIter=MOST_PRODUCTS, tol=TOLERANCES["pyhessian"][-1])
    finally:
        library.hessian_vector_product = product
        model.zero_grad()
    if given != values[-2]:
        raise RuntimeError(f"PyHessian gives {given}, and {values[-2]} was noted")
    return stops


def make(subject: Subject) -> tuple[nn.Module, Tensor, Tensor]:
    """The trained model in eval mode, the images and their labels."""
    torch.manual_seed(SEED)
    model = durm.models.build(subject.model, CLASSES, subject.batch[1:])
    random = torch.Generator().manual_seed(SEED)
    patterns = torch.randn(CLASSES, *subject.batch[1:], generator=random)
    labels = torch.randint(CLASSES, subject.batch[:1], generator=random)
    images = 0.3 * patterns[labels] + torch.randn(subject.batch, generator=random)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    for _ in range(subject.steps):
        batch = torch.randperm(len(labels), generator=random)[:64]
        optimizer.zero_grad()
        functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    return model.eval(), images, labels


ARMS: dict[str, Callable[[Any, nn.Module, Tensor, Tensor, int, float], Stops]] = {"pyhessian": pyhessian, "ours": ours}
SUBJECTS = {
    "resnet18": Subject("ResNet-18 at 32 px", "resnet18", (512, 3, 32, 32), steps=20),
    "tiny": Subject("CNN at 8 px", "cnn", (128, 1, 8, 8), steps=20),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times the top eigenvalue of the Hessian by durm against PyHessian.",
        epilog="Exit code 1 if the limit does not hold: if the whole interval lies below it.",
    )
    parser.add_argument("--pyhessian", type=Path, metavar="FOLDER", help="where PyHessian was installed")
    parser.add_argument("--pairs", type=int, default=FEWEST_PAIRS, metavar="N", help="some minutes each (6)")
    parser.add_argument(
        "--size", choices=SUBJECTS, default="resnet18", help="the model; tiny is a trial of the script (resnet18)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
