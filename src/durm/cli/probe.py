"""`durm probe`: curvature and flatness of a saved model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from durm.cli import options
from durm.errors import InputError

_CURVATURE, _STABILITY, _OUTPUT = "Curvature", "Stability", "Output"
PARTS = ("train", "val", "test")


def probe(
    checkpoint: Annotated[
        Path, typer.Argument(help="A checkpoint.pt, or the folder of a trial that holds one.", show_default=False)
    ],
    samples: Annotated[int, typer.Option(help="Samples that the loss is a mean over, drawn once and for all.")] = 512,
    part: Annotated[str, typer.Option(help="Of which part of its data: train, val or test.")] = "train",
    only: Annotated[
        str | None, typer.Option(help="Of the parameters with such names alone, as in 'layer4.*'; several with commas.")
    ] = None,
    chunk: Annotated[
        int | None, typer.Option(help="Samples at a time, where the memory does not hold all; slower.")
    ] = None,
    data_root: options.DataRoot = None,
    eigenvalues: Annotated[int, typer.Option(help="How many, the largest first.", rich_help_panel=_CURVATURE)] = 1,
    tolerance: Annotated[
        float, typer.Option(help="Largest residual of an eigenvalue, as a share of it.", rich_help_panel=_CURVATURE)
    ] = 1e-3,
    max_products: Annotated[
        int, typer.Option(help="Products with the Hessian, at most.", rich_help_panel=_CURVATURE)
    ] = 100,
    trace_samples: Annotated[int, typer.Option(help="Random vectors for the trace.", rich_help_panel=_CURVATURE)] = 16,
    radius: Annotated[
        float, typer.Option(help="Of the ball, as a share of each filter's norm.", rich_help_panel=_STABILITY)
    ] = 0.05,
    out: Annotated[
        Path | None, typer.Option(help="A folder for flatness.json, .svg and .png.", rich_help_panel=_OUTPUT)
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Measure how flat the loss is around a saved model: eigenvalues and trace of the Hessian, rise within a ball.

    Of the loss it was trained with, and of that over the real logits, by which models of different C_d compare.
    """
    if samples < 1:
        raise InputError(f"--samples {samples}: expected at least 1")
    if part not in PARTS:
        raise InputError(f"--part {part!r}: expected 'train', 'val' or 'test'")
    from durm.cli.display import print_json, print_table
    from durm.flatness import measure
    from durm.report.flatness import flatness_table, write_flatness
    from durm.training.saved import load_model

    path = checkpoint / "checkpoint.pt" if checkpoint.is_dir() else checkpoint
    model, trial, bundle = load_model(path, data_root)
    inputs, targets = _chosen(bundle, part, samples)
    with _shown(quiet or json) as progress:
        try:
            found = measure(
                model,
                inputs,
                targets,
                num_classes=bundle.num_classes,
                label_smoothing=trial.train.label_smoothing,
                only=None if only is None else [pattern.strip() for pattern in only.split(",")],
                chunk=chunk,
                eigenvalues=eigenvalues,
                tolerance=tolerance,
                max_products=max_products,
                trace_samples=trace_samples,
                radius=radius,
                progress=progress,
            )
        except ValueError as error:
            raise InputError(_in_flags(str(error))) from None
    about = {name: getattr(trial, name) for name in ("data", "model", "method", "seed")}
    record = {"checkpoint": str(path), **about, "part": part, **found.record()}
    written = write_flatness(out, record) if out is not None else []
    if json:
        print_json(record)
        return 0
    print_table(*flatness_table(record))
    for file in written:
        typer.echo(f"written: {file}")
    return 0


def _chosen(bundle: Any, part: str, limit: int) -> tuple[Any, Any]:
    """Inputs, as the model takes them, and labels: so many samples of a part of the data, the same for every model."""
    import torch

    from durm._random import generator
    from durm.training.feeding import evaluation_batches

    if bundle.task != "classification":
        raise InputError(f"durm probe looks at classification, and this model was trained for {bundle.task}")
    samples = getattr(bundle, part)
    if len(samples) > limit:
        order = torch.randperm(len(samples), generator=generator(0, "probed samples"))
        samples = samples.subset(order[:limit].sort().values)
    return torch.cat(list(evaluation_batches(samples, bundle.input, 256))), samples.labels


@contextmanager
def _shown(quiet: bool) -> Iterator[Callable[[str, float], None] | None]:
    """A bar on stderr, if that is a terminal."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        BarColumn(20),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda stage, share: bar.update(task, description=stage, completed=share)


def _in_flags(message: str) -> str:
    """`max_products=0: …` as `--max-products 0: …`; other messages are left as they are."""
    name, equals, rest = message.partition("=")
    return f"--{name.replace('_', '-')} {rest}" if equals and name.isidentifier() else message
