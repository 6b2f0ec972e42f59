"""Checks that find out before the first trial what would fail every one of them."""

from pathlib import Path

from durm.study.spec import Study


def check_study(study: Study, data_root: Path | None) -> None:
    """Loads the data and builds the model of every setting once, widened, and shows it two samples.

    Raises:
        InputError: for an unknown name, data that cannot be read, a model that does not fit the data.
    """
    import torch

    from durm import models
    from durm.errors import InputError
    from durm.training.engine import check_precision
    from durm.training.loop import build_model, load_bundle
    from durm.training.method import parse_method

    trials = sorted(study.trials(), key=lambda trial: trial.dummies)
    for trial in {(trial.data, trial.model, trial.method): trial for trial in trials}.values():
        check_precision(trial)
        _, averager = parse_method(trial.method)
        if averager is not None and (trial.select == "best-val" or trial.train.patience is not None):
            raise InputError(f"method {trial.method!r} averages weights; it does not go with selecting the best ones")
        models.check(trial.model, pretrained=trial.pretrained)
        bundle = load_bundle(trial, data_root)
        shape = bundle.input.shape
        if trial.train.augment not in (None, "none") and len(shape) != 3:
            raise InputError(f"augment {trial.train.augment!r} takes images, and the samples have shape {shape}")
        with torch.random.fork_rng():
            try:
                offline = trial.model == models.TEXT  # its weights come with the data
                shown = trial if offline else trial.model_copy(update={"pretrained": False})
                model = build_model(shown, bundle).eval()
            except InputError:
                raise
            except ValueError as error:  # a head that cannot be widened
                raise InputError(f"model {trial.model!r}: {error}") from None
            try:
                with torch.no_grad():
                    logits = model(bundle.input.normalise(torch.zeros(2, *shape)))
            except Exception as error:  # whatever a model may raise on inputs that are not made for it
                reason = " ".join(str(error).split())[:200]
                raise InputError(f"model {trial.model!r} does not take samples of shape {shape}: {reason}") from None
        if tuple(getattr(logits, "shape", ())) != (2, bundle.num_classes):
            given = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise InputError(
                f"model {trial.model!r} gives {given} for two samples; expected logits of shape "
                f"(2, {bundle.num_classes})"
            )
