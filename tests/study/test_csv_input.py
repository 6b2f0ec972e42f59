"""`durm verdict`: tables that anybody made are judged right, or refused in one line that says what is wrong."""

import io
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from durm.errors import InputError
from durm.report.text import headline, sentence
from durm.study.csv_input import read_table
from durm.study.records import Summary
from durm.study.run_table import RunTable, judge_table
from tests.cli.calling import Answer, call, refusal

PLAIN = "arm,seed,value\nerm,0,90\nerm,1,91\nerm,2,93\ndurm,0,90.5\ndurm,1,92\ndurm,2,95\n"
EXPECTED = {"": {"erm": {"0": 90.0, "1": 91.0, "2": 93.0}, "durm": {"0": 90.5, "1": 92.0, "2": 95.0}}}


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "results.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def judged(answer: Answer) -> dict[str, Any]:
    """The summary that was printed as JSON."""
    assert (answer.code, answer.err) == (0, ""), answer

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is no JSON")

    found: dict[str, Any] = json.loads(answer.out, parse_constant=refuse)
    return found


def printed(answer: Answer) -> list[str]:
    assert (answer.code, answer.err) == (0, ""), answer
    return answer.out.splitlines()


# What a table may look like.

FORMS: dict[str, str | bytes] = {
    "commas": PLAIN,
    "semicolons": PLAIN.replace(",", ";"),
    "tabs": PLAIN.replace(",", "\t"),
    "byte order mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "lines of Windows": PLAIN.replace("\n", "\r\n"),
    "lines of old Macs": PLAIN.replace("\n", "\r"),
    "no line end at the end": PLAIN.rstrip("\n"),
    "blank lines below the header": PLAIN.replace("\n", "\n\n"),
    "spaces": PLAIN.replace(",", " , ").replace("\n", "  \n"),
    "quotes": "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in PLAIN.splitlines()),
    "quotes after spaces": "\n".join(", ".join(f'"{cell}"' for cell in line.split(",")) for line in PLAIN.splitlines()),
    "capitals in the header": PLAIN.replace("arm,seed,value", "Arm,SEED,Value"),
    "another order of columns": "\n".join(",".join(line.split(",")[::-1]) for line in PLAIN.splitlines()),
    "extra columns": "\n".join(f"note,{line},{number}" for number, line in enumerate(PLAIN.splitlines())),
    "cells beyond the header": PLAIN.replace("erm,1,91", "erm,1,91,beyond,the,header"),
    "numbers written otherwise": PLAIN.replace("90.5", "9.05e1").replace(",91", ",+91.0"),
    "other order of rows": "\n".join([*PLAIN.splitlines()[:2], *PLAIN.splitlines()[:1:-1]]),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_table_may_be_written_in_many_ways(name: str, tmp_path: Path) -> None:
    assert read_table(write(tmp_path, FORMS[name])).settings == EXPECTED


def test_names_and_seeds_are_texts(tmp_path: Path) -> None:
    """Quoted names may hold the separator, quotes and tags; seeds may be words."""
    text = 'arm,seed,value\n"a, ""b""; <c>",first,1\nß é,first,2\n'
    assert read_table(write(tmp_path, text)).settings == {"": {'a, "b"; <c>': {"first": 1.0}, "ß é": {"first": 2.0}}}
    lines = printed(call("verdict", write(tmp_path, text)))
    assert any(line.startswith('a, "b"; <c>  1  1.00') for line in lines)


def test_a_column_of_settings_makes_several_tables(tmp_path: Path) -> None:
    rows = [("a", "erm", 0, 1), ("a", "durm", 0, 2), (" b ", "erm", 0, 3), ("b", "durm", 0, 4), ("", "erm", 0, 5)]
    text = "\n".join(["setting,arm,seed,value", *(",".join(map(str, row)) for row in rows)])
    assert read_table(write(tmp_path, text)).settings == {
        "a": {"erm": {"0": 1.0}, "durm": {"0": 2.0}},
        "b": {"erm": {"0": 3.0}, "durm": {"0": 4.0}},
        "": {"erm": {"0": 5.0}},
    }


def test_the_table_may_come_from_stdin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(PLAIN))
    from_stdin = judged(call("verdict", "-", "--json"))
    assert from_stdin == judged(call("verdict", write(tmp_path, PLAIN), "--json"))


