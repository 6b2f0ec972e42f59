"""The numbers of a study, setting by setting and arm by arm, with the verdict: what stands in summary.json."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from durm._text import as_csv
from durm.metrics import describe_metric
from durm.statistics.verdict import Comparison
from durm.study.across import summarize_across
from durm.study.arm import AXES, BY_ARM, Arm
from durm.study.arm_results import ArmResults, Evidence, Outcomes, SettingKey, describe, values_of
from durm.study.base import Key
from durm.study.code_study import CodeStudy
from durm.study.code_summary import summarize_code
from durm.study.config import DERIVED, Study
from durm.study.costs import run_costs, summarize_cost, summarize_provenance, with_cost_ratio
from durm.study.notes import warnings_of
from durm.study.pairing import runs_on_other_data
from durm.study.probes import probed
from durm.study.records import (
    SCHEMA_VERSION,
    ArmSummary,
    ArmValues,
    Group,
    SecondaryMetric,
    Setting,
    Summary,
)
from durm.study.robustness import robustness
from durm.study.search import draw_name
from durm.study.selection import runs_that_count, search_summary, searched_values, select_draws
from durm.study.store import Store
from durm.training.result import Result

Results = Mapping[Key, Result]
OUTCOMES_KEPT = 256
"""Runs whose outcomes are held in memory at a time."""


def read_results(store: Store) -> dict[Key, Result]:
    """The results of all trials that are done, with how attacks transfer if that was measured."""
    found = {}
    for key, trial in store.study.cells():
        if (result := store.result(trial)) is not None:
            found[key] = result.model_copy(update={"transfer": store.transfer(trial)})
    return found


def write_summary(store: Store, results: Results) -> Summary:
    """Summarises what is done, and keeps it as summary.json, and the rows as results.csv, in the study's folder."""
    summary = summarize_store(store, results, store.looked_at(), store.looked_at("draws_looked_at"))
    store.keep_summary(summary, tables_of_runs(summary, results))
    return summary


def tables_of_runs(summary: Summary, results: Results) -> dict[str, str]:
    """results.csv: a row for each run that counts. With a search draws.csv too: a row for each draw."""
    draws = {} if summary.search is None else {"draws.csv": rows(results, summary.metric)}
    return {"results.csv": rows(runs_that_count(summary, results), summary.metric), **draws}


def summarize_store(
    store: Store, results: Results, looked_at: Sequence[int], draws_looked_at: Sequence[int] = ()
) -> Summary:
    """What the results in a folder say, with the outcomes of test samples and the runs that are lost."""
    study, trials = store.study, dict(store.study.cells())
    lost = {key: reason for key, trial in trials.items() if (reason := store.lost(trial)) is not None}
    if isinstance(study, CodeStudy):
        return summarize_code(study, results, looked_at, lost)
    assert isinstance(study, Study)

    @lru_cache(OUTCOMES_KEPT)
    def read_outcomes(key: Key) -> Outcomes | None:
        return store.outcomes(trials[key])

    return summarize(study, results, looked_at, lost, read_outcomes, draws_looked_at)


def rows(results: Results, metric: str) -> str:
    """One line for each trial, as CSV: its value, which `durm verdict` can judge, and what else was measured."""
    lines: list[dict[str, Any]] = []
    for (data, model, method, arm, seed), result in results.items():
        measured = {**result.metrics, **{f"val_{name}": value for name, value in result.val.items()}}
        if metric not in result.metrics:
            continue
        lines.append(
            {
                **({} if data == model == method == BY_ARM else {"setting": f"{data} {model} {method}"}),
                **{"arm": arm, "seed": seed, "value": result.metrics[metric]},
                **measured,
                **{"seconds": result.cost.seconds, "steps": result.cost.steps, "trial": result.trial},
                **({"weights_sha256": result.weights_sha256} if result.weights_sha256 else {}),
            }
        )
    return as_csv(lines)


