"""What the dummies take, what attacks make of them, and whether another trick does the same: claims from evidence."""

from collections.abc import Iterator
from dataclasses import replace

from durm.data import base_name
from durm.replication.claim_tests import Measure, attacked_group, difference, estimate, over_settings
from durm.replication.every_setting import never
from durm.replication.finding import Criterion, Finding
from durm.replication.mean_effect import EffectEstimate, mean_by_seed
from durm.replication.resolution import sample_count, step
from durm.replication.study_index import Evidence, Setting, into_dummies, other_overrides
from durm.study.arm import Arm


def dummy_share(metric: str, *, counts: bool) -> Measure:
    """The share of the test samples, or of the probability on them, that goes to dummies."""

    def measure(evidence: Evidence, criterion: Criterion) -> Finding | None:
        found = []
        for setting in evidence.settings:
            arms = [arm.name for arm, _ in setting.pairs()]
            one = estimate(setting, mean_by_seed([setting.values(arm, metric) for arm in arms]), arms)
            samples = sample_count(setting, setting.metric)
            found.append(replace(one, test_samples=samples, group=base_name(setting.data)))
        return never(found, criterion, counts=counts)

    return measure


def attacked_into_dummies(evidence: Evidence, criterion: Criterion) -> Finding | None:
    """The share of samples that attacks which aim at a dummy bring into one."""
    found = []
    for setting in evidence.settings:
        arms = [arm.name for arm, _ in setting.pairs()]
        for label in (attack.label for attack in setting.spec.attacks if "dummy" in attack.through):
            values = mean_by_seed([into_dummies(setting, f"{label}_dummy", arm) for arm in arms])
            columns = [f"robust_{label}_{name}" for name in ("dummy", "real")]  # the same samples
            samples = next(filter(None, (sample_count(setting, column) for column in columns)), None)
            one = estimate(setting, values, arms, f", {label}")
            found.append(replace(one, test_samples=samples, group=base_name(setting.data)))
    return never(found, criterion, counts=True)


@over_settings
def attack_surface(setting: Setting) -> Iterator[EffectEstimate]:
    """What attacks through all logits leave of the accuracy with dummies, minus what those through the real ones do."""
    arms = [arm.name for arm, _ in setting.pairs()]
    for label in (attack.label for attack in setting.spec.attacks if {"real", "full"} <= {*attack.through}):
        left = [[setting.values(arm, f"robust_{label}_{name}") for name in ("full", "real")] for arm in arms]
        values = mean_by_seed([difference(full, real) for full, real in left])
        one = estimate(setting, values, arms, f", {label}", step(setting, f"robust_{label}_real"))
        yield replace(one, group=attacked_group(setting))


@over_settings
def more_than_a_trick(setting: Setting) -> Iterator[EffectEstimate]:
    """Dummies minus label smoothing."""
    tricks = [arm.name for arm in setting.arms if arm.dummies == 0 and _is_trick(arm)]
    plain = [arm.name for arm, _ in setting.pairs() if arm.counts_dummies_only]
    ours, theirs = (mean_by_seed([setting.values(arm, setting.metric) for arm in arms]) for arms in (plain, tricks))
    how = f", against {', '.join(tricks)}"
    yield estimate(setting, difference(ours, theirs), [*plain, *tricks], how, step(setting, setting.metric))


def _is_trick(arm: Arm) -> bool:
    return [*other_overrides(arm)] == ["train.label_smoothing"]
