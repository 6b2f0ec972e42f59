"""Help as plain text: nothing is cut, flags stand in groups, examples at the end.

Typer draws groups too, but takes half a second for it.
"""

import re
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

NARROW = 70
"""Below this width the text of a flag is below it, not next to it."""


class PlainHelp:
    """The flags under the panels they name, and the examples, which are the lines of the epilog."""

    epilog: str | None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            if record := parameter.get_help_record(ctx):
                panel = getattr(parameter, "rich_help_panel", None)
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                groups.setdefault(panel or default, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records, col_max=30 if formatter.width >= NARROW else 4)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.strip().splitlines():
                    formatter.write("".join(f"  {part}\n" for part in broken(line.strip(), formatter.width - 2)))


class PlainCommand(PlainHelp, TyperCommand):
    """A command."""


class PlainGroup(PlainHelp, TyperGroup):
    """A command that has others under it, each with the first sentence of its help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if not command.hidden:
                panel = getattr(command, "rich_help_panel", None)
                panel = panel if isinstance(panel, str) else "Commands"
                groups.setdefault(panel, []).append((name, command.get_short_help_str(limit=1000)))
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)
        super().format_options(ctx, formatter)


def broken(line: str, width: int) -> Sequence[str]:
    """A command line in several, if it is longer than the width: they end before flags, with a backslash."""
    lines: list[str] = []
    for part in re.split(r" (?=--)", line):
        if lines and len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part if not lines else f"    {part}")
    return [*(f"{start} \\" for start in lines[:-1]), lines[-1]]
