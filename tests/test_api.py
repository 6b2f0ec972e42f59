"""durm.compare and durm.verdict: from code or numbers to a verdict, in three lines."""

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import durm
from durm.errors import InputError
from durm.study.code_record import function_code
from durm.training import trainer

SHIFT = 1.0


def train(seed: int, shift: float = 0.0, crash: bool = False) -> dict[str, float]:
    """A run that differs from the base by the shift and a little noise."""
    if crash and seed == 3:
        raise RuntimeError("seed 3 is unlucky")
    base = random.Random(seed).gauss(80, 2)
    noise = random.Random(f"{seed} {shift}").gauss(0, 0.05)
    return {"accuracy": base + shift + noise, "loss": 1.0}


ARMS: dict[str, dict[str, Any]] = {"base": {}, "up": {"shift": SHIFT}, "tiny": {"shift": 0.001}}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> durm.StudyResult:
    """Ten seeds of three arms in two worker processes."""
    out = tmp_path_factory.mktemp("study") / "mine"
    return durm.compare(train, ARMS, seeds=10, metric="accuracy", out=out, workers=2, quiet=True)


def test_a_function_is_judged(result: durm.StudyResult) -> None:
    assert result.verdicts == {"up": "better", "tiny": "equal"}
    values = [train(seed)["accuracy"] for seed in range(10)]
    table = result.table().set_index("arm")
    assert list(table.columns) == ["n", "mean", "std", "difference", "low", "high", "p", "verdict"]
    assert list(table.index) == ["base", "up", "tiny"]
    assert table.loc["base", "mean"] == pytest.approx(np.mean(values))
    assert table.loc["base", "std"] == pytest.approx(np.std(values, ddof=1))
    differences = [train(seed, 1.0)["accuracy"] - train(seed)["accuracy"] for seed in range(10)]
    assert table.loc["up", "difference"] == pytest.approx(np.mean(differences))
    assert table.loc["up", "low"] < np.mean(differences) < table.loc["up", "high"]


def test_runs_have_all_metrics_and_what_they_took(result: durm.StudyResult) -> None:
    runs = result.runs()
    assert len(runs) == 30
    row = runs[(runs.arm == "up") & (runs.seed == 4)].iloc[0]
    assert row.value == row.accuracy == pytest.approx(train(4, 1.0)["accuracy"])
    assert row.seconds > 0
    assert row.cpu_seconds > 0
    assert row.peak_memory > 1e6


