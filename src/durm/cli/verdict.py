"""`durm verdict`: judge anybody's runs, of any method, from a table."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options


def verdict(
    table: Annotated[
        Path,
        typer.Argument(help="A CSV file with the columns arm, seed, value; - reads from stdin.", show_default=False),
    ],
    baseline: Annotated[
        str | None, typer.Option(help="The arm to compare with; default: the first in the file.")
    ] = None,
    rope: Annotated[float, typer.Option(help="Differences of up to so much count as none.")] = 0.1,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="Smaller values are the better ones, as of a loss.")
    ] = False,
    metric: Annotated[str, typer.Option(help="What the values are, for the sentences.")] = "value",
    json: options.Json = False,
) -> int:
    """Judge paired results: better, worse, equal or undecided, with intervals and the number of seeds that would tell.

    Runs of different arms with the same seed are pairs. A column `setting` makes several tables of it.
    """
    from durm.cli.display import print_json, print_verdict
    from durm.study.table import judge_table, read_table

    summary = judge_table(
        read_table(table), baseline=baseline, rope=rope, higher_is_better=not lower_is_better, metric=metric
    )
    if json:
        print_json(summary)
    else:
        print_verdict(summary, beside=False)
    return 0
