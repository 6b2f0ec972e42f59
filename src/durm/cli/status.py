"""`durm status`: how far a study has come."""

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from durm._text import duration, last_line, pluralize
from durm.cli import options

EXAMPLES = """
durm status runs/digits
durm status runs/digits --json
"""


def status(
    folder: Annotated[Path, typer.Argument(help="The folder of a study.", show_default=False)],
    json: options.Json = False,
) -> None:
    """Show how far a study has come: what is done, running, interrupted, failed, pending, and the time left.

    The time left is estimated from the trials that are done, if others are running; of a study until decided it is the
    time to its next analysis.
    """
    from durm.report.terminal import print_rows
    from durm.study.status import study_status
    from durm.study.store import Store

    store = Store.open(folder)
    now = time.time()
    found = study_status(store, now)
    if json:
        trials = [{"trial": row.name, "state": row.state, "reason": row.reason} for row in found.trials]
        running = [{"trial": row.name, "since": _since(row.begun)} for row in found.running]
        times = {"elapsed_seconds": found.elapsed, "left_seconds": found.left}
        options.print_json(
            {"study": store.study.name, "counts": found.counts, **times, "running": running, "trials": trials}
        )
        return
    options.say(f"study {store.study.name}: {pluralize(len(found.trials), 'trial')}")
    print_rows(["state", "trials"], [[state, str(count)] for state, count in found.counts.items() if count])
    for row in found.trials:
        if row.state == "running":
            since = "" if row.begun is None else f", for {duration(max(0.0, now - row.begun))}"
            options.say(f"running: {row.name}{since}")
        if row.reason:
            options.say(f"{row.state}: {row.name}: {last_line(row.reason)}")
    if found.elapsed is not None:
        left = "" if found.left is None else f", about {duration(found.left)} left"
        of = " to the next analysis" if left and store.study.max_seeds else ""
        options.say(f"{duration(found.elapsed)} elapsed{left}{of}")


def _since(seconds: float | None) -> str | None:
    """As ISO 8601 in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
