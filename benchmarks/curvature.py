"""What the top eigenvalue of the Hessian costs: our Lanczos against plain power iteration, both to 1 %.

    python benchmarks/curvature.py --out results/curvature.json

The loss is that of a ResNet-18 with two dummies at 32 px on 512 generated images, ten classes of noise around a
pattern each, after twenty steps of training on them: nobody looks at the spectrum of an untrained network or of random
labels. All on one thread. Both arms are timed from the model to the eigenvalue: each computes the loss and, with its
graph, the gradient once, and takes products with the Hessian over the graph that it keeps.

- Power iteration, as PyHessian has it: v is normal and of length 1, then λ ← vᵀHv and v ← Hv/‖Hv‖.
- Ours, that of `durm.flatness.top_eigenvalues`. It begins near the gradient, and pays for a product on an eighth of the
  images to prepare that start.

Both stop at the first λ within 1 % of the reference, which is ours to a residual of 1e-5: so neither is charged for
what its own rule does too much or too little. What the rules would have done stands beside the times, in products and
for one start each: ours waits for a residual of 1 %; PyHessian's for a λ that changes by less than a tolerance, 1 % or
its default of 0.1 %, and it gives the λ before that. A last line has power iteration from our start, told when to stop:
what of the gain is due to the start.

They are timed in pairs, in alternating order (see pairs.py), each pair from starts of its own. The ratio is of the
times, power iteration by ours; the limit holds where its 95 % interval reaches it or lies above.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from pairs import enough_pairs, median_interval, provenance
from torch import Tensor, nn
from torch.nn import functional

import durm
import durm.models
from durm.flatness import ClassifierLoss, hessian
from durm.flatness.lanczos import ritz_pairs, start_vector

CLASSES = 10
DUMMIES = 2
SEED = 0
WITHIN = 0.01
LIMIT = 1.5
EXACT = 1e-5
"""The residual of the reference."""
CHANGES = (1e-2, 1e-3)
"""Tolerances of PyHessian's rule."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if the limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    result = measure_curvature(SUBJECTS[options.size], options.pairs)
    print(_HEADER)
    print(result.row())
    for stop in result.rules:
        print(f"{stop.rule}: {stop.products} products, {100 * stop.error:.3f} % off")
    if options.out:
        record = {"provenance": provenance(), "dummies": DUMMIES, "results": [result.record()]}
        options.out.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if result.holds else 1


@dataclass(frozen=True)
class Subject:
    """A model, the shape of the images, and for how many steps it is trained on them."""

    name: str
    model: str
    batch: tuple[int, int, int, int]
    steps: int


@dataclass(frozen=True)
class Run:
    """One eigenvalue: what it took, and how far it is from the reference, as a share of that."""

    seconds: float
    products: int
    error: float


@dataclass(frozen=True)
class Stop:
    """Where a rule stops an arm."""

    rule: str
    products: int
    error: float


@dataclass(frozen=True)
class Result:
    """The median ratio with its 95 % interval; of each arm the median seconds and products, and the largest error.

    `second` is the next eigenvalue as it was known with the reference; by its distance power iteration goes.
    """

    case: str
    pairs: int
    ratio: float
    low: float
    high: float
    power_seconds: float
    our_seconds: float
    power_products: float
    our_products: float
    power_error: float
    our_error: float
    reference: float
    second: float
    loss: float
    rules: tuple[Stop, ...]

    @property
    def holds(self) -> bool:
        return self.high >= LIMIT

    def record(self) -> dict[str, object]:
        return {**asdict(self), "limit": LIMIT, "holds": self.holds}

    def row(self) -> str:
        seconds = f"{self.power_seconds:.3g}, {self.our_seconds:.3g}"
        products = f"{self.power_products:g}, {self.our_products:g}"
        interval = f"{self.low:.2f} … {self.high:.2f}"
        columns = f"{self.case:<38}  {seconds:>12}  {products:>8}  {self.pairs:>5}  {self.ratio:>6.2f}  {interval:<13}"
        return f"{columns}  ≥ {LIMIT:g}  {'yes' if self.holds else 'NO'}"


_HEADER = f"{'case':<38}  {'seconds':>12}  products  pairs  median  {'95 % interval':<13}  limit  holds"


def measure_curvature(subject: Subject, pairs: int) -> Result:
    """Power iteration against ours, one after the other, in alternating order."""
    model, images, labels = make(subject)
    loss = ClassifierLoss(model, images, labels, num_classes=CLASSES)
    reference, second, our_rule = find_reference(loss)
    arms = {"power": time_power, "ours": time_ours}
    runs: dict[str, list[Run]] = {name: [] for name in arms}
    for pair in range(-1, pairs):  # the first warms up and is not kept
        for name in arms if pair % 2 == 0 else reversed(arms):
            run = arms[name](model, images, labels, reference, seed=pair + 1)
            if pair >= 0:
                runs[name].append(run)
    ratios = [power.seconds / ours.seconds for power, ours in zip(runs["power"], runs["ours"], strict=True)]
    low, high = median_interval(ratios)
    return Result(
        f"{subject.name}: power iteration / ours",
        pairs,
        median(ratios),
        low,
        high,
        *(median(run.seconds for run in runs[name]) for name in arms),
        *(median(run.products for run in runs[name]) for name in arms),
        *(max(run.error for run in runs[name]) for name in arms),
        reference,
        second,
        loss.value(),
        (our_rule, *power_rules(model, images, labels, reference), power_from_our_start(loss, reference)),
    )


