"""`durm verdict`: what the metric is, single samples, runs that are not paired; the lines of the terminal."""

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.cli.calling import call, refusal


def table(folder: Path, arms: dict[str, list[float]], digits: int = 4, separator: str = ",") -> Path:
    """A file with one row for each run; seeds are numbered."""
    rows = [f"{arm},{seed},{value:.{digits}f}" for arm, values in arms.items() for seed, value in enumerate(values)]
    path = folder / "runs.csv"
    path.write_text("\n".join(["arm,seed,value", *rows]).replace(",", separator))
    return path


def judged(*arguments: object) -> dict[str, Any]:
    answer = call("verdict", *arguments, "--json")
    assert (answer.code, answer.err) == (0, ""), answer
    found: dict[str, Any] = json.loads(answer.out)
    return found


def comparison(*arguments: object) -> dict[str, Any]:
    (found,) = judged(*arguments)["settings"][0]["comparisons"]
    return dict(found)


BASE = [93.1, 92.8, 93.4, 93.0, 92.7, 93.3, 92.9, 93.2]
TRICK = [94.0, 93.9, 94.2, 93.8, 93.8, 94.3, 93.7, 94.1]


def test_two_pairs_are_not_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both differ by +0.2, in steps of 0.1 or of 0.3, and once said "better"."""
    monkeypatch.setattr("sys.stdin", io.StringIO("arm,seed,value\na,0,90.1\na,1,90.4\nb,0,90.3\nb,1,90.6\n"))
    answer = call("verdict", "-")
    assert (answer.code, answer.err) == (0, "")
    assert "Undecided for b: too few pairs (2; a word takes 6)" in answer.out
    assert "better than" not in answer.out


@pytest.mark.parametrize(
    ("gain", "word"), [([1.0, 0.9], "better"), ([-1.0, -0.9], "worse"), ([0.0, 0.01], "equal"), ([0, 1.0], "undecided")]
)
def test_percent_and_shares_have_the_same_words(gain: list[float], word: str, tmp_path: Path) -> None:
    trick = [value + gain[seed % 2] for seed, value in enumerate(BASE)]
    percent = comparison(table(tmp_path, {"base": BASE, "trick": trick}))
    shares = {"base": [v / 100 for v in BASE], "trick": [v / 100 for v in trick]}
    share = comparison(table(tmp_path, shares, digits=6))
    assert percent["verdict"] == share["verdict"] == word
    assert [100 * limit for limit in share["ci_family"]] == pytest.approx(percent["ci_family"])
    assert 100 * share["step"] == pytest.approx(percent["step"])
    for name in ("p", "n_for_rope", "wins", "win_probability"):
        assert share[name] == percent[name]
    named = comparison(tmp_path / "runs.csv", "--metric", "accuracy")  # a registered percentage, in shares
    assert named["verdict"] == word


@pytest.mark.parametrize("name", ["loss", "val_loss", "test-error", "RMSE", "wall time"])
def test_a_metric_that_sounds_like_a_loss_needs_a_direction(name: str, tmp_path: Path) -> None:
    path = table(tmp_path, {"base": BASE, "trick": TRICK})
    line = refusal(call("verdict", path, "--metric", name))
    assert all(part in line for part in (repr(name), "--lower-is-better", "--higher-is-better"))
    assert comparison(path, "--metric", name, "--lower-is-better")["verdict"] == "worse"
    assert comparison(path, "--metric", name, "--higher-is-better")["verdict"] == "better"


def test_a_registered_metric_brings_its_direction_and_margin(tmp_path: Path) -> None:
    """nll is better when smaller, and ±0.01 of it does not matter."""
    path = table(tmp_path, {"base": [v / 100 for v in BASE], "trick": [v / 100 for v in TRICK]})
    summary = judged(path, "--metric", "nll")
    assert (summary["rope"], summary["higher_is_better"]) == (0.01, False)
    assert summary["settings"][0]["comparisons"][0]["wins"] == 0


def test_values_beyond_100_have_no_margin(tmp_path: Path) -> None:
    path = table(tmp_path, {"base": [1000.0] * 8, "trick": [1000.0] * 8})
    summary = judged(path)
    assert (summary["rope"], summary["settings"][0]["comparisons"][0]["verdict"]) == (0, "undecided")
    assert "no equivalence margin" in summary["warnings"][0]


def test_directions_exclude_each_other(tmp_path: Path) -> None:
    path = table(tmp_path, {"base": BASE, "trick": TRICK})
    line = refusal(call("verdict", path, "--higher-is-better", "--lower-is-better"))
    assert all(flag in line for flag in ("--higher-is-better", "--lower-is-better"))


def test_semicolons(tmp_path: Path) -> None:
    commas = comparison(table(tmp_path, {"base": BASE, "trick": TRICK}))
    assert comparison(table(tmp_path, {"base": BASE, "trick": TRICK}, separator=";")) == commas


def test_a_missing_seed_is_left_out(tmp_path: Path) -> None:
    path = table(tmp_path, {"base": BASE, "trick": TRICK[:-1]})
    summary = judged(path)
    (one,) = summary["settings"][0]["comparisons"]
    assert (one["n"], one["paired"], one["lost"]) == (7, True, 0)
    assert any("left out: 7" in warning for warning in summary["warnings"])


def test_a_resolution_may_be_given(tmp_path: Path) -> None:
    """Instead of 0.1, which the values are multiples of."""
    path = table(tmp_path, {"base": BASE, "trick": TRICK}, digits=1)
    differences = np.subtract(TRICK, BASE)
    for flags, step in (((), 0.1), (("--resolution", 0), 0.0), (("--resolution", 2), 2.0)):
        one = comparison(path, *flags)
        error = math.sqrt((np.var(differences, ddof=1) + step**2 / 6) / 8)
        assert one["step"] == pytest.approx(step)
        assert one["ci"] == pytest.approx(stats.t.interval(0.95, 7, differences.mean(), error))
    for value in ("-1", "nan", "inf"):
        line = refusal(call("verdict", path, "--resolution", value))
        assert f"--resolution {value}" in line


def test_runs_with_other_seeds_are_not_paired(tmp_path: Path) -> None:
    """Welch's interval with step²/12 in each arm; unequal numbers are no obstacle."""
    rows = [f"base,{seed},{value}" for seed, value in enumerate(BASE)]
    rows += [f"trick,x{seed},{value}" for seed, value in enumerate(TRICK[:6])]
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(["arm,seed,value", *rows]))
    summary = judged(path)
    (one,) = summary["settings"][0]["comparisons"]
    ours, theirs = np.array(TRICK[:6]), np.array(BASE)
    parts = [(np.var(values, ddof=1) + 0.1**2 / 12) / len(values) for values in (ours, theirs)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 5 + parts[1] ** 2 / 7)
    expected = stats.t.interval(0.95, freedom, ours.mean() - theirs.mean(), math.sqrt(sum(parts)))
    assert one["ci"] == one["ci_family"] == pytest.approx(expected)
    assert (one["paired"], one["verdict"], one["p"]) == (False, "better", None)
    assert any("unpaired" in warning for warning in summary["warnings"])
    assert "unpaired" in call("verdict", path).out


