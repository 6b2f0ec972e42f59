"""The verdict in sentences. The terminal, the page, the Markdown and the LaTeX use the same ones.

A sentence has the number, the level of its interval, the pairs and the equivalence margin:

    No detectable effect of 2 dummies on digits with cnn: +0.03 points (98.3 % CI −0.18 … +0.24, 10 pairs), undecided at
    a margin of ±0.1 points; gains above 0.24 are ruled out.

Arms about which the same can be said share one; its interval is then the range that their intervals cover.
"""

import math
import re
from collections.abc import Mapping, Sequence

from durm._text import pluralize
from durm.metrics.metric import PERCENT
from durm.statistics.intervals import ALPHA
from durm.statistics.sequential import series_level
from durm.statistics.verdict import Comparison
from durm.study.records import AcrossSettings, Setting, Summary

MOST_NAMED = 6
ORDER = ("better", "worse", "equal", "undecided")
USUAL = ("accuracy", "miou", "value")
"""Metrics that a sentence need not name."""
ONE_ARM = "There is one arm only, so there is nothing to compare."

Compared = tuple[Setting, Comparison]


def headline(summary: Summary) -> str:
    """The verdict of a study in one sentence."""
    settings = summary.averages or summary.settings
    judged = [(setting, one) for setting in settings for one in setting.comparisons]
    if not judged:
        return ONE_ARM
    if len(settings) == 1:
        where = place(settings[0])
    else:
        where = f"in {len(settings)} settings" + (", each the mean over held-out domains" if summary.averages else "")
    lost = f"; {pluralize(summary.lost, 'run')} lost" if summary.lost else ""
    groups = _groups(judged, summary)
    if len(groups) == 1:
        return f"{_claim(judged, where, summary)}{lost}."
    if len(settings) == 1:
        found = ", ".join(_short(group, summary) for group in groups)
    else:
        counts = {word: sum(one.verdict == word for _, one in judged) for word in ORDER}
        words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        found, where = f"{len(judged)} comparisons with {_baseline(judged)} {where}: {words}", ""
    level, margin = confidence(*judged[0], summary), f"margin {margin_of(summary)}"
    return f"{found}{where and ' '}{where} ({level} CIs, {runs_of(judged)}, {margin}{lost})."


def sentences(setting: Setting, summary: Summary, *, plans: bool = True) -> list[str]:
    """What is known about each arm, with `plans` for more pairs; of many arms, about those that are decided."""
    comparisons = setting.comparisons
    few = len(comparisons) <= MOST_NAMED
    found = [sentence(c, setting, summary, plans=plans) for c in comparisons if few or c.verdict != "undecided"]
    if not few and len(found) < len(comparisons):
        found.append(f"{len(comparisons) - len(found)} arms are undecided; the table has their numbers.")
    return found + [
        f"{c.arm} takes, for each seed, the number of dummies that is best on validation: "
        f"{_effect([(setting, c)], summary)}. It has no word: the best of several gains from being chosen."
        for c in setting.derived.comparisons
        if c.ci_family is not None
    ]


def sentence(comparison: Comparison, setting: Setting, summary: Summary, *, plans: bool = True) -> str:
    """What is known about one arm, with the numbers, and with `plans` what more pairs could tell."""
    claim = _claim([(setting, comparison)], place(setting), summary)
    return f"{claim}. {plan(comparison, summary) if plans else ''}".strip()


def _groups(judged: Sequence[Compared], summary: Summary) -> list[list[Compared]]:
    """Comparisons about which the same can be said, the decided ones first."""
    groups: dict[str, list[Compared]] = {}
    for one in sorted(judged, key=lambda one: ORDER.index(one[1].verdict or "undecided")):
        groups.setdefault(_finding(one[1], summary), []).append(one)
    return list(groups.values())


def _finding(comparison: Comparison, summary: Summary) -> str:
    """The word; of what is undecided: why, or where the interval lies."""
    if comparison.n == 0:
        return "there is no pair of runs yet"
    if comparison.ci_family is None:
        return "one pair decides nothing" if comparison.paired else "one run of an arm decides nothing"
    if comparison.verdict not in (None, "undecided") or comparison.reason:
        return comparison.reason or str(comparison.verdict)
    worst, best = _gains(comparison, summary)
    return "gain" if worst > 0 else "loss" if best < 0 else "nothing"


