"""`durm claims`: the table, details, JSON and the page; and what is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from durm.replication.claims import NUMBERED
from tests.cli.calling import Answer, call, refusal
from tests.replication.planted import gain, study


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("claims") / "results"
    study(folder, "planted", gain(2.0))
    return folder


def printed(answer: Answer) -> str:
    assert (answer.code, answer.err) == (0, ""), answer
    return answer.out


def test_the_table(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    lines = printed(call("claims", "--results", results)).splitlines()
    headings = ["claim", "where", "verdict", "at the margin", "effect", "interval", "n", "settings", "margin"]
    assert re.split(r"\s{2,}", lines[0]) == [*headings, "paper's gain", "½ and 2 × margin"]
    assert len(lines) == len(NUMBERED) + 2
    assert lines[1].startswith(" 1 DuRM makes ordinary classification more accurate")
    assert "holds" in lines[1]
    assert re.split(r"\s{2,}", lines[1])[-5:] == ["6 seeds", "1", "0.1 points", "+0.39", "same"]
    assert lines[-1].startswith(f"{len(NUMBERED)} claims: ")


def test_results_is_the_default_folder(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(results.parent)
    assert printed(call("claims")) == printed(call("claims", "--results", results))


def test_some_with_details(results: Path) -> None:
    text = printed(call("claims", "--results", results, "--only", "1,3", "--details"))
    assert "1. DuRM makes ordinary classification more accurate (Tables 1 and 8)" in text
    assert "   holds: +2.0" in text
    assert "   results: planted" in text
    assert "digits, cnn" in text
    assert "   not tested: No study here speaks to it; it takes a study of segmentation." in text
    assert text.splitlines()[-1] == "2 claims: 1 holds, 0 do not hold, 0 undecided, 1 not tested."


def test_json(results: Path) -> None:
    content = json.loads(printed(call("claims", "--results", results, "--json", "--only", "1")))
    (claim,) = content["claims"]
    assert {"number": 1, "verdict": "holds", "n": 6, "unit": "points", "studies": ["planted"]}.items() <= claim.items()
    assert claim["interval"][0] < claim["effect"] < claim["interval"][1]
    assert claim["parts"][0]["word"] == "better"
    assert {"verdict_margin": "holds", "margin": 0.1, "settings": 1}.items() <= claim.items()
    assert claim["paper_gain"] == pytest.approx(0.3867, abs=1e-4)
    assert claim["sensitivity"] == {"half": "holds", "double": "holds"}


def test_the_page(results: Path) -> None:
    text = printed(call("claims", "--results", results, "--markdown"))
    assert text.startswith("# Replication\n")
    for number, (_, claim) in enumerate(NUMBERED, 1):
        assert f"### {number}. {claim.statement}\n" in text
    assert "| **holds** |" in text
    assert "`planted`" in text


def test_help() -> None:
    text = call("claims", "--help").out
    assert all(flag in text for flag in ("--results", "--only", "--details", "--markdown", "--json"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--only", "99"], f"durm: --only '99': there is no claim 99; they go from 1 to {len(NUMBERED)}"),
        (["--only", "0"], f"durm: --only '0': there is no claim 0; they go from 1 to {len(NUMBERED)}"),
        (["--only", "one"], "durm: --only 'one': expected numbers with commas, such as 1,5"),
        (["--json", "--markdown"], "durm: --json and --markdown exclude each other: give one of them"),
    ],
)
def test_bad_flags_are_refused(flags: list[str], message: str, results: Path) -> None:
    assert refusal(call("claims", "--results", results, *flags)) == message


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(call("claims", "--results", tmp_path / "no")) == (
        f"durm: --results {tmp_path / 'no'}: there is no such folder"
    )


def test_a_folder_without_studies(tmp_path: Path) -> None:
    assert refusal(call("claims", "--results", tmp_path)) == (
        f"durm: --results {tmp_path}: no folder in it has a summary.json; expected {tmp_path}/STUDY/summary.json"
    )


def _replace(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut off": (_replace("summary.json", '{"study": "x", '), "summary.json is damaged: "),
    "something else": (_replace("summary.json", "[1, 2]"), "summary.json is damaged: it is not the summary of a study"),
    "lacks settings": (_replace("summary.json", '{"looked_at": [6], "max_seeds": null}'), "summary.json is damaged: "),
    "binary": (lambda folder: (folder / "summary.json").write_bytes(b"\xff\xfe\x00") and None, "not UTF-8"),
    "another table": (_replace("results.csv", "a,b\n1,2\n"), "results.csv is damaged: expected the columns setting"),
    "no table": (lambda folder: (folder / "results.csv").unlink(), "results.csv cannot be read: No such file"),
    "no spec": (lambda folder: (folder / "study.yaml").unlink(), "study.yaml cannot be read: No such file"),
    "bad spec": (_replace("study.yaml", "arms: ["), "study.yaml is not valid YAML"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_results(damage: str, tmp_path: Path) -> None:
    study(tmp_path, "planted", gain(2.0), seeds=2)
    do, message = DAMAGES[damage]
    do(tmp_path / "planted")
    told = refusal(call("claims", "--results", tmp_path))
    assert message in told
    assert str(tmp_path / "planted") in told


def test_a_damaged_benchmark(tmp_path: Path) -> None:
    study(tmp_path, "planted", gain(2.0), seeds=2)
    (tmp_path / "overhead.json").write_text('{"dummies": 2, "results": [{"case": "a training step"}]}')
    told = refusal(call("claims", "--results", tmp_path))
    assert told == f"durm: {tmp_path / 'overhead.json'} is damaged: it is not the record of a benchmark"
