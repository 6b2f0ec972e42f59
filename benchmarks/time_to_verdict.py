"""CPU seconds until a study is decided: the analyses and workers of version 1 against those of now.

    python benchmarks/time_to_verdict.py --out results/time_to_verdict.json

The study is `durm compare --dummies 0,2 --until-decided --max-seeds 100` on digits at ±0.1 points. It is not run again
and again: its pairs are drawn from 200 finished ones (results/studies/digits-dummies), 100 without replacement in
random order, and both rules analyse the same draw. One that is undecided at 100 pairs counts with 100. So

    CPU seconds = first analysis without trials + trials · (seconds of one) + further analyses · (seconds of one),

and these three are measured for each version, from whole processes with all that they start, in alternating order:
`--seeds 1`, `--seeds 10`, and `--until-decided --max-seeds 10`, which is analysed twice. The test samples add to the
variance now; how much is taken from the summary of the 200 pairs, which says: nothing. The ratio is of the total times
of all draws, version 1 by now; its 95 % interval is that of the bootstrap over draws (percentiles). It is about these
200 pairs. Draws cost nothing, so that there are 1,000 of them beside the 20 that were asked for at first.
"""

import argparse
import csv
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from own_code import seconds
from pairs import tell
from startup import ROOT, VERSION_1, study, version_1

import durm
from durm.statistics.intervals import ALPHA, SampleVariance, decide, interval
from durm.statistics.sequential import analysis_levels, analysis_sizes
from durm.statistics.verdict import Plan, compare_family

TRIALS = ROOT / "results/studies/digits-dummies"
SETTING, BASELINE, ARM = "digits cnn erm", "erm", "durm-2"
MOST, ROPE, STEP = 100, 0.1, 0.1
LIMIT = 1.5
FEW, MANY = 1, 10


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a version: a study without trials, one trial, one more analysis."""

    fixed: float
    trial: float
    analysis: float

    def of(self, ended: "Ended") -> float:
        return self.fixed + 2 * ended.pairs * self.trial + (ended.analyses - 1) * self.analysis


@dataclass(frozen=True)
class Ended:
    """Where a study ended."""

    pairs: int
    analyses: int
    word: str


@dataclass(frozen=True)
class Result:
    """The ratio of all CPU seconds, and of each version the median pairs and the share of draws that was decided."""

    case: str
    draws: int
    ratio: float
    low: float
    high: float
    pairs: tuple[float, float]
    decided: tuple[float, float]
    mean_cpu_seconds: tuple[float, float]
    costs: tuple[Cost, Cost]

    @property
    def holds(self) -> bool:
        return self.high >= LIMIT

    def record(self) -> dict[str, object]:
        return {**asdict(self), "limit": LIMIT, "holds": self.holds}

    def row(self) -> str:
        both = "  ".join(
            f"{seconds:>6.1f} s, {pairs:g} pairs, {share:.0%} decided"
            for seconds, pairs, share in zip(self.mean_cpu_seconds, self.pairs, self.decided, strict=True)
        )
        return f"{self.case}: {both}\nratio {self.ratio:.2f} ({self.low:.2f} … {self.high:.2f}), ≥ {LIMIT:g}: " + (
            "yes" if self.holds else "NO"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, and returns the exit code: 1 if the limit does not hold."""
    options = _parser().parse_args(arguments)
    load = os.getloadavg()[0]
    with TemporaryDirectory() as folder:
        costs = measure(Path(folder), options.repeats)
    results = [time_to_verdict(*costs, draws=draws) for draws in options.draws]
    return tell("version 1, then now", results, options.out, cores=os.cpu_count(), load=load, version_1=VERSION_1)


def time_to_verdict(before: Cost, now: Cost, draws: int) -> Result:
    """Both rules on the same draws."""
    differences, samples = finished_pairs()
    random = np.random.default_rng(0)
    ends = []
    for _ in range(draws):
        drawn = random.permutation(differences)[:MOST]
        ends.append((end_by_version_1(drawn), end_now(drawn, samples)))
    times = [(before.of(one), now.of(other)) for one, other in ends]
    totals = [sum(column) for column in zip(*times, strict=True)]
    old, new = zip(*ends, strict=True)
    return Result(
        f"{draws} draws",
        draws,
        totals[0] / totals[1],
        *_bootstrap(np.array(times), random),
        (median(end.pairs for end in old), median(end.pairs for end in new)),
        (_share_decided(old), _share_decided(new)),
        (totals[0] / draws, totals[1] / draws),
        (before, now),
    )