def summarize(
    study: Study,
    results: Results,
    looked_at: Sequence[int] = (),
    lost: Mapping[Key, str] | None = None,
    read_outcomes: Callable[[Key], Outcomes | None] = lambda key: None,
    draws_looked_at: Sequence[int] = (),
) -> Summary:
    """What the results say. Values are unrounded; numbers that are not defined are None.

    Args:
        study: what was planned.
        results: of the trials that are done.
        looked_at: the numbers of seeds at which a summary was made before.
        lost: the trials that failed for good, with the reason.
        read_outcomes: what a run made of each test sample.
        draws_looked_at: the numbers of draws at which a summary was made before.
    """
    runs = {key: trial.id for key, trial in study.cells()}
    apart = {*runs_on_other_data(study, results)}
    paired = {key: result for key, result in results.items() if key not in apart}
    selection = select_draws(study, paired, lost or {})
    analysed = _pairs(study, selection.results if study.search else results) > 1
    sizes = sorted({*looked_at, *([len(study.seeds)] if analysed else [])})
    draws = sorted({*draws_looked_at, *([study.search.draws] if study.search and analysed else [])})
    evidence = Evidence(
        study,
        selection.results,
        selection.lost,
        lambda key: read_outcomes(selection.run_of(key)),
        analyses=max(1, len(sizes) + max(0, len(draws) - 1)),
        draws=selection.draws,
    )
    settings = [_setting(evidence, setting) for setting in study.setting_names]
    averages = _averages(evidence)
    metric = describe_metric(study.metric, study.task)
    summary = Summary(
        schema_version=SCHEMA_VERSION,
        study=study.name,
        metric=study.metric,
        higher_is_better=metric.higher_is_better,
        rope=study.rope,
        select=study.select,
        max_seeds=study.max_seeds,
        settings=settings,
        averages=averages,
        across=summarize_across(averages or settings, metric, study.rope),
        trials=len({*runs.values()}),
        done=len({runs[key] for key in results if key in runs}),
        lost=len({runs[key] for key in lost or {}}),
        looked_at=sizes,
        search=search_summary(study, draws),
        cost=summarize_cost(results),
        provenance=summarize_provenance(results),
    )
    return summary.model_copy(update={"warnings": warnings_of(summary, study, results)})


def _pairs(study: Study, results: Results) -> int:
    """The most seeds that an arm other than a baseline has."""
    done: dict[tuple[SettingKey, str], int] = {}
    for data, model, method, arm, _ in results:
        place = (data, model, method), arm
        done[place] = done.get(place, 0) + 1
    return max(
        (count for (setting, arm), count in done.items() if arm in [*study.arms_of(setting)][1:]),
        default=0,
    )


def _setting(evidence: Evidence, setting: SettingKey) -> Setting:
    study = evidence.study
    named, null_arms = study.arms_of(setting), study.null_arms_of(setting)
    arms = {name: evidence.arm(setting, name) for name in named}
    chosen = _chosen_on_validation(named, arms, study.validation_metric)
    derived = {seed: arms[name][seed] for seed, name in chosen.items()}
    null = {name: evidence.arm(setting, name) for name in null_arms}
    baseline, *others = named
    every = {**arms, DERIVED: derived, **null}
    values = {arm: values_of(found, study.metric) for arm, found in every.items()}

    def judged(*family: tuple[str, str]) -> list[Comparison]:
        return [
            with_cost_ratio(one, every, "seconds_per_step")
            for one in evidence.compare(setting, family, values, study.metric)
        ]

    def drawn(name: str) -> dict[str, Any]:
        found = {str(key[4]): number for key, number in evidence.draws.items() if key[:4] == (*setting, name)}
        chosen = {seed: draw_name(name, number) for seed, number in found.items()}
        return {"chosen": chosen, "searched": searched_values(study, name, setting, found)} if found else {}

    return Setting(
        setting={axis: name for axis, name in zip(AXES, setting, strict=True) if name != BY_ARM},
        arms=[_arm(name, arm.dummies, arms[name], study.metric, **drawn(name)) for name, arm in named.items()],
        comparisons=judged(*((name, baseline) for name in others)),
        secondary=[_secondary(evidence, setting, arms, metric) for metric in study.secondary],
        robustness=robustness(evidence, setting, arms),
        classes=_classes(arms),
        probes=probed(study, arms, study.validation_metric),
        derived=Group(
            arms=[_arm(DERIVED, None, derived, study.metric, chosen)] if chosen else [],
            comparisons=[_not_judged(one) for one in judged((DERIVED, baseline))] if chosen else [],
        ),
        null_control=Group(
            arms=[
                _arm(name, named[of].dummies, null[name], study.metric, **drawn(name)) for name, of in null_arms.items()
            ],
            comparisons=judged(*null_arms.items()),
        ),
    )


def _not_judged(comparison: Comparison) -> Comparison:
    """Without a word: it is the best of several against one, and selection alone makes that one look better."""
    return replace(comparison, verdict=None, reason="the best of several arms on validation is not judged")


def _secondary(evidence: Evidence, setting: SettingKey, arms: Mapping[str, ArmResults], metric: str) -> SecondaryMetric:
    """A further metric, with its own margin, interval and word."""
    baseline, *others = arms
    values = {arm: values_of(found, metric) for arm, found in arms.items()}
    rope = describe_metric(metric, evidence.study.task).rope or 0.0
    return SecondaryMetric(
        metric=metric,
        rope=rope,
        arms=[ArmValues(arm=arm, **describe(found)) for arm, found in values.items()],
        comparisons=evidence.compare(setting, [(name, baseline) for name in others], values, metric, rope),
    )


