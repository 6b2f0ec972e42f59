"""How many pairs: what n of them can decide, and how many make the interval as narrow as the margin.

Half the width of the interval that decides is t(n − 1; α/m) · √(s²/n + v), s² being the variance of a difference
(with the step of the metric) and v what the test samples add, which more seeds do not shrink.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from durm.statistics.intervals import ALPHA, SampleVariance, fewest_pairs, quantile

MOST = 100_000
CONFIDENCE = 0.90
"""Of the range of n: the spread of few pairs is itself uncertain."""
SPREADS = 41
"""That the assurance is averaged over."""


def half_width(n: int, spread: float, added: float = 0.0, alpha: float = ALPHA) -> float:
    """Of the interval of n pairs whose differences have this standard deviation; `added` is what the samples add."""
    return quantile(n, alpha) * math.sqrt(spread**2 / n + added)


def min_difference(n: int, error: float, added: float, rope: float, alpha: float) -> float | None:
    """The smallest mean difference that n pairs with this standard error call better or worse; None if n is too few.

    `alpha` is α/m.
    """
    if n < fewest_pairs(alpha):
        return None
    return rope + half_width(n, error * math.sqrt(n), added, alpha)


def pairs_needed(spread: float, width: float, added: float = 0.0, alpha: float = ALPHA) -> int | None:
    """The smallest n that can have a word and whose half-width is at most `width`; None beyond 100,000."""
    low, high = fewest_pairs(alpha), MOST
    if width <= 0 or half_width(high, spread, added, alpha) > width:
        return None
    while low < high:
        middle = (low + high) // 2
        if half_width(middle, spread, added, alpha) <= width:
            high = middle
        else:
            low = middle + 1
    return low


def pairs_for_rope(n: int, error: float, variance: SampleVariance | None, rope: float, alpha: float) -> dict[str, Any]:
    """`n_for_rope`, its range, and the test samples it would take where more seeds alone cannot do it."""
    spread, added = error * math.sqrt(n), variance.added if variance else 0.0
    found: dict[str, Any] = {"n_for_rope": pairs_needed(spread, rope, added, alpha)}
    low, high = spread_range(spread, n)
    ends = [pairs_needed(one, rope, added, alpha) for one in (low, high)]
    if ends[0] is not None and ends[1] is not None:
        found["n_for_rope_range"] = tuple(ends)
    if found["n_for_rope"] is None and variance is not None and rope > 0 and added > 0:
        limit = (rope / quantile(MOST, alpha)) ** 2 / 2  # the samples may take half of the squared width
        found["test_samples_for_rope"] = math.ceil(variance.samples * added / limit)
    return found


def spread_range(spread: float, n: int) -> tuple[float, float]:
    """The interval of a standard deviation that was estimated from n normal values: s √((n − 1)/χ²)."""
    tail = (1 - CONFIDENCE) / 2
    low, high = (math.sqrt((n - 1) / float(scipy.special.chdtri(n - 1, p))) for p in (tail, 1 - tail))
    return spread * low, spread * high


def power(n: int, spread: float, difference: float, rope: float, alpha: float = ALPHA) -> float:
    """The chance that n pairs call a true difference (above rope) better: of a non-central t beyond its quantile.

    The interval lies above rope if (d − rope)/(s/√n) > t; that ratio is non-central with (difference − rope)√n/spread.
    """
    if n < fewest_pairs(alpha):
        return 0.0
    if spread == 0:
        return float(difference > rope)
    centre = (difference - rope) * math.sqrt(n) / spread
    limit = quantile(n, alpha)
    below = float(scipy.special.nctdtr(n - 1, centre, limit))
    return float(centre > limit) if math.isnan(below) else 1 - below  # scipy has no number for centres about 38


def equivalence_power(n: int, spread: float, rope: float, alpha: float = ALPHA, draws: int = 20_000) -> float:
    """The chance that n pairs call a true difference of 0 equal: |d| + half-width ≤ rope."""
    if n < fewest_pairs(alpha) or rope == 0:
        return 0.0
    if spread == 0:
        return 1.0
    generator = np.random.default_rng(0)
    means = generator.normal(0, spread / math.sqrt(n), draws)
    spreads = spread * np.sqrt(generator.chisquare(n - 1, draws) / (n - 1))
    return float((np.abs(means) + quantile(n, alpha) * spreads / math.sqrt(n) <= rope).mean())


@dataclass(frozen=True)
class PlannedSize:
    """What a study of n pairs can do.

    Attributes:
        n: pairs.
        half_width: half the width of the interval that decides, at the given spread.
        min_difference: the smallest difference that would be called better or worse; None if n is too few for a word.
        equal: the chance that no difference at all is called equal.
        better: the chance that the difference which was asked for is called better; None if none was.
        assurance: the same averaged over what the pilot says about the spread, of `better`, else of `equal`.
    """

    n: int
    half_width: float
    min_difference: float | None
    equal: float
    better: float | None
    assurance: float | None


def plan_sizes(
    sizes: list[int],
    spread: float,
    rope: float,
    *,
    arms: int = 1,
    difference: float | None = None,
    pilot: int | None = None,
    added: float = 0.0,
) -> list[PlannedSize]:
    """For each size what it can do; with a pilot of so many pairs, the assurance over the uncertainty of its spread.

    `added` is the variance of the test samples: n pairs then have the spread √(s² + n · added).
    """
    share = ALPHA / arms
    spreads = _spreads(spread, pilot) if pilot is not None and pilot > 1 else []
    planned = []
    for n in sizes:

        def equal(of: float, draws: int = 20_000, n: int = n) -> float:
            return equivalence_power(n, math.sqrt(of**2 + n * added), rope, share, draws)

        def better(of: float, n: int = n) -> float:
            assert difference is not None
            return power(n, math.sqrt(of**2 + n * added), difference, rope, share)

        half = half_width(n, spread, added, share)
        chances = [equal(one, 2_000) if difference is None else better(one) for one in spreads]
        planned.append(
            PlannedSize(
                n=n,
                half_width=half,
                min_difference=min_difference(n, spread / math.sqrt(n), added, rope, share),
                equal=equal(spread),
                better=None if difference is None else better(spread),
                assurance=float(np.mean(chances)) if chances else None,
            )
        )
    return planned


def _spreads(spread: float, pilot: int) -> list[float]:
    """Spreads that are equally likely, given that `pilot` pairs showed this one: s √((n − 1)/χ²) at mid-quantiles."""
    middles = (np.arange(SPREADS) + 0.5) / SPREADS
    return [spread * math.sqrt((pilot - 1) / float(scipy.special.chdtri(pilot - 1, p))) for p in middles]
