"""A saved model before samples of no known class, and how well it knows when it is wrong."""

from pathlib import Path

import torch
from torch import Tensor

from durm._user_code import Trust
from durm.data.bundle import DataBundle, Samples
from durm.errors import InputError
from durm.metrics.uncertainty import auroc, fpr95, risk_coverage, uncertainty_scores
from durm.training.building import load_bundle
from durm.training.inference import load_model, test_samples
from durm.training.result import Record
from durm.training.tasks import Classification

COVERAGES = tuple(range(10, 101, 10))


class ScoreQuality(Record):
    """What a score of uncertainty is worth; see `durm.metrics.uncertainty`.

    Attributes:
        auroc: of known test samples against those of no known class, in percent.
        fpr95: in percent.
        aurc: over the known test samples, in percent.
        risk: for each coverage in percent, the error in percent of that share of the known samples of lowest score.
    """

    auroc: float
    fpr95: float
    aurc: float
    risk: dict[int, float]


class OpenSetReport(Record):
    """The qualities of the scores by name, and of how many samples.

    Attributes:
        known: test samples of the model's own classes.
        wrong: how many of them it classifies wrongly.
        unknown: samples of no known class.
        scores: by the names of `durm.metrics.uncertainty.uncertainty_scores`.
        notes: sentences that the user should read.
    """

    known: int
    wrong: int
    unknown: int
    scores: dict[str, ScoreQuality]
    notes: list[str]


@torch.no_grad()
def open_set_checkpoint(
    path: Path, open_set: str, *, data: str | None = None, data_root: Path | None = None, trust_code: Trust = False
) -> OpenSetReport:
    """How the scores of a saved classifier tell the test samples of `open_set` from its own, and wrong from right.

    The samples of `open_set` have the shape of the model's inputs; their labels are not looked at. `trust_code` is that
    of `durm.training.inference.load_model`.
    """
    model, trial, bundle = load_model(path, data_root, trust_code=trust_code)
    if bundle.task == "segmentation":
        raise InputError(f"`open_set` is for classifiers, and {trial.model!r} in {path} gives a class to each pixel")
    known = test_samples(trial, bundle, data, data_root)
    other = load_bundle(trial.model_copy(update={"data": open_set}), data_root)
    _check_format(open_set, other, bundle)
    task = Classification(trial, bundle, torch.device("cpu"))
    model.eval()

    def reduce(samples: Samples) -> tuple[dict[str, Tensor], Tensor]:
        scores: list[dict[str, Tensor]] = []
        predicted = []
        for logits in task.logits(model, samples):
            scores.append(uncertainty_scores(logits, bundle.num_classes))
            predicted.append(logits[:, : bundle.num_classes].argmax(1))
        return {name: torch.cat([one[name] for one in scores]) for name in scores[0]}, torch.cat(predicted)

    (inside, predicted), (outside, _) = reduce(known), reduce(other.test)
    wrong = predicted != known.labels
    return OpenSetReport(
        known=len(known),
        wrong=int(wrong.sum()),
        unknown=len(other.test),
        scores={name: _quality(inside[name], wrong, outside[name]) for name in inside},
        notes=_shared_names(open_set, other, bundle),
    )


def _quality(inside: Tensor, wrong: Tensor, outside: Tensor) -> ScoreQuality:
    curve = 100 * risk_coverage(inside, wrong)
    places = {coverage: max(1, round(coverage / 100 * len(curve))) - 1 for coverage in COVERAGES}
    return ScoreQuality(
        auroc=100 * auroc(inside, outside),
        fpr95=100 * fpr95(inside, outside),
        aurc=float(curve.mean()),
        risk={coverage: float(curve[place]) for coverage, place in places.items()},
    )


def _check_format(name: str, other: DataBundle, bundle: DataBundle) -> None:
    has, needs = other.input, bundle.input
    if other.task == "segmentation":
        raise InputError(
            f"`open_set` {name!r} has a class for each pixel; expected data with one label for each sample"
        )
    if has.shape != needs.shape:
        raise InputError(f"`open_set` {name!r} has samples of shape {has.shape}; the model takes {needs.shape}")
    if has.vocabulary != needs.vocabulary:
        raise InputError(f"`open_set` {name!r} has other tokens than the data of the model")
    if None not in (has.pixel_max, needs.pixel_max) and has.pixel_max != needs.pixel_max:
        raise InputError(
            f"`open_set` {name!r} has pixels from 0 to {has.pixel_max:g}; those of the model go to {needs.pixel_max:g}"
        )


def _shared_names(name: str, other: DataBundle, bundle: DataBundle) -> list[str]:
    """A note if classes of the open set are called like known ones; classes without names have numbers."""
    shared = [one for one in other.class_names if one in bundle.class_names and not one.isdigit()]
    return [f"{name} has classes of known names: {', '.join(shared)}"] if shared else []
