"""In which steps the numbers of a setting move, what the test samples add, and the level of its study's last analysis.

A summary says so where its study kept it. Of others the numbers tell: accuracies over N samples are multiples of 100/N
(`durm.statistics.scale.lattice_step`).
"""

import math
from collections.abc import Sequence

from durm.replication.study_index import Pair, Setting
from durm.statistics.intervals import ALPHA, SampleVariance, bound_of_mean
from durm.statistics.scale import lattice_step
from durm.statistics.sequential import series_level
from durm.statistics.verdict import Comparison


def step(setting: Setting, metric: str) -> float:
    """The resolution of a metric: of a mean over k domains √Σstep²/k."""
    steps = [lattice_step(_numbers(setting, part, metric)) for part in setting.parts]
    return _known_step(setting, metric) or math.sqrt(sum(one**2 for one in steps)) / len(steps)


def sample_count(setting: Setting, metric: str) -> int | None:
    """The distinct test samples of a run, of all held-out domains together; of scenes, images. None if unknown."""
    images = [one.samples for one in _comparisons(setting, metric) if one.samples is not None]
    if setting.is_segmentation:
        return min(images, default=None)
    if not setting.has_domains and (known := _known_step(setting, metric)):
        return round(100 / known)
    numbers = [_numbers(setting, part, metric) for part in setting.parts]
    steps = [lattice_step(one) if len({*one}) > 1 else 0.0 for one in numbers]
    return sum(round(100 / one) for one in steps) if all(steps) else None


def _known_step(setting: Setting, metric: str) -> float:
    """What the summary says; 0 of studies that were made before it did."""
    return max((one.step for one in _comparisons(setting, metric)), default=0.0)


def sample_variance(setting: Setting, pairs: Sequence[Pair], metric: str) -> SampleVariance | None:
    """What the test samples add to the variance of the mean over the pairs; None if it was not kept.

    A summary keeps it of each comparison, not of the mean of several: for that it is the most that it can be.
    """
    kept = [_kept_variance(setting, pair, metric) for pair in pairs]
    known = [one for one in kept if one is not None]
    if not known or len(known) < len(kept):
        return None
    return known[0] if len(known) == 1 else bound_of_mean(known)


def _kept_variance(setting: Setting, pair: Pair, metric: str) -> SampleVariance | None:
    for one in _comparisons(setting, metric):
        if (one.arm, one.baseline) == tuple(arm.name for arm in pair):
            between, residual = one.variance_samples, one.variance_residual
            if one.samples is not None and between is not None and residual is not None:
                return SampleVariance(one.samples, between, residual)
    return None


def level(setting: Setting) -> float:
    """α of the last analysis: as planned, 6α/(πk)² of the k-th without a plan, else 0.05."""
    plan = setting.spec.plan
    if plan is not None and plan.seeds:
        return plan.level(len(plan.seeds), ALPHA)
    return series_level(setting.analyses) if setting.analyses > 1 else ALPHA


def _comparisons(setting: Setting, metric: str) -> list[Comparison]:
    """Those that a summary has of that metric."""
    if metric == setting.spec.metric:
        return setting.summary.comparisons
    attacked = [entry for entry in setting.summary.robustness if f"robust_{entry.attack}" == metric]
    return [one for entry in attacked for one in entry.comparisons]


def _numbers(setting: Setting, part: str, metric: str) -> list[float]:
    """Of all runs of the study on the same data: they have the same test samples, whatever the model and the method."""
    data = part.removesuffix(f"{setting.model} {setting.method}")
    rows = [row for (of, _), seeds in setting.rows.items() if of.startswith(data) for row in seeds.values()]
    return [number for row in rows if math.isfinite(number := _number(row.get(metric)))]


def _number(cell: str | None) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan
