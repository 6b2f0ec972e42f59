"""How fast augmented images come: whole batches at once, as our feed makes them, against torchvision's transforms.

    python benchmarks/input.py --out results/input.json

Both give batches of 128 images of 32 × 32 pixels, cropped at random after padding by 4, flipped at random, normalised,
as float tensors. Ours takes them from one uint8 tensor in memory, in one thread of the training process. The usual way
is RandomCrop, RandomHorizontalFlip, ToTensor and Normalize on one PIL image after the other, in a DataLoader with two
workers. To its advantage the PIL images are made beforehand and the workers stay alive between epochs.

A timing is of one epoch; the two are interleaved in pairs (see pairs.py). The ratio is of images per second, ours by
theirs; the limit holds where its 95 % interval reaches it or lies above. The machine must have two idle cores: other
work on it slows three processes more than one, which flatters us. So what others took of the cores meanwhile is told.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from pairs import FEWEST_PAIRS, compare, provenance
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import durm.models  # noqa: F401  # before torchvision: it cures its import

# isort: split
import torchvision
from PIL import Image
from torchvision import transforms

from durm.data.bundle import InputFormat, Samples, measure
from durm.training.loaders import TrainLoader

SIDE = 32
CLASSES = 10
BATCH_SIZE = 128
WORKERS = 2
LIMIT = 10.0
SEED = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if the limit does not hold."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    others = _OthersShare()
    result = measure_input(options.images, options.pairs)
    share = others()
    print(_HEADER)
    print(result.row())
    if share is not None:
        print(f"Other processes took {share:.0%} of the cores meanwhile.")
    if options.out:
        about = {**provenance(), "torchvision": torchvision.__version__, "others_share_of_cores": share}
        options.out.write_text(json.dumps({"provenance": about, "results": [result.record()]}, indent=2) + "\n")
    return 0 if result.holds else 1


@dataclass(frozen=True)
class Result:
    """Images per second of both ways, and the median ratio of them with its 95 % interval."""

    case: str
    pairs: int
    ratio: float
    low: float
    high: float
    images_per_second: float
    torchvision_images_per_second: float

    @property
    def holds(self) -> bool:
        return self.high >= LIMIT

    def record(self) -> dict[str, object]:
        return {**asdict(self), "limit": LIMIT, "holds": self.holds}

    def row(self) -> str:
        speeds = f"{self.images_per_second:,.0f}, {self.torchvision_images_per_second:,.0f}"
        interval = f"{self.low:.2f} … {self.high:.2f}"
        verdict = "yes" if self.holds else "NO"
        columns = f"{self.case:<41}  {speeds:>15}  {self.pairs:>5}  {self.ratio:>6.2f}  {interval:<15}"
        return f"{columns}  {f'≥ {LIMIT:g}':>5}  {verdict}"


_HEADER = f"{'case':<41}  {'images/s':>15}  pairs  median  {'95 % interval':<15}  limit  holds"


def measure_input(images: int, pairs: int) -> Result:
    """Epochs of our feed against epochs of the DataLoader, over as many random images."""
    samples = _random_samples(images)
    assert isinstance(samples.inputs, Tensor)
    format = measure(samples.inputs)
    batched, per_sample = Batched(samples, format), PerSample(samples, format)
    comparison = compare(batched, per_sample, pairs=pairs, warm_up=2)
    fed = 1000 * (images // BATCH_SIZE * BATCH_SIZE)  # the incomplete last batch is dropped by both; times are in ms
    return Result(
        "crop, flip, normalise: ours / torchvision",
        pairs,
        comparison.ratio,
        comparison.low,
        comparison.high,
        fed / comparison.usual_milliseconds,
        fed / comparison.other_milliseconds,
    )


class Batched:
    """Epochs of our feed."""

    def __init__(self, samples: Samples, format: InputFormat) -> None:
        self._feed = TrainLoader(samples, format, "crop-flip", BATCH_SIZE, SEED)
        self._epoch = 0

    def __call__(self) -> None:
        for _ in self._feed.epoch(self._epoch):
            pass
        self._epoch += 1


class PerSample:
    """Epochs of a DataLoader as torchvision's examples have it."""

    def __init__(self, samples: Samples, format: InputFormat) -> None:
        self._loader = DataLoader(
            _Pictures(samples, format),
            BATCH_SIZE,
            shuffle=True,
            drop_last=True,
            num_workers=WORKERS,
            persistent_workers=True,
        )

    def __call__(self) -> None:
        for _ in self._loader:
            pass


class _Pictures(Dataset[tuple[Tensor, int]]):
    def __init__(self, samples: Samples, format: InputFormat) -> None:
        assert isinstance(samples.inputs, Tensor)
        self._images = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in samples.inputs]
        self._labels = samples.labels.tolist()
        scaled = [(values / 255).flatten().tolist() for values in (format.mean, format.std)]  # ToTensor gives 0 … 1
        self._transform = transforms.Compose(
            [
                transforms.RandomCrop(SIDE, padding=SIDE // 8),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(*scaled),
            ]
        )

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self._transform(self._images[index]), self._labels[index]


class _OthersShare:
    """What share of all cores processes other than this one and its workers took since this was made; Linux only."""

    def __init__(self) -> None:
        self._began = self._now()

    def __call__(self) -> float | None:
        taken, passed = (now - began for now, began in zip(self._now(), self._began, strict=True))
        return max(0.0, taken / passed) if passed else None

    def _now(self) -> tuple[float, float]:
        """Seconds that the cores gave to others, and seconds that they had to give."""
        statistics = Path("/proc/stat")
        if not statistics.exists():
            return 0.0, 0.0
        every = [int(field) / os.sysconf("SC_CLK_TCK") for field in statistics.read_text().split()[1:9]]
        idle = every[3] + every[4]
        return sum(every) - idle - sum(os.times()[:4]), sum(every)


def _random_samples(number: int) -> Samples:
    random = torch.Generator().manual_seed(SEED)
    images = torch.randint(256, (number, 3, SIDE, SIDE), generator=random, dtype=torch.uint8)
    return Samples(images, torch.randint(CLASSES, (number,), generator=random))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times augmentation of whole batches against torchvision's transforms in a DataLoader.",
        epilog="Exit code 1 if the limit does not hold: if the whole interval lies below it.",
    )
    parser.add_argument("--pairs", type=_at_least(FEWEST_PAIRS), default=30, metavar="N", help="pairs (30)")
    parser.add_argument(
        "--images", type=_at_least(BATCH_SIZE), default=10_000, metavar="N", help="images in an epoch (10000)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number, at least {least}, not {text!r}")
        return int(text)

    return whole_number


if __name__ == "__main__":
    sys.exit(main())
