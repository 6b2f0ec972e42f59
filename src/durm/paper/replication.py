"""The ledger of claims as a table, and as the page `docs/replication.md`."""

import re
from collections.abc import Sequence

from durm._words import counted
from durm.paper.claims import VERDICTS, Entry
from durm.paper.combining import Finding, Part
from durm.report.tables import Cell, Table
from durm.report.words import bounds, decimals, plain, signed

DIFFERENCES = ("points", "%", "correlation", "gradient")
"""The units of numbers that are told with their sign."""
HEADINGS = ["claim", "verdict", "effect", "interval", "n"]

INTRODUCTION = """\
# Replication

What the paper ([arXiv 2308.02287](https://arxiv.org/abs/2308.02287)) claims and what its public reviewers asked, as
statements that can be tested, with what the studies in `results/` say about each. Verdicts and numbers are computed
from these studies by `durm claims`; none is typed by hand, and a test fails if this page is not what the committed
results give.

```
durm claims                          # the table
durm claims --only 1,5 --details     # how they are tested, setting by setting
durm claims --json                   # every number
make claims                          # writes this page anew, after a study was added to results/
```

| verdict | |
|---|---|
| holds | the whole 95 % interval lies where the claim says |
| does not hold | the whole interval lies elsewhere: the other way, or within what counts as no difference |
| undecided | neither; these runs cannot tell |
| not tested | no committed study speaks to it |

**Small scale.** The committed studies are of a size that a laptop can run: small models, few epochs, parts of data
sets. A verdict is about the settings that stand beside it, and may be another at the paper's scale, for which
[`durm reproduce`](how-to/reproduce.md) has the recipes.
"""

METHOD = """\
## How it is judged

- **Which studies.** A study speaks to a claim by what it is, not by its name: its data, method, attacks, probes, and
  what its arms change. A pair is two runs of one seed that differ in nothing but the dummies. Only C_d 1 to 3 count,
  the paper's, unless the claim is about their number; of several the mean is taken within each seed, because the best
  would be chosen by the test score.
- **Which mean.** A claim is about the mean over settings (data, model, method; attack), each with the same weight.
  Settings with the same seeds are averaged seed by seed first, and the mean over the seeds has Student's interval, as
  everywhere in durm ([the verdict](concepts/verdict.md)). Groups of settings with other seeds are taken to be
  independent; the interval of their mean has the degrees of freedom of the smallest group, with which it never covers
  less than it says. So n counts seeds, not runs.
- **What counts as none.** 0.1 points of accuracy or IoU, 1 % of a gradient, a curvature or a time, 5 % of a distance,
  10 % of a variance over seeds, 0.1 % of the samples: the same for all claims of a kind, and stated with each.
- **Settings one by one** have intervals at level 1 − 0.05/m for m settings. They do not make the verdict, except
  where a claim is about every setting. Fewer than six differences that are all equal decide nothing.
- **Variance** over a few seeds says next to nothing by itself: there each setting is one value, the logarithm of the
  ratio of variances. Pitman and Morgan's test is told beside it.
- **Looks.** A study that was looked at k times enters with the level of its k-th look. That this page is computed again
  whenever a study is added is not corrected for, nor that there are many claims: of claims that are wrong, each on its
  own has 5 chances in 100 to be said to hold.
- **Once.** A run that stands in two studies, by the hash of its weights, counts once.
"""


def claims_table(entries: Sequence[Entry]) -> Table:
    """One row for each claim."""
    rows = []
    for entry in entries:
        found = entry.finding
        cells = [f"{entry.number:2} {entry.claim.statement}", found.verdict, *_numbers(found)]
        rows.append([Cell(cell) for cell in cells])
    return Table(HEADINGS, rows)


def parts_table(finding: Finding) -> Table:
    """One row for each setting."""
    rows = [[Cell(cell) for cell in _part(part, finding)] for part in finding.parts]
    return Table(["setting", "study", "n", "effect", "interval", "by itself"], rows)


def summed_up(entries: Sequence[Entry]) -> str:
    """`31 claims: 3 hold, …`."""
    words = [entry.finding.verdict for entry in entries]
    plural = {"holds": "hold", "does not hold": "do not hold", "undecided": "undecided", "not tested": "not tested"}
    counts = [f"{words.count(word)} {word if words.count(word) == 1 else plural[word]}" for word in VERDICTS]
    return f"{counted(len(words), 'claim')}: {', '.join(counts)}."


def page(entries: Sequence[Entry]) -> str:
    """The whole page, in Markdown."""
    lines = [INTRODUCTION, f"**{summed_up(entries)}**", "", *_overview(entries), "", METHOD]
    for number, entry in enumerate(entries):
        if number == 0 or entry.heading != entries[number - 1].heading:
            lines += [f"## {entry.heading}", ""]
        lines += _section(entry)
    return "\n".join(lines).rstrip() + "\n"


def _overview(entries: Sequence[Entry]) -> list[str]:
    rows = [
        [
            f"[{entry.number}](#{_anchor(entry)})",
            _escaped(entry.claim.statement),
            _escaped(entry.claim.where),
            f"**{entry.finding.verdict}**",
            *_numbers(entry.finding),
            ", ".join(f"`{study}`" for study in entry.finding.studies),
        ]
        for entry in entries
    ]
    return _markdown(["", "claim", "where", "verdict", "effect", "interval", "n", "results"], rows)


def _section(entry: Entry) -> list[str]:
    claim, finding = entry.claim, entry.finding
    lines = [
        f"### {_title(entry)}",
        "",
        f"**{finding.verdict}** · {claim.where}",
        "",
        f"*Test:* {claim.test}.",
        "",
        _escaped(finding.reading),
        "",
    ]
    if finding.parts:
        table = parts_table(finding)
        lines += [*_markdown(table.headings, [[_escaped(cell) for cell in row] for row in table.texts()]), ""]
    return lines


def _title(entry: Entry) -> str:
    return f"{entry.number}. {entry.claim.statement}"


def _anchor(entry: Entry) -> str:
    """What MkDocs and GitHub both make of the title."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", _title(entry)).lower())


def _numbers(finding: Finding) -> list[str]:
    if finding.effect is None:
        return ["–", "–", "–"]
    digits = 3 if finding.unit == "probability" else _digits(finding.interval)
    effect = f"{(signed if finding.unit in DIFFERENCES else plain)(finding.effect, digits)} {finding.unit}"
    n = f"{finding.n:,} {finding.counted}{'' if finding.n == 1 else 's'}"
    return [effect, bounds(finding.interval, digits), n]


def _part(part: Part, finding: Finding) -> list[str]:
    digits = _digits(part.interval)
    effect = (plain if finding.unit.startswith("% of") else signed)(part.effect, digits)
    return [part.what, ", ".join(part.studies), str(part.n), effect, bounds(part.interval, digits), part.word]


def _digits(interval: tuple[float, float] | None) -> int:
    return decimals({"ci_family": interval}, 0.1)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _escaped(text: str) -> str:
    """Names of data and models may hold what Markdown takes for a sign."""
    return "".join(f"\\{letter}" if letter in "_*|`<>" else letter for letter in text)
