"""Help that fits the terminal, examples that can be typed, and completion that is there at once."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from durm import cli
from durm.cli import completion
from durm.cli.help import broken
from durm.data import LOADERS
from durm.methods import AVERAGERS, OBJECTIVES
from durm.metrics import metric_names
from durm.models import OWN
from tests.cli.calling import call
from tests.cli.test_commands import LARGE


def commands(group: Any = None, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its full name, hidden ones too."""
    for name, command in (group or typer.main.get_command(cli.app)).commands.items():
        yield f"{before}{name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")


COMMANDS = dict(commands())
EXAMPLES = [line for command in COMMANDS.values() for line in (command.epilog or "").split("\n") if line]


@pytest.mark.parametrize("width", [50, 80, 120])
def test_help_fits_and_is_not_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name in ("", *COMMANDS):
        printed = call(*name.split(), "--help").out.splitlines()
        assert [line for line in printed if len(line) > width] == [], name
        assert [line for line in printed[1:] if line.endswith("...")] == [], name


def test_the_first_sentence_of_each_command_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = " ".join(call("--help").out.split())
    for name, command in COMMANDS.items():
        if " " not in name and not command.hidden:
            sentence = " ".join((command.help or "").split("\n\n")[0].split()).split(". ")[0]
            assert f"{name} {sentence}" in told


# Examples.


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if not hasattr(command, "commands")])
def test_every_command_has_examples(name: str) -> None:
    if COMMANDS[name].hidden:
        return
    lines = [line for line in COMMANDS[name].epilog.split("\n") if line]
    assert all(line.startswith(f"durm {name}") for line in lines)
    printed = call(*name.split(), "--help").out.partition("Examples:\n")[2]
    typed = printed.replace("\\\n", "")
    assert [" ".join(line.split()) for line in typed.splitlines()] == lines


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_understood(example: str) -> None:
    """Every flag exists and takes such a value; nothing is run."""
    words = shlex.split(example.partition(" > ")[0])[1:]
    name = next(name for name in sorted(COMMANDS, key=len, reverse=True) if " ".join(words).startswith(name))
    COMMANDS[name].make_context(name, words[len(name.split()) :])


def test_an_example_is_broken_before_flags() -> None:
    line = 'durm compare --dummies 0,2 --arm "smoothing: label_smoothing=0.1" --json'
    assert broken(line, 80) == [line]
    lines = broken(line, 54)
    assert lines == ["durm compare --dummies 0,2 \\", '    --arm "smoothing: label_smoothing=0.1" --json']
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(line)


# Completion.


def completed(line: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What bash is offered for the last word of the line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_DURM_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    arguments = [sys.executable, *options, "-m", "durm"]
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)


def test_names_are_completed_without_a_large_library() -> None:
    told = completed("durm compare --data cifar", "-X", "importtime")
    assert told.stdout.split() == ["cifar10", "cifar10-c", "cifar100", "cifar100-c"]
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in told.stderr.splitlines() if "|" in line}
    assert imported & LARGE <= {"pydantic"}  # the flags of compare are the fields of configs


@pytest.mark.parametrize(
    ("command", "flag", "beginning", "expected"),
    [
        ("compare", "data", "digits-", ["digits-domains"]),
        ("train", "model", "c", ["cnn"]),
        ("train", "method", "sw", ["swa", "swad"]),
        ("compare", "metric", "balanced", ["balanced_accuracy"]),
        ("compare", "secondary", "nll,soft", ["nll,soft_accuracy"]),
        ("verdict", "metric", "bri", ["brier"]),
    ],
)
def test_what_is_completed_where(command: str, flag: str, beginning: str, expected: list[str]) -> None:
    (option,) = (one for one in COMMANDS[command].params if one.name == flag)
    context = COMMANDS[command].context_class(COMMANDS[command])
    assert [item.value for item in option.shell_complete(context, beginning)] == expected


def test_the_names_are_those_that_are_registered() -> None:
    assert completion.names("data") == LOADERS.names()
    assert completion.names("methods") == sorted([*OBJECTIVES.names(), *AVERAGERS.names()])
    assert completion.names("metrics") == sorted({*metric_names("classification"), *metric_names("segmentation")})
    assert completion.names("models") == sorted(OWN)


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete -o default"), ("zsh", "compdef"), ("fish", "complete")])
def test_the_script_of_a_shell(shell: str, word: str, tmp_path: Path) -> None:
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "durm"]
    shown = subprocess.run([*command, "--show-completion", shell], env=environment, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert word in shown.stdout
    assert "_DURM_COMPLETE=complete" in shown.stdout
    installed = subprocess.run([*command, "--install-completion", shell], env=environment, capture_output=True)
    assert installed.returncode == 0
    assert any(shown.stdout.strip() in path.read_text() for path in tmp_path.rglob("*") if path.is_file())
