"""What several settings of a study say together about an arm: the hierarchical summary."""

import math
from collections.abc import Sequence

import numpy as np

from durm.metrics.metric import PERCENT, Metric
from durm.statistics.hierarchical import SettingEffect, prior_unit, summarize_settings
from durm.statistics.verdict import Comparison
from durm.study.records import AcrossSettings, ArmSummary, Setting

POINTS = 0.1
"""The margin, in points of percent, for which the priors were chosen."""


def summarize_across(settings: Sequence[Setting], metric: Metric, rope: float) -> list[AcrossSettings]:
    """One entry for each arm that two settings or more have pairs of; nothing for a single setting."""
    found = []
    unit = 1.0 if metric.unit == PERCENT or rope == 0 else rope / POINTS
    for arm, baseline in dict.fromkeys((c.arm, c.baseline) for setting in settings for c in setting.comparisons):
        effects = [
            effect
            for setting in settings
            for c in setting.comparisons
            if (c.arm, c.baseline) == (arm, baseline) and (effect := effect_of(c, setting.arms)) is not None
        ]
        posterior = summarize_settings(
            effects, rope, unit=prior_unit(effects, unit), higher_is_better=metric.higher_is_better
        )
        if posterior is not None:
            found.append(AcrossSettings(arm=arm, baseline=baseline, posterior=posterior))
    return found


def effect_of(comparison: Comparison, arms: Sequence[ArmSummary]) -> SettingEffect | None:
    """The mean difference of a setting with its standard error; None for fewer than two pairs or without any spread."""
    values = {arm.arm: arm.values for arm in arms}
    ours, theirs = values[comparison.arm], values[comparison.baseline]
    differences = np.array([ours[seed] - theirs[seed] for seed in theirs if seed in ours])
    if len(differences) < 2 or not comparison.paired:
        return None
    variance = (float(differences.var(ddof=1)) + comparison.step**2 / 6) / len(differences)
    if comparison.variance_samples is not None and comparison.variance_residual is not None:
        variance += max(0.0, comparison.variance_samples - comparison.variance_residual)
    if variance == 0:
        return None
    return SettingEffect(float(differences.mean()), math.sqrt(variance), len(differences))
