"""Who may import whom, how long files and classes may be, and where flags are named."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "durm"
LAYERS = (
    ("heads", "losses", "scores", "theory", "exporting"),
    ("attacks", "curvature", "flatness", "probes", "metrics"),
    ("data", "models"),
    ("methods",),
    ("training",),
    ("statistics",),
    ("study",),
    ("report",),
    ("api", "study_result"),
    ("replication",),
    ("cli",),
)
"""A file imports only from its own layer or those before it."""
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}
CORE = {name for names in LAYERS[:2] for name in names} - {"metrics"}
FILES = sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Every module that the file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_from_its_own_layer_or_those_before_it(path: Path) -> None:
    own = part_of(path)
    used = {name.split(".")[1] for name in imports(path) if name.startswith("durm.")}
    if own in RANKS:
        assert {name for name in used if RANKS.get(name, -1) > RANKS[own]} == set()
    elif own == "integrations":
        finished = {"training", "study", "report"} if path.stem == "trackers" else set()  # it reads studies
        assert used & {*RANKS} <= {"heads", "losses", "scores", "probes", *finished}
    elif own not in ("__init__", "__main__"):
        assert used & {*RANKS} == set(), "what all layers share imports none of them"


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) in CORE], ids=lambda path: path.name)
def test_the_core_needs_torch_alone(path: Path) -> None:
    tops = {name.split(".")[0] for name in imports(path)}
    assert not tops & {"numpy", "pydantic", "scipy", "timm", "torchvision", "matplotlib", "yaml", "sklearn", "typer"}


def test_nothing_but_the_command_line_imports_the_replication() -> None:
    users = {part_of(path) for path in FILES for name in imports(path) if name.startswith("durm.replication")}
    assert users == {"replication", "cli"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_and_classes_are_short(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            assert (node.end_lineno or 0) - node.lineno < 200, node.name


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) != "cli"], ids=lambda path: path.name)
def test_flags_are_named_in_the_command_line_alone(path: Path) -> None:
    assert re.findall(r"(?<![-\w])--[a-z][a-z-]+(?![a-z-]*:)", path.read_text()) == []  # a CSS variable has a colon
