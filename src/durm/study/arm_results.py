"""The results of an arm in one setting, by seed: their values of a metric, and how arms compare in it."""

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

import numpy as np

from durm.metrics import Metric, describe_metric
from durm.statistics.intervals import SampleVariance, jackknife_variance, mean_of_domains, sample_variance
from durm.statistics.sequential import series_level
from durm.statistics.verdict import Comparison, compare_family
from durm.study.base import Key
from durm.study.config import Study
from durm.training.result import Result

ArmResults = Mapping[str, Result]
"""The results of one arm in one setting, by seed."""
SettingKey = tuple[str, str, str]
Outcomes = Mapping[str, np.ndarray]
"""What a run made of each test sample: see `durm.metrics.outcomes`."""
ReadOutcomes = Callable[[Key], Outcomes | None]


def values_of(found: ArmResults, metric: str) -> dict[str, float]:
    """The values of the results that have the metric: an attack into dummies has none without dummies."""
    return {seed: result.metrics[metric] for seed, result in found.items() if metric in result.metrics}


class Described(TypedDict):
    values: dict[str, float]
    n: int
    mean: float | None
    std: float | None


def describe(values: Mapping[str, float]) -> Described:
    """The values of seeds, their number, mean and standard deviation; None where these are not defined."""
    return {
        "values": dict(values),
        "n": len(values),
        "mean": statistics.fmean(values.values()) if values else None,
        "std": statistics.stdev(values.values()) if len(values) > 1 else None,
    }


@dataclass(frozen=True)
class Evidence:
    """All that a study has measured, and what its comparisons have to know.

    Attributes:
        study: what was planned.
        results: of the trials that are done.
        lost: the trials that failed for good, with the reason.
        read_outcomes: what a run made of each test sample; None where it was not kept.
        analyses: at how many numbers of seeds the study was analysed, this time included.
        draws: of a search, the draw that was selected, by setting, arm and seed.
        domains: for a mean over held-out domains, the settings that it is over.
    """

    study: Study
    results: Mapping[Key, Result]
    lost: Mapping[Key, str] = field(default_factory=dict)
    read_outcomes: ReadOutcomes = lambda key: None
    analyses: int = 1
    draws: Mapping[Key, int] = field(default_factory=dict)
    domains: Mapping[SettingKey, Sequence[SettingKey]] = field(default_factory=dict)

    def arm(self, setting: SettingKey, arm: str) -> dict[str, Result]:
        found = {seed: self.results.get((*setting, arm, seed)) for seed in self.study.seeds}
        return {str(seed): result for seed, result in found.items() if result is not None}

    def compare(
        self,
        setting: SettingKey,
        family: Sequence[tuple[str, str]],
        values: Mapping[str, Mapping[str, float]],
        metric: str,
        rope: float | None = None,
    ) -> list[Comparison]:
        """Each arm with the one it is paired with, in a metric of which `values` has the numbers.

        The margin is the study's, or that of the metric where the study's is in another unit.
        """
        study, about = self.study, describe_metric(metric, self.study.task)
        if rope is None:
            alike = describe_metric(study.metric, study.task).unit == about.unit
            rope = study.rope if alike else about.rope or 0.0
        return compare_family(
            family,
            values,
            rope=rope,
            level=series_level(self.analyses) if self.analyses > 1 and study.max_seeds is None else None,
            higher_is_better=about.higher_is_better,
            step=self._step(setting, about),
            samples=lambda arm, baseline, seeds: self._sample_variance(setting, about, arm, baseline, seeds),
            plan=study.plan,
            lost={arm: self._lost(setting, arm) for pair in family for arm in pair},
        )

    def _lost(self, setting: SettingKey, arm: str) -> Collection[str]:
        places = self.domains.get(setting, [setting])
        return {str(seed) for seed in self.study.seeds if any((*place, arm, seed) in self.lost for place in places)}

    def _step(self, setting: SettingKey, metric: Metric) -> float:
        """100/samples of a metric that counts them; of a mean over k domains √Σ step²/k."""
        if metric.resolution != "sample":
            return 0.0
        places = self.domains.get(setting, [setting])
        steps = []
        for place in places:
            one = next((result for key, result in self.results.items() if key[:3] == place), None)
            if one is not None:
                steps.append(100 / one.samples_of(metric.name))
        return math.sqrt(sum(step**2 for step in steps)) / len(places)

    def _sample_variance(
        self, setting: SettingKey, metric: Metric, arm: str, baseline: str, seeds: Sequence[str]
    ) -> SampleVariance | None:
        if metric.per_sample is None and metric.of_confusion is None:
            return None
        places = self.domains.get(setting, [setting])
        found = [self._of_one_test_set(place, metric, arm, baseline, seeds) for place in places]
        known = [one for one in found if one is not None]
        return (known[0] if len(places) == 1 else mean_of_domains(known)) if len(known) == len(places) else None

    def _of_one_test_set(
        self, setting: SettingKey, metric: Metric, arm: str, baseline: str, seeds: Sequence[str]
    ) -> SampleVariance | None:
        """None unless all runs have outcomes of the same samples in one order."""
        keys = [[(*setting, name, int(seed)) for name in (arm, baseline)] for seed in seeds]
        tests = {self.results[key].test_sha256 if key in self.results else None for pair in keys for key in pair}
        if len(tests) != 1 or None in tests:
            return None
        rows = []
        for pair in keys:
            ours, theirs = (self._per_sample(key, metric) for key in pair)
            if ours is None or theirs is None:
                return None
            rows.append(ours - theirs)
        return (sample_variance if metric.per_sample else jackknife_variance)(np.stack(rows))

    def _per_sample(self, key: Key, metric: Metric) -> np.ndarray | None:
        """The metric of each sample, or, of segmentation, without each image."""
        outcomes = self.read_outcomes(key)
        if outcomes is None:
            return None
        try:
            if metric.per_sample is not None:
                return np.asarray(metric.per_sample(outcomes), float)
            counts = outcomes["confusion"].astype(float)
            assert metric.of_confusion is not None
            return np.asarray(metric.of_confusion(counts.sum(0) - counts), float)
        except KeyError:
            return None


def compare_each(
    names: Sequence[str],
    arms: Sequence[str],
    values: Mapping[tuple[str, str], Mapping[str, float]],
    rope: float,
) -> dict[tuple[str, str], Comparison]:
    """Every arm with the first in each of several quantities, all as one family; by the names of quantity and arm."""
    baseline, *others = arms
    pairs = [(name, arm) for name in names for arm in others]
    compared = compare_family(
        [(repr(pair), repr((pair[0], baseline))) for pair in pairs],
        {repr(pair): of for pair, of in values.items()},
        rope=rope,
    )
    return {
        pair: replace(comparison, arm=pair[1], baseline=baseline)
        for pair, comparison in zip(pairs, compared, strict=True)
    }
