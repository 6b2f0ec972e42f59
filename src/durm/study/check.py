"""Checks that find out before the first trial what would fail every one of them."""

import math
from pathlib import Path

import torch
from torch import nn

from durm import models
from durm._memory import check_fits
from durm._text import metric_name
from durm._user_code import describe_user_error
from durm.data import DataOptions, settings_of
from durm.data.bundle import IGNORED, DataBundle, MappedRows, Samples, sample_keys
from durm.errors import InputError, unknown
from durm.methods import Batch
from durm.study.config import Study
from durm.study.data_record import FILE, compare_data
from durm.training.building import build_model, build_objective, load_bundle
from durm.training.engine import check_precision, check_processes, processes
from durm.training.robustness import robustness
from durm.training.tasks import Segmentation, check_recipe
from durm.training.trial import Trial

LARGE_SCENE, STEP = 256, 64
"""Segmentation models are tried on scenes of up to so many pixels a side. Longer sides are shortened by a multiple of
64, because many networks take multiples of 2, 4, …, 64 pixels only."""


def expanded(study: Study, data_root: Path | None = None) -> Study:
    """The study with every setting named: data with domains stand for themselves with each of these held out."""
    names = [name for data in study.data for name in settings_of(data, DataOptions(data_root))]
    return study.updated(data=tuple(dict.fromkeys(names)))


def check_study(study: Study, data_root: Path | None, folder: Path | None = None) -> None:
    """Loads the data and builds the model of every setting once, widened, and takes the loss of two samples of it.

    Raises:
        InputError: for an unknown name, data that cannot be read or are not those that the study in the folder was
            begun with, a model or a method that does not fit the data.
    """
    trials = sorted(study.trials(), key=lambda trial: trial.dummies)
    if folder is not None and (folder / FILE).exists():
        compare_data(folder, trials, data_root)
    averaging = [method.name for method in study.method if method.average is not None]
    selecting = study.select == "best-val" and len(averaging) == len(study.method)
    if averaging and (selecting or any(trial.train.patience for trial in trials)):
        raise InputError(f"method {averaging[0]!r} averages weights; it does not go with selecting the best ones")
    _check_same_test_set(study, data_root)
    for trial in {(trial.data, trial.model, trial.method_name): trial for trial in trials}.values():
        check_precision(trial)
        bundle = load_bundle(trial, data_root)
        check_processes(trial, len(bundle.train), len(bundle.domain_names))
        _check_metric(study.metric, bundle)
        models.check(trial.model, pretrained=trial.pretrained, task=bundle.task)
        for other in trials:
            if other.data == trial.data:
                check_recipe(other, bundle)
        if bundle.task == "segmentation":
            if trial.flatness is not None:
                raise InputError(f"flatness is of classifiers, and data {trial.data!r} have a label for each pixel")
            _check_segmentation(trial, bundle)
            continue
        if trial.attacks and bundle.input.pixel_max is None:
            raise InputError(f"attacks need images, and data {trial.data!r} are none: its values have no known range")
        _check_model(trial, bundle)
        if trial.attacks:  # some take more logits than there are without dummies
            _check_model(trial.model_copy(update={"dummies": trials[0].dummies}), bundle)


def _check_same_test_set(study: Study, data_root: Path | None) -> None:
    """Refuses arms on data of their own whose test set is not that of the others: their runs would be no pairs."""
    if not any(arm.overrides_axis("data") for arm in study.arms):
        return
    first, *others = {trial.data: trial for trial in study.trials()}.values()
    expected = load_bundle(first, data_root).test
    for trial in others:
        test = load_bundle(trial, data_root).test
        same = len(test) == len(expected) and torch.equal(test.labels, expected.labels)
        if same and all(isinstance(part.inputs, (torch.Tensor, MappedRows)) for part in (test, expected)):
            same = test.inputs[0].shape == expected.inputs[0].shape and sample_keys(test) == sample_keys(expected)
        if not same:
            raise InputError(
                f"arm {trial.arm!r}: the test set of data {trial.data!r} is not that of {first.data!r}; arms are "
                "compared on one test set"
            )


def _check_metric(name: str, bundle: DataBundle) -> None:
    """Refuses metrics of classes, or of groups of classes, that the data do not have."""
    groups = {"accuracy_": bundle.groups, "iou_": bundle.class_names, "acc_": bundle.class_names}
    for prefix, known in groups.items():
        if name.startswith(prefix) and name not in (names := [f"{prefix}{metric_name(one)}" for one in known]):
            if not names:
                raise InputError(f"metric {name!r}: these data have no groups of classes; long-tailed ones do")
            raise unknown("metric", name, names)


