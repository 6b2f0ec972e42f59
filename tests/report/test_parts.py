"""Reports of what is only partly known: tables of numbers, and runs of others' code; and what a notebook shows."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from durm.report.notebook import notebook_html
from durm.report.page import comma_separated, write_report
from durm.report.text import headline
from durm.study.csv_input import read_table
from durm.study.run_table import judge_table
from durm.study.store import read_summary
from durm.study.summary import read_results, write_summary
from tests.cli.calling import call, refusal
from tests.report.test_estimation import study
from tests.report.test_page import accuracy, parse, report, squeezed, tables
from tests.study import synthetic

ROWS = [f"{arm},{seed},{90 + seed / 10 + gain}" for arm, gain in (("base", 0.0), ("trick_1", 0.5)) for seed in range(8)]
BARE = {"val": {}, "train": {}, "curves": [], "class_names": [], "probes": {}}
BARE |= {"reliability": {"count": [], "confidence": [], "correct": []}}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(["arm,seed,value", *ROWS, ""]))
    return path


def test_a_table_has_a_report(table: Path, tmp_path: Path) -> None:
    answer = call("verdict", table, "--out", tmp_path / "out")
    assert answer.code == 0
    assert str(tmp_path / "out" / "report.html") in answer.out
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    drawn = {f"figures/estimation.{kind}" for kind in ("svg", "pdf", "png")}
    assert files == {"report.html", "report.md", "report.tex", "summary.json", *drawn}
    summary = read_summary(tmp_path / "out" / "summary.json")
    tree = parse((tmp_path / "out" / "report.html").read_text())
    assert tree.all("h1")[0].text == headline(summary)
    assert headline(summary).startswith("trick_1 is better than base: +0.500 points (95 % CI")
    text = squeezed(tree.all("body")[0].text)
    for unknown in ("study.yaml", "dummies", "dropout", "None", "trials", "calibration", "epoch"):
        assert unknown not in text.replace("durm verdict", ""), unknown


def test_a_file_is_no_folder_for_a_report(table: Path) -> None:
    told = refusal(call("verdict", table, "--out", table))
    assert "--out" in told
    assert str(table) in told
    assert "folder" in told


def test_the_csv_on_the_page_is_judged_the_same(table: Path, tmp_path: Path) -> None:
    first = judge_table(read_table(table))
    again = tmp_path / "again.csv"
    again.write_text(comma_separated(first))
    second = judge_table(read_table(again))
    assert second.settings[0].comparisons == first.settings[0].comparisons


@pytest.mark.parametrize("seed", ["a", "2026-11-18"])
def test_seeds_may_have_any_name(seed: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("arm,seed,value\n" + "".join(f"{arm},{seed}{k},{k}\n" for arm in "xy" for k in range(6)))
    page = write_report(tmp_path / "out", judge_table(read_table(path), rope=0.1)).read_text()
    assert f"{seed}3" in [row[0] for row in tables(parse(page))[-1]]


def test_runs_without_curves_calibration_and_classes(tmp_path: Path) -> None:
    """As of a function or a command: metrics and cost, and nothing else."""
    store = synthetic.store(tmp_path, accuracy, dummies=[0, 1], seeds=6)
    results = read_results(store)
    summary = write_summary(store, results)
    bare = {key: type(result).model_validate({**result.model_dump(), **BARE}) for key, result in results.items()}
    page = write_report(store.folder, summary, store=store, results=bare).read_text()
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {"estimation"}
    text = squeezed(parse(page).all("body")[0].text)
    assert "dropout" not in text
    assert "durm run" not in text
    assert "What the runs of a pair share besides the seed is up to the code" in text


def test_all_figures_may_be_asked_for(tmp_path: Path) -> None:
    report(tmp_path, dummies=[0, 1], seeds=3)
    few = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {name for name in few if not name.endswith(".svg")} == {"estimation.pdf", "estimation.png"}
    assert call("report", tmp_path, "--figures", "--quiet").code == 0
    every = {path.name for path in (tmp_path / "figures").iterdir()}
    assert every == {f"{name[:-4]}.{kind}" for name in few for kind in ("svg", "pdf", "png")}
    for name in every:
        start = (tmp_path / "figures" / name).read_bytes()[:5]
        assert start == {"svg": b"<?xml", "pdf": b"%PDF-", "png": b"\x89PNG\r"}[name[-3:]]


def test_a_notebook_shows_headline_table_and_figure() -> None:
    for name, summary in {"one": study(3, 6), "several": study(3, 6, settings=3)}.items():
        shown = notebook_html(summary)
        tree = ElementTree.fromstring(shown.replace("&nbsp;", " "))  # well-formed
        assert "".join(tree[0].itertext()) == headline(summary)
        (table,) = [element for element in tree if element.tag == "table"]
        words = [row[-1].text for row in table.iter("tr")][1:]
        comparisons = [c for setting in summary.settings for c in setting.comparisons]
        assert [word for word in words if word not in ("baseline", "not judged")] == [c.verdict for c in comparisons]
        assert ("baseline" in words) == (name == "one")
        (figure,) = [element for element in tree if element.tag.endswith("svg")]
        assert headline(summary)[:20] in figure.attrib["aria-label"] or name == "one"
        assert "var(--" not in shown
        assert "<script" not in shown
        assert "http" not in shown.replace("http://www.w3.org", "")
        assert "background: #fff" in tree.attrib["style"]
