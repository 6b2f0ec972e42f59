"""What probes say about a claim: from evidence to a finding. None where no study speaks to it."""

import math
from collections.abc import Iterator

from durm.replication.claim_tests import Measure, arms_of_pairs, estimate, over_settings
from durm.replication.mean_effect import EffectEstimate, common, mean_by_seed
from durm.replication.reported import reported_number
from durm.replication.resolution import step
from durm.replication.study_index import Setting, probe_values


def probe_change(quantity: str) -> Measure:
    """What probes say of runs with dummies, relative to those without: the logarithm of the ratio."""

    def change(setting: Setting) -> Iterator[EffectEstimate]:
        ratios = []
        for pair in setting.pairs():
            ours, theirs = (probe_values(setting, quantity, arm.name) for arm in pair)
            seeds = [seed for seed in common([ours, theirs]) if ours[seed] > 0 and theirs[seed] > 0]
            ratios.append({seed: math.log(ours[seed] / theirs[seed]) for seed in seeds})
        yield estimate(setting, mean_by_seed(ratios), arms_of_pairs(setting.pairs()))

    return over_settings(change)


def within_runs(quantity: str) -> Measure:
    """What probes say of each run by itself, with dummies or without; its mean over the arms is the value of a seed."""

    def mean(setting: Setting) -> Iterator[EffectEstimate]:
        arms = [arm.name for arm in setting.arms]
        yield estimate(setting, mean_by_seed(probe_values(setting, quantity, arm) for arm in arms), arms)

    return over_settings(mean)


@over_settings
def equal_dummies(setting: Setting) -> Iterator[EffectEstimate]:
    """By how much the largest of the dummies' parts of their gradient exceeds 1/C_d, in percent of that."""
    several = [arm.name for arm in setting.arms if arm.counts_dummies_only and arm.dummies > 1]
    multiples = mean_by_seed(probe_values(setting, "dummy_unevenness", arm) for arm in several)
    yield estimate(setting, {seed: 100 * (multiple - 1) for seed, multiple in multiples.items()}, several)


def _variance_and_accuracy(setting: Setting) -> Iterator[EffectEstimate]:
    """Of one seed's runs with other numbers of dummies: the one with the highest variance of the gradient minus the one
    with the lowest, in accuracy. The paper's failed case is such a run: two dummies, of which one succeeds with one.
    """
    arms = [arm.name for arm, baseline in setting.pairs() if arm.counts_dummies_only]
    variances = {arm: probe_values(setting, "mean_gradient_variance", arm) for arm in arms}
    accuracies = {arm: setting.values(arm, setting.metric) for arm in arms}
    values = {}
    for seed in common([*variances.values(), *accuracies.values()]) if len(arms) > 1 else ():
        order = sorted(arms, key=lambda arm, seed=seed: variances[arm][seed])  # type: ignore[misc]
        values[seed] = accuracies[order[-1]][seed] - accuracies[order[0]][seed]
    yield estimate(setting, values, arms, step=step(setting, setting.metric))


variance_explains_failure = over_settings(
    _variance_and_accuracy,
    "In the paper's own example the case called failed is the more accurate one: "
    f"{reported_number('toy-failed')} % against {reported_number('toy-successful')} %.",
)
