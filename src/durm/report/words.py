"""The verdict in sentences. The terminal, the page and the Markdown use the same ones."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from durm._words import counted

MOST_NAMED = 6
ORDER = ("better", "worse", "equal", "undecided")
CAPTIONS = {
    "intervals": (
        "How much each arm differs from the baseline. Dot: the mean difference. Thin line: the interval that the "
        "verdict comes from; thick line: the plain 95 % interval. Small dots: the single seeds. Grey band: differences "
        "that count as none. A thin line wholly beyond the band means better or worse, wholly inside it equal, "
        "otherwise undecided."
    ),
    "pairs": (
        "Each grey line is one seed: the same split, initial weights, order of data and augmentation in every arm. "
        "Coloured bars: the mean of each arm. Lines that go up and down alike show why runs are compared in pairs."
    ),
    "val_accuracy": (
        "Accuracy on the validation set while training: mean over the seeds, with a band of one standard "
        "deviation. The steep beginning may be cut off."
    ),
    "val_miou": "Mean IoU on the validation set while training: mean and standard deviation over the seeds.",
    "val_macc": "Mean class accuracy on the validation set while training: mean and standard deviation over the seeds.",
    "scenes": (
        "Scenes of the test set, as the models of the first seed see them; ignored pixels are striped. Red: pixels "
        "whose largest logit of all is a dummy. Last: the probability on the dummies, on a logarithmic scale."
    ),
    "val_nll": "The loss over the real classes on the validation set, comparable between numbers of dummies.",
    "radius": (
        "What is left of the accuracy as the ball grows within which the attack may change the inputs. Each radius "
        "starts from the result of the one before, so this attack is a little stronger than the one in the table."
    ),
    "calibration": (
        "How often the model is right when it is so sure, on the test set, all seeds pooled. On the dashed line a "
        "model is exactly as often right as it says; below it, it is too sure of itself. Bins of fewer than 10 "
        "samples are left out."
    ),
    "gradient_variance": (
        "The variance, over the samples of an epoch, of the gradient that the logit of a class gets: mean over the "
        "classes and the seeds, with a band of one standard deviation over the seeds. Dashed: the epoch with the best "
        "validation, mean over the seeds."
    ),
    "class_variance": (
        "The same class by class, at the epoch with the best validation; mean and standard deviation over the seeds."
    ),
    "class_accuracy": "Test accuracy class by class, of the selected weights; mean and standard deviation over seeds.",
    "gradient_norm": (
        "The norm of the gradient of the shared weights (all but the dummies' own), added up over the steps; mean and "
        "standard deviation over the seeds."
    ),
    "distance": (
        "How far the shared weights (all but the dummies' own) have come from where they began, squared; mean and "
        "standard deviation over the seeds."
    ),
    "top_eigenvalue": (
        "The largest eigenvalue of the Hessian of the real-class loss over the shared weights, on the same training "
        "samples each time; mean and standard deviation over the seeds."
    ),
    "training_dummy_mass": (
        "The mean probability on the dummies in training, mean and standard deviation over the seeds. DuRM's effect on "
        "the gradient fades with it."
    ),
    "dummy_fraction": (
        "How the dummies share their gradient between them: in each run ordered by the last epoch, then mean and "
        "standard deviation over the seeds. Equals would all be at one over their number."
    ),
    "push": "The push term of the gradient, added up over the real classes; mean over samples and seeds.",
}
"""What a newcomer needs to read a figure."""


def caption(figure: str) -> str:
    """Of the figure of that name; what follows a hyphen tells figures of one kind apart."""
    return CAPTIONS[figure.partition("-")[0]]


def headline(summary: Mapping[str, Any]) -> str:
    """The verdict of a study in one sentence."""
    settings = summary["averages"] or summary["settings"]
    comparisons = [comparison for setting in settings for comparison in setting["comparisons"]]
    if not comparisons:
        return "There is one arm only, so there is nothing to compare."
    if len(settings) == 1:
        where = place(settings[0])
        where += f", {measured(summary['metric'])}" if _is_robust(summary["metric"]) else ""
        pairs = counted(max(c["n"] for c in comparisons), "pair")
        return f"{_groups(comparisons)}{where and ' '}{where} ({pairs} of runs)."
    counts = {word: sum(c["verdict"] == word for c in comparisons) for word in ORDER}
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    baseline = comparisons[0]["baseline"]
    over = ", each the mean over the held-out domains" if summary["averages"] else ""
    of = f" of {measured(summary['metric'])}" if _is_robust(summary["metric"]) else ""
    return f"{len(comparisons)} comparisons{of} with {baseline} in {len(settings)} settings{over}: {told}."


def selection(summary: Mapping[str, Any]) -> str:
    """Which weights the numbers are of."""
    best = measured("miou") if any(setting["classes"] for setting in summary["settings"]) else "accuracy"
    chosen = "the last epoch" if summary["select"] == "last" else f"the epoch with the best validation {best}"
    averaged = any(arm["selections"].get("average") is not None for s in summary["averages"] for arm in s["arms"])
    return f"{chosen}; methods that average weights keep their average" if averaged else chosen


def sentences(setting: Mapping[str, Any], summary: Mapping[str, Any]) -> list[str]:
    """What is known about each arm; of many arms, about those that are decided."""
    comparisons = setting["comparisons"]
    few = len(comparisons) <= MOST_NAMED
    told = [sentence(c, summary) for c in comparisons if few or c["verdict"] != "undecided"]
    if not few and len(told) < len(comparisons):
        told.append(f"{len(comparisons) - len(told)} arms are undecided; the table has their numbers.")
    how = "(It takes, for each seed, the number of dummies that is best on validation, and is judged on its own.)"
    return told + [f"{sentence(c, summary)} {how}" for c in setting["derived"]["comparisons"]]


def sentence(comparison: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """What is known about one arm, with the numbers."""
    arm, baseline, n = comparison["arm"], comparison["baseline"], comparison["n"]
    number, unit = _format(comparison, summary), _unit(summary["metric"])
    if n == 0:
        return f"{arm} against {baseline} is undecided: there is no pair of runs yet."
    difference = f"{number(comparison['difference'])} {unit}".strip()
    if n == 1:
        return f"{arm} against {baseline} is undecided: one pair of runs (difference {difference}) decides nothing."
    low, high = comparison["ci_family"]
    bounds = f"{number(low)} to {number(high)}"
    pairs = counted(n, "pair")
    told = f"{difference} (interval {bounds}, {pairs})"
    rope = f"±{summary['rope']:g}"
    if comparison["verdict"] in ("better", "worse"):
        return (
            f"{arm} is {comparison['verdict']} than {baseline}: {told}, beyond the {rope} that count as no difference."
        )
    if comparison["verdict"] == "equal":
        same = f"{arm} and {baseline} are equal for practical purposes"
        return f"{same}: {told}, within the {rope} that count as no difference."
    if low > high:
        return f"{arm} against {baseline} is undecided: the looks contradict each other ({difference}, {pairs})."
    return f"{arm} against {baseline} is undecided: {told} reaches across {rope}. {_needed(comparison)}"


def meaning(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the words do and do not mean, as (in short, in full)."""
    rope, unit = f"±{summary['rope']:g}", _unit(summary["metric"])
    rope = f"{rope} {unit}".strip()
    arms = max((len(setting["comparisons"]) for setting in summary["settings"]), default=0)
    together = " over all arms of a setting together" if arms > 1 else ""
    meant = [
        (
            "Better, worse",
            f"the whole interval of the mean difference lies beyond {rope}. If no arm really differed by more than "
            f"that, a study like this one would say so in at most 5 of 100 cases{together}.",
        ),
        ("Equal", f"the whole interval lies within {rope}, which was said beforehand to be too little to matter."),
        ("Undecided", "neither. It is not the same as equal: these runs cannot tell, and more seeds might."),
        (
            "Not meant",
            "that the same holds for other data, another model, other settings of training. Seeds vary the "
            "initialisation, the order of the data and the splits that are made by seed, and nothing else.",
        ),
    ]
    if len(summary["settings"]) > 1:
        meant.append(
            (
                "Many settings",
                f"the 5 of 100 hold for each setting on its own: among {len(summary['settings'])} of them without any "
                f"difference, about {0.05 * len(summary['settings']):.2g} would be expected to show one.",
            )
        )
    if summary["max_seeds"] is not None:
        meant.append(
            (
                "Looking again",
                "this study looks several times and stops when it is decided. The intervals of the verdict allow for "
                "that; the plain 95 % interval and the p values are for the final number of seeds alone and do not.",
            )
        )
    return meant


