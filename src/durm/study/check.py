"""Checks that find out before the first trial what would fail every one of them."""

from pathlib import Path

from durm.study.spec import Study


def check_study(study: Study, data_root: Path | None) -> None:
    """Loads the data and builds the model of every setting once, widened as the arm with most dummies asks.

    Raises:
        InputError: for an unknown name, data that cannot be read, a model that does not fit the data.
    """
    import torch

    from durm.errors import InputError
    from durm.objectives import OBJECTIVES
    from durm.training.loop import build_model, load_bundle

    trials = sorted(study.trials(), key=lambda trial: trial.dummies)
    for trial in {(trial.data, trial.model, trial.method): trial for trial in trials}.values():
        OBJECTIVES[trial.method]
        bundle = load_bundle(trial, data_root)
        with torch.random.fork_rng():
            try:
                build_model(trial.model_copy(update={"pretrained": False}), bundle)
            except InputError:
                raise
            except ValueError as error:  # a head that cannot be widened
                raise InputError(f"model {trial.model!r}: {error}") from None
