"""What is measured for each kind of claim: from evidence to a finding. None where no study speaks to it.

Settings are chosen by their properties, arms by what they change. Of several numbers of dummies the mean is taken, seed
by seed: the best of them would be chosen by the test score.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from durm._text import pluralize
from durm.replication.every_setting import wins
from durm.replication.finding import Criterion, Finding, Part, Verdict
from durm.replication.mean_effect import EffectEstimate, OneSetting, Values, common, independent, mean_by_seed
from durm.replication.meta_analysis import combine, with_unit
from durm.replication.resolution import level, sample_variance, step
from durm.replication.study_index import Evidence, Pair, Setting
from durm.report.text import bounds
from durm.statistics.hypothesis_tests import holm, log_variance_ratio_pseudo_values, pitman_morgan
from durm.statistics.intervals import ALPHA, SampleVariance, fewest_pairs

CLASSES = r"(?:^|:)subset:(?:[^:]*,)?classes=(\d+)"
"""The number of classes, found in the name of the data."""
RELATIVE_ROPE = 1.0
"""Percent: less of a change in a gradient, a curvature or a time is within the equivalence margin."""
DISTANCE_ROPE = 5.0
"""Percent: what cannot be distinguished in a figure."""
VARIANCE_ROPE = 10.0
"""Percent of a variance over seeds."""
SHARE_ROPE = 0.1
"""Percent of the samples, or of the probability."""
CORRELATION_ROPE = 0.1
"""A correlation as small as this is within the equivalence margin."""
FRACTION_ROPE = 10.0
"""Percent of a dummy's equal share of the gradient."""

Measure = Callable[[Evidence, Criterion], Finding | None]
Choose = Callable[[Setting], bool]
ChoosePair = Callable[[Setting, Pair], bool]
Level = tuple[float, tuple[str, ...]]
"""A level of something, and what settings must have in common to be compared over it."""


def over_settings(say: Callable[[Setting], Iterable[EffectEstimate]], note: str = "") -> Measure:
    """The mean over all settings of what `say` says of each; `note` is added to the reading."""

    def measure(evidence: Evidence, criterion: Criterion) -> Finding | None:
        return combine([one for setting in evidence.settings for one in say(setting)], criterion, note)

    return measure


# Which settings, and which arms.


def is_plain(setting: Setting) -> bool:
    """Classification as in Table 1: ERM, balanced data of one domain, no averaging of weights."""
    return setting.method == "erm" and not (setting.has_domains or setting.is_segmentation or setting.imbalance)


def is_trained_on_attacks(setting: Setting) -> bool:
    return setting.objective in ("fgsm-at", "pgd-at")


def is_regularizable(setting: Setting) -> bool:
    """Classification as in Table 7, of which the method may be one of its rows."""
    special = setting.has_domains or setting.is_segmentation or setting.imbalance or is_trained_on_attacks(setting)
    return not special


def any_pair(setting: Setting, pair: Pair) -> bool:
    return True


def is_plain_pair(setting: Setting, pair: Pair) -> bool:
    return not {"early stop", "label smoothing"} & {*setting.regularizers(pair[1])}


def is_regularized(setting: Setting, pair: Pair) -> bool:
    return bool(setting.regularizers(pair[1]))


# A gain in what the tables have.


def gain(choose: Choose, choose_pair: ChoosePair = any_pair) -> Measure:
    """Accuracy, or mean IoU, with dummies minus without."""
    return lambda evidence, criterion: combine([*_gains(evidence, choose, choose_pair)], criterion)


def robust_gain(choose: Choose, kinds: Sequence[str]) -> Measure:
    """Accuracy under attacks of these kinds through the real logits, with dummies minus without."""
    return lambda evidence, criterion: combine([*_robust_gains(evidence, choose, kinds)], criterion)


def share_of_wins(evidence: Evidence, criterion: Criterion) -> Finding | None:
    """In how many settings of all tasks DuRM is ahead."""
    ordinary = [*_gains(evidence, is_plain, is_plain_pair)]
    others = [
        *_gains(evidence, lambda setting: setting.is_segmentation or setting.has_domains or bool(setting.imbalance)),
        *_robust_gains(evidence, lambda setting: True, ("fgsm", "pgd")),
    ]
    return wins([*ordinary, *others], criterion, len(ordinary))


def _gains(evidence: Evidence, choose: Choose, choose_pair: ChoosePair = any_pair) -> Iterator[EffectEstimate]:
    for setting in filter(choose, evidence.settings):
        yield _gain(setting, [pair for pair in setting.pairs() if choose_pair(setting, pair)], setting.metric)


