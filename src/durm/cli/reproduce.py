"""`durm reproduce`: the paper's tables and figures, ours beside theirs."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from durm.cli import options
from durm.errors import InputError, unknown

LONG = 3600
"""Seconds from which on a run is announced and, on a terminal, asked about."""
THEORY = "theory"
"""The one that trains nothing: what `durm theory` computes and draws."""


def reproduce(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe; without one, they are listed.", show_default=False)
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="paper: its own setting; cpu: real data, hours on 2 cores; smoke: 2 steps on generated files."
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
    device: options.Device = "cpu",
    precision: options.Precision = "32",
    out: Annotated[
        Path | None,
        typer.Option(help="Where it is kept; default runs/reproduce/RECIPE/SCALE.", rich_help_panel="Output"),
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Run an experiment of the paper, or what is missing of it, and print the results beside the paper's numbers."""
    from durm.paper.recipe import SCALES, load_recipe, recipe_ids
    from durm.paper.reproduction import Reproduction, compared_table, default_folder, listing

    if recipe is None:
        _list(listing([load_recipe(name) for name in recipe_ids()]), json=json)
        return 0
    if recipe == THEORY:
        from durm.cli.theory import theory

        return theory(out=out or Path("runs/reproduce") / THEORY, json=json)
    if scale not in SCALES:
        raise InputError(f"--scale: {unknown('scale', scale, SCALES)}")
    made = load_recipe(recipe)
    ours = Reproduction(made, scale, out or default_folder(made, scale))
    chosen = made.chosen(rows)
    changes = options.given(seeds=seeds, device=options.resolve_device(device), precision=precision)
    code = _run(ours, chosen, changes, data_root, workers, only_estimate=estimate, ask=not yes, quiet=quiet or json)
    if code is not None and not estimate:
        return _show(ours, chosen, compared_table, code, json=json)
    return code or 0


def _run(
    ours: Any,
    rows: list[Any],
    changes: dict[str, Any],
    data_root: Path | None,
    workers: int | None,
    *,
    only_estimate: bool,
    ask: bool,
    quiet: bool,
) -> int | None:
    """Runs the rows one after the other. The exit code; None if the user would rather not."""
    from durm.cli.display import show
    from durm.report.page import write_report
    from durm.study.check import check_study
    from durm.study.estimate import estimate_seconds
    from durm.study.executor import Execution
    from durm.study.judging import run_and_judge
    from durm.study.spec import make_study
    from durm.study.store import Store

    plans = [(row, make_study({**ours.recipe.study_of(row, ours.scale).written(), **changes})) for row in rows]
    root = ours.data_root(rows, data_root)
    for _, study in plans:
        check_study(study, root)
    count = options.whole_workers(workers, plans[0][1].device, plans[0][1].threads)
    if ours.scale != "smoke" or only_estimate:
        seconds = sum(estimate_seconds(Store(ours.row_folder(row), study), root, count) for row, study in plans)
        typer.echo(f"about {_duration(seconds)} on this machine with {count} at a time", err=True)
        if only_estimate:
            return 0
        if seconds > LONG and ask and sys.stdin.isatty() and not typer.confirm("Run it?", err=True):
            return None
    code = 0
    if ours.scale == "smoke" and workers is None:
        count = 0  # in this process: two steps do not pay for starting others
    for row, study in plans:
        store = Store.create(ours.row_folder(row), study)
        if not quiet:
            typer.echo(f"{row.id}: {len(study.trials())} trials", err=True)
        *_, judged = run_and_judge(
            store, Execution(count, root), partial(show, arms=study.arm_names, metric=study.metric, quiet=quiet)
        )
        if judged.results:
            write_report(store, judged.results, judged.summary, root)
        code = max(code, options.exit_code(judged.outcome, store.folder))
        if judged.outcome.interrupted:
            break
    return code


def _show(ours: Any, rows: list[Any], compared_table: Any, code: int, *, json: bool) -> int:
    from durm._files import write_whole
    from durm.cli.display import as_json, print_json, print_table

    compared = list(ours.compared(rows))
    content = {"recipe": ours.recipe.id, "scale": ours.scale, "choices": list(ours.recipe.choices), "rows": compared}
    write_whole(ours.folder / "reproduction.json", as_json(content).encode())
    if json:
        print_json(content)
        return code
    table = compared_table(compared)
    print_table(table.headings, table.texts())
    if ours.scale != "paper":
        typer.echo(f"Scale {ours.scale}: not the paper's setting, so only signs and sizes of differences compare.")
    typer.echo(f"kept in {ours.folder}; each row has its page")
    return code


def _list(recipes: list[dict[str, Any]], *, json: bool) -> None:
    from durm.cli.display import print_json

    if json:
        print_json(recipes)
        return
    for recipe in recipes:
        done = ", ".join(f"{scale} {run['done']}/{run['trials']}" for scale, run in recipe["done"].items())
        parts = [f"{kind} {', '.join(map(str, recipe[kind]))}" for kind in ("tables", "figures") if recipe[kind]]
        typer.echo(f"{recipe['id']}: {recipe['title']}" + (f" ({'; '.join(parts)})" if parts else ""))
        typer.echo(f"  needs  {', '.join(recipe['needs'])}")
        typer.echo(f"  rows   {', '.join(recipe['rows'])}")
        typer.echo(f"  run    {done} trials")
    typer.echo(f"{THEORY}: Theorems 1 and 2 as numbers; it trains nothing (figures 6)")


def _duration(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"
