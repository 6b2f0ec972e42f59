"""All that was measured, in one table: what, ours / peer, its interval, n, limit, hardware, commit and day.

    python benchmarks/table.py            # what is in results/*.json
    python benchmarks/table.py results/loop.json

A ratio is the median over interleaved pairs, of the first of the two named by the second, with its 95 % interval;
`slope` is how a time or a memory grows (see growth.py), `ms` a median time. A row without a commit was measured before
benchmarks kept it.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
HEADER = ("benchmark", "what", "ours / peer", "95 % interval", "n", "limit", "holds", "hardware", "commit", "day")
NOT_KNOWN = "–"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Prints what the benchmarks measured as one table.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.json", help="default: all in results/")
    paths = parser.parse_args(arguments).files or sorted(RESULTS.glob("*.json"))
    rows = [row for path in paths for row in rows_of(path.stem, json.loads(path.read_text()))]
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    for row in (HEADER, tuple("-" * width for width in widths), *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def rows_of(name: str, content: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row for each result; none of a file that is not a benchmark's."""
    if not isinstance(content, dict) or not {"provenance", "results"} <= content.keys():
        return []
    about = content["provenance"]
    cores = f", {about['cores']} cores" if "cores" in about else ""
    where = f"{about.get('cpu', NOT_KNOWN)}{cores}, threads: {about.get('threads', NOT_KNOWN)}"
    end = (where, about.get("commit") or NOT_KNOWN, about.get("date", NOT_KNOWN))
    return [(name, *_cells(result), *end) for result in content["results"]]


def _cells(result: Mapping[str, Any]) -> tuple[str, ...]:
    """What, the value, its interval, n, the limit, and whether it holds."""
    what = f"{result['case']}, {result['what']}" if "what" in result else result["case"]
    interval = f"{result['low']:.3g} … {result['high']:.3g}" if "low" in result else NOT_KNOWN
    count = result.get("pairs") or result.get("repeats") or len(result.get("values", ()))
    limit = NOT_KNOWN if result.get("limit") is None else f"{result['limit']:g}"
    holds = {True: "yes", False: "NO"}.get(result.get("holds"), NOT_KNOWN)  # type: ignore[arg-type]
    return what, _value(result), interval, str(count or NOT_KNOWN), limit, holds


def _value(result: Mapping[str, Any]) -> str:
    if "ratio" in result:
        return f"{result['ratio']:.3g}"
    if result.get("what") == "page_bytes":
        return f"{max(result['values'].values()) / 1e6:.2g} MB"
    if "slope" in result:
        return f"slope {max(result['slope'], result['last']):.2f}"
    if "milliseconds" in result:
        return f"{result['milliseconds']:.3g} ms"
    return NOT_KNOWN


if __name__ == "__main__":
    sys.exit(main())
