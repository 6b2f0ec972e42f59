"""From the numbers of settings to what is known about their mean effect.

The paper's claims are about DuRM, not about one data set, so a verdict is about the *mean over settings*:

- one setting: Student's interval over its seeds (and test samples, where a study kept what that takes), with the steps
  in which the metric moves, and nothing is decided by fewer than six pairs, as everywhere in durm;
- several: the hierarchical mean of `durm.statistics.hierarchical`, in which each setting has its own true effect. It is
  decided what has a probability of 95 %;
- numbers of the same runs, such as those under two attacks, are averaged seed by seed first: they are one setting;
- a run that stands in two studies, by the hash of its weights, counts once; a setting with one pair only if none has
  two;
- a study that was analysed several times has the level of its last analysis.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from durm.statistics.hierarchical import Posterior, SettingEffect, prior_unit, probability_above, summarize_settings
from durm.statistics.intervals import (
    ALPHA,
    Interval,
    SampleVariance,
    bound_of_mean,
    fewest_pairs,
    interval,
    quantile,
    standard_error,
)

SMALLEST_ERROR = 0.01
"""Of the margin: the standard error that differences without any spread are given among others."""
Values = Mapping[str, float]


@dataclass(frozen=True)
class EffectEstimate:
    """What one setting says about a claim: a number for each seed.

    Attributes:
        studies, what: where it is from.
        values: by seed.
        level: α of its interval, less than 0.05 of a study that was analysed several times.
        runs: from which runs each number is.
        step: the resolution of the numbers, as in `durm.statistics.intervals`.
        samples: what the test samples add to the variance, if the study kept it.
        test_samples: how many distinct test samples shares are of, if known.
        group: estimates of one study and group are from the same runs.
    """

    studies: tuple[str, ...]
    what: str
    values: Values
    level: float = ALPHA
    runs: Mapping[str, frozenset[object]] = field(default_factory=dict)
    step: float = 0.0
    samples: SampleVariance | None = None
    test_samples: int | None = None
    group: str = ""

    @property
    def array(self) -> np.ndarray:
        return np.array(list(self.values.values()), float)

    @property
    def spread(self) -> float:
        """The standard deviation of a difference, with the steps of the metric."""
        return standard_error(self.array, self.step) * math.sqrt(len(self.values))


@dataclass(frozen=True)
class OneSetting:
    """An interval, and the number of pairs that it is from."""

    effect: float
    interval: Interval | None
    n: int

    @property
    def too_few(self) -> bool:
        return self.n < fewest_pairs(ALPHA)

    def above(self, threshold: float) -> bool | None:
        if self.interval is None or self.too_few:
            return None
        low, high = self.interval
        return True if low > threshold else False if high <= threshold else None

    def within(self, limit: float) -> bool | None:
        if self.interval is None or self.too_few:
            return None
        low, high = self.interval
        return True if -limit <= low and high <= limit else False if low > limit or high < -limit else None


@dataclass(frozen=True)
class SeveralSettings:
    """The posterior of the mean over settings."""

    effects: tuple[SettingEffect, ...]
    unit: float
    posterior: Posterior

    @property
    def effect(self) -> float:
        return self.posterior.mean

    @property
    def interval(self) -> Interval:
        return self.posterior.interval

    @property
    def n(self) -> int:
        return sum(one.n for one in self.effects)

    @property
    def too_few(self) -> bool:
        return self.n < fewest_pairs(ALPHA)

    def above(self, threshold: float) -> bool | None:
        return None if self.too_few else _decided(self._above(threshold))

    def within(self, limit: float) -> bool | None:
        return None if self.too_few else _decided(self._above(-limit) - self._above(limit))

    def _above(self, threshold: float) -> float:
        return probability_above(self.effects, threshold, unit=self.unit)


def _decided(probability: float) -> bool | None:
    return True if probability >= 1 - ALPHA else False if probability <= ALPHA else None


def mean_effect(settings: Sequence[EffectEstimate], limit: float, unit: float) -> OneSetting | SeveralSettings:
    """Of settings with other runs each. `limit` is the margin, `unit` multiplies the priors."""
    if len(settings) == 1:
        (one,) = settings
        return OneSetting(
            float(one.array.mean()), interval(one.array, one.level, one.step, one.samples), len(one.values)
        )
    if any(len(one.values) < 2 for one in settings):
        return OneSetting(float(np.mean([one.array.mean() for one in settings])), None, len(settings))
    effects = tuple(_effect(one, SMALLEST_ERROR * limit) for one in settings)
    unit = prior_unit(effects, unit)
    posterior = summarize_settings(effects, limit, unit=unit)
    assert posterior is not None
    return SeveralSettings(effects, unit, posterior)


def _effect(one: EffectEstimate, smallest: float) -> SettingEffect:
    n = len(one.values)
    widened = quantile(n, one.level) / quantile(n, ALPHA)
    error = widened * standard_error(one.array, one.step, one.samples)
    return SettingEffect(float(one.array.mean()), max(error, smallest), n)


def independent(estimates: Iterable[EffectEstimate]) -> list[EffectEstimate]:
    """Those with values, each run in one of them; those with a single value only if no other has more."""
    distinct = _distinct([one for one in estimates if one.values])
    return [one for one in distinct if len(one.values) > 1] or distinct


def by_setting(estimates: Sequence[EffectEstimate]) -> list[EffectEstimate]:
    """Those of the same runs averaged seed by seed."""
    groups: dict[tuple[str, ...], list[EffectEstimate]] = {}
    for one in estimates:
        groups.setdefault((*one.studies, one.group or one.what), []).append(one)
    return [_averaged(group) for group in groups.values()]


def _averaged(group: Sequence[EffectEstimate]) -> EffectEstimate:
    if len(group) == 1:
        return group[0]
    values = mean_by_seed([one.values for one in group]) or group[0].values
    step = math.sqrt(sum(one.step**2 for one in group)) / len(group)
    known = [one.samples for one in group if one.samples is not None]
    samples = bound_of_mean(known) if len(known) == len(group) else None
    return replace(group[0], what=group[0].group, values=values, step=step, samples=samples)


def _distinct(estimates: Sequence[EffectEstimate]) -> list[EffectEstimate]:
    """Without numbers from the same runs as others; where two estimates share some, the larger one keeps them."""
    seen: set[object] = set()
    kept = {}
    for index in sorted(range(len(estimates)), key=lambda index: -len(estimates[index].values)):
        one = estimates[index]
        values = {seed: value for seed, value in one.values.items() if not one.runs.get(seed, frozenset()) & seen}
        seen |= frozenset().union(*one.runs.values())
        if len(values) == len(one.values):
            kept[index] = one
        elif values:
            kept[index] = replace(one, values=values, samples=None)
    return [kept[index] for index in sorted(kept)]


def mean_by_seed(several: Iterable[Values]) -> dict[str, float]:
    """The mean for each seed that all have, of those that have any."""
    filled = [values for values in several if values]
    return {seed: float(np.mean([values[seed] for values in filled])) for seed in common(filled)}


def common(several: Iterable[Values]) -> list[str]:
    """The seeds that all have."""
    first, *others = [*several] or [{}]
    return [seed for seed in first if all(seed in values for values in others)]
