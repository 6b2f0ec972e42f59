"""What a study says about attacks: robust accuracy of every arm, and whether the attacks can be believed."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from durm.study.arms import Found, compare_arms, spread, values_of
from durm.study.spec import Study
from durm.study.transfer import GRADIENT_ATTACKS, transferred_attack
from durm.training.trial import AttackSpec

MASKED = 1.0
"""By how many points an attack that sees no gradients, or not those of the model, must beat those that do."""


def robustness(study: Study, arms: Mapping[str, Found]) -> list[dict[str, Any]]:
    """For the clean samples, and for each attack and surface: every arm, and its difference from the baseline.

    `arms` are the results of each arm in one setting, by seed.
    """
    baseline, *others = study.arm_names
    entries = []
    for key in ["clean", *(key for attack in study.attacks for key in attack.keys)] if study.attacks else []:
        values = {arm: values_of(found, f"robust_{key}") for arm, found in arms.items()}
        comparisons = []
        if values[baseline]:  # an attack into dummies has none
            family = [(arm, baseline) for arm in others]
            comparisons = [comparison.as_dict() for comparison in compare_arms(study, family, values)]
        entries.append(
            {
                "attack": key,
                "arms": [_attacked(arm, key, found, values[arm]) for arm, found in arms.items()],
                "comparisons": comparisons,
            }
        )
    return entries


def _attacked(arm: str, key: str, found: Found, values: Mapping[str, float]) -> dict[str, Any]:
    attacked = {seed: entry for seed, result in found.items() if (entry := result.get("robustness", {}).get(key))}
    curves = [entry["curve"] for entry in attacked.values() if "curve" in entry]
    into_dummies = {seed: entry["into_dummies"] for seed, entry in attacked.items()}
    return {
        "arm": arm,
        **spread(values),
        "into_dummies": statistics.fmean(into_dummies.values()) if attacked else None,
        "into_dummies_values": into_dummies,
        "curve": [
            [points[0][0], statistics.fmean(value for _, value in points)] for points in zip(*curves, strict=True)
        ],
        "values": dict(values),
    }


def masked(study: Study, settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the gradients of an arm are masked, in words."""
    told = []
    for setting in settings:
        for arm in setting["arms"]:
            left = {
                entry["attack"]: one["mean"]
                for entry in setting["robustness"]
                for one in entry["arms"]
                if one["arm"] == arm["arm"] and one["n"]
            }
            where = ", ".join([arm["arm"], *setting["setting"].values()])
            told += [f"{text} ({where})" for text in signs_of_masking(study.attacks, left, arm["transfer"])]
    return told


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
    names = {kind: [f"{a.label}_real" for a in alike if a.kind in kinds] for kind, kinds in _SIGHT.items()}
    white = min(left[name] for name in names["gradients"] if name in left)
    black = {f"{name.removesuffix('_real')}, which sees no gradients,": left.get(name) for name in names["none"]}
    black |= {f"what {carried.label} made for another model": transfer.get("from_baseline")}
    return [
        f"Masked gradients: {what} leaves {value:.1f} % right, attacks by the model's own gradients {white:.1f} %. "
        "Its robustness to the latter means little."
        for what, value in black.items()
        if value is not None and value < white - MASKED
    ]


_SIGHT = {"gradients": GRADIENT_ATTACKS, "none": ("square",)}
