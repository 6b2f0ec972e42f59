"""Is `auto` as strong as AutoAttack, and as fast? Two models trained against attacks, 500 test images of CIFAR-10.

    python benchmarks/autoattack.py --data DATA --autoattack FOLDER --out results/autoattack.json

AutoAttack (Croce & Hein 2020) is no dependency: FOLDER is a copy of github.com/fra31/auto-attack, in which the package
`autoattack` lies. DATA holds cifar-10-batches-bin/.

Each model is durm's `cnn`, trained by its pgd-at on a part of the training images: one without dummies in linf, one
with two in L2, and attacked in the norm it was trained in. `auto` attacks the real logits, which is all that AutoAttack
sees. Both have the same images, model and ε, the same batches and numbers of steps, and one thread. They take turns at
each batch of 250, in alternating order. Times are of the processor. AutoAttack's standard version is APGD on the
cross-entropy, targeted APGD, targeted FAB and Square; ours is the same without FAB. What each part leaves is in the
record, so it shows what FAB adds.

The limits: `auto` leaves at most 0.2 points more, and takes at most AutoAttack's time.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import torch
from pairs import tell
from torch import Tensor

from durm.attacks import Normalised, auto
from durm.training.inference import load_model
from durm.training.robustness import strongest
from durm.training.trainer import RunContext, run
from durm.training.trial import Trial

CLASSES = 10
QUERIES = 50
"""Of Square, for each step of the others."""
MORE_LEFT = 0.2
"""Points by which `auto` may leave more."""
CASES = ((0, "linf", 4 / 255), (2, "l2", 0.5))
"""C_d, norm and ε."""
PARTS = {"autoattack": ("apgd-ce", "apgd-t", "fab-t", "square"), "ours": ("apgd-ce", "apgd-t", "square")}
Found = tuple[Tensor, list[int]]
"""The changed images, and how many are left after each part."""


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
    about = {name: getattr(options, name) for name in ("steps", "epochs", "train", "batch")}
    return tell(_HEADER, measure(auto_attack, options), options.out, **about)


@dataclass(frozen=True)
class Result:
    """Accuracy in percent: clean, and what each leaves; the seconds of each; and how many only one of them fools."""

    case: str
    images: int
    clean: float
    left: dict[str, float]
    left_after: dict[str, dict[str, float]]
    cpu_seconds: dict[str, float]
    fooled_by_one: dict[str, int]

    @property
    def holds(self) -> bool:
        more = self.left["ours"] - self.left["autoattack"]
        return more <= MORE_LEFT + 1e-9 and self.cpu_seconds["ours"] <= self.cpu_seconds["autoattack"]

    def record(self) -> dict[str, object]:
        return {**asdict(self), "holds": self.holds}

    def row(self) -> str:
        numbers = [self.clean, self.left["autoattack"], self.left["ours"]]
        columns = "  ".join(f"{number:>7.2f}" for number in numbers)
        seconds = ", ".join(f"{self.cpu_seconds[name]:.0f}" for name in PARTS)
        return f"{self.case:<34}  {columns}  {seconds:>12}  {'yes' if self.holds else 'NO'}"


_HEADER = f"{'case':<34}  {'clean':>7}  {'AA':>7}  {'ours':>7}  {'CPU seconds':>12}  holds"


def measure(auto_attack: Callable[..., Any], options: argparse.Namespace) -> Iterator[Result]:
    """Each case: the model, and what each of the two leaves of its accuracy."""
    for dummies, norm, eps in (case for case in CASES if options.norm in (None, case[1])):
        model, images, labels = trained(dummies, norm, eps, options)
        arms: dict[str, Callable[[Tensor, Tensor, int], Found]] = {
            "autoattack": partial(theirs, auto_attack, model, norm, eps, options.steps),
            "ours": partial(ours, model, norm, eps, options.steps),
        }
        with torch.no_grad():
            clean = model(images).argmax(1) == labels
        seconds, left, robust = dict.fromkeys(PARTS, 0.0), {name: [0] * len(PARTS[name]) for name in PARTS}, {}
        for index, (some, classes) in enumerate(
            zip(images.split(options.batch), labels.split(options.batch), strict=True)
        ):
            for name in PARTS if index % 2 == 0 else reversed(PARTS):
                started = process_time()
                changed, after = arms[name](some, classes, index)
                seconds[name] += process_time() - started
                check(changed, some, norm, eps)
                left[name] = [one + other for one, other in zip(left[name], after, strict=True)]
                with torch.no_grad():
                    robust.setdefault(name, []).append(model(changed).argmax(1) == classes)
        flags = {name: torch.cat(found) & clean for name, found in robust.items()}
        share = 100 / len(labels)
        yield Result(
            f"{norm}, ε = {eps:.3g}, C_d = {dummies}",
            len(labels),
            share * int(clean.sum()),
            {name: share * int(flags[name].sum()) for name in PARTS},
            {
                name: {part: share * count for part, count in zip(PARTS[name], left[name], strict=True)}
                for name in PARTS
            },
            seconds,
            {
                "autoattack": int((flags["ours"] & ~flags["autoattack"]).sum()),
                "ours": int((flags["autoattack"] & ~flags["ours"]).sum()),
            },
        )


def theirs(
    auto_attack: Callable[..., Any],
    model: Normalised,
    norm: str,
    eps: float,
    steps: int,
    images: Tensor,
    labels: Tensor,
    index: int,
) -> Found:
    """What each part leaves is in its log."""
    with TemporaryDirectory() as folder:
        log = Path(folder, "log")
        attack = auto_attack(model, norm=norm.capitalize(), eps=eps, seed=index, device="cpu", log_path=str(log))
        attack.logger.log = lambda text: log.open("a").write(f"{text}\n")
        for part in (attack.apgd, attack.apgd_targeted, attack.fab):
            part.n_iter = steps
        attack.square.n_queries = QUERIES * steps
        changed: Tensor = attack.run_standard_evaluation(images, labels, bs=len(images))
        shares = [line.split(":")[1].split("%")[0] for line in log.read_text().splitlines() if " after " in line]
    counts = [round(float(share) * len(images) / 100) for share in shares]
    return changed, counts + [0] * (len(PARTS["autoattack"]) - len(counts))


def ours(model: Normalised, norm: str, eps: float, steps: int, images: Tensor, labels: Tensor, index: int) -> Found:
    with torch.no_grad():
        left = int((model(images).argmax(1) == labels).sum())
    attacks, counts = auto(eps, norm, steps=steps, queries=QUERIES * steps), []
    changed, by = strongest(model, images, labels, attacks, (0, "auto", index))
    for number in range(len(attacks)):
        left -= int((by == number).sum())
        counts.append(left)
    return changed, counts


def check(changed: Tensor, images: Tensor, norm: str, eps: float) -> None:
    """That nobody has left the ball or the box."""
    change = (changed - images).flatten(1)
    length = change.abs().amax(1) if norm == "linf" else change.norm(dim=1)
    if length.max() > eps + 1e-5 or changed.min() < 0 or changed.max() > 1:
        raise RuntimeError(f"an attack left the ball: {length.max().item():.6g} > {eps:.6g}")


def trained(dummies: int, norm: str, eps: float, options: argparse.Namespace) -> tuple[Normalised, Tensor, Tensor]:
    """The model for images in [0, 1], and the first test images."""
    method = {"name": "pgd-at", "eps": eps, "norm": norm, "steps": 3}
    train = {"epochs": options.epochs, "lr": 0.1}
    data = f"subset:samples={options.train // CLASSES}:cifar10"
    trial = Trial.model_validate({"data": data, "model": "cnn", "dummies": dummies, "method": method, "train": train})
    with TemporaryDirectory() as folder:
        run(trial, RunContext(Path(folder), data_root=options.data))
        model, _, bundle = load_model(Path(folder, "checkpoint.pt"), options.data)
    test, format = bundle.test.subset(torch.arange(options.images)), bundle.input
    assert isinstance(test.inputs, Tensor)
    return Normalised(model, format.mean, format.std, 255).eval(), test.inputs.float() / 255, test.labels


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Attacks two models by AutoAttack and by durm's auto.",
        epilog="Exit code 1 if a limit does not hold.",
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder with cifar-10-batches-bin/")
    parser.add_argument("--autoattack", type=Path, metavar="FOLDER", help="a copy of github.com/fra31/auto-attack")
    parser.add_argument("--images", type=int, default=500, help="test images (500)")
    parser.add_argument("--batch", type=int, default=250, help="images at a time (250)")
    parser.add_argument("--norm", choices=[norm for _, norm, _ in CASES], help="one of the models alone")
    parser.add_argument("--train", type=int, default=10_000, help="training images (10000)")
    parser.add_argument("--epochs", type=int, default=6, help="of training (6)")
    parser.add_argument("--steps", type=int, default=100, help="of APGD and FAB; Square has 50 times as many (100)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
