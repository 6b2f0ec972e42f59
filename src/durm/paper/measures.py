"""What is measured for each kind of claim: from evidence to a finding. None where no study speaks to it.

Settings are chosen by their properties, arms by what they change. Of several numbers of dummies the mean is taken, seed
by seed: the best of them would be chosen by the test score.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from durm._words import counted
from durm.paper.combining import Finding, Measurement, Part, Verdict, Wanted, Yardstick, combine, told, worst
from durm.paper.evidence import Evidence, Pair, Setting, into_dummies, other_overrides, probe_values
from durm.report.words import bounds
from durm.study.rules import ALPHA
from durm.study.spec import Arm
from durm.study.verdict import holm, pitman_morgan

RELATIVE_ROPE = 1.0
"""Percent: less of a change in a gradient, a curvature or a time counts as none."""
DISTANCE_ROPE = 5.0
"""Percent: what cannot be told apart in a figure."""
VARIANCE_ROPE = 10.0
"""Percent of a variance over seeds."""
SHARE_ROPE = 0.1
"""Percent of the samples, or of the probability."""
CORRELATION_ROPE = 0.1
"""A correlation as small as this counts as none."""
FRACTION_ROPE = 10.0
"""Percent of a dummy's equal share of the gradient."""

Measure = Callable[[Evidence], Finding | None]
Choose = Callable[[Setting], bool]
ChoosePair = Callable[[Setting, Pair], bool]
Values = Mapping[str, float]


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
    return lambda evidence: combine([*_gains(evidence, choose, choose_pair)], Yardstick("more"))


def robust_gain(choose: Choose, kinds: Sequence[str]) -> Measure:
    """Accuracy under attacks of these kinds through the real logits, with dummies minus without."""
    return lambda evidence: combine([*_robust_gains(evidence, choose, kinds)], Yardstick("more"))


def everywhere(evidence: Evidence) -> Finding | None:
    """Is every setting of every task better by itself? All of them are one family."""
    every = [
        *_gains(evidence, is_plain, is_plain_pair),
        *_gains(evidence, lambda setting: setting.is_segmentation or setting.has_domains or bool(setting.imbalance)),
        *_robust_gains(evidence, lambda setting: True, ("fgsm", "pgd")),
    ]
    found = combine(every, Yardstick("more"))
    if found is None:
        return None
    words = [part.word for part in found.parts]
    summed_up = ", ".join(f"{words.count(word)} {word}" for word in ("better", "worse", "equal", "undecided"))
    contradicted = "worse" in words or "equal" in words
    return replace(
        found,
        verdict="does not hold" if contradicted else "undecided" if "undecided" in words else "holds",
        reading=f"Of {counted(len(words), 'setting')}, corrected for their number: {summed_up}.",
        effect=100 * words.count("better") / len(words),
        interval=None,
        n=len(words),
        counted="setting",
        unit="% better",
        p=None,
    )


def _gains(evidence: Evidence, choose: Choose, choose_pair: ChoosePair = any_pair) -> Iterator[Measurement]:
    for setting in filter(choose, evidence.settings):
        yield _gain(setting, [pair for pair in setting.pairs() if choose_pair(setting, pair)], setting.metric)


def _robust_gains(evidence: Evidence, choose: Choose, kinds: Sequence[str]) -> Iterator[Measurement]:
    for setting in filter(choose, evidence.settings):
        for attack in setting.spec.attacks:
            if attack.kind in kinds and "real" in attack.through:
                yield _gain(setting, setting.pairs(), f"robust_{attack.label}_real", f", {attack.label}")


# Where the gain is larger.


def trend(level: str, *, downwards: bool = False) -> Measure:
    """How much the gain changes from the lowest level of something to the highest; `downwards` the other way round.

    Settings of one study that differ in that level alone are compared seed by seed. `level` is the pattern whose group
    finds it in the name of the data.
    """

    def measure(evidence: Evidence) -> Finding | None:
        groups: dict[tuple[str, ...], dict[float, Setting]] = {}
        for setting in evidence.settings:
            if (found := re.search(level, setting.data)) and not setting.has_domains:
                data = setting.data[: found.start(1)], setting.data[found.end(1) :]
                settings = groups.setdefault((setting.study, *data, setting.model, setting.method), {})
                settings[float(found[1])] = setting
        changes = []
        for settings in groups.values():
            lowest, highest = min(settings), max(settings)
            gains = {at: _gain(one, one.pairs(), one.metric) for at, one in settings.items()}
            values = change({at: gain.values for at, gain in gains.items()})
            changes.append(
                Measurement(
                    (settings[lowest].study,),
                    f"{settings[lowest].name}, from {lowest:g} to {highest:g}",
                    {seed: -value if downwards else value for seed, value in values.items()},
                    settings[lowest].looks,
                    {seed: frozenset().union(*(gain.runs[seed] for gain in gains.values())) for seed in values},
                )
            )
        return combine(changes, Yardstick("more"))

    return measure