def test_a_byte_order_mark_on_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\ufeff{PLAIN}"))
    assert read_table(Path("-")).settings == EXPECTED


def test_a_blank_line_above_the_header(tmp_path: Path) -> None:
    assert read_table(write(tmp_path, f"\n{PLAIN}")).settings == EXPECTED


# What is said about it.


def random_table(n: int, arms: int, seed: int = 0) -> tuple[str, dict[str, np.ndarray]]:
    """Values in steps of 0.01 that share their seeds' luck, as (text, values of each arm)."""
    random = np.random.default_rng(seed)
    luck = random.normal(0, 1, n)
    values = {f"arm{k}": np.round(70 + luck + random.normal(0.7 * k, 0.5, n), 2) for k in range(arms)}
    rows = [f"{arm},{s},{value}" for arm, found in values.items() for s, value in enumerate(found)]
    return "\n".join(["arm,seed,value", *rows]), values


def share_of_flips(differences: np.ndarray) -> float:
    """The sign-flip test by its definition, in whole hundredths."""
    whole = [round(100 * difference) for difference in differences]
    sums = [abs(sum(flip)) for flip in itertools.product(*((value, -value) for value in whole))]
    return sum(total >= abs(sum(whole)) for total in sums) / len(sums)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("n", "arms", "rope"), [(5, 2, 0.1), (8, 3, 0.25), (10, 4, 0.0)])
def test_the_numbers_are_scipy_s(n: int, arms: int, rope: float, lower: bool, tmp_path: Path) -> None:
    """Values in steps of 0.01, so (s² + 0.01²/6)/n in place of s²/n; a word takes 6 pairs of one arm, 7 of 2 or 3."""
    text, values = random_table(n, arms)
    fewest = {2: 6, 3: 7, 4: 7}[arms]
    flags = ["--lower-is-better"] if lower else []
    summary = judged(call("verdict", write(tmp_path, text), "--json", "--rope", rope, *flags))
    assert (summary["metric"], summary["rope"], summary["higher_is_better"]) == ("value", rope, not lower)
    (setting,) = summary["settings"]
    for arm in setting["arms"]:
        numbers = values[arm["arm"]]
        assert (arm["n"], arm["values"]) == (n, {str(s): float(value) for s, value in enumerate(numbers)})
        assert (arm["mean"], arm["std"]) == (pytest.approx(numbers.mean()), pytest.approx(numbers.std(ddof=1)))
    assert [one["arm"] for one in setting["comparisons"]] == list(values)[1:]
    sign = -1 if lower else 1
    for one in setting["comparisons"]:
        ours, theirs = values[one["arm"]], values["arm0"]
        error = math.sqrt(stats.sem(ours - theirs) ** 2 + 0.01**2 / 6 / n)
        family = stats.t.interval(1 - 0.05 / (arms - 1), n - 1, (ours - theirs).mean(), error)
        assert one["difference"] == pytest.approx((ours - theirs).mean())
        assert one["step"] == pytest.approx(0.01)
        assert one["ci"] == pytest.approx([*stats.t.interval(0.95, n - 1, (ours - theirs).mean(), error)])
        assert one["ci_family"] == pytest.approx([*family])
        assert one["p"] == pytest.approx(share_of_flips(ours - theirs))
        assert one["correlation"] == pytest.approx(stats.pearsonr(ours, theirs).statistic)
        assert one["p_variance"] == pytest.approx(stats.pearsonr(ours + theirs, ours - theirs).pvalue)
        gains = sign * np.round(ours - theirs, 6)
        assert [one["wins"], one["ties"], one["losses"]] == [(gains > 0).sum(), (gains == 0).sum(), (gains < 0).sum()]
        low, high = sorted(sign * limit for limit in family)
        inside = -rope <= low and high <= rope
        word = "better" if low > rope else "worse" if high < -rope else "equal" if inside else "undecided"
        assert one["verdict"] == (word if n >= fewest else "undecided")


