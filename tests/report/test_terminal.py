"""What the terminal shows: tables that fit, words in colour, a short answer and a long one."""

import re
from pathlib import Path

import pytest

from durm.replication.study_index import study_folders
from durm.report.columns import fit
from durm.report.terminal import print_rows, print_verdict
from durm.report.text import headline
from durm.study.records import Summary
from durm.study.store import read_summary
from durm.study.summary import read_results, write_summary
from tests.study import synthetic

STUDIES = study_folders(Path(__file__).parents[2] / "results")
HEADINGS = ["arm", "n", "mean", "std", "difference", "interval", "p (Holm)", "verdict"]
ROWS = [
    ["erm", "10", "97.98", "0.26", "", "", "", "baseline"],
    ["durm-2", "10", "98.01", "0.24", "+0.03", "−0.18 … +0.24", "0.797", "undecided"],
    ["durm-3", "10", "98.91", "0.24", "+0.93", "+0.72 … +1.14", "0.002", "better"],
]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def drawn(headings: list[str], rows: list[list[str]], width: int) -> list[str]:
    return ["  ".join(cells).rstrip() for cells in fit([headings, *rows], width)]


def kept(width: int) -> list[str]:
    """The columns that are left of the table above."""
    return re.split(r"  +", drawn(HEADINGS, ROWS, width)[0])


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


# Columns.


def test_the_least_important_columns_go_first() -> None:
    """Columns of 6, 2, 5, 4, 10, 13, 8 and 9 letters with seven gaps are 71 wide; without p 61, and so on."""
    assert kept(71) == HEADINGS
    assert kept(70) == ["arm", "n", "mean", "std", "difference", "interval", "verdict"]
    assert kept(60) == ["arm", "n", "mean", "difference", "interval", "verdict"]
    assert kept(54) == ["arm", "mean", "difference", "interval", "verdict"]
    assert kept(50) == kept(44) == ["arm", "difference", "interval", "verdict"]
    assert kept(43) == ["arm", "interval", "verdict"]
    assert kept(31) == ["arm", "verdict"]


@pytest.mark.parametrize("width", [20, 31, 44, 50, 60, 71])
def test_it_fits_and_no_number_is_cut(width: int) -> None:
    table = drawn(HEADINGS, ROWS, width)
    assert max(map(len, table)) <= width
    whole = {cell for row in ROWS for cell in row}
    assert {cell for line in table[1:4] for cell in re.split(r"  +", line)} <= whole
    named = [heading for heading in HEADINGS if heading not in kept(width)]
    assert (len(table) == 5) == bool(named)
    if width >= 60 and named:
        assert all(heading in table[4] for heading in named)
    elif named:
        assert f"{len(named)} columns left out" in table[4] or all(heading in table[4] for heading in named)


def test_long_names_are_cut_before_a_difference_goes() -> None:
    rows = [["smoothing-and-two-dummies", *ROWS[1][1:]], ["smoothing-and-one-dummy", *ROWS[2][1:]]]
    table = drawn(HEADINGS, rows, 50)
    assert [re.split(r"  +", line)[0] for line in table[1:3]] == ["smooth…mmies", "smooth…dummy"]
    assert "difference" in table[0]
    alike = [["smoothing-and-two-dummies", *ROWS[1][1:]], ["smoothing-and-one-dummies", *ROWS[2][1:]]]
    assert [line.split()[0] for line in drawn(HEADINGS, alike, 50)[1:3]] == [row[0] for row in alike]


def test_what_stands_before_the_arm_goes_above_its_rows() -> None:
    headings = ["attack", "through", "arm", "difference", "interval", "verdict"]
    rows = [["pgd", way, *ROWS[row][:1], *ROWS[row][4:6], ROWS[row][7]] for way in ("real", "full") for row in (0, 1)]
    assert drawn(headings, rows, 61)[0].split()[:3] == ["attack", "through", "arm"]
    table = drawn(headings, rows, 50)
    assert [line.split()[0] for line in table] == ["arm", "pgd,", "erm", "durm-2", "pgd,", "erm", "durm-2"]
    assert [table[1], table[4]] == ["pgd, real", "pgd, full"]


