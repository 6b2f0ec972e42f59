"""What a study says about attacks: robust accuracy of every arm, and whether the attacks can be believed."""

import statistics
from collections.abc import Mapping, Sequence

from durm.study.arm_results import ArmResults, Evidence, SettingKey, describe, values_of
from durm.study.config import Study
from durm.study.records import AttackedArm, AttackSummary, Setting
from durm.training.trial import AttackSpec

GRADIENT_ATTACKS = ("fgsm", "pgd", "apgd")
MASKED = 1.0
"""By how many points an attack that sees no gradients, or not those of the model, must beat those that do."""


def robustness(evidence: Evidence, setting: SettingKey, arms: Mapping[str, ArmResults]) -> list[AttackSummary]:
    """For the clean samples, and for each attack and surface: every arm, and its difference from the baseline.

    `arms` are the results of each arm in one setting, by seed.
    """
    baseline, *others = arms
    study, entries = evidence.study, []
    for key in ["clean", *(key for attack in study.attacks for key in attack.keys)] if study.attacks else []:
        values = {arm: values_of(found, f"robust_{key}") for arm, found in arms.items()}
        family = [(arm, baseline) for arm in others] if values[baseline] else []  # an attack into dummies has none
        entries.append(
            AttackSummary(
                attack=key,
                arms=[_attacked(arm, key, found, values[arm]) for arm, found in arms.items()],
                comparisons=evidence.compare(setting, family, values, f"robust_{key}"),
            )
        )
    return entries


def _attacked(arm: str, key: str, found: ArmResults, values: Mapping[str, float]) -> AttackedArm:
    attacked = {seed: entry for seed, result in found.items() if (entry := result.robustness.get(key)) is not None}
    curves = [entry.curve for entry in attacked.values() if entry.curve]
    into_dummies = {seed: entry.into_dummies for seed, entry in attacked.items()}
    return AttackedArm(
        arm=arm,
        **describe(values),
        into_dummies=statistics.fmean(into_dummies.values()) if attacked else None,
        into_dummies_values=into_dummies,
        curve=[(points[0][0], statistics.fmean(value for _, value in points)) for points in zip(*curves, strict=True)],
        warnings=[text for entry in attacked.values() for text in entry.warnings],
    )


def transferred_attack(attacks: Sequence[AttackSpec]) -> AttackSpec | None:
    """The one that is carried over between models: the last that goes by gradients through the real logits."""
    found = [attack for attack in attacks if attack.kind in GRADIENT_ATTACKS and "real" in attack.through]
    return found[-1] if found else None


def masked(study: Study, settings: Sequence[Setting]) -> list[str]:
    """Where an attack on an arm is not to be believed, in words."""
    found = []
    for setting in settings:
        every = [(entry.attack, one) for entry in setting.robustness for one in entry.arms]
        for arm in setting.arms:
            left = {attack: one.mean for attack, one in every if one.arm == arm.arm and one.mean is not None}
            where = ", ".join([arm.arm, *setting.names])
            found += [f"{text} ({where})" for text in signs_of_masking(study.attacks, left, arm.transfer)]
            for attack, one in every:
                if one.arm == arm.arm:
                    found += [f"{text} ({where})" for text in _once_each(attack, one.warnings)]
    return found


def _once_each(attack: str, warnings: Sequence[str]) -> list[str]:
    """The first sentence of each kind, which stands before its colon, with the attack and the number of runs."""
    kinds: dict[str, list[str]] = {}
    for text in warnings:
        kinds.setdefault(text.partition(":")[0], []).append(text)
    under = "" if attack == "clean" else f"{attack}: "
    more = {kind: f" So it is in {len(texts)} runs." if texts[1:] else "" for kind, texts in kinds.items()}
    return [f"{under}{texts[0]}{more[kind]}" for kind, texts in kinds.items()]


def signs_of_masking(
    attacks: Sequence[AttackSpec], left: Mapping[str, float], transfer: Mapping[str, float]
) -> list[str]:
    """Sentences about attacks without the model's own gradients that are stronger than those with them.

    Args:
        attacks: those that were run.
        left: the accuracy that is left, by attack and surface.
        transfer: the accuracy on what was made on other models, if it was measured: `from_baseline`, or a name.
    """
    carried = transferred_attack(attacks)
    if carried is None or f"{carried.label}_real" not in left:
        return []
    alike = [attack for attack in attacks if (attack.eps, attack.norm) == (carried.eps, carried.norm)]
    gradients = [f"{attack.label}_real" for attack in alike if attack.kind in GRADIENT_ATTACKS]
    white = min(left[name] for name in gradients if name in left)
    squares = [attack.label for attack in alike if attack.kind == "square"]
    black = {f"{label}, which sees no gradients,": left.get(f"{label}_real") for label in squares}
    black |= {f"what {carried.label} made for another model": transfer.get("from_baseline")}
    return [
        f"Masked gradients: {what} leaves {value:.1f} % right, attacks by the model's own gradients {white:.1f} %. "
        "Its robustness to the latter means little."
        for what, value in black.items()
        if value is not None and value < white - MASKED
    ]
