"""Is `auto` as strong as AutoAttack, and as fast? Two models trained against attacks, 500 test images of CIFAR-10.

    python benchmarks/autoattack.py --data DATA --autoattack FOLDER --out results/autoattack.json

AutoAttack (Croce & Hein 2020) is no dependency: FOLDER is a copy of github.com/fra31/auto-attack, in which the package
`autoattack` lies. DATA holds cifar-10-batches-bin/.

Each model is a small convolutional network, trained for some epochs against PGD on a part of the training images: one
without dummies, one with two. `auto` attacks the real logits, which is all that AutoAttack sees. Both are given the
same images, model and ε, both on one thread, one after the other, in alternating order; a time is of one run.
AutoAttack's standard version is APGD on the cross-entropy, targeted APGD, targeted FAB and Square; ours is the same
without FAB.

The limits: `auto` leaves at most 0.2 points more, and takes at most AutoAttack's time.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from pairs import tell
from torch import Tensor, nn
from torch.nn import functional

import durm
from durm.attacks import Attack, Normalised, auto
from durm.data import DataOptions, load
from durm.training.robustness import strongest

Samples = tuple[Tensor, Tensor]
CLASSES = 10
BATCH = 128
QUERIES = 50
"""Of Square, for each step of the others."""
MORE_LEFT = 0.2
"""Points by which `auto` may leave more."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains, attacks, prints a table, and returns the exit code: 1 if a limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    if options.autoattack is not None:
        sys.path.insert(0, str(options.autoattack))
    try:
        auto_attack = import_module("autoattack.autoattack").AutoAttack
    except ImportError:
        print("autoattack.py: AutoAttack is not there; --autoattack takes the folder of a copy", file=sys.stderr)
        return 2
    train, test = cifar(options.data, options.train, options.images)
    results = measure(auto_attack, train, test, options)
    return tell(_HEADER, results, options.out, steps=options.steps, epochs=options.epochs, trained_on=options.train)


@dataclass(frozen=True)
class Result:
    """Accuracy in percent: clean, and what each leaves; the seconds of each; and how many only one of them fools."""

    case: str
    images: int
    clean: float
    left: dict[str, float]
    seconds: dict[str, float]
    fooled_by_one: dict[str, int]

    @property
    def holds(self) -> bool:
        more = self.left["ours"] - self.left["autoattack"]
        return more <= MORE_LEFT + 1e-9 and self.seconds["ours"] <= self.seconds["autoattack"]

    def record(self) -> dict[str, object]:
        return {**asdict(self), "holds": self.holds}

    def row(self) -> str:
        numbers = [self.clean, self.left["autoattack"], self.left["ours"]]
        columns = "  ".join(f"{number:>7.2f}" for number in numbers)
        seconds = ", ".join(f"{self.seconds[name]:.0f}" for name in ("autoattack", "ours"))
        return f"{self.case:<34}  {columns}  {seconds:>12}  {'yes' if self.holds else 'NO'}"


_HEADER = f"{'case':<34}  {'clean':>7}  {'AA':>7}  {'ours':>7}  {'seconds':>12}  holds"


def measure(
    auto_attack: Callable[..., Any], train: Samples, test: Samples, options: argparse.Namespace
) -> Iterator[Result]:
    """Each case: the model, and what each of the two leaves of its accuracy."""
    images, labels = test
    for index, (dummies, norm, eps) in enumerate(CASES):
        model = trained(train, dummies, norm, eps, options.epochs)
        with torch.no_grad():
            clean = model(images).argmax(1) == labels
        settings = model, images, labels, norm, eps, options.steps
        arms = {"autoattack": partial(theirs, auto_attack, *settings), "ours": partial(ours, *settings)}
        seconds, robust = {}, {}
        for name in arms if index % 2 == 0 else reversed(arms):
            started = perf_counter()
            changed = arms[name]()
            seconds[name] = perf_counter() - started
            check(changed, images, norm, eps)
            with torch.no_grad():
                robust[name] = (model(changed).argmax(1) == labels) & clean
        yield Result(
            f"{norm}, ε = {eps:.3g}, C_d = {dummies}",
            len(labels),
            100 * clean.double().mean().item(),
            {name: 100 * flags.double().mean().item() for name, flags in robust.items()},
            seconds,
            {
                "autoattack": int((robust["ours"] & ~robust["autoattack"]).sum()),
                "ours": int((robust["autoattack"] & ~robust["ours"]).sum()),
            },
        )


