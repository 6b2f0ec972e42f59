"""The pages of the documentation, and the code blocks on them."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    ROOT / "results" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language; those of no language are commands."""
    found = re.findall(r"^ *```(\S*)[^\n]*\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [code for tag, code in found if tag == language]


def commands(page: Path) -> list[list[str]]:
    """The words of every line that starts durm, without comments and redirections."""
    lines = [line.strip() for code in blocks(page, "") for line in code.replace("\\\n", " ").splitlines()]
    return [shlex.split(line.split(" > ")[0], comments=True) for line in lines if line.startswith("durm ")]
