"""Robust accuracy: what an attack leaves of the accuracy. Each attack and surface is a metric: `robust_pgd_real`.

They are measured by `durm.training.robustness`; here they have their names.
"""

from durm.metrics.metric import PERCENT, Family, Metric, family

SURFACES = {"real": "the real logits", "full": "all logits", "dummy": "the dummies"}


def attack_and_surface(key: str) -> tuple[str, str]:
    """`pgd` and `real` of `pgd_real`; of `clean`, `none` and nothing."""
    attack, _, through = key.rpartition("_")
    return (attack, through) if attack else ("none", "")


def _describe(key: str) -> Metric | None:
    attack, through = attack_and_surface(key)
    if through not in SURFACES and key != "clean":
        return None
    label = f"accuracy under {attack} through {SURFACES[through]}" if through else "accuracy of the attacked samples"
    name = f"robust_{key}"
    return Metric(name, label, PERCENT, True, 0.1, "sample", per_sample=lambda outcomes: 100.0 * outcomes[name])


family(Family("robust_", "classification", _describe))