def _claim(judged: Sequence[Compared], where: str, summary: Summary) -> str:
    """A sentence, without its full stop, about comparisons of one finding."""
    finding, names, baseline = _finding(judged[0][1], summary), _names(judged), _baseline(judged)
    where, found, margin = f"{where and ' '}{where}", _effect(judged, summary), margin_of(summary)
    if finding in ("better", "worse"):
        return f"{names} {_is(names, judged)} {finding} than {baseline}{where}: {found}, beyond the margin of {margin}"
    if finding == "equal":
        what = f"{names} {_is(names, judged)} equal to {baseline} for practical purposes{where}"
        return f"{what}: {found}, within the margin of {margin}"
    either = _names(judged, "or")
    if finding not in ("gain", "loss", "nothing"):
        known = f"; {found}, margin {margin}" if judged[0][1].n else ""
        return f"Undecided for {names}{where}: {finding}{known}"
    begin = {"gain": "A gain from", "loss": "A loss from", "nothing": "No detectable effect of"}[finding]
    small = "" if finding == "nothing" else " that may be too small to matter"
    return f"{begin} {either}{where}{small}: {found}, undecided at a margin of {margin}; {_ruled_out(judged, summary)}"


def _short(judged: Sequence[Compared], summary: Summary) -> str:
    """The same in a few words, for the middle of a sentence."""
    finding, names, number = _finding(judged[0][1], summary), _names(judged), f"({_difference(judged, summary)})"
    if finding == "nothing":
        return f"no detectable effect of {_names(judged, 'or')} {number}"
    word = f"undecided against {_baseline(judged)}"
    if finding in ("better", "worse", "equal"):
        word = f"{finding} {'to' if finding == 'equal' else 'than'} {_baseline(judged)}"
    return f"{names} {_is(names, judged)} {word} {number if judged[0][1].n else '(no pairs)'}"


def _effect(judged: Sequence[Compared], summary: Summary) -> str:
    """`+0.12 points (95 % CI −0.05 … +0.29, 10 pairs, 1 lost)`."""
    intervals = [one.ci_family for _, one in judged if one.ci_family is not None]
    inside = [runs_of(judged)]
    if intervals:
        ends = min(low for low, _ in intervals), max(high for _, high in intervals)
        several = "s within" if len(judged) > 1 else ""
        inside.insert(0, f"{confidence(*judged[0], summary)} CI{several} {bounds(ends, _digits(judged, summary))}")
    if lost := sum(one.lost for _, one in judged):
        inside.append(f"{lost} lost")
    if not summary.measured.higher_is_better:
        inside.append("lower is better")
    return f"{_difference(judged, summary)} ({', '.join(inside)})"


def _difference(judged: Sequence[Compared], summary: Summary) -> str:
    """`+0.12 points`, `+0.1 to +0.3 points of balanced accuracy`, `real-class NLL −0.012`."""
    found = [one.difference for _, one in judged if one.difference is not None]
    if not found:
        return "–"
    digits, metric = _digits(judged, summary), summary.measured
    ends = [signed(value, digits) for value in (min(found), max(found))]
    text = " to ".join(dict.fromkeys(ends))
    text = f"{text} {metric.unit_of_differences}".strip()
    if summary.metric in USUAL:
        return text
    return f"{text} of {metric.label}" if metric.unit == PERCENT else f"{metric.label} {text}"


def _ruled_out(judged: Sequence[Compared], summary: Summary) -> str:
    """How large an effect is still possible."""
    worst = min(_gains(one, summary)[0] for _, one in judged)
    best = max(_gains(one, summary)[1] for _, one in judged)
    digits = _digits(judged, summary)
    if best <= 0:
        return f"any gain, and losses above {plain(-worst, digits)}, are ruled out"
    return f"gains above {plain(best, digits)} are ruled out"


def _gains(comparison: Comparison, summary: Summary) -> tuple[float, float]:
    """The interval, turned so that more is better."""
    low, high = comparison.ci_family or (math.nan, math.nan)
    return (low, high) if summary.measured.higher_is_better else (-high, -low)