def test_by_hand(tmp_path: Path) -> None:
    """Differences 0.5, 1 and 2 in steps of 0.5: d = 7/6, s² = 7/12, t = 4.303 on two degrees of freedom.

    The variance is 7/12 + 0.25/6 = 5/8; 2 of 8 flips reach ±3.5.
    """
    (setting,) = judged(call("verdict", write(tmp_path, PLAIN), "--json"))["settings"]
    (one,) = setting["comparisons"]
    assert one["difference"] == pytest.approx(7 / 6)
    half = 4.30265 * math.sqrt(5 / 8) / math.sqrt(3)
    assert one["ci"] == one["ci_family"] == pytest.approx([7 / 6 - half, 7 / 6 + half], rel=1e-5)
    assert (one["p"], one["p_min"], one["wins"], one["verdict"]) == (0.25, 0.25, 3, "undecided")


def test_what_is_printed(tmp_path: Path) -> None:
    """The table, the sentences of the page, the notes; the same numbers as in the JSON."""
    path = write(tmp_path, random_table(8, 3)[0])
    summary, lines = judged(call("verdict", path, "--json")), printed(call("verdict", path, "--verbose"))
    (setting,) = summary["settings"]
    read = Summary.model_validate(summary)
    heading = "arm n mean std difference interval p (Holm) verdict"
    assert lines[0] == headline(read)
    del lines[: [" ".join(line.split()) for line in lines].index(heading)]
    for line, arm in zip(lines[1:4], setting["arms"], strict=True):
        assert line.split()[:4] == [arm["arm"], "8", f"{arm['mean']:.2f}", f"{arm['std']:.2f}"]
    assert lines[1].split()[-1] == "baseline"
    assert [line.split()[-1] for line in lines[2:4]] == [one["verdict"] for one in setting["comparisons"]]
    for one in read.settings[0].comparisons:
        assert sentence(one, read.settings[0], read) in lines


def test_the_baseline_may_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, random_table(6, 3)[0])
    (setting,) = judged(call("verdict", path, "--baseline", "arm1", "--json"))["settings"]
    assert [arm["arm"] for arm in setting["arms"]] == ["arm1", "arm0", "arm2"]
    assert [(one["arm"], one["baseline"]) for one in setting["comparisons"]] == [("arm0", "arm1"), ("arm2", "arm1")]


SETTINGS = "\n".join(
    ["setting,arm,seed,value"]
    + [f"a,{arm},{seed},{seed + 3 * (arm == 'durm')}" for arm in ("erm", "durm") for seed in range(6)]
    + [f"b,{arm},{seed},{seed + 3 * (arm == 'durm')}" for arm in ("durm", "erm") for seed in range(5)]
)
"""Three more in each of six pairs, and of five, which are too few for a word."""


def test_settings_are_judged_one_by_one(tmp_path: Path) -> None:
    answer = call("verdict", write(tmp_path, SETTINGS), "--baseline", "erm", "--json")
    summary = judged(answer)
    assert [setting["setting"] for setting in summary["settings"]] == [{"setting": "a"}, {"setting": "b"}]
    words = [[one["verdict"] for one in setting["comparisons"]] for setting in summary["settings"]]
    assert words == [["better"], ["undecided"]]
    lines = printed(call("verdict", tmp_path / "results.csv", "--baseline", "erm", "--verbose"))
    assert [line for line in lines if line.startswith("value in")] == ["value in a", "value in b"]
    assert lines[0] == headline(Summary.model_validate(summary))
    assert lines[0].startswith("2 comparisons with erm in 2 settings: 1 better, 1 undecided (95 % CIs, 5 to 6 pairs")


def test_the_first_arm_of_the_file_is_the_baseline_of_all_settings(tmp_path: Path) -> None:
    """As the help of --baseline says."""
    summary = judged(call("verdict", write(tmp_path, SETTINGS), "--json"))
    assert {one["baseline"] for setting in summary["settings"] for one in setting["comparisons"]} == {"erm"}


def test_the_metric_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, SETTINGS)
    assert judged(call("verdict", path, "--metric", "F1", "--json"))["metric"] == "F1"
    assert "F1 in a" in printed(call("verdict", path, "--metric", "F1", "--verbose"))
    named = path.read_text().replace("value", "F1", 1)
    assert judged(call("verdict", write(tmp_path, named), "--json"))["metric"] == "F1"


