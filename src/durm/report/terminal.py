"""The verdict on a terminal: a short answer, or all of it. `durm.report.columns` makes the tables fit."""

import shutil
import sys
import textwrap

from durm._text import visible
from durm.report.columns import fit
from durm.report.tables import (
    Table,
    costs_table,
    domains_tables,
    groups_table,
    null_table,
    other_metrics_table,
    overview_table,
    robustness_table,
    search_table,
    secondary_table,
    seeds_table,
    statistics_table,
    transfer_table,
    verdict_table,
)
from durm.report.text import across_sentence, headline, place, search, selection, sentences
from durm.study.records import Setting, Summary

WIDTH = 100
"""Characters in a line where the output is not a terminal and COLUMNS is not set."""
MOST_NOTES = 3
"""Warnings in a short answer."""
COLOURS = {"better": "green", "worse": "red", "equal": "blue", "undecided": "yellow"}


def print_verdict(summary: Summary, *, verbose: bool = False, more: str = "verbose=True") -> None:
    """Prints the headline, one table of verdicts and the first warnings; all tables, sentences and warnings if verbose.

    A single comparison also has its sentence: why it is undecided, and what it would take. `more` is how the reader
    asks for the rest.
    """
    say(headline(summary))
    print()
    if verbose:
        for setting in [*summary.settings, *summary.averages]:
            _print_setting(setting, summary)
        for name, table in domains_tables(summary):
            say(f"{name}, each domain held out in turn; weights of {selection(summary)}")
            print_table(table)
            print()
        for one in summary.across:
            say(across_sentence(one, summary))
    else:
        print_table(short_table(summary))
        plan = ""
        if len(summary.settings) == 1 == len(summary.settings[0].comparisons):
            plan = sentences(summary.settings[0], summary)[0].removeprefix(headline(summary)).strip()
        if plan or summary.warnings:
            print()
        if plan:
            say(plan)
    if summary.search is not None:
        say(search(summary))
    shown = summary.warnings if verbose else summary.warnings[:MOST_NOTES]
    for warning in shown:
        say(f"Note: {warning}")
    if (left := len(summary.warnings) - len(shown)) > 0:
        say(f"… and {left} more with {more}")


def short_table(summary: Summary) -> Table:
    """Every arm against the baseline: of one setting with means, of several one row for each comparison.

    Of data with domains the means over the domains stand for all of them.
    """
    settings = summary.averages or summary.settings
    if len(settings) == 1:
        return verdict_table(settings[0], summary)
    return overview_table(summary.model_copy(update={"settings": settings, "averages": []}))


def _print_setting(setting: Setting, summary: Summary) -> None:
    if setting.setting:
        say(f"{summary.measured.label} {place(setting)}")
    print_table(verdict_table(setting, summary))
    for table in (
        search_table(setting),
        secondary_table(setting),
        _measured(statistics_table(setting, summary)),
        groups_table(setting),
        _measured(other_metrics_table(setting)),
        costs_table(setting),
        robustness_table(setting, summary),
        transfer_table(setting),
        seeds_table(setting, summary),
    ):
        if table.rows and len(table.headings) > 1:
            print()
            print_table(table)
    if setting.null_control.comparisons:
        print("\nnull control: each arm against itself, after a change that should not matter")
        print_table(null_table(setting, summary))
    print()
    for text in sentences(setting, summary):
        say(text)
    if setting.comparisons:
        print()


def _measured(table: Table) -> Table:
    """Without the columns in which nothing was measured, but perhaps of the baseline."""
    cells = zip(*(table.rows[1:] or table.rows), strict=True)
    kept = [place for place, column in enumerate(cells) if any(cell.text not in ("–", "") for cell in column)]
    return Table([table.headings[place] for place in kept], [[row[place] for place in kept] for row in table.rows])


def say(text: str) -> None:
    """Prints a sentence, whatever names it has in it. On a terminal its lines end between words."""
    line = visible(text)
    if sys.stdout.isatty():
        line = textwrap.fill(line, terminal_width(), break_long_words=False, break_on_hyphens=False)
    print(line)


def terminal_width() -> int:
    """COLUMNS if it is set, else that of the terminal; where there is none, `WIDTH`."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def print_table(table: Table) -> None:
    print_rows(table.headings, table.texts())


def print_rows(headings: list[str], rows: list[list[str]]) -> None:
    """Columns that line up and fit the width. The words of verdicts have colours, on a terminal only.

    As rich has it: NO_COLOR and TERM=dumb switch them off, FORCE_COLOR switches them on elsewhere too.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False, force_jupyter=False)
    for line in fit([[visible(cell) for cell in row] for row in (headings, *rows)], terminal_width()):
        words = (Text(cell, style=COLOURS.get(cell.strip(), "")) for cell in line)
        text = Text("  ").join(words)
        text.rstrip()
        console.print(text)
