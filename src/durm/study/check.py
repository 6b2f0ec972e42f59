"""Checks that find out before the first trial what would fail every one of them."""

from pathlib import Path
from typing import TYPE_CHECKING

from durm.study.spec import Study, segments

LARGE_SCENE, STEP = 256, 64
"""Segmentation models are tried on scenes of up to so many pixels a side. Longer sides are shortened by a multiple of
64, because many networks take multiples of 2, 4, …, 64 pixels only."""

if TYPE_CHECKING:
    from durm.data.bundle import DataBundle, Samples
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
    from durm.training.tasks import check_recipe

    trials = sorted(study.trials(), key=lambda trial: trial.dummies)
    averaging = [method for method in study.method if parse_method(method)[1] is not None]
    selecting = study.select == "best-val" and len(averaging) == len(study.method)
    if averaging and (selecting or any(trial.train.patience for trial in trials)):
        raise InputError(f"method {averaging[0]!r} averages weights; it does not go with selecting the best ones")
    try:
        scenes = segments(study.data)
    except ValueError as error:
        raise InputError(str(error)) from None
    if study.metric in ("miou", "macc") and not scenes:
        raise InputError(f"metric {study.metric!r} is for images with masks; this study measures accuracy")
    for trial in {(trial.data, trial.model, trial.method): trial for trial in trials}.values():
        check_precision(trial)
        bundle = load_bundle(trial, data_root)
        models.check(trial.model, pretrained=trial.pretrained, task=bundle.task)
        for other in trials:
            if other.data == trial.data:
                check_recipe(other, bundle)
        if bundle.task == "segmentation":
            if trial.flatness is not None:
                raise InputError(f"flatness is of classifiers, and data {trial.data!r} have a label for each pixel")
            _check_segmentation(trial, bundle)
            continue
        if trial.attacks and bundle.input.white is None:
            raise InputError(f"attacks need images, and data {trial.data!r} are none: its values have no known range")
        _check_model(trial, bundle)
        if trial.attacks:  # some take more logits than there are without dummies
            _check_model(trial.model_copy(update={"dummies": trials[0].dummies}), bundle)


def _check_segmentation(trial: "Trial", bundle: "DataBundle") -> None:
    """The loss of two crops, and the logits of a test scene or of the part of it that is seen at once.

    Both are empty, and made smaller if they are large: whole ones would take long.
    """
    import torch

    from durm.errors import InputError
    from durm.objectives import Batch
    from durm.training.loop import build_model, build_objective
    from durm.training.tasks import Segmentation

    task = Segmentation(trial, bundle, torch.device("cpu"))
    first = bundle.train.subset(torch.arange(min(len(bundle.train), task.train_samples)))
    for name, part in (("training", first), ("validation", bundle.val), ("test", bundle.test)):
        _check_labels(trial, name, part)
    together = task.feed().samples_per_step // trial.devices
    height, width = _small(task.crop)
    crops = torch.zeros(min(2, max(1, together)), 3, height, width)
    tall, wide = bundle.test.inputs[0].shape[1:]
    size = _small((tall, wide) if trial.window is None else (min(trial.window[0], tall), min(trial.window[1], wide)))
    with torch.random.fork_rng():
        try:
            model = build_model(trial.model_copy(update={"pretrained": False}), bundle)
        except InputError:
            raise
        except ValueError as error:  # a head that cannot be widened
            raise InputError(f"model {trial.model!r}: {error}") from None
        objective = build_objective(trial, bundle, model)
        try:
            objective.loss(model.train(), Batch(crops, torch.zeros(len(crops), height, width, dtype=torch.long)))
            with torch.no_grad():
                logits = model.eval()(torch.zeros(1, 3, *size))
        except Exception as error:  # whatever a model may raise on inputs that are not made for it
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"model {trial.model!r} cannot be trained on scenes: {reason}") from None
    if tuple(getattr(logits, "shape", ())) != (1, bundle.num_classes, *size):
        given = tuple(logits.shape) if isinstance(logits, torch.Tensor) else f"a {type(logits).__name__}"
        raise InputError(
            f"model {trial.model!r} gives {given} for a scene of shape {(1, 3, *size)}; expected logits of shape "
            f"{(1, bundle.num_classes, *size)}"
        )


def _small(size: tuple[int, int]) -> tuple[int, int]:
    height, width = (side if side <= LARGE_SCENE else LARGE_SCENE - STEP + side % STEP for side in size)
    return height, width


def _check_labels(trial: "Trial", name: str, part: "Samples") -> None:
    """Refuses scenes of which nothing can be measured."""
    from durm.data.bundle import IGNORED
    from durm.errors import InputError

    masks = part.masks
    assert masks is not None
    if not any((masks[index] != IGNORED).any() for index in range(len(masks))):
        raise InputError(f"data {trial.data!r}: no pixel of {len(masks):,} {name} masks has a class; all are ignored")


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