def test_a_table_without_verdicts_is_turned() -> None:
    headings = ["arm", "calibration error %", "training accuracy %", "parameters"]
    rows = [["erm", "2.97", "99.98", "6,138"], ["durm-2", "3.02", "99.97", "6,396"]]
    assert drawn(headings, rows, 80)[1].split() == rows[0]
    turned = [re.split(r"  +", line) for line in drawn(headings, rows, 40)]
    assert turned == [list(column) for column in zip(headings, *rows, strict=True)]


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", [50, 80])
@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_the_tables_of_real_studies_fit(
    folder: Path, width: int, verbose: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_verdict(read_summary(folder / "summary.json"), verbose=verbose)
    printed = capsys.readouterr().out.splitlines()
    tables = [line for line in printed if re.search(r"\S  +\S", line)]  # sentences have single spaces
    assert [line for line in tables if len(line) > width] == []
    assert any("verdict" in line for line in tables)


def test_the_width_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """100, or COLUMNS."""
    headings, rows = ["verdict", *(f"column {number}" for number in range(12))], [["1"] * 13]
    monkeypatch.setattr("os.get_terminal_size", lambda descriptor: (_ for _ in ()).throw(OSError))
    for columns, width in (("", 100), ("60", 60), ("120", 120)):
        monkeypatch.setenv("COLUMNS", columns)
        print_rows(headings, rows)
        assert width - 10 <= len(capsys.readouterr().out.splitlines()[0]) <= width


# Colours.


def verdict_cells(capsys: pytest.CaptureFixture[str]) -> list[str]:
    words = ["better", "worse", "equal", "undecided", "baseline", "not judged"]
    print_rows(["arm", "verdict"], [["x", word] for word in words])
    printed = capsys.readouterr().out
    assert [line.split(maxsplit=1)[1] for line in ESCAPE.sub("", printed).splitlines()[1:]] == words
    return printed.splitlines()[1:]


def test_words_have_colours_if_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """32 is green, 31 red, 34 blue, 33 yellow, in ECMA-48."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    found = [ESCAPE.findall(line)[:1] for line in verdict_cells(capsys)]
    assert found == [["\x1b[32m"], ["\x1b[31m"], ["\x1b[34m"], ["\x1b[33m"], [], []]


@pytest.mark.parametrize(
    "environment", [{}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, {"TERM": "dumb", "FORCE_COLOR": "1"}]
)
def test_otherwise_there_are_none(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert not any(ESCAPE.search(line) for line in verdict_cells(capsys))


# The answer.


def summary_of(folder: Path, models: list[str]) -> Summary:
    """A gain of 0.1 in every second seed, which eight pairs cannot decide."""
    made = synthetic.store(
        folder, lambda trial: 95.0 + trial.dummies * (trial.seed % 2) / 10, model=models, dummies=[0, 1], seeds=8
    )
    return write_summary(made, read_results(made))


def printed_of(summary: Summary, capsys: pytest.CaptureFixture[str], **options: object) -> list[str]:
    print_verdict(summary, **options)  # type: ignore[arg-type]
    return capsys.readouterr().out.splitlines()


def test_at_most_three_warnings_and_how_many_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = summary_of(tmp_path, ["cnn"])
    for count in (0, 3, 5):
        texts = [f"warning {number}." for number in range(count)]
        changed = summary.model_copy(update={"warnings": texts})
        notes = [f"Note: {text}" for text in texts]
        short = printed_of(changed, capsys, more="--all")
        assert [line for line in short if line.startswith("Note")] == notes[:3]
        assert [line for line in short if "--all" in line] == (["… and 2 more with --all"] if count == 5 else [])
        assert [line for line in printed_of(changed, capsys, verbose=True) if line.startswith("Note")] == notes


def test_the_only_comparison_has_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = summary_of(tmp_path / "one", ["cnn"])
    lines = printed_of(summary, capsys)
    assert lines[0] == headline(summary)
    assert any("make half the interval as wide" in line for line in lines)
    assert lines.count(lines[0]) == 1
    summary = summary_of(tmp_path / "two", ["cnn", "mlp"])
    assert not any("make half the interval as wide" in line for line in printed_of(summary, capsys))


def test_sentences_end_between_words_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = summary_of(tmp_path, ["cnn"])
    warning = "A sentence that is rather long, and would be broken within a word by a terminal of fifty letters."
    summary = summary.model_copy(update={"warnings": [warning]})
    monkeypatch.setenv("COLUMNS", "50")
    assert f"Note: {warning}" in printed_of(summary, capsys)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    printed = printed_of(summary, capsys)
    assert max(len(ESCAPE.sub("", line)) for line in printed) <= 50
    assert warning in " ".join(printed)
