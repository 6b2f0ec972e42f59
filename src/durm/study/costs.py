"""What the runs of a study took, and where they ran."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from durm.statistics.verdict import Comparison
from durm.study.base import Key
from durm.study.records import StudyCost, StudyProvenance
from durm.training.result import Result


class RunCosts(TypedDict):
    seconds: float | None
    cpu_seconds: float | None
    peak_memory: float | None


def run_costs(results: Sequence[Result]) -> RunCosts:
    """Means over the runs; None of what was not measured."""

    def mean(name: str) -> float | None:
        values = [getattr(result.cost, name) for result in results]
        return statistics.fmean(values) if any(values) else None

    return {"seconds": mean("seconds"), "cpu_seconds": mean("cpu_seconds"), "peak_memory": mean("peak_memory")}


def with_cost_ratio(comparison: Comparison, results: Mapping[str, Mapping[str, Result]], cost: str) -> Comparison:
    """The comparison, with the median over the pairs of the ratio of that cost, such as `seconds_per_step`."""
    arm, baseline = results[comparison.arm], results[comparison.baseline]
    pairs = [(getattr(arm[seed].cost, cost), getattr(run.cost, cost)) for seed, run in baseline.items() if seed in arm]
    ratios = [ours / theirs for ours, theirs in pairs if theirs > 0]
    return replace(comparison, cost_ratio=statistics.median(ratios) if ratios else None)


def summarize_cost(results: Mapping[Key, Result]) -> StudyCost:
    costs = [result.cost for result in results.values()]
    return StudyCost(
        seconds=sum(cost.seconds for cost in costs),
        steps=sum(cost.steps for cost in costs),
        peak_memory=max((cost.peak_memory for cost in costs), default=0),
    )


def summarize_provenance(results: Mapping[Key, Result]) -> StudyProvenance:
    """Where the trials ran. What is not the same for all of them is a list."""
    merged: dict[str, Any] = {}
    for key in StudyProvenance.model_fields:
        values = list(dict.fromkeys(getattr(result.provenance, key) for result in results.values()))
        merged[key] = values[0] if len(values) == 1 else values or None
    return StudyProvenance(**merged)
