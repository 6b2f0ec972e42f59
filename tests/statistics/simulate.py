"""Simulated studies of known truth: how often a word is false, how often a study is warned, what an interval covers.

`python -m tests.statistics.simulate > docs/concepts/rates.md` writes the table of the docs. Everything is vectorised
over studies, so the rules are written a second time here; `test_simulations` checks that both say the same.
"""

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from durm.statistics.intervals import fewest_pairs
from durm.statistics.sequential import analysis_levels

Draw = Callable[[np.random.Generator, tuple[int, int, int], float], np.ndarray]
"""Differences (studies, arms, n) whose true mean is the given effect; arms share their baseline where they have one."""


def noise(draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]) -> Draw:
    """Half of the variance comes from the baseline, which all arms share; with one arm the shape is that of `draw`."""

    def differences(random: np.random.Generator, shape: tuple[int, int, int], effect: float) -> np.ndarray:
        studies, arms, n = shape
        if arms == 1:
            return effect + draw(random, shape)
        return effect + math.sqrt(0.5) * (draw(random, shape) + draw(random, (studies, 1, n)))

    return differences


def collapsing(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One run of the arm in twenty loses 20 points; the others gain 1, so that the mean is 0; noise of 2 points."""
    return random.normal(1, 2, shape) - 20 * (random.random(shape) < 0.05)


GROUPS = ((0.80, 0.995), (0.15, 0.80), (0.05, 0.30))
"""Shares of the test samples and the probability that a run has them right: most are easy, a few are hard."""


def coarse(samples: int, redrawn: float = 0.3) -> Draw:
    """Accuracies in percent of so many samples, the same for all runs: an arm redraws a part of the outcomes.

    The effect raises or lowers the probability in the middle group.
    """

    def differences(random: np.random.Generator, shape: tuple[int, int, int], effect: float) -> np.ndarray:
        studies, _, n = shape
        gained = np.zeros(shape)
        for index, (share, right) in enumerate(GROUPS):
            size = round(share * samples)
            correct = random.binomial(size, right, (studies, 1, n))
            ours = right + (effect / 100 * samples / (redrawn * size) if index == 1 else 0.0)
            gained += random.binomial(np.broadcast_to(size - correct, shape), redrawn * ours)
            gained -= random.binomial(np.broadcast_to(correct, shape), redrawn * (1 - ours))
        return 100 * gained / samples

    return differences


@dataclass(frozen=True)
class Kind:
    """A kind of differences: its name, how it is drawn, a margin that matters at its spread, its step."""

    name: str
    draw: Draw
    rope: float = 0.5
    step: float = 0.0


SOUND = [
    Kind("normal", noise(lambda random, shape: random.normal(0, 1, shape))),
    Kind("t3", noise(lambda random, shape: random.standard_t(3, shape) / math.sqrt(3))),
    *(Kind(f"{n:,} test samples", coarse(n), 0.1, 100 / n) for n in (100, 500, 1000, 10_000)),
    Kind("360 test samples, 0.4 % differ", coarse(360, 0.05), 0.1, 100 / 360),
]
SKEWED = [
    Kind("exponential", noise(lambda random, shape: random.exponential(1, shape) - 1)),
    Kind("lognormal", noise(lambda random, shape: (random.lognormal(0, 1, shape) - math.exp(0.5)) / 2.16)),
    Kind("collapsing", noise(collapsing), 0.5),
]


# The rules, over the last axis


def limits(differences: np.ndarray, alpha: float, step: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    n = differences.shape[-1]
    half = stats.t.isf(alpha / 2, n - 1) * np.sqrt((differences.var(-1, ddof=1) + step**2 / 6) / n)
    middle = differences.mean(-1)
    return middle - half, middle + half


def words(low: np.ndarray, high: np.ndarray, rope: float) -> np.ndarray:
    """+1 better, −1 worse, 2 equal, 0 undecided."""
    inside = (low >= -rope) & (high <= rope) & (rope > 0)
    return np.select([low > high, low > rope, high < -rope, inside], [0, 1, -1, 2], 0)


def judge(
    differences: np.ndarray, rope: float, step: float = 0.0, sizes: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The words (studies, arms) of studies of fixed n, or of those analysed at several sizes; and the warnings.

    An arm that is analysed several times is warned about where it gets its word, or at the end.
    """
    *_, arms, n = differences.shape
    share = 0.05 / arms
    if not sizes:
        found = words(*limits(differences, share, step), rope)
        return found if n >= fewest_pairs(share) else np.zeros_like(found), warned(differences, step)
    low, high = np.full(differences.shape[:-1], -np.inf), np.full(differences.shape[:-1], np.inf)
    found, told = np.zeros(low.shape, int), np.zeros(low.shape, bool)
    for size, level in zip(sizes, analysis_levels(sizes, share), strict=True):
        below, above = limits(differences[..., :size], level, step)
        low, high = np.maximum(low, below), np.minimum(high, above)
        going_on = found == 0
        told[going_on] = warned(differences[..., :size], step)[going_on]
        if size >= fewest_pairs(share):
            found = np.where(going_on, words(low, high, rope), found)
    return found, told


def warned(differences: np.ndarray, step: float = 0.0) -> np.ndarray:
    """Whether `warn_about` has something to say."""
    n = differences.shape[-1]
    if n < 3:
        return np.zeros(differences.shape[:-1], bool)
    distances = np.abs(differences - np.median(differences, -1, keepdims=True))
    scale = 1.4826 * np.maximum(np.median(distances, -1), step / math.sqrt(6))
    centred = differences - differences.mean(-1, keepdims=True)
    second = (centred**2).mean(-1)
    skewness = math.sqrt(n * (n - 1)) / (n - 2) * (centred**3).mean(-1) / np.where(second > 0, second, 1) ** 1.5
    return ((distances > 5 * scale[..., None]).any(-1) & (scale > 0)) | (np.abs(skewness) > 2 * math.sqrt(6 / n))


# Rates


@dataclass(frozen=True)
class Rates:
    """Of studies: with a false word in any arm, with a warning, with a false word and no warning; covered, of arms."""

    false: float
    warned: float
    false_unwarned: float
    covered: float


TRUTHS = (0, 1, -1)
"""In units of rope. Without an effect and without a margin any word is false; at ±rope too: beyond it equal is."""


def rates(
    kind: Kind, n: int, arms: int, truth: int, studies: int, sequential: Sequence[int] = (), seed: int = 0
) -> Rates:
    """Of simulated studies in which every arm has the same true effect."""
    random = np.random.default_rng([seed, n, arms, truth + 1])
    effect, rope = truth * kind.rope, abs(truth) * kind.rope
    differences = kind.draw(random, (studies, arms, n), effect)
    found, told = judge(differences, rope, kind.step, sequential)
    false, told = (found != 0).any(-1), told.any(-1)
    low, high = limits(differences, 0.05, kind.step)
    covered = (low <= effect) & (effect <= high)
    return Rates(false.mean(), told.mean(), (false & ~told).mean(), covered.mean())


# Seeds and samples: right or wrong by the sign of a latent score


@dataclass(frozen=True)
class Latent:
    """Score = 1.5 + difficulty + noise: N(0, 1) a sample, N(0, 0.5²) a run and sample, half of it shared by the pair.

    The arm adds an effect N(mean, spread²) to each sample's score, and a run of it N(0, 0.05²) to all of them.
    """

    mean: float = 0.0
    spread: float = 0.0

    def truth(self) -> float:
        """Points of accuracy, over all samples and runs."""
        ours = (1.5 + self.mean) / math.sqrt(1.25 + self.spread**2 + 0.05**2)
        return float(100 * (stats.norm.cdf(ours) - stats.norm.cdf(1.5 / math.sqrt(1.25))))

    def outcomes(self, random: np.random.Generator, seeds: int, samples: int) -> np.ndarray:
        """Arm − baseline of one study, in percent: seeds × samples of −100, 0, 100."""

        def normal(*shape: int) -> np.ndarray:
            return random.standard_normal(shape, np.float32)

        score = 1.5 + normal(1, samples) + math.sqrt(0.125) * normal(seeds, samples)
        effect = self.mean + self.spread * normal(1, samples) + 0.05 * normal(seeds, 1)
        ours = score + math.sqrt(0.125) * normal(seeds, samples) + effect > 0
        theirs = score + math.sqrt(0.125) * normal(seeds, samples) > 0
        return 100 * (ours.astype(np.int8) - theirs.astype(np.int8)).astype(np.float32)


NO_EFFECT, UNEVEN = Latent(), Latent(0.1, 0.5)
"""No effect in any sample; an effect that helps some samples and harms others."""


def two_way(outcomes: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """The 95 % interval over seeds alone, and over seeds and samples, written out from the formula."""
    n, samples = outcomes.shape
    rows = outcomes.mean(1, dtype=float)
    v_s = (rows.var(ddof=1) + (100 / samples) ** 2 / 6) / n
    v_t = outcomes.mean(0, dtype=float).var(ddof=1) / samples
    v_e = outcomes.var(ddof=1, dtype=float) / (n * samples)
    middle, t = rows.mean(), stats.t.isf(0.025, n - 1)
    halves = [t * math.sqrt(variance) for variance in (v_s, max(v_s, v_s + v_t - v_e))]
    return (middle - halves[0], middle + halves[0]), (middle - halves[1], middle + halves[1])


def coverage(
    model: Latent, studies: int, seeds: Sequence[int], samples: Sequence[int], seed: int = 0
) -> dict[tuple[int, int], tuple[float, float, float]]:
    """For each (n, N): covered over seeds alone, over seeds and samples, and how much wider the second is.

    Seeds and samples are exchangeable, so one large study holds smaller ones: its first n rows and blocks of columns.
    """
    random = np.random.default_rng(seed)
    truth = model.truth()
    found: dict[tuple[int, int], list[tuple[float, float, float]]] = {(n, N): [] for n in seeds for N in samples}
    for _ in range(studies):
        outcomes = model.outcomes(random, max(seeds), max(samples))
        for (n, size), kept in found.items():
            for start in range(0, min(4 * size, max(samples)), size):
                alone, both = two_way(outcomes[:n, start : start + size])
                ratio = (both[1] - both[0]) / (alone[1] - alone[0])
                kept.append((alone[0] <= truth <= alone[1], both[0] <= truth <= both[1], ratio))
    return {key: tuple(np.mean(kept, axis=0)) for key, kept in found.items()}  # type: ignore[misc]


# The page


ANALYSES = (6, 10, 16, 25, 40)
SIZES = (((6, 1), ()), ((20, 1), ()), ((10, 3), ()), ((20, 10), ()), ((40, 3), ANALYSES))
STUDIES = 10_000


def worst(kind: Kind, n: int, arms: int, sequential: Sequence[int], studies: int = STUDIES) -> Rates:
    """The rates at the truth with most false words."""
    return max((rates(kind, n, arms, truth, studies, sequential) for truth in TRUTHS), key=lambda one: one.false)


def power_with_and_without_floor(samples: int, n: int, effect: float, studies: int = STUDIES) -> tuple[float, float]:
    """How often a real effect on an accuracy is called better, with the lattice floor and without."""
    differences = coarse(samples, 0.6)(np.random.default_rng(0), (studies, 1, n), effect)
    with_floor, without = (judge(differences, 0.1, step)[0] == 1 for step in (100 / samples, 0.0))
    return with_floor.mean(), without.mean()


INTRODUCTION = f"""# Error rates of the verdict, by simulation

<!-- written by `python -m tests.statistics.simulate` -->

How often a verdict is wrong in {STUDIES:,} simulated studies, at the worst of three truths: no effect and no margin;
+rope; −rope. A study counts as wrong if any of its m arms is called better, worse or equal; at exactly ±rope each of
these is wrong. *Warned*: any arm has a warning about outliers or skewness. *Covered*: the plain 95 % interval of one
arm over seeds.

![Wrong verdicts of six pairs by how differences are distributed: about 5 %, more if skewed](../images/rates.svg)

| differences | n | m | wrong, % | wrong and not warned, % | warned, % | covered, % |
|---|---|---|---|---|---|---|"""
UNPAIRED = ((4, 4), (3, 10), (10, 10), (5, 40), (3, 20), (2, 10), (2, 20))
COLLAPSING = """
*Collapsing*: one run in twenty loses 20 points, the others gain 1, noise of 2 points. A study that happens to have no
collapsed run shows a gain, and nothing in its numbers can give a warning.

Not paired, normal values, one arm, no effect (Welch's interval):
{found}.
Two or three runs against many give more than 5 % wrong verdicts."""
COVERAGE = """
Coverage of the 95 % intervals of an accuracy, in %: over seeds alone / over seeds and samples (how much wider).

| test samples | pairs | no effect | an effect that differs from sample to sample |
|---|---|---|---|"""
COST = """
What it costs. The floor of the interval: how often a real effect is called better, with the floor and without it.

| test samples | pairs | effect, points | with the floor, % | without, % |
|---|---|---|---|---|"""
MINIMUM = """
What the minimum n costs. A difference of three standard deviations (rope 0, one arm) would be detected by Student's
interval alone in this share of studies, by the number of pairs:
{found}.
durm gives no verdict there. From 6 pairs on (7 for three arms, 9 for ten) nothing is lost."""


def percent(*rates: float) -> str:
    return " | ".join(f"{100 * rate:.1f}" for rate in rates)


def unpaired(ours: int, theirs: int, studies: int = STUDIES) -> float:
    """How often Welch's interval of two arms of normal values without a difference leaves out 0."""
    random = np.random.default_rng([ours, theirs])
    samples = [random.normal(0, 1, (studies, n)) for n in (ours, theirs)]
    parts = [one.var(-1, ddof=1) / one.shape[-1] for one in samples]
    variance = parts[0] + parts[1]
    freedom = variance**2 / (parts[0] ** 2 / (ours - 1) + parts[1] ** 2 / (theirs - 1))
    t = (samples[0].mean(-1) - samples[1].mean(-1)) / np.sqrt(variance)
    return float((np.abs(t) > stats.t.isf(0.025, freedom)).mean())


def page() -> Iterator[str]:
    """The lines of docs/concepts/rates.md."""
    yield INTRODUCTION
    for kind in [*SOUND, *SKEWED]:
        for (n, arms), sequential in SIZES:
            one = worst(kind, n, arms, sequential)
            size = f"6 … {n}, sequential" if sequential else n
            shown = percent(one.false, one.false_unwarned, one.warned, one.covered)
            yield f"| {kind.name} | {size} | {arms} | {shown} |"
    found = ", ".join(f"{a} and {b} runs {100 * unpaired(a, b):.1f} %" for a, b in UNPAIRED)
    yield COLLAPSING.format(found=textwrap.fill(found, 120))
    yield COVERAGE
    seeds, samples = (6, 10, 40), (100, 250, 1000, 10_000)
    both = [coverage(model, 1000, seeds, samples) for model in (NO_EFFECT, UNEVEN)]
    for size in samples:
        for n in seeds:
            cells = [found[n, size] for found in both]
            shown = " | ".join(f"{100 * a:.1f} / {100 * b:.1f} (× {ratio:.2f})" for a, b, ratio in cells)
            yield f"| {size:,} | {n} | {shown} |"
    yield COST
    for size, n, effect in ((100, 6, 1.7), (100, 20, 1.5), (500, 10, 1.0), (1000, 10, 0.7), (10_000, 10, 0.3)):
        yield f"| {size:,} | {n} | {effect} | {percent(*power_with_and_without_floor(size, n, effect))} |"
    powers = {n: stats.nct.sf(stats.t.isf(0.025, n - 1), n - 1, 3 * math.sqrt(n)) for n in (2, 3, 4, 5)}
    yield MINIMUM.format(found=", ".join(f"{100 * power:.0f} % with {n}" for n, power in powers.items()))


if __name__ == "__main__":
    for line in page():
        print(line, flush=True)
