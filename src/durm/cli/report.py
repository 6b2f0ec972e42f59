"""`durm report`: the page of a study that was run."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options
from durm.errors import InputError


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a study, such as runs/digits.", show_default=False)],
    open: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    data_root: options.DataRoot = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Judge what a study has done so far, and write summary.json, report.html, report.md and the figures.

    Pictures of segmented scenes need the data; without them those of before are kept.
    """
    from durm.cli.display import print_json, print_verdict
    from durm.report.page import write_report
    from durm.study.store import Store
    from durm.study.summary import read_results, write_summary

    store = Store.open(folder)
    results = read_results(store)
    if not results:
        raise InputError(f"{folder}: no trial of this study is done yet")
    summary = write_summary(store, results)
    page = write_report(store, results, summary, data_root)
    if json:
        print_json(summary)
    elif not quiet:
        print_verdict(summary)
        typer.echo(f"the page: {page}")
    if open:
        webbrowser.open(page.resolve().as_uri())
    return 0
