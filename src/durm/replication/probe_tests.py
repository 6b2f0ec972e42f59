"""What probes say about a claim: from evidence to a finding. None where no study speaks to it."""

import math

from durm.replication.claim_tests import Measure, arms_of_pairs, estimate
from durm.replication.finding import Criterion, Finding
from durm.replication.mean_effect import common, mean_by_seed
from durm.replication.meta_analysis import combine
from durm.replication.reported import reported_number
from durm.replication.resolution import step
from durm.replication.study_index import Evidence, probe_values


def probe_change(quantity: str) -> Measure:
    """What probes say of runs with dummies, relative to those without: the logarithm of the ratio."""

    def measure(evidence: Evidence, criterion: Criterion) -> Finding | None:
        found = []
        for setting in evidence.settings:
            ratios = []
            for pair in setting.pairs():
                ours, theirs = (probe_values(setting, quantity, arm.name) for arm in pair)
                seeds = [seed for seed in common([ours, theirs]) if ours[seed] > 0 and theirs[seed] > 0]
                ratios.append({seed: math.log(ours[seed] / theirs[seed]) for seed in seeds})
            found.append(estimate(setting, mean_by_seed(ratios), arms_of_pairs(setting.pairs())))
        return combine(found, criterion)

    return measure


def within_runs(quantity: str) -> Measure:
    """What probes say of each run by itself, with dummies or without; its mean over the arms is the value of a seed."""

    def measure(evidence: Evidence, criterion: Criterion) -> Finding | None:
        found = []
        for setting in evidence.settings:
            arms = [arm.name for arm in setting.arms]
            values = mean_by_seed(probe_values(setting, quantity, arm) for arm in arms)
            found.append(estimate(setting, values, arms))
        return combine(found, criterion)

    return measure


def equal_dummies(evidence: Evidence, criterion: Criterion) -> Finding | None:
    """By how much the largest of the dummies' parts of their gradient exceeds 1/C_d, in percent of that."""
    found = []
    for setting in evidence.settings:
        several = [arm.name for arm in setting.arms if arm.counts_dummies_only and arm.dummies > 1]
        multiples = mean_by_seed(probe_values(setting, "dummy_unevenness", arm) for arm in several)
        excess = {seed: 100 * (multiple - 1) for seed, multiple in multiples.items()}
        found.append(estimate(setting, excess, several))
    return combine(found, criterion)


def variance_explains_failure(evidence: Evidence, criterion: Criterion) -> Finding | None:
    """Of one seed's runs with other numbers of dummies: the one with the highest variance of the gradient minus the one
    with the lowest, in accuracy. The paper's failed case is such a run: two dummies, of which one succeeds with one.
    """
    found = []
    for setting in evidence.settings:
        arms = [arm.name for arm, baseline in setting.pairs() if arm.counts_dummies_only]
        variances = {arm: probe_values(setting, "mean_gradient_variance", arm) for arm in arms}
        accuracies = {arm: setting.values(arm, setting.metric) for arm in arms}
        values = {}
        for seed in common([*variances.values(), *accuracies.values()]) if len(arms) > 1 else ():
            order = sorted(arms, key=lambda arm, seed=seed: variances[arm][seed])  # type: ignore[misc]
            values[seed] = accuracies[order[-1]][seed] - accuracies[order[0]][seed]
        found.append(estimate(setting, values, arms, step=step(setting, setting.metric)))
    note = (
        "In the paper's own example the case called failed is the more accurate one: "
        f"{reported_number('toy-failed')} % against {reported_number('toy-successful')} %."
    )
    return combine(found, criterion, note)