def runs_of(judged: Sequence[Compared]) -> str:
    """`10 pairs`; `6 to 10 pairs` of several that differ; `unpaired, 8 and 9 runs`."""
    least, most = min(one.n for _, one in judged), max(one.n for _, one in judged)
    count = str(least) if least == most else f"{least} to {most}"
    if all(one.paired for _, one in judged):
        return f"{count} pair{'' if count == '1' else 's'}"
    if len(judged) > 1:
        return "unpaired"
    ((setting, one),) = judged
    sizes = [arm.n for name in (one.baseline, one.arm) for arm in setting.arms if arm.arm == name]
    return f"unpaired, {' and '.join(map(str, sizes)) or count} runs"


def margin_of(summary: Summary) -> str:
    unit = summary.measured.unit_of_differences
    return f"±{summary.rope:g}{f' {unit}' if unit else ''}" if summary.rope else "0"


def _digits(judged: Sequence[Compared], summary: Summary) -> int:
    return max(decimals(one.ci_family, summary.rope) for _, one in judged)


def confidence(setting: Setting, comparison: Comparison, summary: Summary) -> str:
    """The level of the interval that decides, 1 − α/m for m arms: `98.3 %`. Analyses that were not planned lower α."""
    families = (setting.comparisons, setting.derived.comparisons, setting.null_control.comparisons)
    family = next((one for one in families if comparison in one), [comparison])
    unplanned = summary.max_seeds is None and summary.analyses > 1 and summary.schema_version > 1
    level = 100 * (1 - (series_level(summary.analyses) if unplanned else ALPHA) / len(family))
    return f"{level:.{3 if level < 99 else 4}g} %"


def _names(judged: Sequence[Compared], conjunction: str = "and") -> str:
    """The arms: by their numbers of dummies, if that is all that is different, or by their names."""
    arms = list(dict.fromkeys(one.arm for _, one in judged))
    counts = list(dict.fromkeys(_dummies(setting, one) for setting, one in judged))
    if all(counts):
        return f"{_joined(list(map(str, counts)), conjunction)} {'dummy' if counts == [1] else 'dummies'}"
    return f"{len(arms)} arms" if len(arms) > MOST_NAMED else _joined(arms, conjunction)


def _dummies(setting: Setting, comparison: Comparison) -> int | None:
    """How many dummies an arm adds to a baseline without any, if it is called after that; else None."""
    dummies = {arm.arm: arm.dummies for arm in setting.arms}
    count = dummies.get(comparison.arm)
    if not count or dummies.get(comparison.baseline) != 0:
        return None
    after = re.escape(comparison.baseline)
    return count if re.fullmatch(rf"durm-{count}|{after}\+{count}", comparison.arm) else None


def _is(names: str, judged: Sequence[Compared]) -> str:
    return "are" if len({one.arm for _, one in judged}) > 1 or names.endswith(" dummies") else "is"


def _baseline(judged: Sequence[Compared]) -> str:
    names = {one.baseline for _, one in judged}
    return names.pop() if len(names) == 1 else "the baseline"


