"""The ledger of claims as a table, and as the page `docs/replication.md`."""

import re
from collections.abc import Callable, Sequence

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
make claims                          # writes this page again, after a study was added to results/
```

| verdict | |
|---|---|
| holds | the effect is decided to lie where the claim says; of a gain, above the margin and not below the paper's |
| does not hold | it is decided to lie elsewhere; of a gain, below the paper's own mean gain |
| undecided | neither; these runs cannot tell |
| not tested | no committed study speaks to it |

*At the margin* is the verdict of a gain against the margin alone: above 0.1 points, or not. Claims without a gain of
the paper to compare with have one verdict.

**Small scale.** The committed studies are of a size that a laptop can run: small models, few epochs, parts of data
sets. A verdict is about the settings that are named with it, and may be another at the paper's scale, for which
[`durm reproduce`](how-to/reproduce.md) has the recipes.
"""

FIGURE = """\
![Forest plot of the claims and of the settings of the paper's tables](images/claims.svg)

*Claims with their 95 % intervals, green where they hold, orange where they do not, dark where it is undecided. Under
the gains of the paper's tables: their settings one by one, at 1 − 0.05/m for m settings. Grey: the margin. Diamonds:
the paper's mean gains. What runs out of the figure goes on; claims that are computed without runs, and the share of
wins (2), have no place on these axes.*
"""

METHOD = """\
## How it is judged

- **Which studies.** A study speaks to a claim by what it is, not by its name: its data, method, attacks, probes, and
  what its arms change. A pair is two runs of one seed that differ in nothing but the dummies. Only C_d 1 to 3 count,
  the paper's, unless the claim is about their number; of several the mean is taken within each seed, because the best
  would be chosen by the test score.
- **No training that did not learn.** Settings whose baseline is near chance, or whose method is far below ERM, are
  [not counted](#what-was-not-counted) for claims about accuracy.
- **One setting** (data, model, method) has the interval of [the verdict](concepts/verdict.md): Student's over the
  seeds, with the steps in which the metric moves, over test samples too where a study kept what that takes; decided
  is what the whole 95 % interval says, and fewer than six seeds decide nothing. Of several numbers of dummies, or
  attacks, whose mean is taken, the samples add at most what they would if all went together: that is taken.
- **Several settings** are judged by their hierarchical mean μ: each setting has its own true effect, which differs
  from μ with standard deviation τ, and t errors over its seeds. The priors are μ ~ N(0, 1) and τ ~ half-normal(0.3)
  in points; where the margin is not 0.1 they are multiplied by margin/0.1. Decided is what has a probability of 95 %;
  the probability is given under a sceptical prior (0.3 and 0.1) and a wide one (3 and 1) too. Numbers of the same
  runs, such as those under two attacks, are averaged first and count as one setting. n counts seeds over all
  settings.
- **Margins.** 0.1 points of accuracy or IoU, 1 % of a gradient, a curvature or a time, 5 % of a distance, 10 % of a
  variance over seeds, 0.1 % of the samples: the same for all claims of a kind. The last column has the verdict at
  half and at double the margin.
- **The paper's gain** is the mean over the cells of its table: Table 8 at C_d = 2, as in Table 1; Tables 2, 3, 4, 6
  and 7 as they are, without the vanilla row of Table 7; of Table 12 all C_d, as Table 5 shows the best of three. A
  claim of a gain does not hold if ours is decided to be below that; it holds if ours is decided to be above the
  margin and is not decided to be below the paper's.
- **Shares of samples** are counts and have exact bounds (Clopper and Pearson, one-sided, 95 %): none of 500 samples
  leaves 0.6 %. The seeds of a setting see the same test samples, so the bound is that of the distinct samples, and
  more seeds do not lower it. Where the number of samples is not known, as of scenes whose pixels are not independent,
  nothing is decided. That a share stays below the limit must hold for the distinct samples of all test sets together
  (settings on the same data see the same ones; the one with the most hits is taken), with no setting's own share above
  it; that one setting exceeds it is corrected for the number of settings. Earlier versions of this page asked it of
  every setting by itself, which a test set of less than 2,995 samples cannot show.
- **Wins** are settings whose mean difference is above 0, with the exact interval of a share. They are counted as if
  they were independent; the accuracies of the same runs without and under attack are two of them. The paper's 39 of 52
  are cells of classification, three for each setting.
- **Settings one by one** have intervals at level 1 − 0.05/m for m settings. They do not make the verdict.
- **Variance** over seeds: the logarithm of the ratio of variances, in pseudo-values of the jackknife, one a seed. So
  few seeds, which say next to nothing of a variance, weigh next to nothing. By simulation such an interval leaves out
  the true ratio in 5 to 6 % of studies of normal values, in 6 to 9 % with heavy tails, and in up to 20 % if a run in
  twenty collapses. Pitman and Morgan's test is shown too.
- **Several analyses.** A study that was analysed several times enters with the level of its last analysis. That this
  page is computed again whenever a study is added is not corrected for, nor that there are many claims: of claims
  that are wrong, each on its own has 5 chances in 100 to be said to hold.
- **Once.** A run that stands in two studies, by the hash of its weights, counts once.
- **What would decide** is a study in which half the interval of a setting is as wide as the margin, or as the paper's
  gain, at the spread seen so far.
"""

REFUSED = """\
## What was not counted

No claim about accuracy rests on a training that did not learn: one that without dummies stays within 10 points of
chance, or a method that is more than 5 points below ERM of the same seeds on validation. Adversarial training, which
gives up clean accuracy on purpose, is not held to the latter. Claims about something else (the dummies' probability,
the gradients, the cost) take these runs too.
"""

PAPER = """\
## The paper's own tables, pooled

Every cell has a mean and a standard deviation over three seeds. The mean gives each setting the same weight, with
Student's interval over the settings. Fixed effects weigh by precision, 3/(s² + s₀²), as if all settings had one
effect; random effects let it differ between settings (DerSimonian and Laird) and have Hartung and Knapp's interval.
Segmentation ran once, without deviations.
"""


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
    at_margin = _counts([entry.finding.at_margin for entry in entries])
    lines = [
        INTRODUCTION,
        f"**{summed_up(entries)}** At the margin alone: {at_margin}.",
        "",
        FIGURE,
        *_overview(entries),
        "",
        METHOD,
    ]
    lines += [*_refused(entries), PAPER, *_pooled(), ""]
    for number, entry in enumerate(entries):
        if number == 0 or entry.heading != entries[number - 1].heading:
            lines += [f"## {entry.heading}", ""]
        lines += _section(entry)
    return "\n".join(lines).rstrip() + "\n"


def _overview(entries: Sequence[Entry]) -> list[str]:
    rows = []
    for entry in entries:
        verdict, *others = _judged(entry.finding)
        claim = [f"[{entry.number}](#{_anchor(entry)})", _escaped(entry.claim.statement), _escaped(entry.claim.where)]
        rows.append([*claim, f"**{verdict}**", *others])
    return _markdown(["", *HEADINGS], rows)


def _pooled() -> list[str]:
    rows = []
    for name, table in pooled_tables().items():
        pooled = [(table.mean, table.interval), (table.fixed, table.fixed_interval)]
        pooled.append((table.random, table.random_interval))
        cells = [
            text for mean, found in pooled for text in ("–" if mean is None else signed(mean, 2), bounds(found, 2))
        ]
        rows.append([name, str(table.cells), str(table.wins), *cells])
    return _markdown(POOLED, rows)


def _section(entry: Entry) -> list[str]:
    claim, finding = entry.claim, entry.finding
    lines = [
        f"### {_title(entry)}",
        "",
        f"**{finding.verdict}**{_at_margin(finding)} · {claim.where}",
        "",
        f"*Test:* {claim.test}.",
        "",
        _escaped(finding.reading),
        "",
    ]
    if finding.to_decide:
        lines += [f"*To decide it:* {_escaped(finding.to_decide)}.", ""]
    if finding.refused:
        lines += [f"*Not counted,* as the training did not learn: {_escaped(not_counted(finding))}.", ""]
    if finding.studies:
        lines += [f"*Results:* {', '.join(f'`{study}`' for study in finding.studies)}.", ""]
    if finding.parts:
        table = parts_table(finding)
        lines += [*_markdown(table.headings, [[_escaped(cell) for cell in row] for row in table.texts()]), ""]
    return lines


def not_counted(finding: Finding) -> str:
    """The settings that were refused: `pacs-small (pacs, test_resnet, vrex)`."""
    return "; ".join(f"{one.study} ({one.setting})" for one in finding.refused)


def _refused(entries: Sequence[Entry]) -> list[str]:
    """Every setting that a claim did without, and why."""
    every = dict.fromkeys(one for entry in entries for one in entry.finding.refused)
    rows = [[f"`{one.study}`", _escaped(one.setting), _escaped(one.reason)] for one in every]
    return [REFUSED, *_markdown(["study", "setting", "why"], rows), ""] if rows else []


def _title(entry: Entry) -> str:
    return f"{entry.number}. {entry.claim.statement}"


def _anchor(entry: Entry) -> str:
    """What MkDocs and GitHub both make of the title."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", _title(entry)).lower())


def _at_margin(finding: Finding) -> str:
    return "" if finding.at_margin == finding.verdict else f" (at the margin: {finding.at_margin})"


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


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _escaped(text: str) -> str:
    """Names of data and models may hold what Markdown takes for a sign."""
    return "".join(f"\\{letter}" if letter in "_*|`<>" else letter for letter in text)
