"""The ledger: every claim with a verdict that committed results give.

A claim holds, does not hold, is undecided, or was not tested. No verdict is written by hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from durm.replication.claim_list import HEADINGS, MORE, Claim
from durm.replication.claim_tests import typical_spread
from durm.replication.finding import Finding, Verdict
from durm.replication.learned import Refusal, learned
from durm.replication.meta_analysis import to_decide
from durm.replication.study_index import Evidence, Setting, read_evidence

VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "undecided", "not tested")
NUMBERED = [(heading, claim) for heading, claims in HEADINGS.items() for claim in claims]


@dataclass(frozen=True)
class Entry:
    """A claim with its number and what was found."""

    number: int
    heading: str
    claim: Claim
    finding: Finding

    def as_dict(self) -> dict[str, Any]:
        described = {name: getattr(self.claim, name) for name in ("statement", "where", "test")}
        return {"number": self.number, "heading": self.heading, **described, **self.finding.as_dict()}


def ledger(results: Path, only: Sequence[int] | None = None) -> list[Entry]:
    """The claims, or those of these numbers, with what the studies in the folder say about each.

    Raises:
        InputError: if the folder or a file in it cannot be read.
    """
    evidence = read_evidence(results)
    kept, refused = learned(evidence)
    return [
        Entry(number, heading, claim, judge(claim, kept, refused) if claim.of_accuracy else judge(claim, evidence))
        for number, (heading, claim) in enumerate(NUMBERED, 1)
        if only is None or number in only
    ]


def judge(claim: Claim, evidence: Evidence, refused: Mapping[Refusal, Setting] = {}) -> Finding:
    """What the evidence says about a claim, with its margin, and the verdict at half and at double the margin.

    Of the settings that were `refused`, those that would have spoken to it are named.
    """
    criterion = claim.criterion
    found = claim.measure(evidence, criterion)
    if found is None:
        missing = f"No study here speaks to it; it takes {claim.needs}."
        found = Finding("not tested", missing, to_decide=_usual_size(claim, evidence))
    elif criterion.varied:
        found = replace(found, sensitivity=_sensitivity(claim, evidence))
    if "undecided" in (found.verdict, found.at_margin) or found.verdict == "not tested":
        size = f", with {found.to_decide}" if found.to_decide else ""
        found = replace(found, to_decide=f"{claim.needs}{size}")
    margin = criterion.margin or None
    missed = tuple(one for one, setting in refused.items() if claim.measure(Evidence((setting,)), criterion))
    found = replace(found, refused=missed, margin=margin, paper_gain=criterion.paper_gain)
    return replace(found, unit=found.unit or criterion.unit)


def _sensitivity(claim: Claim, evidence: Evidence) -> dict[str, Verdict]:
    found = {}
    for name, factor in (("half", 0.5), ("double", 2.0)):
        varied = claim.measure(evidence, replace(claim.criterion, factor=factor))
        assert varied is not None
        found[name] = varied.at_margin
    return found


def _usual_size(claim: Claim, evidence: Evidence) -> str:
    """Of a claim that no study speaks to: the usual spread of gains gives the size."""
    spread = typical_spread(evidence)
    if spread is None or claim.criterion.unit != MORE.unit:
        return ""
    return f"at least {to_decide(spread, claim.criterion)}, the median of the gains in these results"