def _classes(arms: Mapping[str, ArmResults]) -> dict[str, dict[str, dict[str, float]]]:
    """Of segmentation, for each arm and seed: the IoU of every class, and `miou`. Arms that are not done are empty."""
    if not any("miou" in result.metrics for found in arms.values() for result in found.values()):
        return {}
    return {arm: {seed: _ious(result) for seed, result in found.items()} for arm, found in arms.items()}


def _ious(result: Result) -> dict[str, float]:
    values = zip(result.class_names, result.classes["iou"], strict=True)
    return {f"iou_{name}": value for name, value in values if value is not None} | {"miou": result.metrics["miou"]}


def _averages(evidence: Evidence) -> list[Setting]:
    """For data with domains: each model and method, with the mean over the held-out domains as the value of a seed.

    Only seeds that have all domains count.
    """
    study, results = evidence.study, evidence.results
    held_out = {data: result.held_out for (data, *_), result in results.items()}
    families: dict[str, dict[str, str]] = {}
    for data in study.data:
        if (domain := held_out.get(data)) is not None:
            families.setdefault(data.removesuffix(f":{domain}"), {})[domain] = data
    averages = []
    for family, domains in families.items():
        pooled = dict(results)
        for data, model, method, arm, seed in results:
            every = [results.get((name, model, method, arm, seed)) for name in domains.values()]
            found = [result for result in every if result is not None]
            if data == next(iter(domains.values())) and len(found) == len(domains):
                pooled[(family, model, method, arm, seed)] = _mean_result(found)
        for model, method in dict.fromkeys((model, method) for _, model, method in study.setting_names):
            places = [(name, model, method) for name in domains.values()]
            of_family = replace(evidence, results=pooled, domains={(family, model, method): places})
            average = _setting(of_family, (family, model, method))
            averages.append(average.model_copy(update={"domains": list(domains)}))
    return averages


def _mean_result(results: Sequence[Result]) -> Result:
    """The mean over domains of what is a number; what is not is left out."""
    first = results[0]
    means = {part: _mean([getattr(result, part) for result in results]) for part in _MEASURED}
    cost = first.cost.model_copy(update=_mean([dict(result.cost) for result in results]))
    left_out: dict[str, Any] = {
        "robustness": {},
        "classes": {},
        "curves": [],
        "probes": {},
        "transfer": {},
        "averaging": {},
    }
    return first.model_copy(update={**means, "cost": cost, **left_out})


_MEASURED = ("metrics", "val", "train", "selections")


def _mean(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {key: statistics.fmean(values[key] for values in several) for key in several[0]}


_SHOWN = ("balanced_accuracy", "nll", "ece", "ece_all", "dummy_mass", "dummy_hits")


def _arm(
    name: str,
    dummies: int | None,
    found: ArmResults,
    metric: str,
    chosen: Mapping[str, str] | None = None,
    searched: Mapping[str, dict[str, Any]] | None = None,
) -> ArmSummary:
    values, results = values_of(found, metric), list(found.values())

    def mean(take: Callable[[Result], float]) -> float | None:
        return statistics.fmean(map(take, results)) if results else None

    def mean_metric(key: str) -> float | None:
        return mean(lambda result: result.metrics[key]) if all(key in result.metrics for result in results) else None

    first = results[0] if results else None
    return ArmSummary(
        arm=name,
        dummies=None if "dummies" in (searched or ()) else dummies,
        **describe(values),
        **{key: mean_metric(key) for key in _SHOWN},
        groups={
            key.removeprefix("accuracy_"): mean_metric(key)
            for key in (first.metrics if first else {})
            if key.startswith("accuracy_")
        },
        selections=_mean([result.selections for result in results]) if results else {},
        averaging=_mean(averaged) if (averaged := [result.averaging for result in results if result.averaging]) else {},
        transfer=_mean(carried) if (carried := [result.transfer for result in results if result.transfer]) else {},
        train_accuracy=mean(lambda result: result.train["accuracy"]),
        val_accuracy=mean(lambda result: result.val["accuracy"]),
        seconds_per_step=mean(lambda result: result.cost.seconds_per_step),
        parameters=mean(lambda result: result.cost.parameters),
        **run_costs(results),
        chosen=dict(chosen or {}),
        searched=dict(searched or {}),
    )


def _chosen_on_validation(arms: Mapping[str, Arm], results: Mapping[str, ArmResults], metric: str) -> dict[str, str]:
    """For each seed that all plain DuRM arms have, the one that is best on validation, the first of equals."""
    candidates = [name for name, arm in arms.items() if arm.counts_dummies_only]
    if len(candidates) < 2:
        return {}
    seeds = [seed for seed in results[candidates[0]] if all(seed in results[name] for name in candidates)]
    best = describe_metric(metric).best
    return {seed: best({name: results[name][seed].val[metric] for name in candidates}) for seed in seeds}
