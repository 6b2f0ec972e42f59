"""What a reader has to know before believing the verdict of a study."""

from collections.abc import Iterator, Mapping

from durm._text import pluralize, some
from durm.metrics import describe_metric
from durm.statistics.intervals import fewest_pairs
from durm.study.arm import BY_ARM
from durm.study.base import Key
from durm.study.config import Study
from durm.study.pairing import runs_on_other_data, without_record
from durm.study.records import Setting, Summary
from durm.study.robustness import masked
from durm.training.result import Result

COLLAPSE = 10
"""Points of validation accuracy that a sound training does not lose."""


def warnings_of(summary: Summary, study: Study, results: Mapping[Key, Result]) -> list[str]:
    return [
        *_missing(summary),
        *_other_data(study, results),
        *_added_seeds(summary),
        *_few_pairs(summary),
        *_coarse(summary, results),
        *_seeds_only(summary, results),
        *_conditions(summary),
        *_collapsed(study, results),
        *_without_effect(study, results),
        *_differences(summary),
        *masked(study, summary.settings),
    ]


def study_warnings(summary: Summary) -> list[str]:
    """Those that need the summary alone."""
    return [
        *_missing(summary),
        *_added_seeds(summary),
        *_few_pairs(summary),
        *_conditions(summary),
        *_differences(summary),
    ]


def _missing(summary: Summary) -> Iterator[str]:
    missing = summary.trials - summary.done - summary.lost
    if missing:
        yield (
            f"{missing} of {summary.trials} trials are not done yet. Seeds that lack one of two arms are left out of "
            "their comparison."
        )
    if summary.lost:
        yield (
            f"{pluralize(summary.lost, 'run')} of {summary.trials} failed and {'is' if summary.lost == 1 else 'are'} "
            "lost. An arm has a word only if it would be the same with each lost run at the worst value of any arm."
        )


def _other_data(study: Study, results: Mapping[Key, Result]) -> Iterator[str]:
    if apart := runs_on_other_data(study, results):
        runs = [f"{arm} seed {seed} ({data})" for data, _, _, arm, seed in apart]
        yield (
            f"{pluralize(len(apart), 'run')} saw other data than the baseline of the same seed and "
            f"{'is' if len(apart) == 1 else 'are'} left out: {some(runs)}."
        )
    if count := without_record(results):
        yield (
            f"{count} of {len(results)} runs were done before the content of the data was recorded. They are compared "
            "by their old fingerprint only."
        )


def _added_seeds(summary: Summary) -> Iterator[str]:
    if summary.max_seeds is None and len(summary.looked_at) > 1:
        yield (
            f"Seeds were added after a verdict had been seen (at {', '.join(map(str, summary.looked_at))} seeds), so "
            f"this analysis has the level of number {len(summary.looked_at)} in a series, 6α/(πk)², and its interval "
            "is wider."
        )


def _few_pairs(summary: Summary) -> Iterator[str]:
    arms = max((len(setting.comparisons) for setting in summary.settings), default=0)
    pairs = max((c.n for setting in summary.settings for c in setting.comparisons), default=0)
    if arms and pairs < (fewest := fewest_pairs(arms=arms)):
        yield (
            f"{pluralize(pairs, 'pair')} of runs: too few for a word, which takes {fewest} for "
            f"{pluralize(arms, 'arm')}: even differences of one sign would be no surprise."
        )


def _coarse(summary: Summary, results: Mapping[Key, Result]) -> Iterator[str]:
    if describe_metric(summary.metric).resolution != "sample":
        return
    tests = {data: result.samples_of(summary.metric) for (data, *_), result in results.items()}
    coarse = sorted((data for data, count in tests.items() if 100 / count > summary.rope), key=lambda data: tests[data])
    if coarse:
        count, others = tests[coarse[0]], len(coarse) - 1
        further = f" and of {pluralize(others, 'other')}" if others else ""
        yield (
            f"One sample of the test set of {coarse[0]} ({count} samples){further} weighs {100 / count:.2g} points"
            f"{' or less' if others else ''}, more than the equivalence margin of ±{summary.rope:g}."
        )