def _robust_gains(evidence: Evidence, choose: Choose, kinds: Sequence[str]) -> Iterator[EffectEstimate]:
    for setting in filter(choose, evidence.settings):
        for attack in setting.spec.attacks:
            if attack.kind in kinds and "real" in attack.through:
                found = _gain(setting, setting.pairs(), f"robust_{attack.label}_real", f", {attack.label}")
                yield replace(found, group=attacked_group(setting))


def attacked_group(setting: Setting) -> str:
    """The runs of a setting are the same ones under each attack."""
    return f"{setting.name}, mean over attacks"


def typical_spread(evidence: Evidence) -> float | None:
    """The median over all settings of the standard deviation of the gain: what a study that is planned may expect."""
    gains = [_gain(setting, setting.pairs(), setting.metric) for setting in evidence.settings]
    spreads = [one.spread for one in gains if len(one.values) > 1]
    return float(np.median(spreads)) if spreads else None


# Where the gain is larger.


def trend(level: str, *, downwards: bool = False) -> Measure:
    """How much the gain changes from the lowest level of something to the highest; `downwards` the other way round.

    Settings of one study that differ in that level alone are compared seed by seed. `level` is the pattern whose group
    finds it in the name of the data.
    """

    def measure(evidence: Evidence, criterion: Criterion) -> Finding | None:
        changes = []
        for settings in _by_level(evidence, lambda setting: data_level(setting, level)):
            gains = {at: _gain(one, one.pairs(), one.metric) for at, one in settings.items()}
            weights = slope_weights(gains)
            values = {
                seed: (-1 if downwards else 1) * sum(weights[at] * gains[at].values[seed] for at in gains)
                for seed in common([gain.values for gain in gains.values()])
            }
            what = f"{settings[min(settings)].name}, from {min(settings):g} to {max(settings):g}"
            changes.append(_contrast(gains, weights, values, what))
        return combine(changes, criterion)

    return measure


def over_fitting(level: Callable[[Setting], Level | None]) -> Measure:
    """The gain where the baseline overfits most minus the gain where it overfits least, of settings of one study.

    Over-fitting is the accuracy on the training set minus that on the test set.
    """

    def measure(evidence: Evidence, criterion: Criterion) -> Finding | None:
        changes = []
        for settings in _by_level(evidence, level):
            gaps = {at: gap for at, setting in settings.items() if (gap := _generalization_gap(setting)) is not None}
            if len(gaps) > 1:
                ends = [min(gaps, key=lambda at: gaps[at]), max(gaps, key=lambda at: gaps[at])]
                gains = {at: _gain(settings[at], settings[at].pairs(), settings[at].metric) for at in ends}
                values = difference(gains[ends[1]].values, gains[ends[0]].values)
                what = f"{settings[ends[1]].name} minus {settings[ends[0]].name}"
                changes.append(_contrast(gains, {ends[0]: -1.0, ends[1]: 1.0}, values, what))
        return combine(changes, criterion)

    return measure


def data_level(setting: Setting, pattern: str) -> Level | None:
    """What the pattern's group finds in the name of the data, and all else that the setting is."""
    if (found := re.search(pattern, setting.data)) is None or setting.has_domains:
        return None
    data = setting.data[: found.start(1)], setting.data[found.end(1) :]
    return float(found[1]), (setting.study, *data, setting.model, setting.method)


def model_level(setting: Setting) -> Level | None:
    """The parameters of the model without dummies, and all else that the setting is."""
    parameters = next((arm.parameters for arm in setting.summary.arms if arm.dummies == 0), None)
    if parameters is None or setting.has_domains:
        return None
    return parameters, (setting.study, setting.data, setting.method)


def _by_level(evidence: Evidence, level: Callable[[Setting], Level | None]) -> list[dict[float, Setting]]:
    """Settings of one study that differ in their level alone; two levels or more."""
    groups: dict[tuple[str, ...], dict[float, Setting]] = {}
    for setting in evidence.settings:
        if (found := level(setting)) is not None and setting.pairs():
            groups.setdefault(found[1], {})[found[0]] = setting
    return [settings for settings in groups.values() if len(settings) > 1]


def _generalization_gap(setting: Setting) -> float | None:
    baseline = setting.pairs()[0][1].name
    train = next((arm.train_accuracy for arm in setting.summary.arms if arm.arm == baseline), None)
    test = [*setting.values(baseline, "accuracy").values()]
    return train - float(np.mean(test)) if train is not None and test else None