def find_reference(loss: ClassifierLoss) -> tuple[float, float, Stop]:
    """The top eigenvalue, the next one roughly, and where our rule would have stopped on the way."""
    with hessian(loss) as matrix:
        stop = None
        for found in ritz_pairs(matrix, 2, SEED):
            value, residual = float(found.values[0]), float(found.residuals[0])
            if stop is None and residual <= WITHIN * value:
                stop = found.products, value
            if stop and found.products > 1 and residual <= EXACT * value:
                break
    rule = Stop(f"ours, residual {WITHIN:g}", stop[0], abs(stop[1] - value) / value)
    return value, float(found.values[1]), rule


def time_power(model: nn.Module, images: Tensor, labels: Tensor, reference: float, seed: int) -> Run:
    started = perf_counter()
    return first_within(power_iteration(model, images, labels, seed), reference, started)


def time_ours(model: nn.Module, images: Tensor, labels: Tensor, reference: float, seed: int) -> Run:
    started = perf_counter()
    with hessian(ClassifierLoss(model, images, labels, num_classes=CLASSES)) as matrix:
        return first_within((float(found.values[0]) for found in ritz_pairs(matrix, 1, seed)), reference, started)


def first_within(values: Iterator[float], reference: float, started: float) -> Run:
    """The first estimate within 1 % of the reference, and the time that has passed by then."""
    for products, value in enumerate(values, 1):
        error = abs(value - reference) / reference
        if error <= WITHIN:
            return Run(perf_counter() - started, products, error)
    raise AssertionError


def power_iteration(
    model: nn.Module, images: Tensor, labels: Tensor, seed: int, start: Sequence[Tensor] | None = None
) -> Iterator[float]:
    """The estimates vᵀHv, one for each product, as one writes it by hand."""
    parameters = list(model.parameters())
    with durm.full_logits(model):
        loss = functional.cross_entropy(model(images), labels)
    gradient = torch.autograd.grad(loss, parameters, create_graph=True)
    random = torch.Generator().manual_seed(seed)
    vector = normalised(start or [torch.randn(parameter.shape, generator=random) for parameter in parameters])
    while True:
        image = torch.autograd.grad(gradient, parameters, vector, retain_graph=True)
        yield product(image, vector)
        vector = normalised(image)


def normalised(vector: Sequence[Tensor]) -> list[Tensor]:
    length = product(vector, vector) ** 0.5
    return [part / length for part in vector]


def product(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    return sum(float((one * other).sum()) for one, other in zip(first, second, strict=True))


def power_rules(model: nn.Module, images: Tensor, labels: Tensor, reference: float) -> Iterator[Stop]:
    """Where PyHessian's rule stops, for each tolerance, in one run."""
    left = list(CHANGES)
    before = None
    for products, value in enumerate(power_iteration(model, images, labels, SEED), 1):
        while before is not None and left and abs(before - value) / (abs(before) + 1e-6) < left[0]:
            yield Stop(f"PyHessian's, change {left.pop(0):g}", products, abs(before - reference) / reference)
        if not left:
            return
        before = value


def power_from_our_start(loss: ClassifierLoss, reference: float) -> Stop:
    with hessian(loss) as matrix:
        start = loss.layout.split(start_vector(matrix, SEED))
    run = first_within(power_iteration(loss.model, loss.inputs, loss.targets, SEED, start), reference, 0.0)
    return Stop("power iteration from our start, told", run.products, run.error)


def make(subject: Subject) -> tuple[nn.Module, Tensor, Tensor]:
    """The trained model in eval mode, the images and their labels."""
    torch.manual_seed(SEED)
    model = durm.widen(durm.models.build(subject.model, CLASSES, subject.batch[1:]), DUMMIES)
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


SUBJECTS = {
    "resnet18": Subject("ResNet-18 at 32 px", "resnet18", (512, 3, 32, 32), steps=20),
    "tiny": Subject("CNN at 8 px", "cnn", (128, 1, 8, 8), steps=20),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times the top eigenvalue of the Hessian by Lanczos' method against power iteration.",
        epilog="Exit code 1 if the limit does not hold: if the whole interval lies below it.",
    )
    parser.add_argument("--pairs", type=enough_pairs, default=6, metavar="N", help="pairs, a minute or two each (6)")
    parser.add_argument(
        "--size", choices=SUBJECTS, default="resnet18", help="the model; tiny is a trial of the script (resnet18)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
