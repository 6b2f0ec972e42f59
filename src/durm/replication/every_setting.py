"""Claims about every setting: that something never happens, and in how many of them DuRM wins.

A share of samples is a count, and has the exact interval of Clopper and Pearson: none of 500 samples leaves up to 0.6 %
(one-sided, 95 %), however many seeds there are, as they see the same test samples. So counts are not added up over
seeds: their mean is taken as one count of the distinct samples. Test sets of other samples are added up: a small one
cannot bound a thousandth by itself, and says no less for that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from durm._text import pluralize
from durm.replication.finding import Criterion, Finding, Part, Verdict
from durm.replication.mean_effect import EffectEstimate, OneSetting, by_setting, independent
from durm.report.text import bounds, decimals, plain
from durm.statistics.intervals import ALPHA, Interval, fewest_pairs, interval
from durm.statistics.proportions import clopper_pearson

HALF = 50.0
"""Percent of the settings that chance would win."""


@dataclass(frozen=True)
class _Bounds:
    """Of one setting: an interval at 95 %, and a lower bound that is corrected for the number of settings.

    `enough`: whether there are enough seeds for the interval to decide.
    """

    part: Part
    low: float
    enough: bool = True


def never(estimates: Sequence[EffectEstimate], criterion: Criterion, *, counts: bool) -> Finding | None:
    """One setting that exceeds the limit contradicts, at 1 − 0.05/m: of many, one is found by chance more often.

    It holds if every setting stays below the limit, each at 95 %, which needs no correction; counts, if those of all
    test sets together do, and no setting's own is above it. The numbers are those of the setting that reaches highest,
    among those that make the verdict, or of all samples together.
    """
    chosen = independent(estimates)
    if not chosen:
        return None
    bound = _count_bounds if counts else _seed_bounds
    parts = [_judged(bound(one, len(chosen)), criterion) for one in chosen]
    words = [part.word for part in parts]
    beyond, unclear = words.count("does not hold"), words.count("undecided")
    verdict: Verdict = "does not hold" if beyond else "undecided" if unclear else "holds"
    most = max((part for part in parts if part.word == verdict), key=_highest)
    if counts and not beyond and (together := _together(chosen)) is not None:
        most = _judged(together, criterion)
        above = any(part.effect > criterion.limit for part in parts)
        verdict = "undecided" if above else most.word  # type: ignore[assignment]
    counted = "sample" if counts else "seed"
    limit = f"{criterion.margin:g} {criterion.unit}"
    digits = decimals(most.interval, criterion.rope)
    n = pluralize(most.n, f"distinct {counted}" if counts else counted) if most.n else "of unknown samples"
    return Finding(
        verdict=verdict,
        reading=(
            f"{most.what}: {plain(most.effect, digits)} ({bounds(most.interval, digits)}, {n}). Of "
            f"{pluralize(len(parts), 'setting')}, {words.count('holds')} stay below {limit} with their whole interval, "
            f"{beyond} exceed it, {unclear} cannot tell by themselves."
        ),
        effect=most.effect,
        interval=most.interval,
        n=most.n,
        counted=counted,
        unit=criterion.unit,
        studies=tuple(dict.fromkeys(study for one in chosen for study in one.studies)),
        parts=tuple(parts),
        settings=len(parts),
        to_decide=_to_decide(criterion, len(parts), counts=counts) if verdict == "undecided" else "",
    )


def _to_decide(criterion: Criterion, settings: int, *, counts: bool) -> str:
    if counts:
        fewest = math.ceil(math.log(ALPHA) / math.log1p(-criterion.limit / 100))
        return f"{fewest:,} distinct samples without one"
    return f"{fewest_pairs(ALPHA, settings)} seeds in every setting, with which one that exceeds it would be found"


def _together(estimates: Sequence[EffectEstimate]) -> _Bounds | None:
    """The samples of all test sets. Settings of one group see the same ones: the one with most hits counts."""
    sets: dict[str, tuple[int, int]] = {}
    for one in estimates:
        if one.test_samples is not None:
            hits = math.ceil(float(one.array.mean()) * one.test_samples / 100 - 1e-6)
            name = one.group or one.what
            sets[name] = max(sets.get(name, (0, 0)), (hits, one.test_samples))  # its own samples, not those of others
    hits, n = (sum(each) for each in zip(*sets.values(), strict=True)) if sets else (0, 0)
    if not n:
        return None
    low, high = (100 * bound for bound in clopper_pearson(hits, n, 2 * ALPHA))
    what = "All test samples together" if len(sets) > 1 else "All test samples"
    return _Bounds(Part(what, (), n, 100 * hits / n, (low, high), ""), -math.inf)


def _count_bounds(one: EffectEstimate, family: int) -> _Bounds:
    share = float(one.array.mean())
    n = one.test_samples
    if n is None:
        return _Bounds(Part(one.what, one.studies, 0, share, None, ""), -math.inf)
    count = share * n / 100
    most, least = min(n, math.ceil(count - 1e-6)), math.floor(count + 1e-6)
    high = 100 * clopper_pearson(most, n, 2 * ALPHA)[1]
    low, corrected = (100 * clopper_pearson(least, n, alpha)[0] for alpha in (2 * ALPHA, 2 * ALPHA / family))
    return _Bounds(Part(one.what, one.studies, n, share, (low, high), ""), corrected)


def _seed_bounds(one: EffectEstimate, family: int) -> _Bounds:
    """Of a mean probability, which is no count. The word needs as many seeds as everywhere."""
    n = len(one.values)
    found, strict = (interval(one.array, level, one.step) for level in (one.level, one.level / family))
    enough = strict is not None and n >= fewest_pairs(ALPHA, family)
    part = Part(one.what, one.studies, n, float(one.array.mean()), found, "")
    return _Bounds(part, strict[0] if enough and strict is not None else -math.inf, n >= fewest_pairs(ALPHA))


def _judged(found: _Bounds, criterion: Criterion) -> Part:
    part = found.part
    word: Verdict = "undecided"
    if found.low > criterion.limit:
        word = "does not hold"
    elif found.enough and part.interval is not None and part.interval[1] <= criterion.limit:
        word = "holds"
    return replace(part, word=word)


def _highest(part: Part) -> float:
    return part.interval[1] if part.interval is not None else part.effect


def wins(estimates: Sequence[EffectEstimate], criterion: Criterion, of_these: int) -> Finding | None:
    """The share of settings whose mean difference is above 0, with its exact interval, against the paper's share.

    The first `of_these` estimates are ordinary classification, which the paper's number is about.
    """
    ordinary = {one.what for one in estimates[:of_these]}
    settings = by_setting(independent(estimates))
    if not settings:
        return None
    won = [one for one in settings if one.array.mean() > 0]
    n = len(settings)
    low, high = clopper_pearson(len(won), n)
    known = OneSetting(100 * len(won) / n, (100 * low, 100 * high), n)
    verdict = criterion.verdict_of_paper(known)
    counts = [sum(one.what in ordinary for one in several) for several in (won, settings)]
    return Finding(
        verdict=verdict,
        verdict_margin=criterion.verdict(known),
        reading=(
            f"DuRM is ahead in {len(won)} of {pluralize(n, 'setting')}: {known.effect:.0f} % (exact 95 % interval "
            f"{100 * low:.0f} … {100 * high:.0f}); of ordinary classification, in {counts[0]} of {counts[1]}. One half "
            f"would be chance; the paper has {criterion.paper_gain:.0f} %."
        ),
        effect=known.effect,
        interval=known.interval,
        n=n,
        counted="setting",
        unit=criterion.unit,
        studies=tuple(dict.fromkeys(study for one in settings for study in one.studies)),
        parts=tuple(_won(one) for one in settings),
        settings=n,
        to_decide=_settings_to_decide(n, criterion),
    )


def _won(one: EffectEstimate) -> Part:
    effect = float(one.array.mean())
    found: Interval | None = interval(one.array, ALPHA, one.step, one.samples)
    return Part(one.what, one.studies, len(one.values), effect, found, "win" if effect > 0 else "no win")


def _settings_to_decide(have: int, criterion: Criterion) -> str:
    """With how many the paper's share would be decided to be above one half."""
    assert criterion.paper_gain is not None
    share = criterion.paper_gain / 100
    fewest = next(n for n in range(6, 10_000) if 100 * clopper_pearson(round(share * n), n)[0] > criterion.limit)
    if fewest <= have:
        return f"more than the {have} settings of now, as the share lies near one half"
    return f"{fewest} settings, if the paper's share of them is won"