def _joined(names: Sequence[str], conjunction: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {conjunction} {names[-1]}"


def plan(comparison: Comparison, summary: Summary) -> str:
    """What it would take: the smallest difference that so many pairs decide, and the pairs for a narrow interval."""
    if comparison.verdict != "undecided" or comparison.min_difference is None:
        return ""
    unit = summary.measured.unit_of_differences
    smallest = plain(comparison.min_difference, decimals(comparison.ci_family, summary.rope))
    pairs = pluralize(comparison.n, "pair")
    said = f"{pairs} of this spread decide differences of {smallest}{f' {unit}' if unit else ''} or more"
    if comparison.n_for_rope is not None:
        low, high = comparison.n_for_rope_range or (None, None)
        between = f" ({low:,} to {high:,})" if low is not None and high is not None else ""
        return f"{said}; about {comparison.n_for_rope:,}{between} make half the interval as wide as the margin."
    if comparison.test_samples_for_rope is not None:
        samples = _rounded(comparison.test_samples_for_rope)
        return f"{said}; more seeds alone will not do: it takes a test set of about {samples:,} samples."
    return f"{said}."


def _rounded(count: int) -> int:
    """To two digits."""
    return round(count, -max(0, len(str(count)) - 2))


def across_sentence(one: AcrossSettings, summary: Summary) -> str:
    """What all settings say together about an arm."""
    found, unit = one.posterior, summary.measured.unit_of_differences
    digits = decimals(found.interval, summary.rope)
    margin = f"{summary.rope:g}{f' {unit}' if unit else ''}"
    chances = f"P(better by more than {margin}) = {found.better:.2f}, P(equal) = {found.equal:.2f}"
    chances += f", P(worse) = {found.worse:.2f}"
    others = "; ".join(
        f"{name} prior {better:.2f}, {equal:.2f}, {worse:.2f}"
        for name, (better, equal, worse) in found.sensitivity.items()
    )
    return (
        f"{one.arm} over {found.settings} settings: mean effect {signed(found.mean, digits)} "
        f"({bounds(found.interval, digits)}); {chances} ({others}). In a new setting: "
        f"{bounds(found.new_interval, digits)}."
    )


def place(setting: Setting) -> str:
    """Where comparisons were made: `on digits with cnn`; for a table of others' runs, whatever it calls its setting."""
    names = setting.setting
    if not {*names} & {"data", "model", "method"}:
        return " ".join(f"in {name}" for name in names.values())
    on = f"on {names['data']}" if "data" in names else ""
    model = f"with {names['model']}" if "model" in names else ""
    method = f", {names['method']}" if names.get("method", "erm") != "erm" else ""
    domains = "" if setting.domains is None else f", mean over {len(setting.domains)} held-out domains"
    return " ".join(part for part in (on, model) if part) + method + domains


def selection(summary: Summary) -> str:
    """Which weights the numbers are of."""
    best = "mean IoU" if any(setting.classes for setting in summary.settings) else "accuracy"
    chosen = "the last epoch" if summary.select == "last" else f"the epoch with the best validation {best}"
    averages = any("average" in arm.selections for setting in summary.averages for arm in setting.arms)
    ranges: dict[str, list[dict[str, float]]] = {}
    for setting in summary.settings:
        for arm in setting.arms:
            if arm.averaging:
                ranges.setdefault(setting.setting.get("method", arm.arm), []).append(arm.averaging)
    if not averages and not ranges:
        return chosen
    made = [f"{name} of {_steps(several)}" for name, several in ranges.items()]
    listed = f" ({'; '.join(made)})" if made else ""
    return f"{chosen}; methods that average weights keep their average{listed}"


def search(summary: Summary) -> str:
    """How hyper-parameters were searched; nothing without a search."""
    if summary.search is None:
        return ""
    space = "; ".join(f"{path} {domain}" for path, domain in summary.search.space.items())
    domains = " of the training domains" if summary.averages else ""
    return (
        f"Random search: {pluralize(summary.search.draws, 'draw')}, the same for every arm and seed ({space}). Of each "
        f"arm and seed the draw that is best on validation{domains} counts."
    )


def _steps(several: Sequence[Mapping[str, float]]) -> str:
    start, end = (sum(one[key] for one in several) / len(several) for key in ("start", "end"))
    return f"steps {start:.0f} to {end:.0f}, mean over the runs"


def signed(value: float | None, decimals: int = 2) -> str:
    """A difference with its sign and a real minus; a dash for what is not defined."""
    if value is None:
        return "–"
    text = f"{value:+.{decimals}f}".replace("-", "−")
    return text if float(f"{value:.{decimals}f}") else text[1:]


def plain(value: float | None, decimals: int = 2) -> str:
    return "–" if value is None else f"{value:.{decimals}f}".replace("-", "−")


def bounds(interval: Sequence[float] | None, decimals: int = 2) -> str:
    return "–" if interval is None else f"{signed(interval[0], decimals)} … {signed(interval[1], decimals)}"


def p_value(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1e}" if value < 0.001 else f"{value:.3f}"


def decimals(interval: Sequence[float] | None, rope: float) -> int:
    """As many as show two digits of the region or of the interval's half-width, whichever is the finer."""
    low, high = interval or (0.0, 0.0)
    finest = min((size for size in (rope, abs(high - low) / 2) if size > 0), default=1.0)
    return min(8, max(2, 1 - math.floor(math.log10(finest))))


def value_decimals(summary: Summary) -> int:
    """How many a value of the metric has: two in percent, otherwise as many as the equivalence margin needs."""
    return 2 if summary.measured.unit == PERCENT else decimals(None, summary.rope)
