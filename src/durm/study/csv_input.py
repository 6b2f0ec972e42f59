"""Reads a table of results that durm did not make, from a CSV file or a data frame, in one of two shapes.

Long: one row for each run, with the columns arm, seed and value. A column `setting` makes several tables of it; a
column `sample` says that a row is one test sample of a run: the value of the run is then the mean over its samples, and
the interval is over samples too. Wide: one column for each arm, and one for the seed, or the rows are the pairs.
"""

import csv
import io
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durm._files import read_text
from durm.errors import InputError, unknown
from durm.metrics import find_metric
from durm.study.run_table import RunTable

NAMES = {
    "arm": ("arm", "method", "variant", "condition", "treatment", "group", "config", "model", "name"),
    "seed": ("seed", "fold", "replicate", "repetition", "repeat", "split", "pair", "trial", "run", "", "unnamed: 0"),
    "value": ("value", "score", "result"),
    "setting": ("setting",),
    "sample": ("sample",),
}
"""What the columns may be called, in order of preference; the values also by a metric that durm knows."""
SMALLEST, LARGEST = 1e-100, 1e100
Row = Mapping[str, Any]
"""column → value"""


def read_table(path: Path, **columns: str | None) -> RunTable:
    """The runs in a CSV file; the separator (comma, semicolon or tab) is found from the first line. `-` is stdin.

    `columns` are the names of those for `arm`, `seed` and `value`, where they are called otherwise.
    """
    try:
        text = sys.stdin.read() if str(path) == "-" else read_text(path)
    except UnicodeDecodeError:
        raise InputError(f"{path} cannot be read: not UTF-8 text") from None
    text = text.lstrip("\ufeff \r\n")
    separator = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
    lower = [name.lower() for name in reader.fieldnames]
    if twice := [name for name in reader.fieldnames if lower.count(name.lower()) > 1]:
        raise InputError(f"{path}: the column {twice[0]} is given twice")
    try:
        rows = [(f"{path}, line {reader.line_num}", _cells(row, separator)) for row in reader]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not a table that can be read: {error}") from None
    return make_table(list(reader.fieldnames), rows, str(path), **columns)


def _cells(row: Mapping[str | None, Any], separator: str) -> Row:
    """Without what stands beyond the last column. Where semicolons separate, a comma may be the decimal point."""
    cells = {name: (text or "").strip() for name, text in row.items() if name is not None}
    if separator == ";":
        cells = {
            name: text.replace(",", ".") if _is_number(text.replace(",", ".")) else text for name, text in cells.items()
        }
    return cells


def make_table(columns: Sequence[str], rows: Sequence[tuple[str, Row]], source: str, **named: str | None) -> RunTable:
    """The runs of a long or a wide table. Each row comes with words for where it stands."""
    if not rows:
        raise InputError(f"{source}: there are no rows below the header")
    roles = _find_roles(columns, rows, source, named)
    table = RunTable()
    if roles.arm is None:
        _read_wide(table, columns, rows, roles)
    else:
        _read_long(table, rows, roles)
    for (setting, arm, seed), samples in table.samples.items():
        table.settings.setdefault(setting, {}).setdefault(arm, {})[seed] = statistics.fmean(samples.values())
    if not table.settings:
        raise InputError(f"{source}: there is no number in any row")
    return table


@dataclass(frozen=True)
class _Roles:
    """Which column is which; without `arm` the table is wide."""

    arm: str | None
    seed: str | None
    value: str | None
    setting: str | None
    sample: str | None


