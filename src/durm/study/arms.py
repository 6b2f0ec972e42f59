"""The results of an arm in one setting, by seed: their values of a metric, and how arms compare in it."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from durm.study.spec import Study
from durm.study.verdict import Comparison, compare_family

Found = Mapping[str, dict[str, Any]]
"""The results of one arm in one setting, by seed."""


def values_of(found: Found, metric: str) -> dict[str, float]:
    """The values of the results that have the metric: an attack into dummies has none without dummies."""
    return {seed: result["metrics"][metric] for seed, result in found.items() if metric in result["metrics"]}


def spread(values: Mapping[str, float]) -> dict[str, Any]:
    """Number, mean and standard deviation; None where they are not defined."""
    return {
        "n": len(values),
        "mean": statistics.fmean(values.values()) if values else None,
        "std": statistics.stdev(values.values()) if len(values) > 1 else None,
    }


def compare_arms(
    study: Study, family: Sequence[tuple[str, str]], values: Mapping[str, Mapping[str, float]]
) -> list[Comparison]:
    """Each arm with the one it is paired with, by the study's region of practical equivalence and its looks."""
    return compare_family(family, values, rope=study.rope, looks=seeds_of_looks(study))


def seeds_of_looks(study: Study) -> list[list[str]]:
    return [[str(seed) for seed in seeds] for seeds in study.looks]


def compare_each(
    names: Sequence[str],
    arms: Sequence[str],
    values: Mapping[tuple[str, str], Mapping[str, float]],
    rope: float,
    looks: Sequence[Sequence[str]] = (),
) -> dict[tuple[str, str], dict[str, Any]]:
    """Every arm with the first in each of several quantities, all as one family; by the names of quantity and arm."""
    baseline, *others = arms
    pairs = [(name, arm) for name in names for arm in others]
    compared = compare_family(
        [(repr(pair), repr((pair[0], baseline))) for pair in pairs],
        {repr(pair): of for pair, of in values.items()},
        rope=rope,
        looks=looks,
    )
    return {
        pair: {**comparison.as_dict(), "arm": pair[1], "baseline": baseline}
        for pair, comparison in zip(pairs, compared, strict=True)
    }
