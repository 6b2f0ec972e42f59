"""The numbers of a study, setting by setting and arm by arm, with the verdict: what stands in summary.json."""

import csv
import io
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from durm._files import write_whole
from durm._words import counted
from durm.study.arms import Found, compare_arms, spread, values_of
from durm.study.probes import probed
from durm.study.robustness import masked, robustness
from durm.study.spec import DERIVED, Arm, Study
from durm.study.store import Store
from durm.study.transfer import read as read_transfer
from durm.study.verdict import Comparison, caution, smallest_p

Key = tuple[str, str, str, str, int]
"""data, model, method, arm, seed"""
Results = Mapping[Key, dict[str, Any]]


def read_results(store: Store) -> dict[Key, dict[str, Any]]:
    """The results of all trials that are done, with how attacks transfer if that was measured."""
    return {
        (trial.data, trial.model, trial.method, trial.arm, trial.seed): {
            **result,
            "transfer": read_transfer(store, trial),
        }
        for trial in store.study.trials()
        if (result := store.result(trial)) is not None
    }


def write_summary(store: Store, results: Results) -> dict[str, Any]:
    """Summarises what is done, and keeps it as summary.json, and the rows as results.csv, in the study's folder."""
    path = store.folder / "summary.json"
    summary = summarize(store.study, results, _looks_before(path))
    write_whole(path, json.dumps(summary, indent=1, allow_nan=False).encode())
    write_whole(store.folder / "results.csv", rows(results, store.study.metric).encode())
    return summary


def rows(results: Results, metric: str) -> str:
    """One line for each trial, as CSV: its value, which `durm verdict` can judge, and what else was measured."""
    lines: list[dict[str, Any]] = []
    for (data, model, method, arm, seed), result in results.items():
        measured = {**result["metrics"], **{f"val_{name}": value for name, value in result["val"].items()}}
        lines.append(
            {
                "setting": f"{data} {model} {method}",
                **{"arm": arm, "seed": seed, "value": result["metrics"][metric]},
                **measured,
                **{"seconds": result["cost"]["seconds"], "steps": result["cost"]["steps"], "trial": result["trial"]},
                "weights_sha256": result["weights_sha256"],
            }
        )
    columns = list(dict.fromkeys(name for line in lines for name in line))
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def _looks_before(path: Path) -> list[int]:
    """The looks that an earlier summary tells of; none if there is no such file, or something else in it."""
    try:
        looks = json.loads(path.read_text())["looked_at"]
        return [int(look) for look in looks]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def summarize(study: Study, results: Results, looked_at: Sequence[int] = ()) -> dict[str, Any]:
    """What the results say. `looked_at` are the numbers of seeds at which a summary was made before.

    Values are unrounded, in percent where they are shares; numbers that are not defined are None.
    """
    trials = len(study.trials())
    provenance = _provenance(results)
    settings = [_setting(study, setting, results) for setting in study.settings]
    averages = _averages(study, results)
    pairs = max((c["n"] for setting in settings for c in setting["comparisons"]), default=0)
    looks = sorted({*looked_at, *([len(study.seeds)] if pairs > 1 else [])})
    return {
        "study": study.name,
        "metric": study.metric,
        "higher_is_better": True,
        "rope": study.rope,
        "select": study.select,
        "max_seeds": study.max_seeds,
        "settings": settings,
        "averages": averages,
        "trials": trials,
        "done": len(results),
        "looked_at": looks,
        "warnings": [
            *_warnings(study, results, looks, trials, pairs, provenance),
            *_cautions(settings),
            *masked(study, settings),
        ],
        "cost": _cost(results),
        "provenance": provenance,
    }


def is_decided(summary: Mapping[str, Any]) -> bool:
    """Whether every arm of every setting has a verdict other than undecided."""
    return all(c["verdict"] != "undecided" for setting in summary["settings"] for c in setting["comparisons"])


