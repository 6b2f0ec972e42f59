"""`durm train`: one trial."""

from pathlib import Path
from typing import Annotated, Any

import typer

from durm.cli import options
from durm.cli.fields import with_fields

EXAMPLES = """
durm train --dummies 2 --seed 1
durm train --data cifar10 --model resnet18 --epochs 30 --device cuda --precision bf16-mixed
"""


@with_fields(train="TrainSpec", conditions="Conditions")
def train(
    conditions: dict[str, Any],
    train: dict[str, Any],
    data: Annotated[str, options.DATA_NAME] = "digits",
    model: Annotated[str, options.MODEL_NAME] = "cnn",
    data_root: options.DataRoot = None,
    method: Annotated[str, options.METHOD] = "erm",
    dummies: Annotated[int, typer.Option(help="C_d, the number of dummy classes; 0 is ERM.")] = 0,
    seed: Annotated[int, typer.Option(help="What is random about the run.")] = 0,
    loader_workers: options.LoaderWorkers = 0,
    out: options.Out = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Train one model, with or without dummies, and evaluate it on the test set."""
    options.start_workers([model], None, conditions)
    from durm.cli.flags import parse_method, study_from_flags
    from durm.report.progress import show
    from durm.report.terminal import print_rows
    from durm.study.check import check_study
    from durm.study.runner import run_study_to_verdict
    from durm.study.store import Store

    values = {"name": "train", "data": data, "model": model, "method": parse_method(method)}
    study = study_from_flags({**values, "dummies": [dummies], "seeds": [seed], "train": train, **conditions})
    (trial,) = study.trials()
    folder = out or Path("runs") / trial.folder_name
    check_study(study, data_root, folder)
    store = Store.create(folder, study)
    execution = options.execution(study, 1, loader_workers, data_root)
    (judged,) = run_study_to_verdict(store, execution, lambda trials: show(trials, quiet=quiet or json))
    if json:
        options.print_json({**judged.summary.as_json(), "failed": judged.outcome.failed})
    elif judged.outcome.done:
        (result,) = judged.results.values()
        parts = (result.metrics, result.val)
        names = list(dict.fromkeys(name for part in parts for name in part))  # a class may occur in one of them alone
        rows = [[name, *(f"{part[name]:.3f}" if name in part else "–" for part in parts)] for name in names]
        print_rows(["metric", "test", "val"], rows)
        options.say(f"checkpoint: {store.trial_folder(trial) / 'checkpoint.pt'}")
    return options.exit_code(judged.outcome, store.folder)
