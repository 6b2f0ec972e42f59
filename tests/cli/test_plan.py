"""`durm plan`: how many pairs a study needs, from a pilot or a spread, against scipy; and what it refuses."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from durm.study.summary import read_results, write_summary
from tests.cli.calling import call, refusal
from tests.study import synthetic

BASE = [93.1, 92.8, 93.4, 93.0, 92.7, 93.3, 92.9, 93.2]
TRICK = [93.6, 93.1, 93.6, 93.5, 93.1, 93.3, 93.7, 93.4]


def planned(*arguments: object) -> dict[str, Any]:
    answer = call("plan", *arguments, "--json")
    assert (answer.code, answer.err) == (0, ""), answer
    found: dict[str, Any] = json.loads(answer.out)
    return found


def write_table(folder: Path) -> Path:
    path = folder / "runs.csv"
    rows = [f"{arm},{s},{v}" for arm, values in (("base", BASE), ("trick", TRICK)) for s, v in enumerate(values)]
    path.write_text("\n".join(["arm,seed,value", *rows]))
    return path


def write_study(folder: Path) -> Path:
    """The same numbers, of a test set of 1,000 samples: steps of 0.1, as in the table."""
    values = {0: BASE, 1: TRICK}
    store = synthetic.store(folder, lambda trial: values[trial.dummies][trial.seed], dummies=[0, 1], seeds=8, rope=0.1)
    write_summary(store, read_results(store))
    return folder


SPREAD = math.sqrt(np.var(np.subtract(TRICK, BASE), ddof=1) + 0.1**2 / 6)


def test_a_folder_a_summary_and_a_table_say_the_same(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study")
    found = [planned(path)["pilots"] for path in (folder, folder / "summary.json", write_table(tmp_path))]
    for (pilot,) in found:
        assert (pilot["n"], pilot["rope"], pilot["arms"], pilot["added"]) == (8, 0.1, 1, 0.0)
        assert pilot["spread"] == pytest.approx(SPREAD)
        for size in pilot["sizes"]:
            n = size["n"]
            half = stats.t.isf(0.025, n - 1) * SPREAD / math.sqrt(n)
            assert size["half_width"] == pytest.approx(half)
            assert size["min_difference"] == pytest.approx(0.1 + half)
            assert 0 <= size["assurance"] <= 1
        assert [size["n"] for size in pilot["sizes"]] == [6, 10, 16, 25, 40, 63, 100]


def test_a_given_spread(tmp_path: Path) -> None:
    """Power is that of a non-central t; three arms share α, and six pairs are too few for them."""
    flags = ("--spread", 0.4, "--rope", 0.2, "--difference", 0.6, "--arms", 3, "--seeds", "6,20")
    (pilot,) = planned(*flags)["pilots"]
    few, many = pilot["sizes"]
    assert (few["min_difference"], few["better"], few["assurance"]) == (None, 0.0, None)
    limit = stats.t.isf(0.05 / 3 / 2, 19)
    assert many["half_width"] == pytest.approx(limit * 0.4 / math.sqrt(20))
    power = stats.nct.sf(limit, 19, (0.6 - 0.2) * math.sqrt(20) / 0.4)
    assert many["better"] == pytest.approx(power, abs=1e-6)
    random = np.random.default_rng(1)
    draws = random.normal(0, 0.4, (20_000, 20))
    half = limit * draws.std(1, ddof=1) / math.sqrt(20)
    equal = (np.abs(draws.mean(1)) + half <= 0.2).mean()
    assert many["equal"] == pytest.approx(equal, abs=0.02)


def test_what_is_printed(tmp_path: Path) -> None:
    answer = call("plan", write_table(tmp_path), "--difference", 0.5)
    assert (answer.code, answer.err) == (0, "")
    first, heading, *rows = answer.out.splitlines()
    n = np.arange(6, 2000)
    enough = stats.t.isf(0.025, n - 1) * SPREAD / np.sqrt(n) <= 0.1
    assert "trick − base" in first
    assert "from 8 pairs" in first
    assert f"; {n[enough][0]} (" in first
    assert "chance of better at 0.5" in heading
    assert [row.split()[0] for row in rows if row] == ["6", "10", "16", "25", "40", "63", "100"]


BAD: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    "nothing": ((), ("--spread",)),
    "both": (("TABLE", "--spread", 1), ("--spread",)),
    "spread of 0": (("--spread", 0), ("--spread 0", "above 0")),
    "spread that is none": (("--spread", "nan"), ("--spread nan",)),
    "endless spread": (("--spread", "inf"), ("--spread inf",)),
    "negative rope": (("--spread", 1, "--rope", -1), ("--rope -1", "at least 0")),
    "small difference": (("--spread", 1, "--rope", 0.5, "--difference", 0.4), ("--difference 0.4",)),
    "difference within the default margin": (("--spread", 1, "--difference", 0.05), ("--difference 0.05",)),
    "difference that is none": (("--spread", 1, "--difference", "nan"), ("--difference nan",)),
    "no arms": (("--spread", 1, "--arms", 0), ("--arms 0", "at least 1")),
    "one pair": (("--spread", 1, "--seeds", "1,10"), ("--seeds 1,10", "at least 2")),
    "text for seeds": (("--spread", 1, "--seeds", "many"), ("--seeds", "many")),
    "no such file": (("nowhere.csv",), ("nowhere.csv", "No such file")),
    "no such summary": (("FOLDER",), ("summary.json", "No such file")),
    "a metric without a direction": (("TABLE", "--metric", "loss"), ("'loss'",)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str, tmp_path: Path) -> None:
    arguments, fragments = BAD[name]
    places = {"TABLE": write_table(tmp_path), "FOLDER": tmp_path}
    line = refusal(call("plan", *(places.get(str(one), one) for one in arguments)))
    for fragment in fragments:
        assert fragment in line, f"{fragment!r} is not in {line!r}"


def test_a_pilot_without_two_pairs(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("arm,seed,value\nbase,0,90.1\ntrick,0,90.5\n")
    assert "no arm has two pairs" in refusal(call("plan", path))


def test_a_damaged_summary(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{")
    assert "damaged" in refusal(call("plan", tmp_path))
