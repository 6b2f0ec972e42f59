"""Judges a table of results that durm did not make: one row for each run, with the columns arm, seed and value."""

import csv
import io
import math
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from durm.errors import InputError, unknown
from durm.study.verdict import caution, compare

COLUMNS = ("arm", "seed", "value")
SMALLEST, LARGEST = 1e-100, 1e100

Table = dict[str, dict[str, dict[str, float]]]
"""setting → arm → seed → value"""


def read_table(path: Path) -> Table:
    """The runs in a CSV file; commas, semicolons and tabs are told apart by the first line. `-` is stdin."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not a text'}") from None
    text = text.lstrip("\ufeff \r\n")
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)
    reader = csv.DictReader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
    if twice := [name for name in COLUMNS if reader.fieldnames.count(name) > 1]:
        raise InputError(f"{path}: the column {twice[0]} stands there twice")
    if missing := [name for name in COLUMNS if name not in reader.fieldnames]:
        found = ", ".join(reader.fieldnames) or "nothing"
        raise InputError(f"{path}: no column {', '.join(missing)}; expected arm, seed, value, and found {found}")
    table: Table = {}
    try:
        for row in reader:
            _add(table, row, f"{path}, line {reader.line_num}")
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not a table that can be read: {error}") from None
    if not table:
        raise InputError(f"{path}: there are no rows below the header")
    return table


def judge_table(
    table: Table,
    *,
    baseline: str | None = None,
    rope: float,
    higher_is_better: bool = True,
    metric: str = "value",
) -> dict[str, Any]:
    """The same summary that a study of durm's has, without what only durm knows."""
    if not (rope >= 0 and math.isfinite(rope)):
        raise InputError(f"--rope {rope:g}: expected a number of at least 0")
    settings, warnings = [], _scale_warning(table, rope)
    first = next(iter(next(iter(table.values()))))
    for setting, arms in table.items():
        base = baseline if baseline is not None else first
        where = f" in setting {setting!r}" if setting else ""
        if base not in arms:
            raise InputError(f"--baseline: {unknown('arm', base, arms)}{where}")
        if len(arms) < 2:
            raise InputError(f"there is one arm only ({base!r}){where}, and nothing to compare it with")
        comparisons = [c.as_dict() for c in compare(base, arms, rope=rope, higher_is_better=higher_is_better)]
        warnings += [text for c in comparisons if (text := _unpaired(arms, c["arm"], base, where))]
        warnings += [text for c in comparisons if (text := caution(c))]
        settings.append(
            {
                "setting": {"setting": setting} if setting else {},
                "arms": [_arm(name, arms[name]) for name in sorted(arms, key=lambda name: name != base)],
                "comparisons": comparisons,
                "robustness": [],
                "derived": {"arms": [], "comparisons": []},
                "null_control": {"arms": [], "comparisons": []},
            }
        )
    return {
        "study": "",
        "metric": metric,
        "higher_is_better": higher_is_better,
        "rope": rope,
        "max_seeds": None,
        "settings": settings,
        "averages": [],
        "warnings": warnings,
    }


def _add(table: Table, row: Mapping[str | None, Any], where: str) -> None:
    arm, seed, value = ((row[name] or "").strip() for name in COLUMNS)
    if not arm or not seed:
        raise InputError(f"{where}: {'arm' if not arm else 'seed'} is empty")
    try:
        number = float(value)
    except ValueError:
        raise InputError(f"{where}: value {value!r} is not a number") from None
    if not math.isfinite(number):
        raise InputError(f"{where}: value {value!r} is not finite; leave out runs that gave no number")
    if not (number == 0 or SMALLEST < abs(number) < LARGEST):
        raise InputError(f"{where}: value {value!r} is too large or too small to reckon with")
    values = table.setdefault((row.get("setting") or "").strip(), {}).setdefault(arm, {})
    if seed in values:
        raise InputError(f"{where}: arm {arm!r} has seed {seed!r} a second time")
    values[seed] = number


def _scale_warning(table: Table, rope: float) -> list[str]:
    """Shares from 0 to 1 are often given where percent are meant."""
    values = [abs(value) for arms in table.values() for arm in arms.values() for value in arm.values()]
    if max(values) > 1 or rope < 0.05:
        return []
    return [
        f"All values lie between -1 and 1, where ±{rope:g} is much. If they are shares, take a --rope such as 0.001."
    ]


def _unpaired(arms: Mapping[str, Mapping[str, float]], arm: str, baseline: str, where: str) -> str | None:
    alone = sorted(arms[arm].keys() ^ arms[baseline].keys())
    if not alone:
        return None
    shown = ", ".join(alone[:5]) + (", …" if len(alone) > 5 else "")
    return f"{arm} and {baseline}{where} do not have all seeds in common; left out: {shown}."


def _arm(name: str, values: Mapping[str, float]) -> dict[str, Any]:
    numbers = list(values.values())
    return {
        "arm": name,
        "n": len(numbers),
        "mean": statistics.fmean(numbers),
        "std": statistics.stdev(numbers) if len(numbers) > 1 else None,
        "values": dict(values),
    }
