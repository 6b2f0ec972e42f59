"""The command line. One file for each command, thin: parse, call, print. Heavy imports wait until a command runs.

Exit codes: 0 done, 1 a trial failed, 2 bad input, 130 interrupted.
"""

import os
import sys
from typing import Annotated, Any

import typer

from durm import __version__
from durm.cli import (
    claims,
    compare,
    data,
    evaluate,
    models,
    probe,
    report,
    reproduce,
    run,
    status,
    theory,
    train,
    verdict,
)
from durm.cli.help import GroupedHelp
from durm.errors import InputError

app = typer.Typer(
    name="durm",
    help="Dummy Risk Minimization: train with extra logits, and find out honestly whether it helps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    *(compare.compare, run.run, status.status, report.report, verdict.verdict),
    *(reproduce.reproduce, claims.claims, train.train, evaluate.evaluate),
    *(probe.probe, models.models, theory.theory),
)
for command in COMMANDS:
    app.command(command.__name__, cls=GroupedHelp)(command)
app.add_typer(data.app, name="data")

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
    """Runs the command line. Bad input is one line on stderr and exit code 2, never a traceback."""
    sys.path.insert(0, os.getcwd())  # where `--model package.module:function` looks first
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        _complain(str(error), 2)
    except OSError as error:  # a full disk, a folder that cannot be written to
        _complain(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted", 130)
    except _CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            sys.exit(0)
        _complain(" ".join(_with_value(error).split()), 2)
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
    print(f"durm: {message}", file=sys.stderr)
    sys.exit(code)
