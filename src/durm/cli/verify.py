"""`durm verify`: whether the runs of a study can be believed."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options

EXAMPLES = """
durm verify runs/digits
"""


def verify(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a study, with or without its trials.", show_default=False)
    ],
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> int:
    """Check ids, checksums, pairing, data and code versions, and that the summary follows from the results.

    Exit code 0 if nothing is wrong, also with notes (such as results of an earlier version, which have no checksum); 1
    otherwise, with one line for each finding.
    """
    from durm.study.verify import verify_study

    found = verify_study(folder, data_root)
    if json:
        options.print_json({"findings": found.findings, "notes": found.notes, "checked": found.checked})
        return 1 if found.findings else 0
    for text in found.findings:
        typer.echo(f"finding: {text}")
    for text in found.notes:
        typer.echo(f"note: {text}")
    count = len(found.findings)
    said = "nothing was found" if not count else f"{count} finding{'s' if count > 1 else ''}"
    typer.echo(f"{folder}: {found.checked} results checked, {said}")
    return 1 if found.findings else 0
