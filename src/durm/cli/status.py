"""`durm status`: how far a study has come."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options


def status(
    folder: Annotated[Path, typer.Argument(help="The folder of a study.", show_default=False)],
    json: options.Json = False,
) -> int:
    """Show how far a study has come: what is done, running, cut off, failed, waiting."""
    from durm.cli.display import print_json, print_table
    from durm.study.status import STATES, trial_states
    from durm.study.store import Store

    store = Store.open(folder)
    states = trial_states(store)
    counts = {state: sum(row.state == state for row in states) for state in STATES}
    if json:
        trials = [{"trial": row.name, "state": row.state, "reason": row.reason} for row in states]
        print_json({"study": store.study.name, "counts": counts, "trials": trials})
        return 0
    typer.echo(f"study {store.study.name}: {len(states)} trials")
    print_table(["state", "trials"], [[state, str(count)] for state, count in counts.items() if count])
    for row in states:
        if row.reason:
            typer.echo(f"failed: {row.name}: {row.reason.strip().splitlines()[-1]}")
    return 0
