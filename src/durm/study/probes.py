"""What a study says about its probes: single numbers of what they saw, for every arm, and how these differ."""

from collections.abc import Mapping
from dataclasses import replace

from durm.curvature.describe import DESCRIPTION as CURVATURE
from durm.probes import PROBES
from durm.probes.describe import Description, Quantity, WatchedRun
from durm.statistics.intervals import Word
from durm.statistics.verdict import compare_family
from durm.study.arm_results import ArmResults, describe
from durm.study.config import Study
from durm.study.records import ArmValues, ProbeSummary
from durm.training.result import Result

WORDS: dict[Word, Word] = {"better": "larger", "worse": "smaller"}


def descriptions() -> dict[str, Description]:
    """What each probe, and the curvature, says to a reader; by the name under which results keep it."""
    described = {name: getattr(PROBES[name], "description", Description()) for name in PROBES.names()}
    return dict(sorted([*described.items(), ("flatness", CURVATURE)], key=lambda item: item[1].rank))


def watched(result: Result, probe: str, metric: str) -> WatchedRun:
    """A run as the description of that probe wants it; `metric` is the one whose best validation marks an epoch."""
    return WatchedRun(
        seen=result.probes[probe],
        steps=[entry.get("step", entry["epoch"]) for entry in result.curves],
        marked=result.best_validation(metric),
        num_classes=len(result.class_names),
        class_accuracy=result.classes.get("accuracy", ()),
    )


def probed(study: Study, arms: Mapping[str, ArmResults], metric: str) -> list[ProbeSummary]:
    """For each quantity of the study's probes: every arm, and its difference from the baseline.

    `arms` are the results of each arm in one setting, by seed. Any difference counts, however small: what is large is
    not known of these quantities. The verdict is larger, smaller or undecided.
    """
    baseline, *others = arms
    entries = []
    for probe, description in descriptions().items():
        for quantity in description.quantities:
            values = {arm: _values(found, probe, quantity, metric) for arm, found in arms.items()}
            if not any(values.values()):
                continue
            family = [(arm, baseline) for arm in others] if values[baseline] else []
            judged = compare_family(family, values, rope=0.0)
            entries.append(
                ProbeSummary(
                    quantity=quantity.name,
                    label=quantity.label,
                    arms=[ArmValues(arm=arm, **describe(found)) for arm, found in values.items()],
                    comparisons=[replace(c, verdict=WORDS.get(c.verdict or "undecided", c.verdict)) for c in judged],
                )
            )
    return entries


def _values(found: ArmResults, probe: str, quantity: Quantity, metric: str) -> dict[str, float]:
    """By seed; without those of which it is not defined, such as the dummies' of a model without any."""
    values = {
        seed: quantity.take(watched(result, probe, metric)) for seed, result in found.items() if probe in result.probes
    }
    return {seed: value for seed, value in values.items() if value is not None}
