"""`durm theory`: the paper's theorems as numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from durm.cli import options
from durm.errors import InputError


def theory(
    ratio: Annotated[
        float | None, typer.Option(help="σ̂/σ, the gradient's spread with dummies over that without; default: several.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="T, the number of training steps; default: several.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for theory.json, .csv, .svg and .png.", rich_help_panel="Output"),
    ] = None,
    json: options.Json = False,
) -> int:
    """Compute what Theorems 1 and 2 of the paper say, and draw its Fig. 6.

    With both --ratio and --steps it prints one number, Theorem 2's P(g₍₁₎ ≥ ĝ₍₁₎).
    """
    from durm.cli.display import print_json
    from durm.report.theory import RATIOS, STEPS, theorem_1, theorem_2, write_theory

    ratios = RATIOS if ratio is None else [ratio]
    several = STEPS if steps is None else [steps]
    try:
        rows = theorem_2(ratios, several)
    except ValueError as error:  # it begins with the name of the argument
        raise InputError(f"--{error}") from None
    numbers: dict[str, Any] = {"theorem_1": theorem_1(), "theorem_2": rows}
    written = write_theory(out, numbers) if out is not None else []
    if json:
        print_json(numbers)
        return 0
    if ratio is not None and steps is not None:
        typer.echo(f"{rows[0]['probability']:.8f}")
    else:
        _print_theorem_2(rows, several)
        typer.echo()
        _print_theorem_1(numbers["theorem_1"])
    for path in written:
        typer.echo(f"written: {path}")
    return 0


def _print_theorem_2(rows: Sequence[Mapping[str, Any]], steps: Sequence[int]) -> None:
    from durm.cli.display import print_table

    questions = {
        "probability": "Theorem 2: how often is the smallest of T gradients smaller with dummies, P(g₍₁₎ ≥ ĝ₍₁₎)?",
        "size_probability": "And the one that is nearest to zero, P(min |g| ≥ min |ĝ|)?",
    }
    for key, question in questions.items():
        typer.echo(question)
        table: dict[str, list[str]] = {}
        for row in rows:
            table.setdefault(f"{row['ratio']:g}", []).append(f"{row[key]:.6f}")
        print_table(["ratio", *(f"T = {step:,}" for step in steps)], [[name, *cells] for name, cells in table.items()])


def _print_theorem_1(numbers: Mapping[str, Any]) -> None:
    from durm.cli.display import print_table

    model = ", ".join(f"{name} = {value:g}" for name, value in numbers["model"].items())
    typer.echo(f"Theorem 1: the variance of a class's gradient, if {model}")
    simulated = f"simulated, n = {numbers['simulated']['n']:,}"
    print_table(
        ["", "ERM", "with dummies"],
        [
            [name, f"{value['erm']:.6f}", f"{value['durm']:.6f}"]
            for name, value in (("closed form", numbers["closed_form"]), (simulated, numbers["simulated"]))
        ],
    )
