"""`durm clean`: remove the checkpoints that a study no longer needs."""

from pathlib import Path
from typing import Annotated

import typer

from durm._text import pluralize
from durm.cli import options

EXAMPLES = """
durm clean runs/digits --dry-run
"""


def clean(
    folder: Annotated[Path, typer.Argument(help="The folder of a study.", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Remove the checkpoints of trials that are done. Results, verdicts and reports stay, and nothing runs again.

    Unfinished trials keep their checkpoints, and so do models that a transfer of attacks still needs. What needs a
    checkpoint cannot be done afterwards: durm evaluate, durm curvature, pictures of segmented images, and the transfer
    of attacks to arms that are added later. Copy the checkpoints that you want to keep.
    """
    from durm._memory import readable_bytes
    from durm.study.cleaning import clean as clean_study
    from durm.study.store import Store

    found = clean_study(Store.open(folder), dry_run=dry_run)
    if json:
        files = {str(path): size for path, size in found.removed.items()}
        total = {"files": len(files), "bytes": found.size, "dry_run": dry_run}
        options.print_json({**total, "kept": found.kept, "removed": files})
        return
    if quiet:
        return
    verb = "would be removed" if dry_run else "removed"
    options.say(f"{pluralize(len(found.removed), 'file')} {verb}, {readable_bytes(found.size)}")
    for reason, count in found.kept.items():
        options.say(f"kept {pluralize(count, 'checkpoint')}: {REASONS[reason]}")


REASONS = {
    "unfinished": "the trial is not done, and goes on from there",
    "running": "another process works on the trial",
    "transfer": "the transfer of attacks is not measured yet; durm run or durm compare measures it",
}