def _seeds_only(summary: Summary, results: Mapping[Key, Result]) -> Iterator[str]:
    """Where the interval is not over test samples, though other samples of the same kind would matter too."""
    metric = summary.measured
    judged = [c for setting in summary.settings for c in setting.comparisons if c.n > 1]
    alone = [c for c in judged if c.over == "seeds"]
    if not alone:
        return
    if metric.per_sample is None and metric.of_confusion is None:
        reason = f"{metric.label} is not a mean over samples"
    elif any(result.test_sha256 is None for result in results.values()):
        reason = "these runs did not keep what they made of each test sample"
    elif len({result.test_sha256 for (data, *_), result in results.items() if data == next(iter(results))[0]}) > 1:
        reason = "the test set depends on the seed"
    else:
        reason = "not every run has outcomes of the same test samples"
    yield f"The intervals are over seeds, for this very test set, and not over other test samples: {reason}."


def _conditions(summary: Summary) -> Iterator[str]:
    if summary.provenance.mixed:
        yield f"Not all trials ran under the same conditions: {', '.join(summary.provenance.mixed)} differ."


def _collapsed(study: Study, results: Mapping[Key, Result]) -> Iterator[str]:
    """Runs that ended far below their own best validation, or below that of plain ERM under the same seed."""
    trials = {key: trial for key, trial in study.cells() if key in results}
    erm = {
        (trial.data, trial.model, trial.seed): _validation(results[key])
        for key, trial in trials.items()
        if trial.method_name == "erm" and not trial.dummies
    }
    found: dict[tuple[str, ...], list[tuple[float, str]]] = {}
    for key, trial in trials.items():
        value, best = _validation(results[key]), _best_validation(results[key])
        other = erm.get((trial.data, trial.model, trial.seed)) if trial.method_name != "erm" else None
        lost = max(best, value if other is None else other) - value
        if lost > COLLAPSE:
            of_erm = "" if other is None else f", erm's {other:.1f}"
            words = f"seed {trial.seed}: {value:.1f} at the end, its best {best:.1f}{of_erm}"
            found.setdefault(key[:4], []).append((lost, words))
    for (data, model, method, arm), runs in found.items():
        place = ", ".join(name for name in (data, model, method) if name != BY_ARM)
        yield (
            f"{arm} ({place}) collapsed: in {pluralize(len(runs), 'run')} the validation "
            f"{'accuracy' if study.task == 'classification' else 'mean IoU'} ended more than {COLLAPSE} points below its "
            f"own best, or below erm's of the same seed ({max(runs)[1]}). What is compared there is a failed training."
        )


def _validation(result: Result) -> float:
    return result.val.get("miou", result.val.get("accuracy", 0.0))


def _best_validation(result: Result) -> float:
    name = "val_miou" if "miou" in result.val else "val_accuracy"
    return max((entry[name] for entry in result.curves if name in entry), default=_validation(result))


def _without_effect(study: Study, results: Mapping[Key, Result]) -> Iterator[str]:
    found: dict[str, dict[str, int]] = {}
    for (_, _, method, arm, _), result in results.items():
        for sentence in result.warnings:
            runs = found.setdefault(sentence, {})
            name = arm if method in (BY_ARM, arm) else f"{arm} under {method}"
            runs[name] = runs.get(name, 0) + 1
    for sentence, runs in found.items():
        yield f"{sentence[0].upper()}{sentence[1:]} ({pluralize(sum(runs.values()), 'run')} of {some([*runs])})."


def _differences(summary: Summary) -> Iterator[str]:
    for setting in summary.settings:
        for comparison in setting.comparisons:
            for text in comparison.warnings:
                yield f"{_place(comparison.arm, setting, summary)}: {text}."


def _place(arm: str, setting: Setting, summary: Summary) -> str:
    return f"{arm} ({', '.join(setting.names)})" if len(summary.settings) > 1 else arm
