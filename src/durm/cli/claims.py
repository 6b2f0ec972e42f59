"""`durm claims`: what the paper claims, and what held up."""

from pathlib import Path
from typing import Annotated, Any

import typer

from durm.cli import options
from durm.errors import InputError

EXAMPLES = """
durm claims --only 1,5 --details
"""


def claims(
    results: Annotated[Path, typer.Option(help="The folder of studies (summary.json, results.csv).")] = Path("results"),
    only: Annotated[str | None, typer.Option(help="Which claims, by number, with commas. Default: all.")] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also how each is tested, what came out, and setting by setting.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/replication.md.", rich_help_panel="Output")
    ] = False,
    json: options.Json = False,
) -> None:
    """Judge every claim of the paper, and its reviewers' questions, by the studies in a folder.

    Each holds, does not hold, is undecided or was not tested, with effect, interval and n: against the paper's own mean
    gain where it has one, and against the margin.
    """
    if json and markdown:
        raise InputError("--json and --markdown exclude each other: give one of them")
    from durm.replication.claims import NUMBERED, ledger
    from durm.replication.ledger import claims_table, page, summed_up
    from durm.report.terminal import print_table

    entries = ledger(results, None if only is None else _numbers(only, len(NUMBERED)))
    if json:
        options.print_json({"results": str(results), "claims": [entry.as_dict() for entry in entries]})
    elif markdown:
        typer.echo(page(entries), nl=False)
    else:
        for entry in entries if details else ():
            _print_details(entry)
        print_table(claims_table(entries))
        typer.echo(summed_up(entries))


def _print_details(entry: Any) -> None:
    from durm.replication.ledger import not_counted, parts_table, sensitivity
    from durm.report.terminal import print_table

    claim, finding = entry.claim, entry.finding
    options.say(f"{entry.number}. {claim.statement} ({claim.where})")
    options.say(f"   test: {claim.test}")
    options.say(f"   {finding.verdict}: {finding.reading}")
    if finding.at_margin != finding.verdict:
        options.say(f"   at the margin: {finding.at_margin}")
    if finding.sensitivity:
        options.say(f"   at half and at double the margin: {sensitivity(finding)}")
    if finding.to_decide:
        options.say(f"   to decide it: {finding.to_decide}")
    if finding.refused:
        options.say(f"   not counted, as the training did not learn: {not_counted(finding)}")
    if finding.studies:
        options.say(f"   results: {', '.join(finding.studies)}")
    if (table := parts_table(finding)).rows:
        print_table(table)
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
