"""Which trainings learned: a claim about accuracy rests on no others.

- A setting whose baseline is at most 10 points above chance (100 %/C on C classes) is refused: there is nothing yet
  that dummies could improve.
- So is one whose method is more than 5 points below ERM on the validation data, in the mean over the seeds that both
  have: its settings were not right for the method. Adversarial training gives up clean accuracy on purpose, and is not
  held to that.

Where the number of classes is not known, as of folders of one's own, the first is not asked.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from durm.data import known_classes
from durm.replication.study_index import Evidence, Setting

ABOVE_CHANCE = 10.0
BELOW_ERM = 5.0
"""In points."""


@dataclass(frozen=True)
class Refusal:
    """A setting of a study that claims about accuracy do not rest on, and why."""

    study: str
    setting: str
    reason: str


def learned(evidence: Evidence) -> tuple[Evidence, dict[Refusal, Setting]]:
    """The evidence without the settings that did not learn, and these."""
    kept: list[Setting] = []
    refused: dict[Refusal, Setting] = {}
    for setting in evidence.settings:
        reason = _near_chance(setting) or _below_erm(setting, evidence.settings)
        if reason:
            refused[Refusal(setting.study, setting.name, reason)] = setting
        else:
            kept.append(setting)
    return Evidence(tuple(kept), evidence.benchmarks), refused


def _near_chance(setting: Setting) -> str:
    values = [*setting.values(_baseline(setting), setting.metric).values()]
    if setting.is_segmentation:
        classes: int | None = sum(name.startswith("iou_") for name in setting.metrics)
    else:
        classes = known_classes(setting.data)
    if not values or not classes:
        return ""
    mean, chance = statistics.fmean(values), 100 / classes
    if mean > chance + ABOVE_CHANCE:
        return ""
    return f"without dummies {mean:.1f} %, within {ABOVE_CHANCE:g} points of chance ({chance:.1f} %)"


def _below_erm(setting: Setting, others: Sequence[Setting]) -> str:
    if setting.objective in ("erm", "fgsm-at", "pgd-at") and setting.method == setting.objective:
        return ""
    same = (setting.study, setting.data, setting.model)
    for erm in others:
        if erm.method == "erm" and (erm.study, erm.data, erm.model) == same:
            ours, theirs = (one.values(_baseline(one), f"val_{one.metric}") for one in (setting, erm))
            seeds = [seed for seed in ours if seed in theirs]
            if not seeds:
                return ""
            mean, of_erm = (statistics.fmean(values[seed] for seed in seeds) for values in (ours, theirs))
            if mean < of_erm - BELOW_ERM:
                return f"without dummies {mean:.1f} % on validation, where ERM has {of_erm:.1f} %"
    return ""


def _baseline(setting: Setting) -> str:
    """The arm without dummies."""
    return next((arm.name for arm in setting.arms if arm.dummies == 0), setting.arms[0].name)