def _setting(study: Study, setting: tuple[str, str, str], results: Results) -> dict[str, Any]:
    def found(arm: str) -> Found:
        return {str(s): result for s in study.seeds if (result := results.get((*setting, arm, s))) is not None}

    arms = {arm.name: found(arm.name) for arm in study.arms}
    chosen = _chosen_on_validation(study.arms, arms, study.validation_metric)
    derived = {seed: arms[name][seed] for seed, name in chosen.items()}
    null = {arm.name: found(arm.name) for arm in study.null_arms}
    baseline = study.arms[0].name

    every = {**arms, DERIVED: derived, **null}

    def judged(*family: tuple[str, str]) -> list[dict[str, Any]]:
        return [_with_cost(comparison, every) for comparison in _compare(study, family, every)]

    return {
        "setting": dict(zip(("data", "model", "method"), setting, strict=True)),
        "arms": [_arm(arm.name, arm.dummies, arms[arm.name], study.metric) for arm in study.arms],
        "comparisons": judged(*((arm.name, baseline) for arm in study.arms[1:])),
        "robustness": robustness(study, arms),
        "classes": _classes(arms),
        "probes": probed(study, arms, study.validation_metric),
        "derived": {
            "arms": [{**_arm(DERIVED, None, derived, study.metric), "chosen": chosen}] if chosen else [],
            "comparisons": judged((DERIVED, baseline)) if chosen else [],
        },
        "null_control": {
            "arms": [_arm(arm.name, arm.dummies, null[arm.name], study.metric) for arm in study.null_arms],
            "comparisons": judged(*((arm.null().name, arm.name) for arm in study.arms if study.null)),
        },
    }


def _classes(arms: Mapping[str, Found]) -> dict[str, dict[str, dict[str, float]]]:
    """Of segmentation, for each arm and seed: the IoU of every class, and `miou`. Arms that are not done are empty."""
    if not any("miou" in result["metrics"] for found in arms.values() for result in found.values()):
        return {}
    return {arm: {seed: _ious(result) for seed, result in found.items()} for arm, found in arms.items()}


def _ious(result: Mapping[str, Any]) -> dict[str, float]:
    values = zip(result["class_names"], result["classes"]["iou"], strict=True)
    return {f"iou_{name}": value for name, value in values if value is not None} | {"miou": result["metrics"]["miou"]}


def _averages(study: Study, results: Results) -> list[dict[str, Any]]:
    """For data with domains: each model and method, with the mean over the held-out domains as the value of a seed.

    Only seeds that have all domains count.
    """
    held_out = {data: result.get("held_out") for (data, *_), result in results.items()}
    families: dict[str, dict[str, str]] = {}
    for data in study.data:
        if (domain := held_out.get(data)) is not None:
            families.setdefault(data.removesuffix(f":{domain}"), {})[domain] = data
    averages = []
    for family, domains in families.items():
        pooled = {}
        for data, model, method, arm, seed in results:
            every = [results.get((name, model, method, arm, seed)) for name in domains.values()]
            found = [result for result in every if result is not None]
            if data == next(iter(domains.values())) and len(found) == len(domains):
                pooled[(family, model, method, arm, seed)] = {part: _mean(found, part) for part in _MEASURED}
        for model, method in product(study.model, study.method):
            averages.append({**_setting(study, (family, model, method), pooled), "domains": list(domains)})
    return averages


_MEASURED = ("metrics", "val", "train", "selections", "cost")


def _mean(results: Sequence[dict[str, Any]], part: str) -> dict[str, float]:
    return {key: statistics.fmean(result[part][key] for result in results) for key in results[0][part]}


def _compare(study: Study, family: Sequence[tuple[str, str]], results: Mapping[str, Found]) -> list[Comparison]:
    return compare_arms(study, family, {arm: values_of(found, study.metric) for arm, found in results.items()})


def _arm(name: str, dummies: int | None, found: Found, metric: str) -> dict[str, Any]:
    values = values_of(found, metric)

    def mean(take: Callable[[dict[str, Any]], float]) -> float | None:
        return statistics.fmean(take(result) for result in found.values()) if found else None

    return {
        "arm": name,
        "dummies": dummies,
        **spread(values),
        **{
            key: mean(lambda result, key=key: result["metrics"][key])  # type: ignore[misc]
            for key in ("balanced_accuracy", "nll", "ece", "ece_all", "dummy_mass", "dummy_hits")
            if all(key in result["metrics"] for result in found.values())
        },
        "groups": {
            key.removeprefix("accuracy_"): mean(lambda result, key=key: result["metrics"][key])  # type: ignore[misc]
            for key in next(iter(found.values()), {"metrics": {}})["metrics"]
            if key.startswith("accuracy_")
        },
        "selections": {
            rule: mean(lambda result, rule=rule: result["selections"][rule])  # type: ignore[misc]
            for rule in next(iter(found.values()), {}).get("selections", {})
        },
        "transfer": {
            way: statistics.fmean(carried)
            for way in ("from_baseline", "to_baseline")
            if (carried := [result["transfer"][way] for result in found.values() if result.get("transfer")])
        },
        "train_accuracy": mean(lambda result: result["train"]["accuracy"]),
        "val_accuracy": mean(lambda result: result["val"]["accuracy"]),
        "seconds_per_step": mean(lambda result: result["cost"]["seconds_per_step"]),
        "parameters": mean(lambda result: result["cost"]["parameters"]),
        "values": values,
    }