def test_lower_is_better(tmp_path: Path) -> None:
    """The same differences, the other word; the difference keeps its sign."""
    rows = [f"old,{s},{3 + s}\nnew,{s},{1 + s + 0.5 * (s % 3 == 1)}\n" for s in range(6)]
    path = write(tmp_path, f"arm,seed,value\n{''.join(rows)}")
    flags = ("--rope", 0.01, "--json")
    for flag, word, counts in (((), "worse", (0, 6)), (("--lower-is-better",), "better", (6, 0))):
        (one,) = judged(call("verdict", path, *flags, *flag))["settings"][0]["comparisons"]
        assert (one["verdict"], (one["wins"], one["losses"])) == (word, counts)
        assert one["difference"] == pytest.approx(-5.5 / 3)


# Tables with little in them.


def test_runs_without_a_partner_are_left_out_and_named(tmp_path: Path) -> None:
    text = f"{PLAIN}erm,8,50\ndurm,9,99\n"
    summary = judged(call("verdict", write(tmp_path, text), "--json"))
    (one,) = summary["settings"][0]["comparisons"]
    whole = judged(call("verdict", write(tmp_path, PLAIN), "--json"))
    assert [one] == whole["settings"][0]["comparisons"]
    assert [arm["n"] for arm in summary["settings"][0]["arms"]] == [4, 4]
    left_out = "durm and erm do not have all seeds in common; left out: 8, 9."
    assert summary["warnings"][1:] == [left_out]
    assert summary["warnings"][:1] == whole["warnings"]
    write(tmp_path, text)
    assert printed(call("verdict", tmp_path / "results.csv"))[-1] == f"Note: {left_out}"


def test_many_runs_without_a_partner_are_not_all_named(tmp_path: Path) -> None:
    text = PLAIN + "".join(f"erm,x{seed},50\n" for seed in range(9))
    warning = judged(call("verdict", write(tmp_path, text), "--json"))["warnings"][-1]
    assert warning.endswith("left out: x0, x1, x2, x3, x4, ….")


@pytest.mark.parametrize(("seed", "said"), [("0", "one pair"), ("7", "one run of an arm")])
def test_one_run_of_an_arm_is_undecided(seed: str, said: str, tmp_path: Path) -> None:
    """Paired, or with another seed."""
    path = write(tmp_path, f"arm,seed,value\nerm,0,90\ndurm,{seed},95\n")
    (one,) = judged(call("verdict", path, "--json"))["settings"][0]["comparisons"]
    assert (one["n"], one["verdict"], one["ci"], one["seeds_needed"]) == (1, "undecided", None, None)
    assert (one["difference"], one["paired"]) == (5.0, seed == "0")
    assert any(f"{said} decides nothing; +5.00 points" in line for line in printed(call("verdict", path)))


def test_ties(tmp_path: Path) -> None:
    """Differences 0, 0, 1 and −1: no win of either side, and every flip reaches a sum of 0."""
    rows = [("erm", 5, 6, 7, 8), ("durm", 5, 6, 8, 7)]
    text = "arm,seed,value\n" + "".join(
        f"{arm},{s},{value}\n" for arm, *values in rows for s, value in enumerate(values)
    )
    (one,) = judged(call("verdict", write(tmp_path, text), "--json"))["settings"][0]["comparisons"]
    assert (one["wins"], one["ties"], one["losses"], one["difference"], one["p"]) == (1, 2, 1, 0.0, 1.0)


