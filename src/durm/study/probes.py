"""What a study says about its probes: single numbers of what they saw, for every arm, and how these differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import correlation, fmean
from typing import Any

from durm.study.arms import Found, spread
from durm.study.spec import Study
from durm.study.verdict import compare_family

Seen = Mapping[str, Any]
"""The result of a probe."""


@dataclass(frozen=True)
class Quantity:
    """A number made of what a probe saw: of its result, and of the place of the marked epoch in it."""

    probe: str
    label: str
    take: Callable[[Seen, int], float | None]


def _last_epoch(seen: Seen) -> float:
    """The mean norm of the shared gradient over the steps of the last epoch."""
    start, end = [0, *seen["ends"]][-2:]
    return fmean(seen["shared"][start:end])


def _known(values: Sequence[float | None]) -> bool:
    """Whether there are any, and none of them was undefined: see `durm.probes._running.numbers`."""
    return len(values) > 0 and None not in values


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if _known(values) else None


def _unevenness(fractions: Sequence[float]) -> float | None:
    return max(fractions) * len(fractions) if _known(fractions) else None


def _correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Pearson's, of three epochs or more whose values differ."""
    if len(one) < 3 or min(map(len, map(set, (one, other)))) == 1:
        return None
    return correlation(one, other)


QUANTITIES = {
    "gradient_variance": Quantity(
        "gradient_variance",
        "variance of the logits' gradient at the marked epoch, mean over the classes",
        lambda seen, at: _mean(seen["variance"][at]),
    ),
    "mean_gradient_variance": Quantity(
        "gradient_variance",
        "variance of the logits' gradient, mean over the classes and all epochs",
        lambda seen, at: _mean([value for classes in seen["variance"] for value in classes]),
    ),
    "gradient_norm": Quantity(
        "gradient_norm",
        "norm of the gradient of the shared weights, mean over all steps",
        lambda seen, at: fmean(seen["shared"]),
    ),
    "last_gradient_norm": Quantity(
        "gradient_norm",
        "norm of the gradient of the shared weights, mean over the last epoch",
        lambda seen, at: _last_epoch(seen),
    ),
    "distance": Quantity(
        "distance", "squared distance of the shared weights from the start", lambda seen, at: seen["shared"][-1]
    ),
    "dummy_share": Quantity(
        "dummy_gradient",
        "share of the logits' gradient that falls on dummies in the last epoch, %",
        lambda seen, at: 100 * sum(seen["share"][-1]) if _known(seen["share"][-1]) else None,
    ),
    "dummy_unevenness": Quantity(
        "dummy_gradient",
        "largest fraction of one dummy in the last epoch, as a multiple of that of equals",
        lambda seen, at: _unevenness(seen["fraction"][-1]),
    ),
    "training_dummy_mass": Quantity(
        "dummy_mass", "mean probability on dummies in the last epoch, %", lambda seen, at: 100 * seen["mass"][-1]
    ),
    "training_dummy_hits": Quantity(
        "dummy_mass",
        "training samples in the last epoch whose largest logit is a dummy, %",
        lambda seen, at: 100 * seen["hits"][-1] / seen["samples"][-1],
    ),
    "top_eigenvalue": Quantity(
        "flatness",
        "largest eigenvalue of the Hessian of the real-class loss over the shared weights, at the end",
        lambda seen, at: seen["end"]["real"]["eigenvalues"]["values"][0],
    ),
    "hessian_trace": Quantity(
        "flatness",
        "trace of that Hessian",
        lambda seen, at: seen["end"]["real"]["trace"]["value"],
    ),
    "worst_rise": Quantity(
        "flatness",
        "largest rise of that loss that was found in a ball of 5 % of each filter's norm",
        lambda seen, at: seen["end"]["real"]["stability"]["worst"],
    ),
    "mean_rise": Quantity(
        "flatness",
        "mean rise of that loss in that ball",
        lambda seen, at: seen["end"]["real"]["stability"]["mean"],
    ),
    "eigenvalue_norm_correlation": Quantity(
        "flatness",
        "correlation of the largest eigenvalue and the norm of the gradient over the epochs of a run",
        lambda seen, at: _correlation(seen["top_eigenvalue"], seen["gradient_norm"]),
    ),
}
"""The marked epoch is the one with the best validation; training samples are as the training saw them."""

WORDS = {"better": "larger", "worse": "smaller"}


def probed(study: Study, arms: Mapping[str, Found], metric: str) -> list[dict[str, Any]]:
    """For each quantity of the study's probes: every arm, and its difference from the baseline.

    `arms` are the results of each arm in one setting, by seed. Any difference counts, however small: what is large is
    not known of these quantities. The verdict is larger, smaller or undecided.
    """
    baseline, *others = study.arm_names
    entries = []
    for name, quantity in QUANTITIES.items():
        values = {arm: _values(found, quantity, metric) for arm, found in arms.items()}
        if not any(values.values()):
            continue
        comparisons = []
        if values[baseline]:
            family = [(arm, baseline) for arm in others]
            judged = [comparison.as_dict() for comparison in compare_family(family, values, rope=0.0)]
            comparisons = [c | {"verdict": WORDS.get(c["verdict"], c["verdict"])} for c in judged]
        entries.append(
            {
                "quantity": name,
                "label": quantity.label,
                "arms": [{"arm": arm, **spread(found), "values": found} for arm, found in values.items()],
                "comparisons": comparisons,
            }
        )
    return entries


def marked_epoch(result: Mapping[str, Any], metric: str) -> int:
    """The place of the epoch with the best validation among the curves, the first of equals."""
    curve = [entry[f"val_{metric}"] for entry in result["curves"]]
    return curve.index(max(curve))


def _values(found: Found, quantity: Quantity, metric: str) -> dict[str, float]:
    """By seed; without those of which it is not defined, such as the dummies' of a model without any."""
    values = {
        seed: quantity.take(result["probes"][quantity.probe], marked_epoch(result, metric))
        for seed, result in found.items()
        if quantity.probe in result.get("probes", {})
    }
    return {seed: value for seed, value in values.items() if value is not None}
