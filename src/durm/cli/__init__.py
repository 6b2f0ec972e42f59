"""The command line. One file for each command, thin: parse, call, print. Heavy imports wait until a command runs.

Exit codes: 0 done, 1 a trial failed, 2 bad input, 130 interrupted.
"""

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from durm import __version__
from durm._text import visible
from durm._user_code import describe_user_error
from durm.cli import data
from durm.cli.fields import Command
from durm.cli.flags import options_as_flags
from durm.cli.help import PlainGroup
from durm.errors import InputError

app = typer.Typer(
    name="durm",
    cls=PlainGroup,
    help="Dummy Risk Minimization: train with extra logits, and find out honestly whether it helps.",
    epilog="durm compare\ndurm verdict results.csv\ndurm compare --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = {
    "Find out whether it helps": ("compare", "run", "status", "report", "verdict", "plan", "verify", "merge", "clean"),
    "One model": ("train", "evaluate", "export", "curvature"),
    "The paper": ("reproduce", "claims", "theory"),
    "Names": ("models",),
}
for panel, names in COMMANDS.items():
    for name in names:
        module = import_module(f"durm.cli.{name}")
        examples = getattr(module, "EXAMPLES", None)
        app.command(name, cls=Command, rich_help_panel=panel, epilog=examples)(getattr(module, name))
app.command("probe", cls=Command, hidden=True)(import_module("durm.cli.curvature").curvature)  # its name in version 1
app.add_typer(data.app, name="data", rich_help_panel="Names")

_CommandLineError: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""Newer versions of typer carry a click of their own, older ones use the package."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"durm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


def main() -> None:
    """Runs the command line. Of several processes that torchrun started, the first does, and the others follow it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
        _run_command()
        return
    from durm.training import launch

    if not launch.join():
        sys.exit(launch.follow())
    try:
        _run_command()
    except SystemExit as end:
        launch.release(end.code if isinstance(end.code, int) else 1)
        raise


def _run_command() -> None:
    """Ends the process. Bad input is one line on stderr and exit code 2, never a traceback."""
    try:
        code = app(prog_name="durm", standalone_mode=False)
    except InputError as error:
        _complain(options_as_flags(str(error)), 2)
    except OSError as error:  # a full disk, a folder that cannot be written to
        _complain(str(error), 2)
    except RecursionError:
        _complain("a file is nested too deeply", 2)
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted", 130)
    except _CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            sys.exit(0)
        _complain(" ".join(_with_value(error).split()), 2)
    except Exception as error:
        if (reason := describe_user_error(error)) is None:
            raise  # a fault of durm's, whose traceback is to be reported
        _complain(f"your code failed: {reason}", 2)
    sys.exit(code if isinstance(code, int) else 0)


def _with_value(error: Any) -> str:
    """The message, with the value of the flag that it is about, which typer leaves out."""
    message: str = error.format_message()
    arguments = sys.argv[1:]
    for flag in getattr(getattr(error, "param", None), "opts", ()):
        if flag in arguments[:-1]:
            value = arguments[arguments.index(flag) + 1]
            return message if repr(value) in message else f"{flag} {value!r}: {message.partition(': ')[2]}"
    return message


def _complain(message: str, code: int) -> None:
    print(f"durm: {visible(message)}", file=sys.stderr)
    sys.exit(code)
