"""What it costs to know that data are unchanged: the manifest of a folder of small files.

    python benchmarks/manifest.py --files 100000 --out results/manifest.json

The first time every file is read and hashed, which is timed against reading each of them; the second time the folder is
listed, which is timed against listing it with the state of each file. Both are timed in pairs, in alternating order
(see pairs.py), on files that the system has in memory: with a slow disk the hashes would weigh less. A limit holds
where the 95 % interval of the ratio reaches it or lies below.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from pairs import Comparison, compare, enough_pairs, tell

from durm.data import manifest

LIMIT = 3.0
FILE_BYTES = 2_000
FOLDERS = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if a limit does not hold."""
    options = _parser().parse_args(arguments)
    with TemporaryDirectory() as folder:
        os.environ["DURM_CACHE"] = f"{folder}/cache"
        root = Path(folder) / "data"
        make_files(root, options.files)
        about = {"files": options.files, "file_bytes": FILE_BYTES}
        return tell(_HEADER, measure(root, options.files, options.pairs), options.out, **about)


@dataclass(frozen=True)
class Result:
    """The ratio of a manifest to the plain work that it cannot do without."""

    case: str
    comparison: Comparison

    @property
    def holds(self) -> bool:
        return self.comparison.low <= LIMIT

    def record(self) -> dict[str, object]:
        return {"case": self.case, **asdict(self.comparison), "limit": LIMIT, "holds": self.holds}

    def row(self) -> str:
        found = self.comparison
        times = f"{found.usual_milliseconds:.0f}, {found.other_milliseconds:.0f}"
        interval = f"{found.low:.2f} … {found.high:.2f}"
        columns = f"{self.case:<41}  {times:>12}  {found.pairs:>5}  {found.ratio:>6.2f}  {interval:<13}"
        return f"{columns}  ≤ {LIMIT:g}  {'yes' if self.holds else 'NO'}"


_HEADER = f"{'case':<41}  {'milliseconds':>12}  pairs  median  {'95 % interval':<13}  limit  holds"


def measure(root: Path, files: int, pairs: int) -> Iterator[Result]:
    def first() -> object:
        manifest.Cache(root).path.unlink(missing_ok=True)
        return manifest.manifest_of_files(root)

    def second() -> object:
        return manifest.manifest_of_files(root)

    cases: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "first / reading": (lambda: read_all(root), first),
        "second / listing and stat": (lambda: list_all(root), second),
    }
    for name, (usual, other) in cases.items():
        yield Result(f"{files:,} files: {name}", compare(usual, other, pairs=pairs, warm_up=1))


def make_files(root: Path, count: int) -> None:
    """Small files of noise in folders; returns once they are so old that their hashes are cached."""
    random = Random(0)
    for index in range(count):
        folder = root / f"class{index % FOLDERS:03}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"image{index:06}.png").write_bytes(random.randbytes(FILE_BYTES))
    time.sleep(manifest.FRESH_NANOSECONDS / 1e9)


def read_all(root: Path) -> int:
    """The number of bytes in all files, by reading them."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                total += len(file.read())
    return total


def list_all(root: Path) -> int:
    """The same without reading them."""
    return sum(os.stat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(root) for name in names)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times the manifest of a folder, the first and the second time, against reading and listing it.",
        epilog="Exit code 1 if a limit does not hold: if the whole interval lies above it.",
    )
    parser.add_argument("--files", type=int, default=10_000, metavar="N", help="small files (10000)")
    parser.add_argument("--pairs", type=enough_pairs, default=8, metavar="N", help="pairs of timings of each (8)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
