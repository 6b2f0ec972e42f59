"""Writes the reference of the command line, docs/reference/cli.md, from the commands: `make cli-reference`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from durm.cli import COMMANDS, app

PAGE = Path(__file__).parent / "reference" / "cli.md"
INTRODUCTION = """# Command line

<!-- written by `make cli-reference` -->

Every command as `durm COMMAND --help` shows it. [How they print](../how-to/command-line.md). Exit codes: 0
done, 1 a trial failed, 2 bad input, 130 interrupted.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    yield INTRODUCTION
    for panel, names in {**COMMANDS, "Data": ("data",)}.items():
        yield f"## {panel}\n"
        for name in names:
            command = root.commands[name]
            inner = getattr(command, "commands", None)
            if inner is None:
                yield from _described(f"durm {name}", command)
            else:
                for one in inner:
                    yield from _described(f"durm {name} {one}", inner[one])


def _described(name: str, command: Any) -> Iterator[str]:
    context = command.make_context(name, [], resilient_parsing=True)
    yield f"### {name}\n"
    usage = " ".join(command.get_usage(context).replace("Usage:", "").split())
    yield f"```text\n{usage}\n```\n"
    yield _text(command.help) + "\n"
    if command.epilog:
        yield f"```\n{command.epilog.strip()}\n```\n"
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = _record(parameter, context)
        if record:
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or "Options", []).append(record)
    for panel, records in panels.items():
        yield f"| {panel} | |\n|---|---|"
        yield from (f"| {flag} | {help_} |" for flag, help_ in records)
        yield ""


def _record(parameter: Any, context: Any) -> tuple[str, str] | None:
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return None
    record = parameter.get_help_record(context)
    if record is None:
        return f"`{parameter.make_metavar(context)}`", _text(getattr(parameter, "help", "") or "")
    return f"`{' '.join(record[0].split())}`".replace("|", r"\|"), _text(record[1])


def _text(text: str | None) -> str:
    """Help as Markdown: what stands in the help is no markup."""
    escaped = (text or "").replace("\b", "").strip()
    for mark in ("\\", "*", "<", ">", "|", "$", "["):
        escaped = escaped.replace(mark, f"\\{mark}")
    return " ".join(escaped.split())


if __name__ == "__main__":
    PAGE.write_text(page())
