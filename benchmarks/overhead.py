"""What the dummies cost: one training step, and one forward pass in eval mode, with C_d = 2 against without.

    python benchmarks/overhead.py --out results/overhead.json

Both arms are the same model from the same seed, with the same batch, SGD with momentum and plain cross-entropy, on one
thread; the eval forward is under no_grad. A third case is a training step with the guard of `durm.widen` against one
without, both with dummies; of the MLP in blocks of 100 steps, each with one look of the guard. They are timed in
interleaved pairs (see pairs.py), in CPU time, which other programs on the machine disturb least; a timing is of one
step of the ResNet, or of 5 steps of the MLP, which are short. A limit holds where the 95 % interval of the median ratio
reaches it or lies below. The first two have a control beside them, the model without dummies against a second copy of
itself: its true ratio is 1, and what it shows instead is the error of the method on this machine at this hour.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time_ns

import torch
from pairs import Comparison, compare, enough_pairs, tell
from torch import Tensor, nn

import durm

DUMMIES = 2
CLASSES = 10
SEED = 0
LEARNING_RATE = 1e-4
"""Small, so that hundreds of steps on one batch leave both arms near where they began, far from subnormal numbers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if a limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    results = (result for name in options.model or SUBJECTS for result in measure(SUBJECTS[name], options.pairs))
    return tell(_HEADER, results, options.out, dummies=DUMMIES)


@dataclass(frozen=True)
class Subject:
    """A model to measure, the shape of its batch, how it is timed, and the limits that its ratios are held to."""

    name: str
    build: Callable[[], nn.Module]
    batch: tuple[int, ...]
    pairs: int
    steps_per_timing: int
    training_limit: float
    eval_limit: float
    guard_pairs: int
    guard_steps: int
    guard_limit: float = 1.01


@dataclass(frozen=True)
class Result:
    """A comparison with what it is of, and the limit that it is held to; a control has none."""

    case: str
    limit: float | None
    steps_per_timing: int
    comparison: Comparison

    @property
    def holds(self) -> bool:
        return self.limit is None or self.comparison.low <= self.limit

    def record(self) -> dict[str, object]:
        measured = {"case": self.case, **asdict(self.comparison), "steps_per_timing": self.steps_per_timing}
        return measured if self.limit is None else {**measured, "limit": self.limit, "holds": self.holds}

    def row(self) -> str:
        numbers = self.comparison
        interval = f"{numbers.low:.4f} … {numbers.high:.4f}"
        limit, verdict = ("", "") if self.limit is None else (f"{self.limit:.2f}", "yes" if self.holds else "NO")
        row = f"{self.case:<42}  {numbers.pairs:>5}  {numbers.ratio:.4f}  {interval:<17}  {limit:>5}  {verdict}"
        return row.rstrip()


def measure(subject: Subject, pairs: int | None = None) -> Iterator[Result]:
    """The training step and the eval forward of one model, each followed by its control, and the guard."""
    images, labels = _batch(subject)

    def training_step(dummies: int, guard: bool = True) -> Callable[[], object]:
        model = _model(subject, dummies, guard).train()
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
        loss_function = nn.CrossEntropyLoss()

        def step() -> None:
            optimizer.zero_grad()
            loss_function(model(images), labels).backward()
            optimizer.step()

        return step

    def eval_forward(dummies: int) -> Callable[[], object]:
        model = _model(subject, dummies).eval()
        return lambda: model(images)

    def timed(usual: Callable[[], object], other: Callable[[], object], pairs: int, block: int) -> Comparison:
        return compare(usual, other, pairs=pairs, block=block, clock=process_time_ns)

    for what, arm, limit in (
        ("training step", training_step, subject.training_limit),
        ("eval forward", eval_forward, subject.eval_limit),
    ):
        for dummies in (DUMMIES, 0):
            with torch.set_grad_enabled(arm is training_step):
                comparison = timed(arm(0), arm(dummies), pairs or subject.pairs, subject.steps_per_timing)
            control = not dummies
            case = f"{subject.name} {what}{', control' if control else ''}"
            yield Result(case, None if control else limit, subject.steps_per_timing, comparison)
    arms = (training_step(DUMMIES, guard) for guard in (False, True))
    comparison = timed(*arms, min(pairs or subject.guard_pairs, subject.guard_pairs), subject.guard_steps)
    yield Result(f"{subject.name} training step, guard", subject.guard_limit, subject.guard_steps, comparison)


def _model(subject: Subject, dummies: int, guard: bool = True) -> nn.Module:
    torch.manual_seed(SEED)
    return durm.widen(subject.build(), dummies, guard=guard)


def _batch(subject: Subject) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(SEED)
    labels = torch.randint(CLASSES, subject.batch[:1], generator=random)
    return torch.randn(subject.batch, generator=random), labels


def _resnet18() -> nn.Module:
    import durm.models  # noqa: F401  # before timm: it cures the import of torchvision

    # isort: split
    import timm

    model: nn.Module = timm.create_model("resnet18", num_classes=CLASSES)
    return model


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES))


SUBJECTS = {
    "resnet18": Subject(
        *("ResNet-18 at 32 px", _resnet18, (32, 3, 32, 32), 200, 1),
        training_limit=1.01,
        eval_limit=1.01,
        guard_pairs=200,
        guard_steps=1,
    ),
    "mlp": Subject(
        *("MLP 784-256-256", _mlp, (128, 784), 400, 5),
        training_limit=1.03,
        eval_limit=1.01,
        guard_pairs=200,
        guard_steps=100,
    ),
}

_HEADER = f"{'case':<42}  {'pairs':>5}  {'median':<6}  {'95 % interval':<17}  {'limit':<5}  holds"


def _parser() -> argparse.ArgumentParser:
    defaults = ", ".join(f"{subject.pairs} for {name}" for name, subject in SUBJECTS.items())
    parser = argparse.ArgumentParser(
        description="CPU time of a training step and an eval forward with C_d = 2, against the model without dummies.",
        epilog="Exit code 1 if a limit does not hold: if the whole interval lies above it.",
    )
    parser.add_argument("--pairs", type=enough_pairs, metavar="N", help=f"pairs for each case ({defaults})")
    parser.add_argument(
        "--model", action="append", choices=SUBJECTS, help="measure this model alone; may be repeated (all of them)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
