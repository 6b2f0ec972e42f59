"""`durm evaluate`: the metrics of a saved model."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options


def evaluate(
    checkpoint: Annotated[
        Path, typer.Argument(help="A checkpoint.pt, or the folder of a trial that holds one.", show_default=False)
    ],
    data: Annotated[
        str | None, typer.Option(help="Evaluate on other data than it was trained on: its test part.")
    ] = None,
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> int:
    """Evaluate a saved model on the test set: accuracy, real-class NLL, calibration, dummy mass and hits."""
    from durm.cli.display import print_json, print_table
    from durm.training.saved import evaluate_checkpoint

    path = checkpoint / "checkpoint.pt" if checkpoint.is_dir() else checkpoint
    metrics = evaluate_checkpoint(path, data=data, data_root=data_root)
    if json:
        print_json(metrics)
    else:
        print_table(["metric", "test"], [[name, f"{value:.3f}"] for name, value in metrics.items()])
    return 0
