"""What a reader has to know before believing the verdict of a study."""

from collections.abc import Iterator, Mapping

from durm._text import pluralize, some
from durm.metrics import describe_metric
from durm.statistics.intervals import fewest_pairs
from durm.study.base import Key
from durm.study.config import Study
from durm.study.pairing import runs_on_other_data, without_record
from durm.study.records import Setting, Summary
from durm.study.robustness import masked
from durm.study.selection import at_an_edge, runs_judged
from durm.study.training_warnings import collapsed, without_effect
from durm.training.result import Result


def warnings_of(summary: Summary, study: Study, results: Mapping[Key, Result]) -> list[str]:
    judged = runs_judged(summary, results)
    return [
        *_missing(summary),
        *_other_data(study, results),
        *collapsed(study, results, judged),  # of the first, which a short answer has
        *_added_seeds(summary),
        *_few_pairs(summary),
        *_coarse(summary, results),
        *_seeds_only(summary, results),
        *_conditions(summary),
        *without_effect({key: result for key, result in results.items() if key in judged}),
        *_differences(summary),
        *masked(study, summary.settings),
        *at_an_edge(study, summary),
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
            "lost. "
            + (
                "An arm has a word only if it would be the same with each lost run at the worst value of any arm."
                if summary.search is None
                else "A draw that failed is not selected; its arm is the best of the others."
            )
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
    if summary.max_seeds is None and summary.analyses > 1:
        draws = summary.search.draws_looked_at if summary.search else []
        added = {what: sizes for what, sizes in (("seeds", summary.looked_at), ("draws", draws)) if len(sizes) > 1}
        at = " and ".join(f"{', '.join(map(str, sizes))} {what}" for what, sizes in added.items())
        yield (
            f"{' and '.join(added).capitalize()} were added after a verdict had been seen (at {at}), so "
            f"this analysis has the level of number {summary.analyses} in a series, 6α/(πk)², and its interval "
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


def _differences(summary: Summary) -> Iterator[str]:
    for setting in summary.settings:
        for comparison in setting.comparisons:
            for text in comparison.warnings:
                yield f"{_place(comparison.arm, setting, summary)}: {text}."


def _place(arm: str, setting: Setting, summary: Summary) -> str:
    return f"{arm} ({', '.join(setting.names)})" if len(summary.settings) > 1 else arm