def measured(metric: str) -> str:
    """A metric in words: `robust_pgd_real` is the accuracy under pgd through the real logits."""
    if not _is_robust(metric):
        return _METRICS.get(metric, metric)
    attack, through = attack_and_surface(metric.removeprefix("robust_"))
    return f"accuracy under {attack} through {_SURFACES[through]}"


_METRICS = {"miou": "mean IoU", "macc": "mean class accuracy"}
_SURFACES = {"real": "the real logits", "full": "all logits"}


def attack_and_surface(key: str) -> tuple[str, str]:
    """`pgd` and `real` of `pgd_real`; of `clean`, `none` and nothing."""
    attack, _, through = key.rpartition("_")
    return (attack, through) if attack else ("none", "")


def _is_robust(metric: str) -> bool:
    return metric.startswith("robust_") and metric.endswith(("_real", "_full"))


def is_accuracy(metric: str) -> bool:
    """Whether it is an accuracy in percent, under an attack or not."""
    return metric == "accuracy" or _is_robust(metric)


def is_percentage(metric: str) -> bool:
    """Whether it is one of ours, which are in percent; who knows what a table of others' runs has."""
    return is_accuracy(metric) or metric in _METRICS


def _unit(metric: str) -> str:
    return "points" if is_percentage(metric) else ""


