"""`durm merge`: join the folders of one study that ran in several places."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options
from durm.errors import InputError

EXAMPLES = """
durm merge runs/here runs/there --out runs/both
"""


def merge(
    folders: Annotated[list[Path], typer.Argument(help="The folders of one study, two or more.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The folder that holds all of it; default: the first.", show_default=False)
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Join the folders of one study that ran in several places, such as two clusters; its seeds may differ.

    Data and code must be the same, and every result must have its checksum. A trial that is in two folders with
    different results is an error; nothing is written then.
    """
    from durm._text import pluralize
    from durm.study.merging import merge as merge_studies

    if len(folders) < 2:
        raise InputError(f"{folders[0]} is one folder; to merge takes two, such as durm merge {folders[0]} OTHER")
    found = merge_studies(folders, out)
    trials = len(found.store.study.runs())
    if json:
        taken = {str(folder): count for folder, count in found.taken.items()}
        total = {"folder": str(found.store.folder), "done": found.done, "trials": trials}
        options.print_json({**total, "taken": taken, "in_several": found.in_several})
        return
    if quiet:
        return
    for folder, count in found.taken.items():
        options.say(f"{pluralize(count, 'result')} of {folder}")
    if found.in_several:
        options.say(f"{pluralize(found.in_several, 'trial')} done in several folders, with the same results")
    options.say(
        f"{found.done} of {trials} trials are done, kept in {found.store.folder}; durm report shows the verdict"
    )
