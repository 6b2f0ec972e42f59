"""Names that a shell completes after `--data`, `--model`, `--method` and `--metric`.

They are read from the source, where each is written once: importing what registers them would import torch, and take
seconds at every press of the key.
"""

import re
from pathlib import Path

import durm

WRITTEN = {
    "data": r'register\("([\w-]+)"\)|^    name = "([\w-]+)"',
    "models": r'"(\w+)": (?:tiny|audio)\.\w+|^TEXT = "(\w+)"',
    "methods": r'^        name: Literal\["([\w-]+)"\]',
    "metrics": r'^@(?:metric|_percentage)\(\s*"(\w+)"',
}
"""Package → how a name is written in it. Of the models only durm's own: the others are those of their libraries."""


def names(package: str) -> list[str]:
    found = set()
    for path in (Path(durm.__file__).parent / package).glob("*.py"):
        for groups in re.findall(WRITTEN[package], path.read_text(encoding="utf-8"), re.M):
            found.add(groups if isinstance(groups, str) else "".join(groups))
    return sorted(found)


def data_names(incomplete: str) -> list[str]:
    return _beginning(incomplete, "data")


def model_names(incomplete: str) -> list[str]:
    return _beginning(incomplete, "models")


def method_names(incomplete: str) -> list[str]:
    return _beginning(incomplete, "methods")


def metric_names(incomplete: str) -> list[str]:
    return _beginning(incomplete, "metrics")


def _beginning(incomplete: str, package: str) -> list[str]:
    """After a comma the next name is completed."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names(package) if name.startswith(last)]
