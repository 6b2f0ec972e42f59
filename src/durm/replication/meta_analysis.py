"""From the estimates of several settings to the finding about a claim, in numbers and in sentences."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from durm._text import pluralize
from durm.replication.finding import Criterion, Finding, Part, Verdict
from durm.replication.mean_effect import (
    EffectEstimate,
    OneSetting,
    SeveralSettings,
    by_setting,
    independent,
    mean_effect,
)
from durm.report.text import bounds, decimals, signed
from durm.statistics.hierarchical import Posterior
from durm.statistics.hypothesis_tests import sign_flip
from durm.statistics.intervals import ALPHA, Word, decide, fewest_pairs, interval
from durm.statistics.planning import MOST, pairs_needed


def combine(estimates: Sequence[EffectEstimate], criterion: Criterion, note: str = "") -> Finding | None:
    """The finding about the mean over all settings; None without any. `note` is added to the reading."""
    chosen = independent(estimates)
    if not chosen:
        return None
    settings = by_setting(chosen)
    mean = mean_effect(settings, criterion.limit, criterion.prior_unit)
    single = len(settings) == 1 and criterion.wanted in ("more", "less")
    finding = Finding(
        verdict=criterion.verdict_of_paper(mean),
        verdict_margin=criterion.verdict(mean),
        reading="",
        effect=criterion.shown(mean.effect),
        interval=criterion.shown_interval(mean.interval),
        n=mean.n,
        counted=criterion.counted,
        unit=criterion.unit,
        studies=tuple(dict.fromkeys(study for one in chosen for study in one.studies)),
        p=sign_flip(settings[0].array) if single else None,
        parts=tuple(_part(one, criterion, len(chosen)) for one in chosen),
        settings=mean.n if criterion.counted == "setting" else len(settings),
    )
    if isinstance(mean, SeveralSettings):
        finding = _with_posterior(finding, criterion, mean.posterior)
    spreads = [one.spread for one in settings if len(one.values) > 1]
    if "undecided" in (finding.verdict, finding.verdict_margin) and spreads:
        have = float(np.median([len(one.values) for one in settings]))
        finding = replace(finding, to_decide=to_decide(float(np.median(spreads)), criterion, have, mean.effect))
    return replace(finding, reading=f"{_reading(finding, criterion, mean)} {note}".strip())


def _with_posterior(finding: Finding, criterion: Criterion, posterior: Posterior) -> Finding:
    def chance(better: float, equal: float, worse: float) -> float:
        of = {"more": better, "less": worse, "same": equal, "at most": 1 - better}
        return of[criterion.wanted]

    unit = 100 if criterion.relative else 1
    return replace(
        finding,
        probability=chance(posterior.better, posterior.equal, posterior.worse),
        prior=(posterior.prior[0] * unit, posterior.prior[1] * unit),
        prior_sensitivity={name: chance(*found) for name, found in posterior.sensitivity.items()},
    )


def _part(one: EffectEstimate, criterion: Criterion, family: int) -> Part:
    alpha = one.level / family
    found, n = interval(one.array, alpha, one.step, one.samples), len(one.values)
    effect = criterion.shown(float(one.array.mean()))
    if criterion.wanted == "at most":
        word: str = criterion.verdict(OneSetting(effect, found if n >= fewest_pairs(ALPHA, family) else None, n))
    else:
        word = word_of(found, n, criterion, family)
    return Part(one.what, one.studies, n, effect, criterion.shown_interval(found), word)


def word_of(found: tuple[float, float] | None, n: int, criterion: Criterion, family: int = 1) -> Word:
    """Better, worse or equal, as the verdict of a study has it; of a quantity that is no gain, larger or smaller."""
    if n < fewest_pairs(ALPHA, family):
        return "undecided"
    return decide(found, criterion.limit, higher_is_better=criterion.wanted != "less")


def to_decide(spread: float, criterion: Criterion, have: float = 0, effect: float | None = None) -> str:
    """Which size of study would decide: the one whose interval is ± the margin, or ± the paper's gain, wide.

    Where there are as many already, the `effect` lies near what it is judged against: then the one whose interval is
    as wide as its distance from the margin. No size can be promised, as the effect may move.
    """
    widths = {f"{criterion.margin:g} {criterion.unit}": criterion.limit}
    if criterion.paper_gain is not None and criterion.paper_gain > 0:
        widths[f"the paper's {criterion.paper_gain:.2f}"] = criterion.scaled(criterion.paper_gain)
    needed = {wide: pairs_needed(spread, width) for wide, width in widths.items()}
    counted = f"{criterion.counted}s"
    sizes = [
        f"{f'more than {MOST:,}' if n is None else f'{n:,}'} {counted} for an interval of ± {wide}"
        for wide, n in needed.items()
        if n is None or n > have
    ]
    size = " or ".join(sizes) or _near_the_margin(spread, criterion, have, effect)
    where = "" if criterion.counted == "setting" else " in a setting"
    deviation = f"of the log ratio of {spread:.2g}" if criterion.relative else f"of {spread:.2g} {criterion.unit}"
    return f"{size}{where} (standard deviation {deviation})"


def _near_the_margin(spread: float, criterion: Criterion, have: float, effect: float | None) -> str:
    counted = f"{criterion.counted}s"
    ends = (criterion.limit, -criterion.limit)
    limits = {"more": ends[:1], "at most": ends[:1], "less": ends[1:], "same": ends}[criterion.wanted]
    distance = 0.0 if effect is None else min(abs(effect - limit) for limit in limits)
    needed = pairs_needed(spread, distance)
    if needed is None or needed <= have:
        return f"more than the {have:g} {counted} of now, as the effect lies near the margin"
    return f"{needed:,} {counted}, if the effect stays where it is, near the margin,"


def with_unit(value: float, unit: str, digits: int = 2) -> str:
    """`+0.14 points`."""
    return f"{signed(value, digits)} {unit}".strip()


def _reading(finding: Finding, criterion: Criterion, mean: OneSetting | SeveralSettings) -> str:
    assert finding.effect is not None
    digits = decimals(finding.interval, criterion.rope)
    effect = with_unit(finding.effect, finding.unit, digits)
    count = pluralize(finding.n, finding.counted)
    settings = f", {pluralize(finding.settings, 'setting')}" if finding.counted == "seed" else ""
    if finding.interval is None:
        where = "" if finding.n == 1 else " in each setting"
        return f"{effect} ({count}{settings}): one number{where} decides nothing."
    numbers = f"{effect} (95 % interval {bounds(finding.interval, digits)}, {count}{settings})"
    if mean.too_few:
        return f"{numbers}: too few {finding.counted}s for a word, which takes {fewest_pairs(ALPHA)}."
    sentences = [f"{numbers}: {_where(finding.at_margin, criterion)}."]
    if finding.probability is not None:
        sentences.append(_chances(finding, criterion))
    if criterion.paper_gain is not None:
        sentences.append(_against_the_paper(criterion, mean))
    return " ".join(sentences)


def _where(verdict: Verdict, criterion: Criterion) -> str:
    """Where the effect lies."""
    margin = f"{criterion.margin:g} {criterion.unit}"
    if criterion.wanted == "same":
        places = {"holds": "within", "does not hold": "beyond", "undecided": "not decided whether within"}
        return f"{places[verdict]} the equivalence margin of ±{margin}"
    sign = {"more": "+", "less": "−", "at most": ""}[criterion.wanted]
    beyond, short = ("above", "below") if criterion.wanted == "more" else ("below", "above")
    places = {"holds": beyond, "does not hold": short, "undecided": "not decided whether above or below"}
    return f"{places[verdict]} the margin of {sign}{margin}"


def _chances(finding: Finding, criterion: Criterion) -> str:
    margin = f"{criterion.margin:g}"
    what = {"more": f"μ > {margin}", "less": f"μ < −{margin}", "same": f"|μ| ≤ {margin}", "at most": f"μ ≤ {margin}"}
    assert finding.prior is not None
    mu, tau = finding.prior
    others = ", ".join(f"{chance:.2f} with a {name} one" for name, chance in finding.prior_sensitivity.items())
    return (
        f"P({what[criterion.wanted]}) = {finding.probability:.2f} with the prior μ ~ N(0, {mu:.2g}), "
        f"τ ~ half-normal({tau:.2g}); {others}."
    )


def _against_the_paper(criterion: Criterion, mean: OneSetting | SeveralSettings) -> str:
    assert criterion.paper_gain is not None
    above = mean.above(criterion.scaled(criterion.paper_gain))
    place = "below it" if above is False else "above it" if above else "not decided whether above or below it"
    return f"The paper's mean gain is {with_unit(criterion.paper_gain, criterion.unit)}: {place}."
