"""What our FGSM costs: one call of it against torchattacks', on the same images.

    pip install --no-deps --target FOLDER torchattacks
    python benchmarks/fgsm.py --torchattacks FOLDER --out results/fgsm.json

torchattacks (Kim 2020) is no dependency. The model is that of attacks.py, in eval mode, so both see its real logits.
Both are used as their documentation says, `Attack("fgsm", eps)(model, images, labels)` and `FGSM(model, eps)(images,
labels)`, and must return the same images, bit for bit. A second case is ours with `keep_best`, which takes a forward
pass more to return the better one of both points. All on one thread.

They are timed in interleaved pairs (see pairs.py), in time of the processor. The ratio is ours by theirs; the limit
holds where its 95 % interval reaches it or lies below.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from time import process_time_ns

import attacks
import overhead
import torch
from overhead import Result
from pairs import compare, enough_pairs, tell
from torch import Tensor, nn

from durm.attacks import Attack

EPS = 8 / 255
LIMIT = 1.05
PAIRS = 60
WARM_UP = 2
SUBJECTS = attacks.SUBJECTS
TheirAttack = Callable[..., Callable[[Tensor, Tensor], Tensor]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if the limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    if options.torchattacks is not None:
        sys.path.insert(0, str(options.torchattacks))
    try:
        library = import_module("torchattacks")
    except ImportError:
        print(
            "fgsm.py: torchattacks is not there; --torchattacks takes the folder it was installed in", file=sys.stderr
        )
        return 2
    return tell(overhead._HEADER, measure_fgsm(library.FGSM, SUBJECTS[options.size], options.pairs), options.out)


def measure_fgsm(their_attack: TheirAttack, subject: attacks.Subject, pairs: int) -> Iterator[Result]:
    """Ours against theirs, as it is and with `keep_best`.

    Raises:
        RuntimeError: if the images differ, as then the times are of two different things.
    """
    model, images, labels = attacks.make(subject)
    fgsm = their_attack(model, eps=EPS)

    def theirs() -> Tensor:
        return fgsm(images, labels)

    if not torch.equal(ours(model, images, labels, False)(), theirs()):
        raise RuntimeError("the images of the two differ")
    for case, keep_best, limit in (("FGSM", False, LIMIT), ("FGSM, keep_best", True, None)):
        arm = ours(model, images, labels, keep_best)
        comparison = compare(theirs, arm, pairs=pairs, warm_up=WARM_UP, clock=process_time_ns)
        yield Result(f"{subject.name}: {case} / torchattacks", limit, 1, comparison)


def ours(model: nn.Module, images: Tensor, labels: Tensor, keep_best: bool) -> Callable[[], Tensor]:
    attack = Attack("fgsm", EPS)
    return lambda: attack(model, images, labels, keep_best=keep_best)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times our FGSM against torchattacks'.",
        epilog="Exit code 1 if the limit does not hold: if the whole interval lies above it.",
    )
    parser.add_argument("--torchattacks", type=Path, metavar="FOLDER", help="where torchattacks was installed")
    parser.add_argument("--pairs", type=enough_pairs, default=PAIRS, metavar="N", help=f"for each case ({PAIRS})")
    parser.add_argument(
        "--size", choices=SUBJECTS, default="resnet18", help="the model; tiny is a trial of the script (resnet18)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
