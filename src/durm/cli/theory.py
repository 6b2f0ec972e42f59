"""`durm theory`: the paper's theorems as numbers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from durm.cli import options
from durm.errors import InputError

EXAMPLES = """
durm theory --ratio 1.1 --steps 1000
"""


def theory(
    ratio: Annotated[
        float | None, typer.Option(help="σ̂/σ, the gradient's spread with dummies over that without; default: several.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="T, the number of training steps; default: several.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for theory.json, .csv, .svg and .png.", rich_help_panel="Output")
    ] = None,
    json: options.Json = False,
) -> None:
    """Compute what Theorems 1 and 2 of the paper say, and draw its figure 6.

    With both --ratio and --steps it prints one number, Theorem 2's P(g₍₁₎ ≥ ĝ₍₁₎).
    """
    from durm.report.terminal import print_rows
    from durm.report.theory import RATIOS, STEPS, theorem_1, theorem_2, theory_tables, write_theory

    try:
        rows = theorem_2(RATIOS if ratio is None else [ratio], STEPS if steps is None else [steps])
    except ValueError as error:  # it begins with the name of the argument
        raise InputError(f"--{error}") from None
    numbers: dict[str, Any] = {"theorem_1": theorem_1(), "theorem_2": rows}
    written = write_theory(out, numbers) if out is not None else []
    if json:
        options.print_json(numbers)
        return
    if ratio is not None and steps is not None:
        typer.echo(f"{rows[0]['probability']:.8f}")
    else:
        for title, headings, cells in theory_tables(numbers):
            typer.echo(title)
            print_rows(headings, cells)
    for path in written:
        options.say(f"written: {path}")