def _contrast(
    gains: Mapping[float, EffectEstimate], weights: Mapping[float, float], values: Values, what: str
) -> EffectEstimate:
    """Σ w · gain as one estimate; its steps add up like independent errors."""
    first = next(iter(gains.values()))
    runs = {seed: frozenset().union(*(gain.runs[seed] for gain in gains.values())) for seed in values}
    step = math.sqrt(sum((weights[at] * gain.step) ** 2 for at, gain in gains.items()))
    return EffectEstimate(first.studies, what, values, first.level, runs, step)


def slope_weights(levels: Iterable[float]) -> dict[float, float]:
    """The weights whose sum over the values is their change from the lowest level to the highest, by least squares.

    Over x = log(level): w = (x − x̄) · range(x)/Σ(x − x̄)².

    Examples:
        >>> slope_weights([1.0, 10.0])
        {1.0: -1.0, 10.0: 1.0}
    """
    places = sorted(levels)
    centred = np.log(places) - np.mean(np.log(places))
    return dict(zip(places, (centred * np.ptp(centred) / (centred**2).sum()).tolist(), strict=True))


@over_settings
def tail_over_head(setting: Setting) -> Iterator[EffectEstimate]:
    """The gain in the tail minus that in the head of long-tailed data; of small data, whose most frequent classes are
    medium by their number of samples, these are the head.
    """
    pairs = setting.pairs()
    head_name = next((name for name in ("head", "medium") if f"accuracy_{name}" in setting.metrics), "head")
    tail, head = (_gain(setting, pairs, f"accuracy_{name}") for name in ("tail", head_name))
    values = difference(tail.values, head.values)
    how = ", against medium classes" if head_name == "medium" else ""
    yield estimate(setting, values, arms_of_pairs(pairs), how, math.hypot(tail.step, head.step))


@over_settings
def hard_over_easy(setting: Setting) -> Iterator[EffectEstimate]:
    """The gain in the IoU of the harder half of the classes minus that of the others."""
    pairs = setting.pairs()
    classes = [name for name in setting.metrics if name.startswith("iou_")]
    if pairs and len(classes) > 1:
        gains = {name: _gain(setting, pairs, name).values for name in classes}
        baseline = {name: setting.values(pairs[0][1].name, name) for name in classes}
        values = {seed: _hard_minus_easy(seed, gains, baseline) for seed in common(gains.values())}
        yield estimate(setting, values if len(values) > 1 else {}, arms_of_pairs(pairs))


