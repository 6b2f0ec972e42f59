"""Help in plain text, its flags in groups. Typer can draw groups too, but takes half a second for it."""

from typing import Any

from typer.core import TyperCommand


class GroupedHelp(TyperCommand):
    """A command whose flags are listed under the panels that they name."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                panel = getattr(parameter, "rich_help_panel", None)
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                groups.setdefault(panel or default, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)