@pytest.mark.parametrize("runs", [(3, 3), (2, 20)])
def test_few_unpaired_runs_have_no_word(runs: tuple[int, int], tmp_path: Path) -> None:
    rows = [f"base,{seed},{90 + 0.1 * (seed % 2)}" for seed in range(runs[0])]
    rows += [f"trick,x{seed},{95 + 0.1 * (seed % 2)}" for seed in range(runs[1])]
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(["arm,seed,value", *rows]))
    one = comparison(path)
    assert one["verdict"] == "undecided"
    assert f"too few runs ({runs[0]} and {runs[1]})" in one["reason"]


# Single samples.


def samples_table(folder: Path, seeds: int = 7, samples: int = 60) -> tuple[Path, dict[str, np.ndarray]]:
    """Zeros and ones; an arm that helps with half of the samples."""
    random = np.random.default_rng(0)
    easy = random.uniform(0.3, 0.9, samples)
    helped = np.where(np.arange(samples) % 2, 0.3, 0.0)
    values = {
        "base": (random.uniform(size=(seeds, samples)) < easy).astype(int),
        "trick": (random.uniform(size=(seeds, samples)) < easy + helped).astype(int),
    }
    rows = [
        f"{arm},{seed},{sample},{found[seed, sample]}"
        for sample in random.permutation(samples)
        for arm, found in values.items()
        for seed in range(seeds)
    ]
    path = folder / "samples.csv"
    path.write_text("\n".join(["arm,seed,sample,value", *rows]))
    return path, values


def test_a_table_of_single_samples_has_intervals_over_samples(tmp_path: Path) -> None:
    path, values = samples_table(tmp_path)
    summary = judged(path, "--metric", "accuracy")
    (one,) = summary["settings"][0]["comparisons"]
    matrix = (values["trick"] - values["base"]).astype(float)
    n, samples = matrix.shape
    assert one["step"] == pytest.approx(1 / samples)
    v_s = (np.var(matrix.mean(1), ddof=1) + 1 / samples**2 / 6) / n
    added = np.var(matrix.mean(0), ddof=1) / samples - np.var(matrix.ravel(), ddof=1) / matrix.size
    assert added > 0
    expected = stats.t.interval(0.95, n - 1, matrix.mean(), math.sqrt(v_s + added))
    assert one["ci_samples"] == one["ci_family"] == pytest.approx(expected)
    assert (one["over"], one["samples"]) == ("seeds and samples", samples)
    assert summary["settings"][0]["arms"][0]["values"]["3"] == pytest.approx(values["base"][3].mean())


def test_runs_with_other_samples_are_judged_over_seeds(tmp_path: Path) -> None:
    path, _ = samples_table(tmp_path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("trick,2,7,")))
    one = comparison(path, "--metric", "accuracy")
    assert (one["over"], one["ci_samples"]) == ("seeds", None)


def test_a_sample_that_is_there_twice(tmp_path: Path) -> None:
    path, _ = samples_table(tmp_path)
    path.write_text(path.read_text() + "\nbase,0,5,1")
    line = refusal(call("verdict", path))
    assert "sample '5' of seed '0' a second time" in line
