"""`durm train`: one trial."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options


def train(
    data: options.Data = "digits",
    model: options.Model = "cnn",
    dummies: Annotated[int, typer.Option(help="C_d, the number of dummy classes; 0 is ERM.")] = 0,
    seed: Annotated[int, typer.Option(help="What is random about the run.")] = 0,
    data_root: options.DataRoot = None,
    image_size: options.ImageSize = None,
    skip_bad: options.SkipBad = False,
    pretrained: options.Pretrained = False,
    method: options.Method = "erm",
    epochs: options.Epochs = None,
    iterations: options.Iterations = None,
    batch_size: options.BatchSize = None,
    lr: options.LearningRate = None,
    optimizer: options.Optimizer = None,
    schedule: options.Schedule = None,
    warmup: options.Warmup = None,
    weight_decay: options.WeightDecay = None,
    label_smoothing: options.LabelSmoothing = None,
    patience: options.Patience = None,
    clip_norm: options.ClipNorm = None,
    augment: options.Augment = None,
    crop: options.Crop = None,
    window: options.Window = None,
    select: options.Select = "last",
    device: options.Device = "cpu",
    devices: options.Devices = 1,
    precision: options.Precision = "32",
    out: options.Out = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Train one model, with or without dummies, and evaluate it on the test set."""
    flags = options.shared(locals())
    from durm.cli.display import print_json, print_table, show
    from durm.study.check import check_study
    from durm.study.executor import Execution
    from durm.study.judging import run_and_judge
    from durm.study.spec import make_study
    from durm.study.store import Store

    study = make_study(
        {
            "name": "train",
            "data": data,
            "model": model,
            "method": method,
            "dummies": [dummies],
            "seeds": [seed],
            **flags,
        }
    )
    (trial,) = study.trials()
    check_study(study, data_root)
    store = Store.create(out or Path("runs") / trial.folder_name, study)
    (judged,) = run_and_judge(
        store, Execution(1, data_root), lambda trials: show(trials, study.arm_names, study.metric, quiet=quiet or json)
    )
    if json:
        print_json({**judged.summary, "failed": judged.outcome.failed})
    elif judged.outcome.done:
        (result,) = judged.results.values()
        parts = (result["metrics"], result["val"])
        names = list(dict.fromkeys(name for part in parts for name in part))  # a class may occur in one of them alone
        rows = [[name, *(f"{part[name]:.3f}" if name in part else "–" for part in parts)] for name in names]
        print_table(["metric", "test", "val"], rows)
        typer.echo(f"checkpoint: {store.trial_folder(trial) / 'checkpoint.pt'}")
    return options.exit_code(judged.outcome, store.folder)
