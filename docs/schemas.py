"""Writes the JSON schemas of the files that a study leaves, from the records that read and write them."""

import json
from pathlib import Path

from durm.study.records import Summary
from durm.training.result import Result

FOLDER = Path(__file__).parent / "reference"


def schemas() -> dict[str, str]:
    """File name → content."""
    kinds = {"summary.schema.json": Summary, "result.schema.json": Result}
    return {name: json.dumps(kind.model_json_schema(), indent=1) + "\n" for name, kind in kinds.items()}


if __name__ == "__main__":
    for name, content in schemas().items():
        (FOLDER / name).write_text(content)