@pytest.mark.parametrize(
    ("value", "decimal", "word"),
    [("93.4", 0.1, "equal"), ("0.0", 0.1, "undecided"), ("0.9012", 1e-4, "equal"), ("1000000000.0", 0.1, "undecided")],
)
def test_constant_values(value: str, decimal: float, word: str, tmp_path: Path) -> None:
    """No spread anywhere, but every value is rounded to its last decimal, and that has a variance of decimal²/6.

    Zeros are shares, for which ±0.001 is far narrower than a decimal; a thousand millions have no margin.
    """
    for n in (2, 7):
        rows = "".join(f"{arm},{seed},{value}\n" for arm in ("erm", "durm") for seed in range(n))
        summary = judged(call("verdict", write(tmp_path, f"arm,seed,value\n{rows}"), "--json"))
        (one,) = summary["settings"][0]["comparisons"]
        half = stats.t.isf(0.025, n - 1) * decimal / math.sqrt(6 * n)
        assert (one["ci"], one["step"]) == (pytest.approx([-half, half]), pytest.approx(decimal))
        assert (one["verdict"], one["ties"], one["p"]) == (word if n == 7 else "undecided", n, 1.0)
        assert (one["correlation"], one["variance_ratio"], one["p_variance"]) == (None, None, None)


def test_shares_of_one_are_noticed(tmp_path: Path) -> None:
    """±0.1 is ten points there, and nearly everything would be equal. What was given is not assumed."""
    rows = "".join(f"{arm},{seed},0.{90 + seed}\n" for arm in ("erm", "durm") for seed in range(7))
    path = write(tmp_path, f"arm,seed,value\n{rows}")
    summary = judged(call("verdict", path, "--json"))
    assert summary["rope"] == 0.001
    (note,) = summary["warnings"]
    assert all(part in note for part in ("'value'", "shares", "±0.001", "higher is better"))
    (note,) = judged(call("verdict", path, "--rope", 0.001, "--json"))["warnings"]
    assert "±" not in note
    assert judged(call("verdict", path, "--rope", 0.001, "--higher-is-better", "--json"))["warnings"] == []


def test_shares_of_one_are_judged_in_their_unit(tmp_path: Path) -> None:
    """Accuracies from 0 to 1 want a smaller region; with one they are judged like percents."""
    text, _ = random_table(8, 3)
    lines = [line.split(",") for line in text.splitlines()[1:]]
    shares = "\n".join(["arm,seed,value", *(f"{arm},{seed},{float(value) / 100:.4f}" for arm, seed, value in lines)])
    percents = judged(call("verdict", write(tmp_path, text), "--rope", 0.1, "--json"))["settings"][0]["comparisons"]
    found = judged(call("verdict", write(tmp_path, shares), "--rope", 0.001, "--json"))["settings"][0]["comparisons"]
    for one, other in zip(found, percents, strict=True):
        assert (one["verdict"], one["p"], one["seeds_needed"]) == (other["verdict"], other["p"], other["seeds_needed"])
        assert one["ci_family"] == pytest.approx([limit / 100 for limit in other["ci_family"]])


# What is refused.


def rows(*lines: str) -> str:
    return "\n".join(["arm,seed,value", "erm,0,1", *lines, "durm,0,2"])