def change(levels: Mapping[float, Values]) -> dict[str, float]:
    """For each seed, by how much values change from the lowest level to the highest: least squares over log(level).

    Examples:
        >>> round(change({1.0: {"0": 5.0}, 10.0: {"0": 6.0}})["0"], 6)
        1.0
    """
    if len(levels) < 2:
        return {}
    places = np.log(sorted(levels))
    return {
        seed: float(np.polyfit(places, [levels[at][seed] for at in sorted(levels)], 1)[0] * np.ptp(places))
        for seed in _common(levels.values())
    }


def tail_over_head(evidence: Evidence) -> Finding | None:
    """The gain in the tail minus that in the head of long-tailed data."""
    found = []
    for setting in evidence.settings:
        pairs = setting.pairs()
        tail, head = (_gain(setting, pairs, f"accuracy_{name}").values for name in ("tail", "head"))
        found.append(_measurement(setting, _difference(tail, head), _arms(pairs)))
    return combine(found, Yardstick("more"))


def hard_over_easy(evidence: Evidence) -> Finding | None:
    """The gain in the IoU of the harder half of the classes minus that of the others."""
    found = []
    for setting in evidence.settings:
        pairs = setting.pairs()
        classes = [name for name in setting.metrics if name.startswith("iou_")]
        if pairs and len(classes) > 1:
            gains = {name: _gain(setting, pairs, name).values for name in classes}
            baseline = {name: setting.values(pairs[0][1].name, name) for name in classes}
            values = {seed: _hard_minus_easy(seed, gains, baseline) for seed in _common(gains.values())}
            found.append(_measurement(setting, values if len(values) > 1 else {}, _arms(pairs)))
    return combine(found, Yardstick("more"))


