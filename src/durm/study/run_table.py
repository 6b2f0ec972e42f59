"""Judges runs that durm did not make: numbers by arm and seed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from durm.errors import InputError, unknown
from durm.statistics.intervals import SampleVariance, sample_variance
from durm.statistics.scale import assume_metric, lattice_step
from durm.statistics.verdict import compare
from durm.study.across import summarize_across
from durm.study.arm_results import describe
from durm.study.records import SCHEMA_VERSION, ArmSummary, Setting, Summary

Values = dict[str, dict[str, float]]
"""arm → seed → value"""


@dataclass
class RunTable:
    """Runs by setting, arm and seed; `samples` has the value of each test sample, where the table has those.

    `written` are the values as they were written, whose last decimal may be all that tells their resolution. `metric`
    is what they are called, if that is known.
    """

    settings: dict[str, Values] = field(default_factory=dict)
    samples: dict[tuple[str, str, str], dict[str, float]] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    metric: str | None = None

    @property
    def values(self) -> list[float]:
        return [value for arms in self.settings.values() for arm in arms.values() for value in arm.values()]


def judge_table(
    table: RunTable,
    *,
    baseline: str | None = None,
    rope: float | None = None,
    higher_is_better: bool | None = None,
    metric: str | None = None,
    resolution: float | None = None,
    **planned: Any,
) -> Summary:
    """The same summary that a study of durm's has, without what only durm knows.

    What is not given is taken from the metric's name and from the values: see `durm.statistics.scale`. `planned` are
    the level, the plan and the lost runs of a study, for `durm.statistics.verdict.compare_family`.
    """
    metric = metric or table.metric or "value"
    for name, value in (("rope", rope), ("resolution", resolution)):
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise InputError(f"`{name}` {value:g}: expected a number of at least 0")
    assumed = assume_metric(metric, table.values, rope, higher_is_better)
    step = resolution if resolution is not None else lattice_step(table.values, table.written)
    settings, warnings = [], [f"{assumed.note}."] if assumed.note else []
    first = next(iter(next(iter(table.settings.values()))))
    for setting, arms in table.settings.items():
        base = baseline if baseline is not None else first
        where = f" in setting {setting!r}" if setting else ""
        if base not in arms:
            raise InputError(f"`baseline`: {unknown('arm', base, arms)}{where}")
        if len(arms) < 2 and not planned:
            raise InputError(f"there is one arm only ({base!r}){where}, and nothing to compare it with")
        unpaired = set() if planned else {arm for arm in arms if not _is_paired(arms[arm], arms[base])}
        comparisons = compare(
            base,
            arms,
            rope=assumed.rope,
            higher_is_better=assumed.metric.higher_is_better,
            step=step,
            samples=lambda arm, other, seeds, setting=setting: _variance(table, setting, arm, other, seeds),
            unpaired=unpaired,
            **planned,
        )
        warnings += [] if planned else _pairing_notes(arms, base, unpaired, where)
        warnings += [f"{c.arm}{where}: {text}." for c in comparisons for text in c.warnings]
        settings.append(
            Setting(
                setting={"setting": setting} if setting else {},
                arms=[
                    ArmSummary(arm=name, **describe(arms[name])) for name in sorted(arms, key=lambda name: name != base)
                ],
                comparisons=comparisons,
            )
        )
    return Summary(
        schema_version=SCHEMA_VERSION,
        study="",
        metric=metric,
        unit=assumed.metric.unit,
        higher_is_better=assumed.metric.higher_is_better,
        rope=assumed.rope,
        settings=settings,
        across=summarize_across(settings, assumed.metric, assumed.rope),
        warnings=warnings,
    )


def _is_paired(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    """Whether at least half of the runs of the smaller arm have a partner."""
    return 2 * len(ours.keys() & theirs.keys()) >= min(len(ours), len(theirs))


def _variance(table: RunTable, setting: str, arm: str, baseline: str, seeds: Sequence[str]) -> SampleVariance | None:
    """None unless all runs have the same samples."""
    runs = [[table.samples.get((setting, name, seed), {}) for name in (arm, baseline)] for seed in seeds]
    order = list(runs[0][0])
    if not order or any(run.keys() != runs[0][0].keys() for pair in runs for run in pair):
        return None
    return sample_variance(np.array([[ours[one] - theirs[one] for one in order] for ours, theirs in runs]))


def _pairing_notes(
    arms: Mapping[str, Mapping[str, float]], baseline: str, unpaired: set[str], where: str
) -> Iterator[str]:
    for arm in arms:
        alone = sorted(arms[arm].keys() ^ arms[baseline].keys())
        if arm in unpaired:
            yield (
                f"{arm} and {baseline}{where} have different seeds, so their means are compared unpaired (Welch). "
                "Pairs on the same seeds would need fewer runs for the same answer."
            )
        elif alone:
            shown = ", ".join(alone[:5]) + (", …" if len(alone) > 5 else "")
            yield f"{arm} and {baseline}{where} do not have all seeds in common; left out: {shown}."
