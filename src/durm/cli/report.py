"""`durm report`: the page of a study that was run."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options
from durm.errors import InputError

EXAMPLES = """
durm report runs/digits --open
durm report runs/digits --verbose
"""


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a study, such as runs/digits.", show_default=False)],
    open: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    figures: Annotated[
        bool, typer.Option("--figures", help="Write every figure as PDF and PNG too, not the first ones only.")
    ] = False,
    data_root: options.DataRoot = None,
    trust_code: options.TrustCode = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """Judge what a study has done so far, and write summary.json, report.html, .md, .tex and the figures.

    Pictures of segmented images need the data; without the data the old pictures are kept.
    """
    from durm.report.page import write_report
    from durm.report.terminal import print_verdict
    from durm.study.store import Store
    from durm.study.summary import read_results, write_summary

    store = Store.open(folder, trust_code=trust_code)
    results = read_results(store)
    for damage in filter(None, map(store.damage, store.study.runs())):
        typer.echo(f"durm: warning: {damage}; `durm run` runs its trial again", err=True)
    if not results:
        raise InputError(f"{folder}: no trial of this study is done yet")
    summary = write_summary(store, results)
    page = write_report(store.folder, summary, store=store, results=results, data_root=data_root, all_figures=figures)
    if json:
        options.print_json(summary.as_json())
    elif not quiet:
        print_verdict(summary, verbose=verbose, more="--verbose")
        options.say()
        options.say(f"the page: {page}")
    if open:
        webbrowser.open(page.resolve().as_uri())