def theirs(
    auto_attack: Callable[..., Any], model: nn.Module, images: Tensor, labels: Tensor, norm: str, eps: float, steps: int
) -> Tensor:
    attack = auto_attack(model, norm=norm.capitalize(), eps=eps, seed=0, verbose=False, device="cpu")
    for part in (attack.apgd, attack.apgd_targeted, attack.fab):
        part.n_iter = steps
    attack.square.n_queries = QUERIES * steps
    changed: Tensor = attack.run_standard_evaluation(images, labels, bs=BATCH)
    return changed


def ours(model: nn.Module, images: Tensor, labels: Tensor, norm: str, eps: float, steps: int) -> Tensor:
    attacks = auto(eps, norm, steps=steps, queries=QUERIES * steps)
    batches = zip(images.split(BATCH), labels.split(BATCH), strict=True)
    return torch.cat([strongest(model, *batch, attacks, (0, "auto", index)) for index, batch in enumerate(batches)])


def check(changed: Tensor, images: Tensor, norm: str, eps: float) -> None:
    """That nobody has left the ball or the box."""
    change = (changed - images).flatten(1)
    length = change.abs().amax(1) if norm == "linf" else change.norm(dim=1)
    if length.max() > eps + 1e-5 or changed.min() < 0 or changed.max() > 1:
        raise RuntimeError(f"an attack left the ball: {length.max().item():.6g} > {eps:.6g}")


def trained(train: Samples, dummies: int, norm: str, eps: float, epochs: int) -> nn.Module:
    """A network trained against PGD of three steps, in eval mode, for images in [0, 1]; the real logits."""
    images, labels = train
    torch.manual_seed(0)
    widths = (3, 24, 48, 64)
    layers = [
        layer
        for before, after in pairwise(widths)
        for layer in (nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU())
    ]
    network = durm.widen(nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, CLASSES)), dummies)
    model = Normalised(network, torch.tensor(0.47), torch.tensor(0.25))
    attack = Attack("pgd", eps, norm, steps=3, through="full")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    random = torch.Generator().manual_seed(0)
    batches = [batch for _ in range(epochs) for batch in torch.randperm(len(labels), generator=random).split(128)]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=len(batches))
    for batch in batches:
        points = images[batch]
        points = torch.where(torch.rand(len(points), 1, 1, 1, generator=random) < 0.5, points, points.flip(3))
        points = attack(model, points, labels[batch], generator=random)
        optimizer.zero_grad()
        functional.cross_entropy(model.train()(points), labels[batch]).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def cifar(root: Path, train: int, test: int) -> tuple[Samples, Samples]:
    """The first images of each part, in [0, 1], and their labels."""
    bundle = load("cifar10", seed=0, options=DataOptions(root=root))
    parts = []
    for samples, count in ((bundle.train, train), (bundle.test, test)):
        chosen = samples.subset(torch.arange(min(count, len(samples))))
        parts.append((torch.as_tensor(chosen.inputs).float() / 255, chosen.labels))
    return parts[0], parts[1]


CASES = ((0, "linf", 4 / 255), (2, "linf", 4 / 255), (2, "l2", 0.5))
"""C_d, norm and ε."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Attacks two models by AutoAttack and by durm's auto.",
        epilog="Exit code 1 if a limit does not hold.",
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder with cifar-10-batches-bin/")
    parser.add_argument("--autoattack", type=Path, metavar="FOLDER", help="a copy of github.com/fra31/auto-attack")
    parser.add_argument("--images", type=int, default=500, help="test images (500)")
    parser.add_argument("--train", type=int, default=10_000, help="training images (10000)")
    parser.add_argument("--epochs", type=int, default=8, help="of training (8)")
    parser.add_argument("--steps", type=int, default=100, help="of APGD and FAB; Square has 50 times as many (100)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
