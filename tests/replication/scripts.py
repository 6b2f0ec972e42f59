"""The scripts in docs/ that write pages from results."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def load_script(name: str) -> ModuleType:
    """As `make` runs it. A test that asks for it is skipped where the documentation is not, as in a source archive."""
    if not DOCS.exists():
        pytest.skip("the documentation is not here", allow_module_level=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        return import_module(name)