def _hard_minus_easy(seed: str, gains: Mapping[str, Values], baseline: Mapping[str, Values]) -> float:
    """Hard is what the baseline finds hard *in the other seeds*: what looks hard by chance would gain by chance."""
    usual = {name: np.mean([iou for other, iou in of.items() if other != seed]) for name, of in baseline.items()}
    order = sorted(usual, key=lambda name: usual[name])
    hard, easy = order[: len(order) // 2], order[len(order) // 2 :]
    return float(np.mean([gains[name][seed] for name in hard]) - np.mean([gains[name][seed] for name in easy]))


# The number of dummies, the spread over seeds, the cost.


@over_settings
def number_of_dummies(setting: Setting) -> Iterator[EffectEstimate]:
    """By how much the result changes from the fewest dummies to the most."""
    arms = {float(arm.dummies): arm.name for arm in setting.arms if arm.counts_dummies_only}
    if len(arms) > 1:
        weights = slope_weights(arms)
        values = {dummies: setting.values(name, setting.metric) for dummies, name in arms.items()}
        changes = {
            seed: sum(weights[dummies] * values[dummies][seed] for dummies in arms) for seed in common(values.values())
        }
        rounding = step(setting, setting.metric) * math.sqrt(sum(w**2 for w in weights.values()) / 2)
        how = f", C_d {min(arms):g} to {max(arms):g}"
        one = estimate(setting, changes, [*arms.values()], step=rounding)  # without `how`: a run counts once
        yield replace(one, what=f"{one.what}{how}")


def spread_over_seeds(evidence: Evidence, criterion: Criterion) -> Finding | None:
    """The variance over seeds with dummies, relative to that without: its logarithm, in pseudo-values of the jackknife.

    So a setting weighs as much as its seeds can tell of a variance. Of the single comparisons, Pitman and Morgan's test
    is shown.
    """
    found: list[EffectEstimate] = []
    tests: dict[tuple[object, str], tuple[float, float]] = {}
    for setting in evidence.settings:
        for ours, theirs in setting.pairs():
            values = [setting.values(arm.name, setting.metric) for arm in (ours, theirs)]
            seeds = common(values)
            arrays = [np.array([one[seed] for seed in seeds], float) for one in values]
            ratio, p = pitman_morgan(*arrays)
            pseudo = log_variance_ratio_pseudo_values(*arrays) if len(seeds) >= fewest_pairs(ALPHA) else None
            if ratio is not None and p is not None and pseudo is not None:
                changes = dict(zip(seeds, pseudo.tolist(), strict=True))
                one = estimate(setting, changes, [ours.name], f", {ours.name}")
                found.append(replace(one, group=setting.name))
                tests[one.studies, one.what] = ratio, p
    counted = [(one, *tests[one.studies, one.what]) for one in independent(found)]
    parts: list[Part] = []
    for (one, ratio, _), p in zip(counted, holm([p for *_, p in counted]), strict=True):
        word = "undecided" if p is None or p >= ALPHA else "lower" if ratio < 1 else "higher"
        parts.append(Part(one.what, one.studies, len(one.values), 100 * (ratio - 1), None, word))
    words = [part.word for part in parts]
    note = (
        "Pitman and Morgan's test, corrected by Holm, finds the variance lower in "
        f"{words.count('lower')} and higher in {words.count('higher')} of {pluralize(len(parts), 'comparison')}."
    )
    combined = combine(found, criterion, note)
    return combined and replace(combined, parts=tuple(parts))


def cost(evidence: Evidence, criterion: Criterion) -> Finding | None:
    """How much longer a training step takes.

    By interleaved timings, where there are any: a trial shares its machine with others, and is no measurement of 1 %.
    """
    if not evidence.benchmarks:
        return combine([_step_time(setting) for setting in evidence.settings], criterion)
    verdicts: list[Verdict] = []
    for case in evidence.benchmarks:
        low, high = map(math.log, case.interval)
        verdicts.append(criterion.verdict(OneSetting(math.log(case.ratio), (low, high), case.pairs)))
    worst = max(evidence.benchmarks, key=lambda case: case.interval[1])
    effect, low, high = (100 * (ratio - 1) for ratio in (worst.ratio, *worst.interval))
    return Finding(
        verdict="does not hold" if "does not hold" in verdicts else "undecided" if "undecided" in verdicts else "holds",
        reading=(
            f"Of {pluralize(len(verdicts), 'interleaved timing')}, {verdicts.count('holds')} lie below "
            f"{with_unit(criterion.margin, '%', 0)} with their whole interval; the one that reaches highest is "
            f"“{worst.case}”: {with_unit(effect, '%', 1)} ({bounds((low, high), 1)}, {worst.pairs} pairs)."
        ),
        effect=effect,
        interval=(low, high),
        n=worst.pairs,
        counted="timing",
        unit="%",
        settings=len(verdicts),
        studies=tuple(dict.fromkeys(case.file for case in evidence.benchmarks)),
    )


def _step_time(setting: Setting) -> EffectEstimate:
    ratios = []
    for pair in setting.pairs():
        ours, theirs = ([setting.values(arm.name, name) for name in ("seconds", "steps")] for arm in pair)
        seeds = common([*ours, *theirs])
        ratios.append({s: math.log(ours[0][s] / ours[1][s] * theirs[1][s] / theirs[0][s]) for s in seeds})
    return estimate(setting, mean_by_seed(ratios), arms_of_pairs(setting.pairs()))


# Helpers.


def _gain(setting: Setting, pairs: Sequence[Pair], metric: str, how: str = "") -> EffectEstimate:
    """With dummies minus without: the mean over the pairs."""
    gains = [difference(*(setting.values(arm.name, metric) for arm in pair)) for pair in pairs]
    samples = sample_variance(setting, pairs, metric)
    return estimate(setting, mean_by_seed(gains), arms_of_pairs(pairs), how, step(setting, metric), samples)


def estimate(
    setting: Setting,
    values: Values,
    arms: Sequence[str],
    how: str = "",
    step: float = 0.0,
    samples: SampleVariance | None = None,
) -> EffectEstimate:
    runs = {seed: frozenset((how, run) for run in setting.runs(arms, seed)) for seed in values}
    return EffectEstimate((setting.study,), f"{setting.name}{how}", values, level(setting), runs, step, samples)


def arms_of_pairs(pairs: Iterable[Pair]) -> list[str]:
    return [arm.name for pair in pairs for arm in pair]


def difference(ours: Values, theirs: Values) -> dict[str, float]:
    return {seed: ours[seed] - theirs[seed] for seed in common([ours, theirs])}