def _check_segmentation(trial: Trial, bundle: DataBundle) -> None:
    """The loss of two crops, and the logits of a test scene or of the part of it that is seen at once.

    Both are empty, and made smaller if they are large: whole ones would take long.
    """
    task = Segmentation(trial, bundle, torch.device("cpu"))
    first = bundle.train.subset(torch.arange(min(len(bundle.train), task.train_samples)))
    for name, part in (("training", first), ("validation", bundle.val), ("test", bundle.test)):
        masks = part.masks
        assert masks is not None
        if not any((masks[index] != IGNORED).any() for index in range(len(masks))):
            raise InputError(
                f"data {trial.data!r}: no pixel of {len(masks):,} {name} masks has a class; all are ignored"
            )
    together = task.loader().samples_per_step // processes(trial)
    crops = torch.zeros(min(2, max(1, together)), 3, *_small(task.crop))
    tall, wide = bundle.test.inputs[0].shape[1:]
    size = _small((tall, wide) if trial.window is None else (min(trial.window[0], tall), min(trial.window[1], wide)))
    with torch.random.fork_rng():
        model = _build(trial.model_copy(update={"pretrained": False}), bundle)
        objective = build_objective(trial, bundle, model)
        try:
            objective.loss(model.train(), Batch(crops, torch.zeros_like(crops[:, 0], dtype=torch.long)))
            with torch.no_grad():
                logits = model.eval()(torch.zeros(1, 3, *size))
        except Exception as error:  # whatever a model may raise on inputs that are not made for it
            raise InputError(f"model {trial.model!r} cannot be trained on scenes: {_reason(error)}") from None
    expected = (1, bundle.num_classes, *size)
    _check_logits(trial, logits, f"a scene of shape {(1, 3, *size)}", expected)


def _small(size: tuple[int, int]) -> tuple[int, int]:
    height, width = (side if side <= LARGE_SCENE else LARGE_SCENE - STEP + side % STEP for side in size)
    return height, width


def _check_model(trial: Trial, bundle: DataBundle) -> None:
    shape, count = bundle.input.shape, 2 * max(1, len(bundle.domain_names))
    together = min(trial.train.batch_size * max(1, len(bundle.domain_names)), len(bundle.train))
    what = f"`batch_size` {trial.train.batch_size}: {together} samples of shape {shape} at a time"
    check_fits(what, 4 * together * math.prod(shape), "take a smaller one")
    with torch.random.fork_rng():
        offline = trial.model == models.TEXT  # its weights come with the data
        model = _build(trial if offline else trial.model_copy(update={"pretrained": False}), bundle).eval()
        inputs = bundle.input.normalise(torch.zeros(count, *shape))
        try:
            with torch.no_grad():
                logits = model(inputs)
        except Exception as error:  # whatever a model may raise on inputs that are not made for it
            raise InputError(
                f"model {trial.model!r} does not take samples of shape {shape}: {_reason(error)}"
            ) from None
        _check_logits(trial, logits, f"{count} samples", (count, bundle.num_classes))
        domains = torch.arange(count) // 2 if bundle.domain_names else None
        batch = Batch(inputs, torch.zeros(count, dtype=torch.long), domains=domains)
        build_objective(trial, bundle, model).loss(model.train(), batch)
        two = Samples(torch.zeros(2, *shape), torch.zeros(2, dtype=torch.long))
        for attack in trial.attacks:
            once = attack.model_copy(update={"steps": 1, "curve": ()})
            try:
                robustness(model, two, bundle.input, [once], limit=2)
            except ValueError as error:
                raise InputError(f"attack {attack.label!r}: {error}") from None


def _build(trial: Trial, bundle: DataBundle) -> nn.Module:
    try:
        return build_model(trial, bundle)
    except InputError:
        raise
    except Exception as error:
        reason = describe_user_error(error)
        if reason is None and not isinstance(error, ValueError):  # which is a head that cannot be widened
            raise
        raise InputError(f"model {trial.model!r}: {reason or error}") from None


def _reason(error: Exception) -> str:
    return describe_user_error(error) or " ".join(str(error).split())[:200]


def _check_logits(trial: Trial, logits: object, inputs: str, expected: tuple[int, ...]) -> None:
    given = tuple(logits.shape) if isinstance(logits, torch.Tensor) else f"a {type(logits).__name__}"
    if given != expected:
        raise InputError(f"model {trial.model!r} gives {given} for {inputs}; expected logits of shape {expected}")