def _hard_minus_easy(seed: str, gains: Mapping[str, Values], baseline: Mapping[str, Values]) -> float:
    """Hard is what the baseline finds hard *in the other seeds*: what looks hard by chance would gain by chance."""
    usual = {name: np.mean([iou for other, iou in of.items() if other != seed]) for name, of in baseline.items()}
    order = sorted(usual, key=lambda name: usual[name])
    hard, easy = order[: len(order) // 2], order[len(order) // 2 :]
    return float(np.mean([gains[name][seed] for name in hard]) - np.mean([gains[name][seed] for name in easy]))


# The number of dummies, the spread over seeds, the cost.


def number_of_dummies(evidence: Evidence) -> Finding | None:
    """By how much the result changes from the fewest dummies to the most."""
    found = []
    for setting in evidence.settings:
        arms = {float(arm.dummies): arm.name for arm in setting.spec.arms if arm.counts_dummies_only}
        values = change({dummies: setting.values(name, setting.metric) for dummies, name in arms.items()})
        found.append(
            _measurement(
                setting, values, [*arms.values()], f", C_d {min(arms, default=0):g} to {max(arms, default=0):g}"
            )
        )
    return combine(found, Yardstick("same"))


def spread_over_seeds(evidence: Evidence) -> Finding | None:
    """The variance over seeds with dummies, relative to that without. Each setting is one value.

    The variance of a few seeds says next to nothing by itself, so the interval is that of the mean over the settings.
    Of the single comparisons, Pitman and Morgan's test is told.
    """
    tests: list[tuple[Setting, str, int, float, float]] = []
    counted_already: set[object] = set()
    for setting in sorted(evidence.settings, key=lambda setting: -len(setting.spec.seeds)):
        for pair in setting.pairs():
            values = [setting.values(arm.name, setting.metric) for arm in pair]
            seeds = _common(values)
            runs = frozenset().union(*(setting.runs([pair[0].name], seed) for seed in seeds))
            if runs & counted_already:
                continue
            counted_already |= runs
            ratio, p = pitman_morgan(*(np.array([one[seed] for seed in seeds], float) for one in values))
            if p is not None and ratio:
                tests.append((setting, pair[0].name, len(seeds), ratio, p))
    parts: list[Part] = []
    logarithms: dict[str, list[float]] = {}
    for (setting, arm, n, ratio, _), p in zip(tests, holm([test[-1] for test in tests]), strict=True):
        word = "undecided" if p is None or p >= ALPHA else "lower" if ratio < 1 else "higher"
        parts.append(Part(f"{setting.name}, {arm}", (setting.study,), n, 100 * (ratio - 1), None, word))
        logarithms.setdefault(f"{setting.study}: {setting.name}", []).append(math.log(ratio))
    words = [part.word for part in parts]
    note = (
        "Pitman and Morgan's test, corrected by Holm, finds the variance lower in "
        f"{words.count('lower')} and higher in {words.count('higher')} of {counted(len(parts), 'comparison')}."
    )
    means = {name: float(np.mean(several)) for name, several in logarithms.items()}
    studies = tuple(dict.fromkeys(study for part in parts for study in part.studies))
    yardstick = Yardstick("less", VARIANCE_ROPE, "%", relative=True, counted="setting")
    found = combine([Measurement(studies, "", means)], yardstick, note)
    return found and replace(found, parts=tuple(parts))


def cost(evidence: Evidence) -> Finding | None:
    """How much longer a training step takes.

    By interleaved timings, where there are any: a trial shares its machine with others, and is no measurement of 1 %.
    """
    yardstick = Yardstick("at most", RELATIVE_ROPE, "%", relative=True)
    if not evidence.benchmarks:
        return combine([_step_time(setting) for setting in evidence.settings], yardstick)
    verdicts: list[Verdict] = []
    for case in evidence.benchmarks:
        low, high = map(math.log, case.interval)
        verdicts.append(yardstick.verdict((low, high)))
    worst = max(evidence.benchmarks, key=lambda case: case.interval[1])
    effect, low, high = (100 * (ratio - 1) for ratio in (worst.ratio, *worst.interval))
    return Finding(
        verdict="does not hold" if "does not hold" in verdicts else "undecided" if "undecided" in verdicts else "holds",
        reading=(
            f"Of {counted(len(verdicts), 'interleaved timing')}, {verdicts.count('holds')} lie below "
            f"{told(RELATIVE_ROPE, '%', 0)} with their whole interval; the one that reaches highest is "
            f"“{worst.case}”: {told(effect, '%', 1)} ({bounds((low, high), 1)}, {worst.pairs} pairs)."
        ),
        effect=effect,
        interval=(low, high),
        n=worst.pairs,
        counted="timing",
        unit="%",
        studies=tuple(dict.fromkeys(case.file for case in evidence.benchmarks)),
    )


def _step_time(setting: Setting) -> Measurement:
    ratios = []
    for pair in setting.pairs():
        ours, theirs = ([setting.values(arm.name, name) for name in ("seconds", "steps")] for arm in pair)
        seeds = _common([*ours, *theirs])
        ratios.append({s: math.log(ours[0][s] / ours[1][s] * theirs[1][s] / theirs[0][s]) for s in seeds})
    return _measurement(setting, _mean(ratios), _arms(setting.pairs()))


# What the dummies take, and what attacks make of them.


def dummy_share(metric: str, unit: str) -> Measure:
    """The share of the test samples, or of the probability on them, that goes to dummies."""
    share = Yardstick("at most", SHARE_ROPE, unit)

    def measure(evidence: Evidence) -> Finding | None:
        found = []
        for setting in evidence.settings:
            arms = [arm.name for arm, _ in setting.pairs()]
            found.append(_measurement(setting, _mean([setting.values(arm, metric) for arm in arms]), arms))
        return worst(combine(found, share), share)

    return measure


def attacked_into_dummies(evidence: Evidence) -> Finding | None:
    """The share of samples that attacks which aim at a dummy bring into one."""
    found = []
    for setting in evidence.settings:
        arms = [arm.name for arm, _ in setting.pairs()]
        for label in (attack.label for attack in setting.spec.attacks if "dummy" in attack.through):
            values = _mean([into_dummies(setting, f"{label}_dummy", arm) for arm in arms])
            found.append(_measurement(setting, values, arms, f", {label}"))
    share = Yardstick("at most", SHARE_ROPE, "% of samples")
    return worst(combine(found, share), share)


def attack_surface(evidence: Evidence) -> Finding | None:
    """What attacks through all logits leave of the accuracy with dummies, minus what those through the real ones do."""
    found = []
    for setting in evidence.settings:
        arms = [arm.name for arm, _ in setting.pairs()]
        for label in (attack.label for attack in setting.spec.attacks if {"real", "full"} <= {*attack.through}):
            left = [[setting.values(arm, f"robust_{label}_{name}") for name in ("full", "real")] for arm in arms]
            values = _mean([_difference(full, real) for full, real in left])
            found.append(_measurement(setting, values, arms, f", {label}"))
    return combine(found, Yardstick("same"))


def more_than_a_trick(evidence: Evidence) -> Finding | None:
    """Dummies minus label smoothing."""
    found = []
    for setting in evidence.settings:
        tricks = [arm.name for arm in setting.spec.arms if arm.dummies == 0 and _is_trick(arm)]
        plain = [arm.name for arm, _ in setting.pairs() if arm.counts_dummies_only]
        ours, theirs = (_mean([setting.values(arm, setting.metric) for arm in arms]) for arms in (plain, tricks))
        values = _difference(ours, theirs)
        found.append(_measurement(setting, values, [*plain, *tricks], f", against {', '.join(tricks)}"))
    return combine(found, Yardstick("more"))


def _is_trick(arm: Arm) -> bool:
    return [*other_overrides(arm)] == ["label_smoothing"]


# What probes saw.


def probe_change(quantity: str, wanted: Wanted, rope: float = RELATIVE_ROPE) -> Measure:
    """What probes say of runs with dummies, relative to those without: the logarithm of the ratio."""

    def measure(evidence: Evidence) -> Finding | None:
        found = []
        for setting in evidence.settings:
            ratios = []
            for pair in setting.pairs():
                ours, theirs = (probe_values(setting, quantity, arm.name) for arm in pair)
                seeds = [seed for seed in _common([ours, theirs]) if ours[seed] > 0 and theirs[seed] > 0]
                ratios.append({seed: math.log(ours[seed] / theirs[seed]) for seed in seeds})
            found.append(_measurement(setting, _mean(ratios), _arms(setting.pairs())))
        return combine(found, Yardstick(wanted, rope, "%", relative=True))

    return measure


def within_runs(quantity: str, wanted: Wanted, rope: float, unit: str) -> Measure:
    """What probes say of each run by itself, with dummies or without; its mean over the arms is the value of a seed."""

    def measure(evidence: Evidence) -> Finding | None:
        found = []
        for setting in evidence.settings:
            arms = setting.spec.arm_names
            values = _mean(probe_values(setting, quantity, arm) for arm in arms)
            found.append(_measurement(setting, values, arms))
        return combine(found, Yardstick(wanted, rope, unit))

    return measure


def equal_dummies(evidence: Evidence) -> Finding | None:
    """By how much the largest of the dummies' parts of their gradient exceeds 1/C_d, in percent of that."""
    found = []
    for setting in evidence.settings:
        several = [arm.name for arm in setting.spec.arms if arm.counts_dummies_only and arm.dummies > 1]
        multiples = _mean(probe_values(setting, "dummy_unevenness", arm) for arm in several)
        excess = {seed: 100 * (multiple - 1) for seed, multiple in multiples.items()}
        found.append(_measurement(setting, excess, several))
    return combine(found, Yardstick("at most", FRACTION_ROPE, "%"))


# Helpers.


def _gain(setting: Setting, pairs: Sequence[Pair], metric: str, how: str = "") -> Measurement:
    """With dummies minus without: the mean over the pairs."""
    gains = [_difference(*(setting.values(arm.name, metric) for arm in pair)) for pair in pairs]
    return _measurement(setting, _mean(gains), _arms(pairs), how)


def _measurement(setting: Setting, values: Values, arms: Sequence[str], how: str = "") -> Measurement:
    runs = {seed: frozenset((how, run) for run in setting.runs(arms, seed)) for seed in values}
    return Measurement((setting.study,), f"{setting.name}{how}", values, setting.looks, runs)


def _arms(pairs: Iterable[Pair]) -> list[str]:
    return [arm.name for pair in pairs for arm in pair]


def _difference(ours: Values, theirs: Values) -> dict[str, float]:
    return {seed: ours[seed] - theirs[seed] for seed in _common([ours, theirs])}


def _mean(several: Iterable[Values]) -> dict[str, float]:
    """The mean for each seed that all have, of those that have any."""
    filled = [values for values in several if values]
    return {seed: float(np.mean([values[seed] for values in filled])) for seed in _common(filled)}


def _common(several: Iterable[Values]) -> list[str]:
    first, *others = [*several] or [{}]
    return [seed for seed in first if all(seed in values for values in others)]
