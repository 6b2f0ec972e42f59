"""What is imported is declared, and what is declared is imported."""

import ast
import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[1]
NAMES = {
    "PIL": "pillow",
    "mlflow": "mlflow-skinny",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "segmentation_models_pytorch": "segmentation-models-pytorch",
}
"""Modules that are not called like what installs them."""
PYTHON_EXTRAS = ("bench", "lightning", "transformers", "skorch", "audio", "trackers", "onnx", "ray")
"""The extras that the package imports; docs and dev are for users, the site and the tests."""


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = [*project["dependencies"]]
    for extra in PYTHON_EXTRAS:
        every += project["optional-dependencies"][extra]
    return {re.match(r"[A-Za-z0-9-]+", requirement)[0].lower() for requirement in every}  # type: ignore[index]


def imported() -> set[str]:
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        found |= set(re.findall(r'(?:import_module|find_spec)\("([a-z_]+)', text))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    ours = {"durm", *sys.stdlib_module_names}
    return {NAMES.get(name, name).lower() for name in found if name not in ours}


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    assert imported() == declared()


def test_the_core_needs_torch_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [re.match(r"[a-z]+", requirement)[0] for requirement in project["dependencies"]] == ["torch"]  # type: ignore[index]
