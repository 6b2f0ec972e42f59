"""Checks that find out before the first trial what would fail every one of them."""

from pathlib import Path
from typing import TYPE_CHECKING

from durm.study.spec import Study

SMALL_SCENE = 64
"""The side in pixels of the scenes that a segmentation model is tried on."""

if TYPE_CHECKING:
    from durm.data.bundle import DataBundle
    from durm.training.trial import Trial


def expanded(study: Study, data_root: Path | None = None) -> Study:
    """The study with every setting named: data with domains stand for themselves with each of these held out."""
    from durm.data import DataOptions, settings_of

    names = [name for data in study.data for name in settings_of(data, DataOptions(data_root))]
    return study.model_copy(update={"data": tuple(dict.fromkeys(names))})


def check_study(study: Study, data_root: Path | None) -> None:
    """Loads the data and builds the model of every setting once, widened, and takes the loss of two samples of it.

    Raises:
        InputError: for an unknown name, data that cannot be read, a model or a method that does not fit the data.
    """
    from durm import models
    from durm.errors import InputError
    from durm.training.engine import check_precision
    from durm.training.loop import load_bundle
    from durm.training.method import parse_method

    trials = sorted(study.trials(), key=lambda trial: trial.dummies)
    averaging = [method for method in study.method if parse_method(method)[1] is not None]
    selecting = study.select == "best-val" and len(averaging) == len(study.method)
    if averaging and (selecting or any(trial.train.patience for trial in trials)):
        raise InputError(f"method {averaging[0]!r} averages weights; it does not go with selecting the best ones")
    for trial in {(trial.data, trial.model, trial.method): trial for trial in trials}.values():
        check_precision(trial)
        bundle = load_bundle(trial, data_root)
        models.check(trial.model, pretrained=trial.pretrained, task=bundle.task)
        shape = bundle.input.shape
        if bundle.task == "segmentation":
            if trial.attacks:
                raise InputError(f"attacks are on classifiers, and data {trial.data!r} have a label for each pixel")
            _check_segmentation(trial, bundle)
            continue
        if trial.attacks and bundle.input.white is None:
            raise InputError(f"attacks need images, and data {trial.data!r} are none: its values have no known range")
        if trial.train.augment not in (None, "none") and len(shape) != 3:
            raise InputError(f"augment {trial.train.augment!r} takes images, and the samples have shape {shape}")
        _check_model(trial, bundle)


def _check_segmentation(trial: "Trial", bundle: "DataBundle") -> None:
    """A step on two small scenes: large ones would take long."""
    import torch

    from durm.errors import InputError
    from durm.objectives import Batch
    from durm.training.loop import build_model, build_objective
    from durm.training.tasks import make_task

    make_task(trial, bundle, torch.device("cpu")).feed()  # refuses an augmentation that does not fit
    side = SMALL_SCENE
    with torch.random.fork_rng():
        try:
            model = build_model(trial.model_copy(update={"pretrained": False}), bundle)
            objective = build_objective(trial, bundle, model)
            batch = Batch(torch.zeros(2, 3, side, side), torch.zeros(2, side, side, dtype=torch.long))
            objective.loss(model.train(), batch)
            with torch.no_grad():
                logits = model.eval()(batch.inputs)
        except InputError:
            raise
        except Exception as error:  # whatever a model may raise on inputs that are not made for it
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"model {trial.model!r} cannot be trained on scenes: {reason}") from None
    if tuple(getattr(logits, "shape", ())) != (2, bundle.num_classes, side, side):
        given = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(
            f"model {trial.model!r} gives {given} for scenes of shape (2, 3, {side}, {side}); expected logits of shape "
            f"(2, {bundle.num_classes}, {side}, {side})"
        )


def _check_model(trial: "Trial", bundle: "DataBundle") -> None:
    import torch

    from durm import models
    from durm.data.bundle import Samples
    from durm.errors import InputError
    from durm.evaluation.robustness import robustness
    from durm.objectives import Batch
    from durm.training.loop import build_model, build_objective

    shape, count = bundle.input.shape, 2 * max(1, len(bundle.domain_names))
    with torch.random.fork_rng():
        try:
            offline = trial.model == models.TEXT  # its weights come with the data
            shown = trial if offline else trial.model_copy(update={"pretrained": False})
            model = build_model(shown, bundle).eval()
        except InputError:
            raise
        except ValueError as error:  # a head that cannot be widened
            raise InputError(f"model {trial.model!r}: {error}") from None
        inputs = bundle.input.normalise(torch.zeros(count, *shape))
        try:
            with torch.no_grad():
                logits = model(inputs)
        except Exception as error:  # whatever a model may raise on inputs that are not made for it
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"model {trial.model!r} does not take samples of shape {shape}: {reason}") from None
        if tuple(getattr(logits, "shape", ())) != (count, bundle.num_classes):
            given = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise InputError(
                f"model {trial.model!r} gives {given} for {count} samples; expected logits of shape "
                f"({count}, {bundle.num_classes})"
            )
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