def place(setting: Mapping[str, Any]) -> str:
    """Where comparisons were made: `on digits with cnn`; for a table of others' runs, whatever it calls its setting."""
    names = setting["setting"]
    if "data" not in names:
        return " ".join(f"in {name}" for name in names.values())
    method = "" if names["method"] == "erm" else f", {names['method']}"
    domains = f", mean over {len(setting['domains'])} held-out domains" if "domains" in setting else ""
    return f"on {names['data']} with {names['model']}{method}{domains}"


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


def decimals(comparison: Mapping[str, Any], rope: float) -> int:
    """As many as show two digits of the region or of the interval's half-width, whichever is the finer."""
    low, high = comparison["ci_family"] or (0.0, 0.0)
    finest = min((size for size in (rope, abs(high - low) / 2) if size > 0), default=1.0)
    return min(8, max(2, 1 - math.floor(math.log10(finest))))


def _format(comparison: Mapping[str, Any], summary: Mapping[str, Any]) -> Any:
    digits = decimals(comparison, summary["rope"])
    return lambda value: signed(value, digits)


def _groups(comparisons: Sequence[Mapping[str, Any]]) -> str:
    """`durm-1 is better than erm; durm-2 and durm-3 are undecided against erm`."""
    groups = []
    for word in ORDER:
        arms = [comparison["arm"] for comparison in comparisons if comparison["verdict"] == word]
        if arms:
            verb = "is" if len(arms) == 1 else "are"
            groups.append(f"{_joined(arms)} {verb} {word} {_PREPOSITIONS[word]} {comparisons[0]['baseline']}")
    return "; ".join(groups)


_PREPOSITIONS = {"better": "than", "worse": "than", "equal": "to", "undecided": "against"}


def _joined(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"{len(names)} arms"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _needed(comparison: Mapping[str, Any]) -> str:
    needed = comparison["seeds_needed"]
    if needed is None:
        return "The difference is so near the edge of the region that no practical number of seeds would decide."
    if needed <= comparison["n"]:
        return "One more look may decide."
    return f"About {needed:,} seeds would decide if difference and spread stayed as they are."
