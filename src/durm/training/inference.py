"""Models that a trial has saved, to use again."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from durm._random import generator
from durm._user_code import Trust, check_trusted
from durm.data.bundle import DataBundle, Samples
from durm.data.folder import files_below
from durm.data.image_files import ImageFiles
from durm.data.segmentation_files import scene_images
from durm.errors import InputError
from durm.training import checkpoint
from durm.training.attempts import AttemptsFile
from durm.training.building import build_model, load_bundle
from durm.training.loaders import evaluation_batches
from durm.training.result import Attacked, Record
from durm.training.robustness import robustness, transfer
from durm.training.segmentation import write_predictions
from durm.training.tasks import EVALUATION_BATCH, Scores, make_task
from durm.training.trial import AttackSpec, Trial, read_trial


def load_model(
    path: Path, data_root: Path | None = None, *, trust_code: Trust = False
) -> tuple[nn.Module, Trial, DataBundle]:
    """The model in a checkpoint, widened and in eval mode, with its trial and its data.

    A model that is written `package.module:function` is code that the checkpoint names: it is imported with
    `trust_code` only, which is True, or the names of the models that may be.
    """
    state = checkpoint.load(path)
    try:
        trial = read_trial(state["trial"])
    except (ValueError, TypeError):
        raise InputError(f"checkpoint {path} is not one of durm's: it describes no trial") from None
    check_trusted(trial.model, f"checkpoint {path}", trust_code)
    bundle = load_bundle(trial, data_root)
    with torch.random.fork_rng():
        model = build_model(trial.model_copy(update={"pretrained": False}), bundle)
    try:
        model.load_state_dict(state["model"])
    except (RuntimeError, TypeError, AttributeError):
        raise InputError(f"checkpoint {path} does not hold the weights of a {trial.model!r}") from None
    return model.eval(), trial, bundle


def fixed_samples(bundle: DataBundle, part: str, limit: int) -> tuple[Tensor, Tensor]:
    """Inputs, as the model takes them, and labels: so many samples of a part of the data, the same for every model."""
    samples: Samples = getattr(bundle, part)
    if len(samples) > limit:
        order = torch.randperm(len(samples), generator=generator(0, "probed samples"))
        samples = samples.subset(order[:limit].sort().values)
    return torch.cat(list(evaluation_batches(samples, bundle.input, EVALUATION_BATCH))), samples.labels


def score_checkpoint(
    path: Path, *, data: str | None = None, data_root: Path | None = None, trust_code: Trust = False
) -> tuple[Scores, DataBundle]:
    """What is measured on the test part of the data that the model was trained on, or of other data of the same format.

    `trust_code` is that of `load_model`.

    Returns:
        The scores, and the data that the model was trained on.
    """
    model, trial, bundle = load_model(path, data_root, trust_code=trust_code)
    samples = test_samples(trial, bundle, data, data_root)
    return make_task(trial, bundle, torch.device("cpu")).scores(model, samples), bundle


def predict_checkpoint(
    path: Path,
    folder: Path,
    *,
    images: Path | None = None,
    data: str | None = None,
    data_root: Path | None = None,
    follow: Callable[[range], Iterable[int]] = iter,
    trust_code: Trust = False,
) -> tuple[list[Path], str | None]:
    """Writes what a segmentation model sees, as `durm.training.segmentation.write_predictions` does.

    It sees the test part of its data or of other `data`, or a folder of `images` and those in folders below, which are
    read at full resolution. `follow` goes through the numbers of the images, and may show how far it has come.
    `trust_code` is that of `load_model`.

    Returns:
        The files, and a sentence that the user should read, if there is one.
    """
    model, trial, bundle = load_model(path, data_root, trust_code=trust_code)
    if bundle.task != "segmentation":
        raise InputError(
            f"`predictions` are of models with a class for each pixel, and {trial.model!r} is a classifier"
        )
    files: Any = _images_in(images) if images is not None else test_samples(trial, bundle, data, data_root).inputs
    each = ((files.key(index).decode(), files[index]) for index in follow(range(len(files))))
    sizes = {"window": trial.window, "stride": trial.window_stride}
    written = write_predictions(model, each, bundle, folder, torch.device("cpu"), **sizes)
    if trial.image_size is None:
        return written, None
    left = "the predictions are of that size; `images` takes them as they are"
    return written, (
        f"the model was trained on images whose shorter side was scaled to {trial.image_size} pixels, and "
        f"{left if images is None else 'these were left as they are'}"
    )


def _images_in(folder: Path) -> ImageFiles:
    """The files in the folder and below."""
    if not folder.is_dir():
        raise InputError(f"`images` {folder}: there is no such folder")
    paths = files_below(folder)
    if not paths:
        raise InputError(f"`images` {folder} has no images in it")
    return scene_images(folder, paths)


class AttackReport(Record):
    """What attacks leave of a saved model.

    Attributes:
        robustness: for the clean samples, and for each attack and surface.
        transfer: for each attack, the accuracy on what it made through the real logits of another model.
    """

    robustness: dict[str, Attacked]
    transfer: dict[str, float]


def attack_checkpoint(
    path: Path,
    attacks: Sequence[AttackSpec],
    *,
    samples: int,
    transfer_from: Path | None = None,
    resume: Path | None = None,
    data: str | None = None,
    data_root: Path | None = None,
    trust_code: Trust = False,
) -> AttackReport:
    """What attacks leave of a model's accuracy, on so many test samples.

    `resume` is a file that keeps what was attacked: a run that is interrupted goes on from it. `trust_code` is that of
    `load_model`.
    """
    model, trial, bundle = load_model(path, data_root, trust_code=trust_code)
    if bundle.task == "segmentation":
        raise InputError(f"`attack` is for classifiers, and {trial.model!r} in {path} gives a class to each pixel")
    test = test_samples(trial, bundle, data, data_root)
    transferred = {}
    if transfer_from is not None:
        other, _, theirs = load_model(transfer_from, data_root, trust_code=trust_code)
        if (theirs.num_classes, theirs.input.shape) != (bundle.num_classes, bundle.input.shape):
            raise InputError(f"`transfer_from` {transfer_from} is of a model for other classes or inputs")
        transferred = {
            attack.label: transfer(other, model, test, bundle.input, attack, limit=samples, source_format=theirs.input)
            for attack in attacks
        }
    attacked = partial(robustness, model, test, bundle.input, attacks, limit=samples, seed=trial.seed)
    if resume is None:
        found = attacked()
    else:
        kept = AttemptsFile(resume, model, test, attacks, samples, trial.seed)
        try:
            found = attacked(attempts=kept.found, on_batch=kept.write_if_due)
        finally:  # also of a keyboard interrupt
            kept.write()
    return AttackReport(robustness=found, transfer=transferred)


def test_samples(trial: Trial, bundle: DataBundle, data: str | None, data_root: Path | None) -> Samples:
    """Those of the data that the model was trained on, or of other data of the same format."""
    if data is None:
        return bundle.test
    other = load_bundle(trial.model_copy(update={"data": data}), data_root)
    if other.task != bundle.task:
        raise InputError(f"`data` {data!r} is for {other.task}; the model was trained for {bundle.task}")
    has, needs = (
        f"{one.num_classes} classes"
        + ("" if one.task == "segmentation" else f" and samples of shape {one.input.shape}")  # scenes are of any size
        for one in (other, bundle)
    )
    if has != needs:
        raise InputError(f"`data` {data!r} has {has}; the model was trained on {needs}")
    return other.test
