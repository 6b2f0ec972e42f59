"""What a study of a function or a command says: its numbers are judged as those of any table."""

from collections.abc import Mapping, Sequence

from durm._text import pluralize
from durm.errors import InputError, unknown
from durm.statistics.sequential import series_level
from durm.study.arm_results import describe
from durm.study.base import Key
from durm.study.code_study import CodeStudy
from durm.study.costs import run_costs, summarize_cost, summarize_provenance, with_cost_ratio
from durm.study.notes import study_warnings
from durm.study.records import ArmValues, SecondaryMetric, Summary
from durm.study.run_table import RunTable, judge_table
from durm.training.result import Result

Results = Mapping[Key, Result]


def summarize_code(study: CodeStudy, results: Results, looked_at: Sequence[int], lost: Mapping[Key, str]) -> Summary:
    """The summary of a study whose trials give numbers and nothing else.

    Raises:
        InputError: if no metric is named and there are several, or none that is called so.
    """
    metric = find_metric_of(study, results)
    runs = {key: trial.id for key, trial in study.cells()}
    found = {key: result for key, result in results.items() if metric in result.metrics}
    pairs = max((sum(key[3] == arm.name for key in found) for arm in study.arms[1:]), default=0)
    sizes = sorted({*looked_at, *([len(study.seeds)] if pairs > 1 else [])})
    judged = _judge(study, found, metric, lost, len(sizes))
    setting = judged.settings[0]
    by_arm = {arm.name: {str(key[4]): one for key, one in found.items() if key[3] == arm.name} for arm in study.arms}
    setting = setting.model_copy(
        update={
            "arms": [arm.model_copy(update=run_costs(list(by_arm[arm.arm].values()))) for arm in setting.arms],
            "comparisons": [with_cost_ratio(one, by_arm, "cpu_seconds") for one in setting.comparisons],
            "secondary": [_secondary(study, results, name, lost, len(sizes)) for name in study.secondary],
        }
    )
    summary = judged.model_copy(
        update={
            "study": study.name,
            "max_seeds": study.max_seeds,
            "settings": [setting],
            "trials": len({*runs.values()}),
            "done": len({runs[key] for key in found if key in runs}),
            "lost": len({runs[key] for key in lost}),
            "looked_at": sizes,
            "cost": summarize_cost(found),
            "provenance": summarize_provenance(found),
        }
    )
    # What was assumed of the metric first; the warnings of each arm come again with those of a study.
    assumed = [text for text in judged.warnings if text.startswith("assumed")]
    warnings = [*assumed, *study_warnings(summary), *_mixed_code(found)]
    return summary.model_copy(update={"warnings": warnings})


def find_metric_of(study: CodeStudy, results: Results) -> str:
    """The metric that the verdict is about: that of the study, or the only one that the trials give."""
    names = list(dict.fromkeys(name for result in results.values() for name in result.metrics))
    if study.metric is not None:
        if names and study.metric not in names:
            raise unknown("metric", study.metric, names)
        return study.metric
    if len(names) > 1:
        raise InputError(
            f"the trials give {', '.join(names)}; say with `metric` which one the verdict is about, and run it again: "
            "what is done is kept"
        )
    return names[0] if names else "value"


def _judge(
    study: CodeStudy, results: Results, metric: str, lost: Mapping[Key, str], analyses: int, *, primary: bool = True
) -> Summary:
    values: dict[str, dict[str, float]] = {arm.name: {} for arm in study.arms}
    for (*_, arm, seed), result in results.items():
        values[arm][str(seed)] = result.metrics[metric]
    return judge_table(
        RunTable({"": values}),
        baseline=study.arms[0].name,
        metric=metric,
        rope=study.rope if primary else None,
        higher_is_better=study.higher_is_better if primary else None,
        resolution=study.resolution if primary else None,
        level=series_level(analyses) if analyses > 1 and study.max_seeds is None else None,
        plan=study.plan,
        lost={arm.name: [str(key[4]) for key in lost if key[3] == arm.name] for arm in study.arms},
    )


def _secondary(
    study: CodeStudy, results: Results, metric: str, lost: Mapping[Key, str], analyses: int
) -> SecondaryMetric:
    found = {key: result for key, result in results.items() if metric in result.metrics}
    if results and not found:
        raise unknown("secondary metric", metric, next(iter(results.values())).metrics)
    judged = _judge(study, found, metric, lost, analyses, primary=False)
    (setting,) = judged.settings
    arms = [ArmValues(arm=arm.arm, **describe(arm.values)) for arm in setting.arms]
    return SecondaryMetric(metric=metric, rope=judged.rope, arms=arms, comparisons=setting.comparisons)


def _mixed_code(results: Results) -> list[str]:
    versions = [result.provenance.code_sha256 for result in results.values()]
    if len({*versions}) < 2:
        return []
    others = len(versions) - versions.count(versions[-1])
    return [
        f"The code changed during the study, and that was accepted: {pluralize(others, 'run')} of {len(versions)} "
        "come from another version of it than the last."
    ]
