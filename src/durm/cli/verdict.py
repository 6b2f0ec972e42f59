"""`durm verdict`: judge anybody's runs, of any method, from a table."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options
from durm.cli.completion import metric_names
from durm.errors import InputError

EXAMPLES = """
durm verdict results.csv --out page
durm verdict results.csv --arm method --seed fold --value top1
durm verdict losses.csv --metric "val loss" --lower-is-better --rope 0.01 --baseline adam
"""


def verdict(
    table: Annotated[
        Path,
        typer.Argument(
            help="A CSV file: a row for each run, with the columns arm, seed, value, and sample or setting if it has "
            "them; or a column for each arm. - reads stdin.",
            show_default=False,
        ),
    ],
    baseline: Annotated[
        str | None, typer.Option(help="The arm to compare with; default: the first in the file.")
    ] = None,
    arm: Annotated[str | None, typer.Option(help="The column of the arms; default: arm, method, variant, …")] = None,
    seed: Annotated[str | None, typer.Option(help="The column of the seeds; default: seed, fold, run, …")] = None,
    value: Annotated[
        str | None, typer.Option(help="The column of the values; default: value, score, or the only one that can be.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="What the values are: one that durm knows brings direction and margin; default: their column.",
            autocompletion=metric_names,
        ),
    ] = None,
    rope: Annotated[
        float | None,
        typer.Option(
            help="Differences of up to this size do not matter (equivalence margin); default: the metric's, 0.1 for "
            "percent, 0.001 for shares.",
        ),
    ] = None,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="Smaller values are the better ones, as of a loss.")
    ] = False,
    higher_is_better: Annotated[
        bool,
        typer.Option("--higher-is-better", help="Larger values are the better ones, whatever the metric is called."),
    ] = False,
    resolution: Annotated[
        float | None,
        typer.Option(help="The step in which the metric moves, such as 100/samples; default: found from the values."),
    ] = None,
    verbose: options.Verbose = False,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for the report: report.html, .md, .tex, figures and summary.json; default none."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Judge results: better, worse, equal or undecided, with intervals and what more runs could decide.

    Runs of different arms with the same seed are pairs; arms with different seeds are compared unpaired.
    """
    from durm.report.terminal import print_verdict
    from durm.statistics.scale import direction
    from durm.study.csv_input import read_table
    from durm.study.run_table import judge_table

    summary = judge_table(
        read_table(table, arm=arm, seed=seed, value=value),
        baseline=baseline,
        rope=rope,
        higher_is_better=direction(lower_is_better=lower_is_better, higher_is_better=higher_is_better),
        metric=metric,
        resolution=resolution,
    )
    page = None
    if out is not None:
        from durm.report.page import write_report

        if out.is_file():
            raise InputError(f"--out {out} is a file; expected a folder")
        page = write_report(out, summary)
    if json:
        options.print_json(summary.as_json())
    else:
        print_verdict(summary, verbose=verbose, more="--verbose")
        if page is not None:
            options.say(f"the page: {page}")
