"""`durm curvature`: curvature and flatness of a saved model."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options
from durm.cli.fields import OUTPUT
from durm.cli.flags import as_flag
from durm.errors import InputError

_curvature = partial(typer.Option, rich_help_panel="Curvature")
PARTS = ("train", "val", "test")


EXAMPLES = """
durm curvature checkpoint.pt --eigenvalues 5 --samples 1000
durm curvature checkpoint.pt --smallest 1 --density 4 --out flatness
durm curvature checkpoint.pt --matrix ggn
"""


def curvature(
    checkpoint: options.Checkpoint,
    samples: Annotated[int, typer.Option(help="Samples that the loss is a mean over, drawn once and for all.")] = 512,
    part: Annotated[str, typer.Option(help="Of which part of its data: train, val or test.")] = "train",
    only: Annotated[
        str | None, typer.Option(help="Of the parameters with such names alone, as in 'layer4.*'; several with commas.")
    ] = None,
    chunk: Annotated[
        int | None, typer.Option(help="Samples at a time, where the memory does not hold all; slower.")
    ] = None,
    data_root: options.DataRoot = None,
    eigenvalues: Annotated[int, _curvature(help="How many, the largest first.")] = 1,
    tolerance: Annotated[float, _curvature(help="Largest residual of an eigenvalue, as a share of it.")] = 1e-3,
    max_products: Annotated[int, _curvature(help="Products with the matrix, at most.")] = 100,
    smallest: Annotated[int, _curvature(help="How many of the smallest eigenvalues.")] = 0,
    trace_samples: Annotated[int, _curvature(help="Random vectors for the trace.")] = 16,
    density: Annotated[
        int, _curvature(metavar="VECTORS", help="Density of all eigenvalues, from so many random vectors, such as 4.")
    ] = 0,
    matrix: Annotated[
        str, _curvature(help="Of which matrix: hessian, or ggn (Gauss-Newton, here the Fisher matrix).")
    ] = "hessian",
    radius: Annotated[
        float, typer.Option(help="Of the ball, as a share of each filter's norm.", rich_help_panel="Stability")
    ] = 0.05,
    trust_code: options.TrustCode = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder for flatness.json and the figures.", rich_help_panel=OUTPUT)
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Measure how flat the loss is around a saved model: eigenvalues and trace of the Hessian, rise within a ball.

    For the training loss, and for the loss over the real logits, which is comparable between different C_d.
    """
    if samples < 1:
        raise InputError(f"--samples {samples}: expected at least 1")
    if part not in PARTS:
        raise InputError(f"--part {part!r}: expected 'train', 'val' or 'test'")
    from durm.curvature import measure
    from durm.report.curvature import flatness_table, write_flatness
    from durm.report.progress import progress_bar
    from durm.report.terminal import print_rows
    from durm.training.inference import fixed_samples, load_model

    path = options.checkpoint_file(checkpoint)
    model, trial, bundle = load_model(path, data_root, trust_code=trust_code)
    if bundle.task != "classification":
        raise InputError(f"durm curvature looks at classification, and this model was trained for {bundle.task}")
    inputs, targets = fixed_samples(bundle, part, samples)
    with progress_bar("{task.description}", transient=True, disable=quiet or json or not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=1.0)
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
                smallest=smallest,
                density_samples=density,
                matrix=matrix,
                radius=radius,
                progress=lambda stage, share: bar.update(task, description=stage, completed=share),
            )
        except ValueError as error:
            raise InputError(_in_flags(str(error))) from None
    about = {"data": trial.data, "model": trial.model, "method": trial.method_name, "seed": trial.seed}
    record = {"checkpoint": str(path), **about, "part": part, **found.record()}
    written = write_flatness(out, record) if out is not None else []
    if json:
        options.print_json(record)
        return
    print_rows(*flatness_table(record))
    for file in written:
        options.say(f"written: {file}")


def _in_flags(message: str) -> str:
    """`max_products=0: …` as `--max-products 0: …`; other messages are left as they are."""
    name, equals, rest = message.replace("density_samples=", "density=").partition("=")
    return f"{as_flag(name)} {rest}" if equals and name.isidentifier() else message
