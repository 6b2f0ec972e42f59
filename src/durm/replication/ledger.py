"""The ledger of claims as a table, and as the page `docs/replication.md`."""

import re
from collections.abc import Callable, Sequence

import jinja2

from durm._text import pluralize
from durm.replication.claims import VERDICTS, Entry
from durm.replication.finding import Finding, Part
from durm.replication.paper_tables import pooled_tables
from durm.report.tables import Cell, Table
from durm.report.text import bounds, decimals, plain, signed

DIFFERENCES = ("points", "%", "correlation", "gradient")
"""The units of numbers that are shown with their sign."""
SHARES = ("% of samples", "% of probability")
HEADINGS = [
    "claim",
    "where",
    "verdict",
    "at the margin",
    "effect",
    "interval",
    "n",
    "settings",
    "margin",
    "paper's gain",
    "½ and 2 × margin",
]
POOLED = ["", "settings", "wins", "mean", "interval", "fixed effects", "interval", "random effects", "interval"]


def claims_table(entries: Sequence[Entry]) -> Table:
    """One row for each claim."""
    rows = []
    for entry in entries:
        cells = [f"{entry.number:2} {entry.claim.statement}", entry.claim.where, *_judged(entry.finding)]
        rows.append([Cell(cell) for cell in cells])
    return Table(HEADINGS, rows)


def parts_table(finding: Finding) -> Table:
    """One row for each setting."""
    rows = [[Cell(cell) for cell in _part(part, finding)] for part in finding.parts]
    return Table(["setting", "study", "n", "effect", "interval", "by itself"], rows)


def summed_up(entries: Sequence[Entry]) -> str:
    """`31 claims: 3 hold, …`."""
    return f"{pluralize(len(entries), 'claim')}: {_counts([entry.finding.verdict for entry in entries])}."


def _counts(words: Sequence[str]) -> str:
    plural = {"holds": "hold", "does not hold": "do not hold", "undecided": "undecided", "not tested": "not tested"}
    return ", ".join(f"{words.count(word)} {word if words.count(word) == 1 else plural[word]}" for word in VERDICTS)


def page(entries: Sequence[Entry]) -> str:
    """The whole page, in Markdown."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("durm.replication"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["escaped"] = _escaped
    text = environment.get_template("ledger.md.jinja").render(
        entries=entries,
        at_margin=_counts([entry.finding.at_margin for entry in entries]),
        refused=_refused(entries),
        **{"summed_up": summed_up, "overview": _overview, "pooled": _pooled, "parts": _parts},
        **{"title": _title, "not_counted": not_counted},
    )
    return text.rstrip() + "\n"


def _overview(entries: Sequence[Entry]) -> str:
    rows = []
    for entry in entries:
        verdict, *others = _judged(entry.finding)
        claim = [f"[{entry.number}](#{_anchor(entry)})", _escaped(entry.claim.statement), _escaped(entry.claim.where)]
        rows.append([*claim, f"**{verdict}**", *others])
    return _markdown(["", *HEADINGS], rows)


def _pooled() -> str:
    rows = []
    for name, table in pooled_tables().items():
        pooled = [(table.mean, table.interval), (table.fixed, table.fixed_interval)]
        pooled.append((table.random, table.random_interval))
        cells = [text for mean, found in pooled for text in (signed(mean, 2), bounds(found, 2))]
        rows.append([name, str(table.cells), str(table.wins), *cells])
    return _markdown(POOLED, rows)


def _parts(finding: Finding) -> str:
    table = parts_table(finding)
    return _markdown(table.headings, [[_escaped(cell) for cell in row] for row in table.texts()])


def not_counted(finding: Finding) -> str:
    """The settings that were refused: `pacs-small (pacs, test_resnet, vrex)`."""
    return "; ".join(f"{one.study} ({one.setting})" for one in finding.refused)


def _refused(entries: Sequence[Entry]) -> str:
    """Every setting that a claim did without, and why; nothing without any."""
    every = dict.fromkeys(one for entry in entries for one in entry.finding.refused)
    rows = [[f"`{one.study}`", _escaped(one.setting), _escaped(one.reason)] for one in every]
    return _markdown(["study", "setting", "why"], rows) if rows else ""


def _title(entry: Entry) -> str:
    return f"{entry.number}. {entry.claim.statement}"


def _anchor(entry: Entry) -> str:
    """What MkDocs and GitHub both make of the title."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", _title(entry)).lower())


def _judged(finding: Finding) -> list[str]:
    """Verdicts and numbers, as they stand in the table."""
    margin = "–" if finding.margin is None else f"{finding.margin:g} {finding.unit}"
    gain = "–" if finding.paper_gain is None else _signed(finding.unit)(finding.paper_gain, 2)
    settings = str(finding.settings or "–")
    return [finding.verdict, finding.at_margin, *_numbers(finding), settings, margin, gain, sensitivity(finding)]


def sensitivity(finding: Finding) -> str:
    """The verdicts at half and at double the margin, if they are others."""
    if finding.sensitivity is None:
        return "–"
    half, double = finding.sensitivity["half"], finding.sensitivity["double"]
    return "same" if half == double == finding.at_margin else f"{half} / {double}"


def _numbers(finding: Finding) -> list[str]:
    if finding.effect is None:
        return ["–", "–", "–"]
    digits = 3 if finding.unit == "probability" else _digits(finding.interval)
    effect = f"{_signed(finding.unit)(finding.effect, digits)} {finding.unit}"
    n = f"{finding.n:,} {finding.counted}{'' if finding.n == 1 else 's'}"
    return [effect, bounds(finding.interval, digits), n]


def _signed(unit: str) -> Callable[[float, int], str]:
    return signed if unit in DIFFERENCES else plain


def _part(part: Part, finding: Finding) -> list[str]:
    digits = _digits(part.interval)
    effect = (plain if finding.unit in SHARES else signed)(part.effect, digits)
    return [part.what, ", ".join(part.studies), f"{part.n:,}", effect, bounds(part.interval, digits), part.word]


def _digits(interval: tuple[float, float] | None) -> int:
    return decimals(interval, 0.1)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """Names of data and models may hold what Markdown takes for a sign."""
    return "".join(f"\\{letter}" if letter in "_*|`<>" else letter for letter in text)
