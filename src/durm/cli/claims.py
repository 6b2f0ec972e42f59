"""`durm claims`: what the paper claims, and what held up."""

from pathlib import Path
from typing import Annotated, Any

import typer

from durm.cli import options
from durm.errors import InputError


def claims(
    results: Annotated[Path, typer.Option(help="The folder of studies: each has summary.json and results.csv.")] = Path(
        "results"
    ),
    only: Annotated[str | None, typer.Option(help="Which claims, by number, with commas. Default: all.")] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also how each is tested, what came out, and setting by setting.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/replication.md.", rich_help_panel="Output")
    ] = False,
    json: options.Json = False,
) -> int:
    """Judge every claim of the paper, and its reviewers' questions, by the studies in a folder.

    Each holds, does not hold, is undecided or was not tested, with effect, interval and n.
    """
    if json and markdown:
        raise InputError("--json and --markdown exclude each other: give one of them")
    from durm.cli.display import print_json, print_table
    from durm.paper.claims import NUMBERED, ledger
    from durm.paper.replication import claims_table, page, summed_up

    entries = ledger(results, None if only is None else _numbers(only, len(NUMBERED)))
    if json:
        print_json({"results": str(results), "claims": [entry.as_dict() for entry in entries]})
    elif markdown:
        typer.echo(page(entries), nl=False)
    else:
        for entry in entries if details else ():
            _print_details(entry)
        table = claims_table(entries)
        print_table(table.headings, table.texts())
        typer.echo(summed_up(entries))
    return 0


def _print_details(entry: Any) -> None:
    from durm.cli.display import print_table
    from durm.paper.replication import parts_table

    claim, finding = entry.claim, entry.finding
    typer.echo(f"{entry.number}. {claim.statement} ({claim.where})")
    typer.echo(f"   test: {claim.test}")
    typer.echo(f"   {finding.verdict}: {finding.reading}")
    if finding.studies:
        typer.echo(f"   results: {', '.join(finding.studies)}")
    table = parts_table(finding)
    if table.rows:
        print_table(table.headings, table.texts())
    typer.echo()


def _numbers(text: str, most: int) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--only {text!r}: expected numbers with commas, such as 1,5") from None
    for number in numbers:
        if not 1 <= number <= most:
            raise InputError(f"--only {text!r}: there is no claim {number}; they go from 1 to {most}")
    return numbers
