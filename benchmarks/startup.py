"""What a small study costs around its trials: its time against that of `import torch`, and against version 1.

    python benchmarks/startup.py --out results/startup.json

Every timing is of a whole process, from its start to its end, with a new folder. The first cases are `durm compare
--seeds 1 --dummies 0,2`, two trials, against `python -c "import torch"`; the last is the forty trials of `make demo`
against the same command of version 1, which is taken from the history of this clone. The two sides alternate (see
pairs.py); the limit holds where the 95 % interval of the ratio reaches it or lies below. The ratios are meant for two
idle cores: the study uses both, `import torch` one, so that other work on the machine raises them. The load at the
start is recorded.
"""

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from pairs import Comparison, compare, enough_pairs, tell

import durm
from durm.data import load

ROOT = Path(__file__).parents[1]
VERSION_1 = "c654836"
"""The last commit of version 1."""
TWO_TRIALS = ("--seeds", "1", "--dummies", "0,2")


@dataclass(frozen=True)
class Case:
    """A command against another, and the greatest ratio that is meant."""

    name: str
    limit: float
    flags: tuple[str, ...]
    against_version_1: bool = False


CASES = {
    "digits": Case("two trials on digits / import torch", 3, TWO_TRIALS),
    "arrays": Case("two trials on an arrays: file / import torch", 3, (*TWO_TRIALS, "--data", "arrays:digits.npz")),
    "resnet18": Case("… resnet18, 1 epoch / import torch", 5, (*TWO_TRIALS, "--model", "resnet18", "--epochs", "1")),
    "demo": Case("forty trials of the demo / version 1", 0.65, (), against_version_1=True),
}


@dataclass(frozen=True)
class Result:
    """The median ratio of the times with its 95 % interval."""

    case: str
    limit: float
    comparison: Comparison

    @property
    def holds(self) -> bool:
        return self.comparison.low <= self.limit

    def record(self) -> dict[str, object]:
        return {"case": self.case, **asdict(self.comparison), "limit": self.limit, "holds": self.holds}

    def row(self) -> str:
        of = self.comparison
        seconds = f"{of.other_milliseconds / 1000:.1f}, {of.usual_milliseconds / 1000:.1f}"
        columns = f"{self.case:<46}  {seconds:>10}  {of.pairs:>5}  {of.ratio:>6.2f}  {of.low:.2f} … {of.high:.2f}"
        return f"{columns}  ≤ {self.limit:g}  {'yes' if self.holds else 'NO'}"


_HEADER = f"{'case':<46}  {'seconds':>10}  pairs  median  95 % interval  limit  holds"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code: 1 if a limit does not hold."""
    options = _parser().parse_args(arguments)
    load_before = os.getloadavg()[0]
    with TemporaryDirectory() as folder:
        found = measure([CASES[name] for name in options.cases], options.pairs, Path(folder))
        return tell(_HEADER, found, options.out, cores=os.cpu_count(), load=load_before, version_1=VERSION_1)


def measure(cases: Sequence[Case], pairs: int, folder: Path) -> Iterator[Result]:
    """One pair goes before each case, unkept: it writes the byte code, and brings files into memory."""
    bundle = load("digits", seed=0)
    parts = {"train": bundle.train, "val": bundle.val, "test": bundle.test}
    arrays = {f"x_{name}": np.asarray(part.inputs, np.float32) / 16 for name, part in parts.items()}
    np.savez(folder / "digits.npz", **arrays, **{f"y_{name}": np.asarray(part.labels) for name, part in parts.items()})
    ours = Path(durm.__file__).parents[1]
    for case in cases:
        usual = study((), version_1(folder), folder) if case.against_version_1 else import_torch
        yield Result(case.name, case.limit, compare(usual, study(case.flags, ours, folder), pairs=pairs, warm_up=1))


def import_torch() -> None:
    subprocess.run([sys.executable, "-c", "import torch"], check=True)


def study(flags: Sequence[str], source: Path, folder: Path) -> Callable[[], None]:
    """`durm compare` of that source, in a new folder."""
    command = [sys.executable, "-m", "durm", "compare", *flags, "--quiet", "--out", "study"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(source)

    def run() -> None:
        shutil.rmtree(folder / "study", ignore_errors=True)
        subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)

    return run


def version_1(folder: Path) -> Path:
    """Its source, from the history.

    Raises:
        SystemExit: if the history does not reach back so far, as in a shallow clone.
    """
    done = subprocess.run(["git", "archive", VERSION_1, "src"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"startup.py: the history here has no commit {VERSION_1}; fetch it, or leave out --cases demo")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder / "version-1", filter="data")
    return folder / "version-1" / "src"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Times small studies against `import torch`, and the demo against version 1.",
        epilog="Exit code 1 if a limit does not hold: if the whole interval lies above it.",
    )
    parser.add_argument("--pairs", type=enough_pairs, default=6, metavar="N", help="pairs of each case (6)")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=[*CASES], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
