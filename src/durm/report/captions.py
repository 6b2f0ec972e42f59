"""What is said about each figure: below it, and to those who cannot see it."""

from durm._text import pluralize
from durm.metrics import Metric
from durm.report.estimation import MOST_ARMS
from durm.report.probes import caption_of as probe_caption
from durm.report.text import headline, place, sentences
from durm.study.records import Setting, Summary

_CAPTIONS = {
    "estimation": "Above: every run is a dot, the runs of one seed are joined by a line, and bars are means. Below: "
    "the difference of each seed from the baseline. Thin line: the interval that the verdict comes from; thick "
    "line: the 95 % interval of that arm alone. Grey band: the equivalence margin; a thin line wholly beyond "
    "it means better or worse, wholly inside it equal, otherwise undecided. Hover over a dot for its seed and"
    " value.",
    "rows": "Every arm against the baseline: the mean difference (dot), the interval that the verdict comes from (thin "
    "line), the 95 % interval of that arm alone (thick line), the equivalence margin (grey band), and below each the "
    "difference of every seed (small dots; hover for the seed and its value).",
    "forest": "Every comparison with the baseline: the mean difference (dot), the interval that the verdict comes from "
    "(thin line), the 95 % interval of that comparison alone (thick line), the equivalence margin (grey "
    "band), the pairs and the word.",
    "scenes": "Scenes of the test set, as the models of the first seed see them; ignored pixels are striped. Red: "
    "pixels whose largest logit of all is a dummy. Last: the probability on the dummies, on a logarithmic "
    "scale.",
    "radius": "What is left of the accuracy as the ball grows within which the attack may change the inputs. Each "
    "radius starts from the result of the one before, so this attack is a little stronger than the one in the"
    " table.",
    "calibration": "How often the model is right at each confidence, on the test set, all seeds pooled. On the dashed "
    "line a model is exactly as often right as it says; below it, it is overconfident. Bins of fewer than 10 "
    "samples are left out.",
}
_CURVES = (
    "{} on the validation set while training. The difference of each arm from the baseline of the "
    "same seed: the mean with its 95 % interval over the seeds at that epoch, and a thin line for each seed "
    "(hover for the seed and its last value). Small, above: the mean of the baseline with a band of one "
    "standard deviation. The steep beginning may be cut off."
)
_KINDS = {
    "scenes": "Pictures of segmented scenes",
    "radius": "Line plot of the accuracy against the radius of an attack",
    "calibration": "Reliability diagram",
}


def caption(name: str, setting: Setting, metric: Metric | None = None) -> str:
    """Of the figure of that name; `metric` is that of a curve."""
    drawn_as = "rows" if name == "estimation" and len(setting.arms) > MOST_ARMS else name
    text = probe_caption(name.partition("-")[0]) or _CAPTIONS.get(drawn_as)
    if text is None and metric is not None:
        text = _CURVES.format(f"{metric.label[0].upper()}{metric.label[1:]}")
    seeds = pluralize(max((arm.n for arm in setting.arms), default=0), "seed")
    return f"{text}" if name in ("scenes", "forest") else f"{text} {seeds}."


def alternative_text(name: str, setting: Setting, summary: Summary, metric: Metric | None = None) -> str:
    """For those who cannot see the figure: what it shows, and what can be read off it."""
    if name == "forest":
        return f"Forest plot of every comparison with the baseline. {headline(summary)}"
    arms = ", ".join(arm.arm for arm in setting.arms)
    if name == "estimation":
        return " ".join([f"Estimation plot of {arms}.", *sentences(setting, summary)])
    what = f"Line plot of the validation {metric.label} while training" if metric else _KINDS.get(name)
    return f"{what or f'Figure of {name}'}: {arms} {place(setting)}.".replace(" .", ".")