def end_by_version_1(differences: np.ndarray) -> Ended:
    """Its rule: Student's interval at level 6α/(πk)² in the k-th analysis; the word from what they have in common."""
    low, high = -math.inf, math.inf
    sizes = analysis_sizes(MOST)
    for k, size in enumerate(sizes, 1):
        found = interval(differences[:size], 6 * ALPHA / (math.pi * k) ** 2)
        assert found is not None
        low, high = max(low, found[0]), min(high, found[1])
        if (word := decide((low, high), ROPE)) != "undecided":
            return Ended(size, k, word)
    return Ended(MOST, len(sizes), "undecided")


def end_now(differences: np.ndarray, samples: SampleVariance) -> Ended:
    """As a study of durm is judged."""
    seeds = [str(index) for index in range(len(differences))]
    sizes = analysis_sizes(MOST)
    for k, size in enumerate(sizes, 1):
        values = {
            BASELINE: dict.fromkeys(seeds[:size], 0.0),
            ARM: dict(zip(seeds[:size], differences[:size].tolist(), strict=True)),
        }
        plan = Plan([seeds[:n] for n in sizes[:k]], lambda k, alpha: analysis_levels(sizes, alpha)[k - 1])
        (found,) = compare_family(
            [(ARM, BASELINE)], values, rope=ROPE, step=STEP, samples=lambda *_: samples, plan=plan
        )
        if found.verdict != "undecided":
            return Ended(size, k, str(found.verdict))
    return Ended(MOST, len(sizes), "undecided")


def finished_pairs() -> tuple[np.ndarray, SampleVariance]:
    """Differences of accuracy in points, by seed, and what the test samples add to the variance of their mean."""
    with (TRIALS / "results.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["setting"] == SETTING]
    values = {(row["arm"], row["seed"]): float(row["accuracy"]) for row in rows}
    seeds = [seed for arm, seed in values if arm == ARM and (BASELINE, seed) in values]
    summary = json.loads((TRIALS / "summary.json").read_text())
    comparisons = summary["settings"][0]["comparisons"]
    found = next(one for one in comparisons if one["arm"] == ARM)
    samples = SampleVariance(found["samples"], found["variance_samples"], found["variance_residual"])
    return np.array([round(values[ARM, seed] - values[BASELINE, seed], 9) for seed in seeds]), samples


def measure(folder: Path, repeats: int) -> tuple[Cost, Cost]:
    """Medians over the repeats, of version 1 and of now; one run of each goes before, unkept."""
    sources = (version_1(folder), Path(durm.__file__).parents[1])
    flags = (("--seeds", str(FEW)), ("--seeds", str(MANY)), ("--until-decided", "--max-seeds", str(MANY)))
    runs = [[study(("--dummies", "0,2", *what), source, folder) for what in flags] for source in sources]
    for few, *_ in runs:
        few()
    taken = [[[seconds(run) for run in of_version] for of_version in runs] for _ in range(repeats)]
    costs = []
    for version in (0, 1):
        few, many, twice = (median(repeat[version][which] for repeat in taken) for which in range(3))
        trial = (many - few) / (2 * (MANY - FEW))
        costs.append(Cost(few - 2 * FEW * trial, trial, twice - many))
    return costs[0], costs[1]


def _bootstrap(times: np.ndarray, random: np.random.Generator) -> tuple[float, float]:
    """The 95 % interval of the ratio of the sums of two columns."""
    sums = times[random.integers(len(times), size=(2000, len(times)))].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    return float(low), float(high)


def _share_decided(ends: Sequence[Ended]) -> float:
    return sum(end.word != "undecided" for end in ends) / len(ends)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="CPU seconds until a study on digits is decided: version 1 against now.",
        epilog="Exit code 1 if the limit does not hold: if the whole interval lies below it.",
    )
    parser.add_argument(
        "--draws", type=int, nargs="+", default=[20, 1000], metavar="N", help="from the trials (20 1000)"
    )
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="of each of the six timed commands (3)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the numbers here, with their provenance")
    return parser


if __name__ == "__main__":
    sys.exit(main())
