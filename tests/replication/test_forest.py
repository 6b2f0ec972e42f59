"""The figure of the claims and the README's answer, of results whose effects were put there."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from durm.replication.claims import ledger
from durm.replication.finding import Finding, Part, Verdict
from tests.replication.planted import gain, study
from tests.replication.scripts import load_script

forest = load_script("forest")


def found(verdict: Verdict, *intervals: tuple[float, float]) -> Finding:
    parts = tuple(Part("digits", ("one",), 6, sum(around) / 2, around, "") for around in intervals)
    return Finding(verdict, "", parts=parts)


def test_rows_and_table(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(2.0, 0.05), dummies=[0, 2])
    entries = ledger(tmp_path)
    in_points, others = forest.forest_rows(entries)
    claim, setting = in_points[:2]
    assert (claim.name, claim.verdict) == ("1. DuRM makes ordinary classification more accurate", "holds")
    assert claim.effect == pytest.approx(2.0, abs=0.1)
    assert claim.paper_gain == pytest.approx(0.39, abs=0.005)
    assert (setting.name, setting.verdict) == ("digits, cnn (one)", "")
    assert setting.text.endswith("n = 6")
    variance = next(row for row in others if "variance over seeds" in row.name)
    change = next(entry.finding.effect for entry in entries if "variance over seeds" in entry.claim.statement)
    assert change is not None
    assert variance.effect == pytest.approx(change / 10)  # its margin is 10 %
    table = forest.readme_part(entries).splitlines()[2 : 2 + len(forest.TASKS)]
    assert table[0].startswith("| ordinary classification | +1.994 points |")
    assert table[0].endswith("| 6 pairs, 1 setting | holds | +0.39 |")
    assert table[3].startswith("| segmentation | – | – | 0 pairs, 0 settings | not tested |")


def test_the_figure_is_small_well_formed_and_always_the_same(tmp_path: Path) -> None:
    study(tmp_path, "one", gain(2.0, 0.05), dummies=[0, 2])
    entries = ledger(tmp_path)
    drawn = forest.forest_svg(entries)
    assert drawn == forest.forest_svg(entries)
    assert len(drawn) < 300_000
    words = "".join(ElementTree.fromstring(drawn).itertext())
    assert "1. DuRM makes ordinary classification more accurate" in words
    assert "does not hold" in words or "holds" in words
    small = "".join(ElementTree.fromstring(forest.tasks_svg(entries)).itertext())
    assert "ordinary classification" in small
    assert "segmentation" not in small  # it was not tested


def test_advice_follows_from_the_verdicts() -> None:
    use, skip = forest.advice(
        {
            "ordinary": found("does not hold", (-0.1, 0.1)),
            "tails": found("does not hold", (-0.4, -0.1), (-0.3, -0.2)),
            "scenes": found("undecided"),
        }
    )
    assert use.startswith("**Use it if** your task is one that these runs leave open (scenes) and")
    assert skip.startswith("**Do not bother if** it is ordinary or tails:")
    assert skip.endswith("and with tails every setting lost accuracy.")
    (use,) = forest.advice({"ordinary": found("holds"), "scenes": found("undecided")})
    assert use.startswith("**Use it if** your task is one of these: ordinary.")