def _with_cost(comparison: Comparison, results: Mapping[str, Found]) -> dict[str, Any]:
    """The comparison, with the median over the pairs of the ratio of seconds per step."""
    arm, baseline = results[comparison.arm], results[comparison.baseline]
    ratios = [
        arm[seed]["cost"]["seconds_per_step"] / baseline[seed]["cost"]["seconds_per_step"]
        for seed in baseline
        if seed in arm and baseline[seed]["cost"]["seconds_per_step"] > 0
    ]
    return {**comparison.as_dict(), "cost_ratio": statistics.median(ratios) if ratios else None}


def _chosen_on_validation(arms: Sequence[Arm], results: Mapping[str, Found], metric: str) -> dict[str, str]:
    """For each seed that all plain DuRM arms have, the one that is best on validation, the first of equals."""
    candidates = [arm.name for arm in arms if arm.counts_dummies_only]
    if len(candidates) < 2:
        return {}
    seeds = [seed for seed in results[candidates[0]] if all(seed in results[name] for name in candidates)]
    return {seed: max(candidates, key=lambda name: results[name][seed]["val"][metric]) for seed in seeds}


def _warnings(
    study: Study, results: Results, looks: Sequence[int], trials: int, pairs: int, provenance: Mapping[str, Any]
) -> list[str]:
    """What a reader has to know before he believes the verdict."""
    warnings = []
    if len(results) < trials:
        warnings.append(
            f"{trials - len(results)} of {trials} trials are missing: not done yet, or failed. Seeds that lack one of "
            "two arms are left out of their comparison."
        )
    if study.max_seeds is None and len(looks) > 1:
        warnings.append(
            f"Seeds were added after a verdict had been seen (at {', '.join(map(str, looks))} seeds). The intervals "
            "do not know of that; --until-decided does."
        )
    if len(study.arms) > 1 and pairs < 6:
        warnings.append(
            f"{counted(pairs, 'pair')} of runs: the smallest p value that so few can give is "
            f"{min(1.0, smallest_p(pairs)):.3g}. Take 6 or more."
        )
    attacked = study.metric.startswith("robust_")
    tests = {
        data: result["robustness"]["clean"]["samples"] if attacked else result["samples"]["test"]
        for (data, *_), result in results.items()
        if not result.get("confusion")  # scenes have pixels enough
    }
    coarse = sorted((data for data, count in tests.items() if 100 / count > study.rope), key=lambda data: tests[data])
    if coarse:
        count, others = tests[coarse[0]], len(coarse) - 1
        further = f" and of {counted(others, 'other')}" if others else ""
        warnings.append(
            f"One sample of the test set of {coarse[0]} ({count} samples){further} weighs {100 / count:.2g} points"
            f"{' or less' if others else ''}, more than the region of practical equivalence of ±{study.rope:g}."
        )
    mixed = [key for key, value in provenance.items() if isinstance(value, list)]
    if mixed:
        warnings.append(f"Not all trials ran under the same conditions: {', '.join(mixed)} differ.")
    return warnings


def _cautions(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    told = []
    for setting in settings:
        where = f" ({', '.join(setting['setting'].values())})" if len(settings) > 1 else ""
        told += [text + where for comparison in setting["comparisons"] if (text := caution(comparison))]
    return told


def _cost(results: Results) -> dict[str, float]:
    costs = [result["cost"] for result in results.values()]
    return {
        "seconds": sum(cost["seconds"] for cost in costs),
        "steps": sum(cost["steps"] for cost in costs),
        "peak_memory": max((cost["peak_memory"] for cost in costs), default=0),
    }


def _provenance(results: Results) -> dict[str, Any]:
    """Where the trials ran. What is not the same for all of them is a list."""
    keys = ("durm", "torch", "python", "system", "device", "device_name", "threads", "commit")
    merged: dict[str, Any] = {}
    for key in keys:
        values = list(dict.fromkeys(result["provenance"].get(key) for result in results.values()))
        merged[key] = values[0] if len(values) == 1 else values or None
    return merged
