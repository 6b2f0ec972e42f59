"""What can be seen from the values of a metric alone: in which steps it moves, its unit, its margin and direction.

For metrics that durm measures itself the registry knows (`durm.metrics`). A table, a function or a command brings
numbers and a name.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from durm.errors import InputError
from durm.metrics import Metric, find_metric
from durm.metrics.metric import PERCENT

LOWER = {"loss", "nll", "error", "err", "rmse", "mae", "ppl", "perplexity", "time"}
"""Words of names that are mostly better when smaller; a metric with one of them needs a direction."""
SHARE_ROPE, PERCENT_ROPE = 0.001, 0.1
NO_MARGIN = "no equivalence margin, so nothing is called equal"


@dataclass(frozen=True)
class Assumed:
    """A metric as it was taken from its name and values, and one line about what was assumed."""

    metric: Metric
    rope: float
    note: str


def assume_metric(
    name: str, values: Sequence[float], rope: float | None = None, higher_is_better: bool | None = None
) -> Assumed:
    """The metric of that name for these values; what is given is not assumed.

    A registered name brings its direction and margin; a percentage whose values all lie in [0, 1] is in shares. Of
    others, values in [0, 1] are shares with a margin of 0.001, values in [0, 100] percent with 0.1, and anything else
    has no margin, so that nothing is called equal.

    Raises:
        InputError: if the name sounds like something that is better when smaller, and no direction is given.
    """
    known = find_metric(name)
    shares = bool(values) and min(values) >= 0 and max(values) <= 1
    if known is not None:
        unit, margin = known.unit, known.rope
        shares = shares and unit == PERCENT
        if shares:
            unit, margin = "", None if margin is None else margin / 100
        better = known.higher_is_better if higher_is_better is None else higher_is_better
        label = known.label
    else:
        if higher_is_better is None and (word := _lower_word(name)):
            raise InputError(
                f"metric {name!r}: is smaller better, as of a {word}? Give `lower_is_better` or `higher_is_better`"
            )
        percent = bool(values) and min(values) >= 0 and max(values) <= 100
        unit, margin = ("", SHARE_ROPE) if shares else (PERCENT, PERCENT_ROPE) if percent else ("", None)
        better, label = higher_is_better is not False, name
    metric = Metric(name, label, unit, better, margin)
    return Assumed(metric, rope if rope is not None else margin or 0.0, _note(metric, shares, rope, higher_is_better))


def direction(*, lower_is_better: bool, higher_is_better: bool) -> bool | None:
    """Whether higher is better, as the caller says; None if nothing was said.

    Raises:
        InputError: if both were said.
    """
    if lower_is_better and higher_is_better:
        raise InputError("`lower_is_better` and `higher_is_better` exclude each other: give one of them")
    return higher_is_better if lower_is_better or higher_is_better else None


def _lower_word(name: str) -> str | None:
    words = re.split(r"[^a-z]+", name.lower())
    return next((word for word in words if word in LOWER), None)


def _note(metric: Metric, shares: bool, rope: float | None, higher_is_better: bool | None) -> str:
    parts = []
    if rope is None:
        scale = "percent, " if metric.unit == PERCENT else "shares from 0 to 1, " if shares else ""
        margin = f"equivalence margin ±{metric.rope:g}" if metric.rope else NO_MARGIN
        parts.append(scale + margin)
    if higher_is_better is None:
        parts.append(f"{'higher' if metric.higher_is_better else 'lower'} is better")
    return f"assumed of {metric.name!r}: {'; '.join(parts)}" if parts else ""


def lattice_step(values: Sequence[float], written: Sequence[str] = ()) -> float:
    """The step of which all values are multiples: 0.1 of 93.1 and 92.8, 100/360 of accuracies on 360 samples; else 0.

    It is the largest g above 10⁻⁶ of the range with every value a multiple of it to 10⁻⁹, tried as the smallest gap
    between two values divided by 1 to 10. If all values are equal there is no gap: the last decimal that was written.
    """
    distinct = np.unique(np.asarray(values, float))
    if len(distinct) == 0:
        return 0.0
    size = float(np.abs(distinct).max())
    gaps = np.diff(distinct)
    gaps = gaps[gaps > 1e-12 * size]  # two ways to compute one number
    if len(gaps) == 0:
        return _last_decimal(written or [repr(float(value)) for value in values])
    spread = float(distinct[-1] - distinct[0])
    for divisor in range(1, 11):
        step = float(gaps.min()) / divisor
        if step <= 1e-6 * spread:
            break
        tolerance = min(1e-9 * size, 1e-4 * step)  # a step far below the values would else fit any numbers
        if np.all(np.abs(distinct - step * np.round(distinct / step)) <= tolerance):
            return step
    return 0.0


def _last_decimal(written: Sequence[str]) -> float:
    places = [len(text.strip().partition(".")[2]) for text in written if not re.search(r"[eE]", text)]
    return math.pow(10, -max(places)) if places else 0.0