def _find_roles(
    columns: Sequence[str], rows: Sequence[tuple[str, Row]], source: str, named: Mapping[str, str | None]
) -> _Roles:
    lower = {name.lower(): name for name in reversed(columns)}
    found: dict[str, str | None] = {}
    for role, names in NAMES.items():
        given = named.get(role)
        if given is not None and given not in columns:
            raise InputError(f"{source}: `{role}`: {unknown('column', given, columns)}")
        free = {key: name for key, name in lower.items() if name not in [*found.values(), *named.values()]}
        found[role] = given if given is not None else next((free[name] for name in names if name in free), None)
    others = [name for name in columns if name not in found.values()]
    numeric = [name for name in others if all(_is_number(row[name]) or _is_empty(row[name]) for _, row in rows)]
    arm = found["arm"] if named.get("arm") is None else None
    if arm is not None and all(_is_number(row[arm]) for _, row in rows):  # an arm of a wide table that is called so
        numeric, found["arm"] = [arm, *numeric], None
    if found["arm"] is not None and found["value"] is None:
        known = [name for name in numeric if find_metric(name.lower()) is not None]
        choice = known if len(known) == 1 else numeric
        if len(choice) != 1:
            shown = ", ".join(choice) or "none"
            raise InputError(
                f"{source}: which column has the values? {shown} could; say so with `value`{_no_number(others, rows)}"
            )
        found["value"] = choice[0]
    roles = _Roles(**found)
    arms = [name for name in columns if name not in (roles.seed, roles.setting)]
    if roles.arm is None and (len(arms) < 2 or len(numeric) < len([name for name in arms if name in others])):
        raise InputError(
            f"{source}: no column arm; expected arm, seed, value, or one column of numbers for each arm, and found "
            f"{', '.join(columns) or 'nothing'}{_no_number([name for name in arms if name not in numeric], rows)}"
        )
    return roles


def _no_number(columns: Sequence[str], rows: Sequence[tuple[str, Row]]) -> str:
    """The first cell that keeps one of the columns from being numbers, as the end of a sentence."""
    for name in columns:
        for where, row in rows:
            if not (_is_number(row[name]) or _is_empty(row[name])):
                return f"; in {where} {name} is {str(row[name])[:40]!r}, which is no number"
    return ""


def _read_long(table: RunTable, rows: Sequence[tuple[str, Row]], roles: _Roles) -> None:
    assert roles.arm is not None
    assert roles.value is not None
    if roles.value.lower() not in NAMES["value"]:
        table.metric = roles.value
    counts: dict[tuple[str, str], int] = {}
    for where, row in rows:
        arm, setting = str(row[roles.arm]).strip(), _text(row, roles.setting)
        place = counts[setting, arm] = counts.get((setting, arm), -1) + 1
        seed = str(place) if roles.seed is None else _text(row, roles.seed)
        if not arm or not seed:
            raise InputError(f"{where}: {'arm' if not arm else 'seed'} is empty")
        _add(
            table,
            (setting, arm, seed),
            row[roles.value],
            where,
            None if roles.sample is None else _text(row, roles.sample),
        )
    if roles.seed is None:
        _unpair(table, counts)


def _read_wide(table: RunTable, columns: Sequence[str], rows: Sequence[tuple[str, Row]], roles: _Roles) -> None:
    arms = [name for name in columns if name not in (roles.seed, roles.setting)]
    for place, (where, row) in enumerate(rows):
        seed = str(place) if roles.seed is None else _text(row, roles.seed)
        if not seed:
            raise InputError(f"{where}: seed is empty")
        for arm in arms:
            if not _is_empty(row[arm]):  # a run that is missing
                _add(table, (_text(row, roles.setting), arm, seed), row[arm], where, None)


def _unpair(table: RunTable, counts: Mapping[tuple[str, str], int]) -> None:
    """Without seeds, runs pair by their order; arms of different lengths have no pairs."""
    for setting, arms in table.settings.items():
        if len({counts[setting, arm] for arm in arms}) > 1:
            table.settings[setting] = {
                arm: {f"{arm} {seed}": value for seed, value in values.items()} for arm, values in arms.items()
            }


def _text(row: Row, column: str | None) -> str:
    if column is None:
        return ""
    value = row[column]
    return "" if _is_empty(value) else str(value).strip()


def _is_empty(value: Any) -> bool:
    """An empty cell, or None or NaN of a data frame."""
    return value is None or value == "" or value != value


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _add(table: RunTable, run: tuple[str, str, str], value: Any, where: str, sample: str | None) -> None:
    setting, arm, seed = run
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: value {value!r} is not a number") from None
    if not math.isfinite(number):
        raise InputError(f"{where}: value {value!r} is not finite; leave out runs that gave no number")
    if not (number == 0 or SMALLEST < abs(number) < LARGEST):
        raise InputError(f"{where}: value {value!r} is too large or too small to reckon with")
    if sample is not None:
        values, key, what = table.samples.setdefault(run, {}), sample, f"sample {sample!r} of seed"
    else:
        values, key, what = table.settings.setdefault(setting, {}).setdefault(arm, {}), seed, "seed"
        table.written.append(str(value))
    if key in values:
        raise InputError(f"{where}: arm {arm!r} has {what} {seed!r} a second time")
    values[key] = number