REFUSED: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "text in numbers": (rows("erm,1,high"), ("results.csv, line 3", "'high' is not a number")),
    "a decimal comma": (rows('erm,1,"1,5"'), ("line 3", "'1,5' is not a number")),
    "a percent sign": (rows("erm,1,93%"), ("line 3", "'93%' is not a number")),
    "a value that is not there": (rows("erm,1"), ("line 3", "value '' is not a number")),
    "an empty value": (rows("erm,1,"), ("line 3", "value '' is not a number")),
    "NaN": (rows("erm,1,nan"), ("line 3", "'nan' is not finite", "leave out")),
    "inf": (rows("erm,1,-inf"), ("line 3", "'-inf' is not finite")),
    "too large a number": (rows("erm,1,1e999"), ("line 3", "'1e999' is not finite")),
    "no arm": (rows(",1,5"), ("line 3", "arm is empty")),
    "no seed": (rows("erm,,5"), ("line 3", "seed is empty")),
    "a line of separators": (rows(",,"), ("line 3", "arm is empty")),
    "a line of spaces": (rows("   "), ("line 3", "arm is empty")),
    "the same run twice": (rows("erm,0,3"), ("line 3", "arm 'erm' has seed '0' a second time")),
    "blank lines above": (rows("", "", "erm,1,x"), ("line 5", "'x'")),
    "no column of values": ("arm,seed,note\nerm,0,good\n", ("which column", "--value")),
    "two columns of values": ("arm,seed,f1,f2\nerm,0,1,2\n", ("which column", "f1, f2", "--value")),
    "other columns": ("a,b\nx,2\n", ("no column arm", "arm, seed, value", "found a, b")),
    "an empty file": ("", ("no rows below the header",)),
    "a header alone": ("arm,seed,value\n", ("no rows below the header",)),
    "one arm": ("arm,seed,value\nerm,0,1\nerm,1,2\n", ("one arm only ('erm')",)),
    "one arm in a setting": (
        "setting,arm,seed,value\na,erm,0,1\na,durm,0,1\nb,erm,0,1\n", ("one arm only ('erm')", "in setting 'b'"),
    ),
    "a binary file": (bytes(range(256)), ("results.csv cannot be read", "not UTF-8 text")),
    "UTF-16": (PLAIN.encode("utf-16"), ("results.csv cannot be read", "not UTF-8 text")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_a_wrong_table(name: str, flag: tuple[str, ...], tmp_path: Path) -> None:
    content, fragments = REFUSED[name]
    line = refusal(call("verdict", write(tmp_path, content), *flag))
    for fragment in fragments:
        assert fragment in line, f"{fragment!r} is not in {line!r}"


FLAGS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "unknown baseline": (["--baseline", "emr"], ("--baseline", "'emr' is unknown", "did you mean 'erm'")),
    "unlike any": (["--baseline", "xyz"], ("--baseline", "'xyz' is unknown", "there are durm, erm")),
    "negative rope": (["--rope", "-1"], ("--rope -1", "at least 0")),
    "rope that is none": (["--rope", "nan"], ("--rope nan", "at least 0")),
    "endless rope": (["--rope", "inf"], ("--rope inf",)),
    "text for rope": (["--rope", "much"], ("--rope", "'much'", "number")),
    "unknown flag": (["--base", "erm"], ("--base",)),
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_wrong_flag(name: str, tmp_path: Path) -> None:
    flags, fragments = FLAGS[name]
    line = refusal(call("verdict", write(tmp_path, PLAIN), *flags))
    for fragment in fragments:
        assert fragment in line, f"{fragment!r} is not in {line!r}"


def test_the_setting_is_named_in_which_a_baseline_is_unknown(tmp_path: Path) -> None:
    text = "setting,arm,seed,value\na,erm,0,1\na,durm,0,1\nb,other,0,1\nb,durm,0,1\n"
    assert "in setting 'b'" in refusal(call("verdict", write(tmp_path, text), "--baseline", "erm"))


def test_a_folder_or_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(call("verdict", tmp_path)) == f"durm: {tmp_path} cannot be read: Is a directory"
    missing = tmp_path / "nowhere.csv"
    assert refusal(call("verdict", missing)) == f"durm: {missing} cannot be read: No such file or directory"
    assert "Missing argument 'table'" in refusal(call("verdict"))


def test_a_negative_region_is_refused_from_python() -> None:
    with pytest.raises(InputError, match="at least 0"):
        judge_table(RunTable(EXPECTED), rope=-0.1)


def open_quote() -> str:
    """A quote that is never closed makes one cell of the rest of the file; the csv module has a limit for cells."""
    return 'arm,seed,value\n"erm,0,1\n' + "erm,1,2\n" * 20_000


def too_far_apart() -> str:
    return "arm,seed,value\nerm,0,-1e308\nerm,1,-1e308\ndurm,0,1e308\ndurm,1,1.1e308\n"


def too_small() -> str:
    """Values of 1e-300: the digits to round to are beyond what a float can hold."""
    return "arm,seed,value\nerm,0,1e-300\nerm,1,2e-300\ndurm,0,4e-300\ndurm,1,6e-300\n"


def two_columns_of_one_name() -> str:
    return "arm,seed,value,value\nerm,0,1,9\ndurm,0,2,5\n"


@pytest.mark.parametrize("make", [open_quote, too_far_apart, too_small, two_columns_of_one_name])
def test_tables_that_should_be_judged_right_or_refused(make: Callable[[], str], tmp_path: Path) -> None:
    answer = call("verdict", write(tmp_path, make()), "--json")
    if answer.code == 0 and make is not two_columns_of_one_name:
        assert judged(answer)["settings"]
    else:
        refusal(answer)
