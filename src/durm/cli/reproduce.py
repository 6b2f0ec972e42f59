"""`durm reproduce`: the paper's tables and figures, ours next to theirs."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from durm._text import duration
from durm.cli import options
from durm.cli.fields import OUTPUT, with_fields
from durm.errors import InputError, unknown

if TYPE_CHECKING:
    from durm.replication.recipe import Row
    from durm.replication.reproduction import Reproduction
    from durm.study.config import Study
    from durm.study.jobs import Execution

LONG = 3600
"""Seconds from which on a run is announced and, on a terminal, asked about."""
THEORY = "theory"
"""The one that trains nothing: what `durm theory` computes and draws."""


EXAMPLES = """
durm reproduce
durm reproduce longtail --scale cpu --estimate
"""


@with_fields(changes="Conditions", only=("device", "precision"))
def reproduce(
    changes: dict[str, Any],
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe; without one, they are listed.", show_default=False)
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="paper: its own setting; cpu: real data, hours on 2 cores; "
            "smoke: 2 steps, on files you give or that the tests write."
        ),
    ] = "cpu",
    rows: Annotated[
        str | None, typer.Option(help="Which rows, with commas; * and ? are allowed. Default: all.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds, instead of the recipe's.")] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Only say how long it would take.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a long run.")] = False,
    data_root: options.DataRoot = None,
    workers: options.Workers = None,
    loader_workers: options.LoaderWorkers = 0,
    out: Annotated[
        Path | None, typer.Option(help="Where it is kept; default runs/reproduce/RECIPE/SCALE.", rich_help_panel=OUTPUT)
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Run an experiment of the paper, or what is missing of it, and print the results next to the paper's numbers."""
    from durm.cli.flags import study_from_flags
    from durm.replication.recipe import SCALES, load_recipe, recipe_ids
    from durm.replication.reproduction import Reproduction, default_folder, listing, listing_lines
    from durm.study.check import check_study
    from durm.study.estimate import estimate_seconds
    from durm.study.store import Store

    if recipe is None:
        recipes = listing([load_recipe(name) for name in recipe_ids()])
        if json:
            options.print_json(recipes)
        else:
            typer.echo("\n".join(listing_lines(recipes)))
            typer.echo(f"{THEORY}: Theorems 1 and 2 as numbers; it trains nothing (figures 6)")
        return 0
    if recipe == THEORY:
        from durm.cli.theory import theory

        theory(out=out or Path("runs/reproduce") / THEORY, json=json)
        return 0
    if scale not in SCALES:
        raise InputError(f"--scale: {unknown('scale', scale, SCALES)}")
    made = load_recipe(recipe)
    ours = Reproduction(made, scale, out or default_folder(made, scale))
    chosen = made.chosen(rows)
    changes |= {} if seeds is None else {"seeds": seeds}
    studies = [study_from_flags({**made.study_of(row, ours.scale).written(), **changes}) for row in chosen]
    execution = options.execution(studies[0], workers, loader_workers, data_root)
    for study in studies:
        check_study(study, data_root)
    plans = list(zip(chosen, studies, strict=True))
    if ours.scale != "smoke" or estimate:
        stores = [Store(ours.row_folder(row), study) for row, study in plans]
        seconds = sum(estimate_seconds(store, data_root, execution.workers) for store in stores)
        typer.echo(f"about {duration(seconds)} on this machine with {execution.workers} at a time", err=True)
        if estimate or (seconds > LONG and not yes and sys.stdin.isatty() and not typer.confirm("Run it?", err=True)):
            return 0
    elif workers is None:
        execution = replace(execution, workers=0)  # in this process: two steps do not pay for starting others
    code = _run(ours, plans, execution, quiet=quiet or json)
    _show(ours, chosen, json=json)
    return code


def _run(ours: "Reproduction", plans: "list[tuple[Row, Study]]", execution: "Execution", *, quiet: bool) -> int:
    """Runs the rows one after the other. The exit code."""
    from durm.report.page import write_report
    from durm.report.progress import show
    from durm.study.runner import run_study_to_verdict
    from durm.study.store import Store

    code = 0
    for row, study in plans:
        store = Store.create(ours.row_folder(row), study)
        if not quiet:
            typer.echo(f"{row.id}: {len(study.trials())} trials", err=True)
        *_, judged = run_study_to_verdict(store, execution, partial(show, quiet=quiet))
        if judged.results:
            write_report(
                store.folder,
                judged.summary,
                store=store,
                results=judged.results,
                data_root=execution.data_root,
                all_figures=True,
            )
        code = max(code, options.exit_code(judged.outcome, store.folder))
        if judged.outcome.interrupted:
            break
    return code


def _show(ours: "Reproduction", rows: "list[Row]", *, json: bool) -> None:
    from durm._files import atomic_write
    from durm.replication.reproduction import compared_table
    from durm.report.terminal import print_table

    compared = list(ours.compared(rows))
    content: dict[str, Any] = {"recipe": ours.recipe.id, "scale": ours.scale, "choices": list(ours.recipe.choices)}
    content["rows"] = [row.model_dump(mode="json") for row in compared]
    atomic_write(ours.folder / "reproduction.json", options.as_json(content).encode())
    if json:
        options.print_json(content)
        return
    print_table(compared_table(compared))
    if ours.scale != "paper":
        typer.echo(f"Scale {ours.scale}: not the paper's setting, so only signs and sizes of differences compare.")
    options.say(f"kept in {ours.folder}; each row has its page")