def test_a_study_goes_on_in_its_folder(result: durm.StudyResult, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs again, new seeds do; here in this process, where it can be counted."""
    calls = []
    monkeypatch.setattr(random, "Random", lambda seed: calls.append(seed) or pytest.fail("a finished trial ran again"))
    assert result.store is not None
    again = durm.compare(train, ARMS, seeds=10, metric="accuracy", out=result.store.folder, workers=0, quiet=True)
    assert again.table().equals(result.table())
    assert calls == []


def test_a_failing_seed_is_reported_and_can_be_run_again(tmp_path: Path) -> None:
    arms = {"base": {}, "bad": {"crash": True}}
    found = durm.compare(train, arms, seeds=8, metric="accuracy", out=tmp_path / "s", workers=0, quiet=True)
    ((name, reason),) = found.failed.items()
    assert "bad-seed3" in name
    assert "seed 3 is unlucky" in reason.splitlines()[-1]
    assert "test_api.py" in reason.splitlines()[-1]
    assert "1 trial failed" in str(found)
    assert found.summary.lost == 1
    again = durm.compare(train, arms, seeds=8, metric="accuracy", out=tmp_path / "s", workers=0, quiet=True)
    assert len(again.failed) == 1


def test_code_that_changed_is_refused_unless_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def once(seed: int, add: float = 0.0) -> float:
        return 10.0 * SHIFT + seed + add

    options: dict[str, Any] = {"arms": {"a": {}, "b": {"add": 1.0}}, "out": tmp_path / "s", "workers": 0, "quiet": True}
    durm.compare(once, seeds=2, **options)
    monkeypatch.setitem(globals(), "SHIFT", 2.0)  # a value of the module that the function uses
    with pytest.raises(InputError, match=r"SHIFT.*`accept_new_code`"):
        durm.compare(once, seeds=3, **options)
    found = durm.compare(once, seeds=3, accept_new_code=True, **options)
    assert any("code changed" in text for text in found.summary.warnings)
    assert found.runs().groupby("arm").value.apply(list)["a"] == [10.0, 11.0, 22.0]


def helper() -> float:
    return 1.0


def uses_helper(seed: int) -> float:
    """Uses a function of its module."""
    inner = [helper() for _ in range(2)]
    return inner[0]


def test_what_a_function_uses_of_its_module_is_part_of_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    before = function_code(uses_helper)
    assert {*before} == {"uses_helper", "helper"}

    def helper() -> float:
        return 2.0

    helper.__module__ = __name__
    monkeypatch.setitem(globals(), "helper", helper)
    after = function_code(uses_helper)
    assert before["uses_helper"] == after["uses_helper"]
    assert before["helper"] != after["helper"]


@pytest.mark.parametrize("given", [90, 90.0, np.float32(90), np.array(90.0), {"accuracy": 90.0, "note": "fine"}])
def test_a_number_of_any_kind_is_a_value(given: Any, tmp_path: Path) -> None:
    found = durm.compare(lambda seed: given, {"a": {}, "b": {}}, seeds=2, out=tmp_path / "s", workers=0, quiet=True)
    assert list(found.table()["mean"]) == [90.0, 90.0]


@pytest.mark.parametrize("given", [None, "90", [90.0], {"note": "fine"}, float("nan"), {"accuracy": float("inf")}])
def test_what_is_no_finite_number_is_a_failed_run(given: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="all 2 trials failed"):
        durm.compare(lambda seed: given, {"a": {}, "b": {}}, seeds=2, out=tmp_path, workers=0, quiet=True)


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: durm.compare(train, {"a": {}}), ["arms", "two"]),
        (lambda: durm.compare(train), ["arms"]),
        (lambda: durm.compare(train, {"a": {}, "b": {"shft": 1}}), ["'b'", "shft"]),
        (lambda: durm.compare(train, {"a": {}, "b": {"shift": {1, 2}}}), ["shift", "set", "JSON"]),
        (lambda: durm.compare(train, ARMS, data="digits"), ["`data`", "`arms`"]),
        (lambda: durm.compare("train", ARMS), ["str", "function"]),
        (lambda: durm.compare(train, ARMS, seeds=10, until_decided=True), ["`seeds`", "`until_decided`"]),
        (lambda: durm.compare(train, ARMS, max_seeds=10), ["`max_seeds`", "`until_decided`"]),
        (lambda: durm.compare(train, ARMS, command="true {seed}"), ["`function`", "`command`"]),
        (lambda: durm.compare(train, ARMS, loader_workers=2), ["`loader_workers` 2", "training loop"]),
        (lambda: durm.compare(data="digits", loader_workers=-1), ["`loader_workers` -1", "0"]),
        (lambda: durm.compare(data="digts"), ["digts", "digits"]),
        (lambda: durm.compare(data="digits", epoch=3), ["epoch", "epochs"]),
        (lambda: durm.verdict([1, 2, 3]), ["list"]),
        (lambda: durm.verdict({}), ["empty"]),
        (lambda: durm.verdict({"a": [1.0, 2.0]}), ["one arm"]),
        (lambda: durm.verdict({"a": [1.0, float("nan")], "b": [1.0, 2.0]}), ["'a'", "seed 1", "nan"]),
        (lambda: durm.verdict({"a": [0.3], "b": [0.2]}, metric="loss"), ["loss", "`lower_is_better`"]),
        (lambda: durm.verdict({"a": [1.0], "b": [2.0]}, baseline="c"), ["`baseline`", "'c'"]),
    ],
)
def test_bad_input_is_one_clear_sentence(
    call: Any, parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        call()
    assert "\n" not in str(error.value)
    assert all(part in str(error.value) for part in parts), error.value
    assert not (tmp_path / "runs").exists()


def test_loader_workers_reach_the_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    plain = trainer.make_task
    monkeypatch.setattr(trainer, "make_task", lambda *given: seen.append(given[-1]) or plain(*given))
    few = {"dummies": [0], "model": "mlp", "seeds": 1, "iterations": 2, "quiet": True}
    for workers in (0, 3):
        durm.compare(data="digits", out=tmp_path / str(workers), workers=0, loader_workers=workers, **few)
    assert seen == [0, 3]


def test_the_built_in_loop_in_one_line(tmp_path: Path) -> None:
    found = durm.compare(
        data="digits", model="mlp", dummies=[0, 2], seeds=2, epochs=1, out=tmp_path, workers=0, quiet=True
    )
    assert list(found.table().arm) == ["erm", "durm-2"]
    assert found.verdicts == {"durm-2": "undecided"}
    assert {"nll", "seconds", "trial"} <= {*found.runs().columns}


def test_arms_of_the_built_in_loop_override_any_path(tmp_path: Path) -> None:
    arms = {"base": {}, "smooth": {"train.label_smoothing": 0.1}}
    found = durm.compare(arms=arms, model="mlp", seeds=1, train={"epochs": 1}, out=tmp_path, workers=0, quiet=True)
    assert list(found.table().arm) == ["base", "smooth"]


# Numbers that exist.

A = [93.1, 92.8, 93.4, 92.9, 93.0, 93.2, 92.7, 93.3]
B = [93.9, 93.5, 94.2, 93.6, 93.8, 94.1, 93.4, 94.0]
LONG = pd.DataFrame({"Method": ["x"] * 8 + ["y"] * 8, "fold": [*range(8)] * 2, "accuracy": A + B, "epochs": 5})


@pytest.mark.parametrize(
    "runs",
    [
        {"x": A, "y": B},
        {"x": np.array(A), "y": np.array(B)},
        {"x": dict(enumerate(A)), "y": dict(reversed(list(enumerate(B))))},
        {"x": pd.Series(A), "y": pd.Series(B)},
        pd.DataFrame({"x": A, "y": B}),
        pd.DataFrame({"seed": range(8), "x": A, "y": B}),
        pd.DataFrame({"x": A, "y": B}, index=pd.Index(range(8), name="run")),
        LONG,
        LONG.drop(columns="fold"),
        LONG.rename(columns={"Method": "arm", "fold": "seed", "accuracy": "value"}),
    ],
)
def test_numbers_of_every_shape_give_one_verdict(runs: Any) -> None:
    found = durm.verdict(runs, metric="accuracy")
    row = found.table().set_index("arm").loc["y"]
    assert found.verdicts == {"y": "better"}
    assert row.difference == pytest.approx(np.mean(B) - np.mean(A))
    assert row.p == pytest.approx(2 / 2**8)  # all differences have one sign
    assert len(found.runs()) == 16


def test_columns_can_be_named() -> None:
    frame = pd.DataFrame({"what": ["x"] * 8 + ["y"] * 8, "nr": [*range(8)] * 2, "top1": A + B, "top5": B + A})
    with pytest.raises(InputError, match="what"):
        durm.verdict(frame)
    with pytest.raises(InputError, match=r"top1, top5.*`value`"):
        durm.verdict(frame, arm="what", seed="nr")
    found = durm.verdict(frame, arm="what", seed="nr", value="top1")
    assert found.verdicts == {"y": "better"}
    assert found.summary.metric == "top1"
    with pytest.raises(InputError, match=r"`value`.*'top2'.*'top1'"):
        durm.verdict(frame, arm="what", seed="nr", value="top2")


def test_a_missing_seed_is_left_out_of_its_pair() -> None:
    frame = pd.DataFrame({"seed": range(8), "x": A, "y": [None, *B[1:]]})
    found = durm.verdict(frame)
    assert found.table().n.tolist() == [8, 7]
    assert found.table().difference[1] == pytest.approx(np.mean(B[1:]) - np.mean(A[1:]))
    assert any("left out: 0" in text for text in found.summary.warnings)


def test_lists_of_different_lengths_are_judged_unpaired_and_it_says_so() -> None:
    found = durm.verdict({"x": A, "y": B[:6]})
    assert not found.summary.settings[0].comparisons[0].paired
    assert any("Welch" in text for text in found.summary.warnings)


def test_shares_and_percent_give_the_same_words() -> None:
    percent = durm.verdict({"x": A, "y": B}, metric="accuracy")
    shares = durm.verdict({"x": np.array(A) / 100, "y": np.array(B) / 100}, metric="accuracy")
    assert percent.verdicts == shares.verdicts
    assert shares.summary.rope == pytest.approx(percent.summary.rope / 100)


def test_samples_widen_the_interval() -> None:
    """Seeds × samples: the mean over samples is the value, and other samples would give another one."""
    rng = np.random.default_rng(0)
    base = rng.random((8, 50)) < 0.8
    trick = base | (rng.random(50) < 0.1)  # the same samples are mended under every seed
    found = durm.verdict({"base": 100.0 * base, "trick": 100.0 * trick}, metric="accuracy")
    flat = durm.verdict({"base": 100.0 * base.mean(1), "trick": 100.0 * trick.mean(1)}, metric="accuracy")
    wide, narrow = (one.table().iloc[1] for one in (found, flat))
    assert wide.difference == pytest.approx(narrow.difference)
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)


def test_a_csv_file_is_read_as_by_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    rows = [f"{seed};{a};{b}".replace(".", ",") for seed, (a, b) in enumerate(zip(A, B, strict=True))]
    path.write_text("\n".join(["seed;x;y", *rows]))
    assert durm.verdict(path).verdicts == durm.verdict(str(path)).verdicts == {"y": "better"}


def test_python_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "durm.api")
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.delitem(vars(durm), "compare", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"numpy.*pip install 'durm\[bench\]'"):
        durm.compare  # noqa: B018
