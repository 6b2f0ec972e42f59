"""The commands as they are meant to be used."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

import durm
from durm.study.reading import read_study
from tests.cli.calling import Answer, call
from tests.study import synthetic

LARGE = {
    *("jinja2", "lightning", "matplotlib", "numpy", "pandas", "PIL", "pydantic", "rich", "scipy"),
    *("segmentation_models_pytorch", "sklearn", "timm", "torch", "torchvision", "transformers", "yaml"),
}
METRICS = [
    *("accuracy", "balanced_accuracy", "nll", "soft_accuracy", "p_true", "brier", "ece", "ece_all"),
    *("dummy_mass", "dummy_hits"),
]


def lines(answer: Answer) -> list[str]:
    """What was printed, of a command that went well."""
    assert (answer.code, answer.err) == (0, ""), answer
    return answer.out.splitlines()


def results(folder: Path) -> dict[str, dict]:
    """The results in a study's folder, by the names of the trials without their hash."""
    paths = folder.glob("trials/*/result.json")
    return {path.parent.name.rsplit("-", 1)[0]: json.loads(path.read_text()) for path in paths}


# Help.

OUTPUT = ["--out", "--quiet", "--json"]
DATA = ["--data-root", "--image-size", "--skip-bad"]
TRAINING = ["--method", "--epochs", "--iterations", "--batch-size", "--lr", "--optimizer", "--schedule", "--warmup"]
MORE_TRAINING = ["--weight-decay", "--label-smoothing", "--patience", "--clip-norm", "--augment", "--select"]
SCENES = ["--crop", "--window"]

HELP: dict[str, list[str]] = {
    "": [
        *["compare", "run", "status", "report", "verdict", "train", "evaluate",
          "export", "curvature", "claims", "models", "data"],
        "--version",
    ],
    "compare": [
        *["--data", "--model", "--dummies", "--arm", "--seeds", "--rope", "--null", "--until-decided", "--max-seeds"],
        *["--pretrained", "--workers", "--device", "--devices", "--precision"],
        *DATA, *TRAINING, *MORE_TRAINING, *SCENES, *OUTPUT,
    ],
    "report": ["FOLDER", "--open", "--data-root", "--trust-code", "--quiet", "--json"],
    "claims": ["--results", "--only", "--details", "--markdown", "--json"],
    "curvature": [
        *["CHECKPOINT", "--samples", "--part", "--eigenvalues", "--tolerance", "--radius", "--only", "--out", "--json"],
    ],
    "verdict": ["TABLE", "--baseline", "--rope", "--lower-is-better", "--metric", "--json"],
    "run": ["STUDY", "--workers", "--data-root", "--trust-code", *OUTPUT],
    "status": ["FOLDER", "--json"],
    "clean": ["FOLDER", "--dry-run", "--quiet", "--json"],
    "train": [
        *["--data", "--model", "--dummies", "--seed", "--pretrained", "--device", "--devices", "--precision"],
        *DATA, *TRAINING, *MORE_TRAINING, *SCENES, *OUTPUT,
    ],
    "evaluate": ["CHECKPOINT", "--data", "--data-root", "--open-set", "--predictions", "--images", "--json"],
    "export": ["CHECKPOINT", "--to", "--out", "--dummy-mass", "--data-root", "--trust-code", "--json"],
    "models": ["PATTERN", "--json"],
    "data": ["list", "check"],
    "data list": ["--data-root", "--json"],
    "data check": ["NAME", "--download", "--json", *DATA],
}  # fmt: skip


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", HELP)
def test_help_names_every_flag(command: str, flag: str) -> None:
    words = {word.strip("[],.") for line in lines(call(*command.split(), flag)) for word in line.split()}
    assert not {"Usage:", *HELP[command]} - ({word.upper() if word.islower() else word for word in words} | words)


def test_flags_are_in_groups() -> None:
    printed = lines(call("train", "--help"))
    assert [line for line in ("Data and model:", "Training:", "Running:", "Output:") if line not in printed] == []


@pytest.mark.parametrize("command", ["", "data"])
def test_without_a_command_there_is_help(command: str) -> None:
    assert lines(call(*command.split()))[0].startswith("Usage: durm")


def test_version() -> None:
    assert lines(call("--version")) == [f"durm {durm.__version__}"]
    shell = subprocess.run([sys.executable, "-m", "durm", "--version"], capture_output=True, text=True)
    assert (shell.returncode, shell.stdout, shell.stderr) == (0, f"durm {durm.__version__}\n", "")


@pytest.mark.parametrize(
    ("command", "allowed"), [("--help", set()), ("--version", set()), ("compare --help", {"pydantic"})]
)
def test_help_imports_neither_torch_nor_any_other_large_library(command: str, allowed: set[str]) -> None:
    """Which is why it is there at once: Python tells of every module that it imports. Flags come from the configs."""
    arguments = [sys.executable, "-X", "importtime", "-m", "durm", *command.split()]
    told = subprocess.run(arguments, check=True, capture_output=True, text=True).stderr
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in told.splitlines() if "|" in line}
    assert {"durm", "typer"} <= imported
    assert imported & LARGE <= allowed


# Data and models.


def test_the_data_sets_are_listed() -> None:
    listed = json.loads("\n".join(lines(call("data", "list", "--json"))))
    assert {"digits", "folder:PATH", "arrays:PATH"} <= set(listed)
    sentences = [row["about"] for row in listed.values()]
    assert all(len(words) > 20 and words.endswith(".") for words in sentences)
    printed = lines(call("data", "list"))
    assert [line.split()[0] for line in printed] == list(listed)
    assert all(words in line for line, words in zip(printed, sentences, strict=True))


def test_a_data_set_is_checked() -> None:
    facts = json.loads("\n".join(lines(call("data", "check", "digits", "--json"))))
    expected = {"train": 598, "val": 199, "test": 1000, "classes": 10, "shape": [1, 8, 8]}
    assert {name: facts[name] for name in expected} == expected
    printed = lines(call("data", "check", "digits"))
    assert printed[:5] == ["train: 598", "val: 199", "test: 1000", "classes: 10", "shape: [1, 8, 8]"]
    assert printed[5] == f"fingerprint: {facts['fingerprint']}"


def test_models_are_listed_by_pattern() -> None:
    printed = lines(call("models", "resnet1*"))
    assert "resnet18" in printed
    assert all(name.startswith("resnet1") for name in printed)
    assert json.loads("\n".join(lines(call("models", "resnet1*", "--json")))) == printed
    assert lines(call("models", "cnn"))[0] == "cnn"
    assert len(lines(call("models"))) > 1000


# One trial.


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """The folder of a trained model, and what was printed as JSON."""
    folder = tmp_path_factory.mktemp("train") / "out"
    answer = call("train", "--epochs", 1, "--dummies", 2, "--seed", 3, "--json", "--out", folder)
    return folder, json.loads("\n".join(lines(answer)))


def test_training_gives_a_summary_and_keeps_the_trial(trained: tuple[Path, dict]) -> None:
    folder, summary = trained
    ((name, result),) = results(folder).items()
    assert name == "digits-cnn-erm-durm-2-seed3"
    assert (summary["trials"], summary["done"], summary["failed"]) == (1, 1, {})
    (setting,) = summary["settings"]
    (arm,) = setting["arms"]
    assert setting["setting"] == {"data": "digits", "model": "cnn", "method": "erm"}
    assert (arm["arm"], arm["dummies"], arm["n"]) == ("durm-2", 2, 1)
    assert arm["values"] == {"3": result["metrics"]["accuracy"]}
    assert arm["mean"] == result["metrics"]["accuracy"] > 15
    (trial,) = (folder / "trials").iterdir()
    assert {"trial.json", "result.json", "checkpoint.pt", "metrics.jsonl"} <= {path.name for path in trial.iterdir()}


def test_evaluating_the_checkpoint_gives_the_metrics_of_the_trial(trained: tuple[Path, dict]) -> None:
    (trial,) = (trained[0] / "trials").iterdir()
    metrics = json.loads((trial / "result.json").read_text())["metrics"]
    assert list(metrics) == METRICS
    for path in (trial, trial / "checkpoint.pt"):
        assert json.loads("\n".join(lines(call("evaluate", path, "--json")))) == metrics
    printed = [line.split() for line in lines(call("evaluate", trial))]
    assert printed == [["metric", "test"], *([name, f"{value:.3f}"] for name, value in metrics.items())]


def test_the_same_command_again_trains_nothing(trained: tuple[Path, dict]) -> None:
    folder, summary = trained
    before = {path: path.stat().st_mtime_ns for path in folder.glob("trials/*/*")}
    answer = call("train", "--epochs", 1, "--dummies", 2, "--seed", 3, "--out", folder)
    printed = lines(answer)
    assert printed[0].split() == ["metric", "test", "val"]
    assert printed[1].split()[:2] == ["accuracy", f"{summary['settings'][0]['arms'][0]['mean']:.3f}"]
    assert Path(printed[-1].removeprefix("checkpoint: ")).is_file()
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_the_status_of_a_finished_study(trained: tuple[Path, dict]) -> None:
    folder, _ = trained
    told = lines(call("status", folder))
    assert told[:3] == ["study train: 1 trial", "state  trials", "done        1"]
    assert re.fullmatch(r"\d+ \w+ elapsed", told[3])
    status = json.loads("\n".join(lines(call("status", folder, "--json"))))
    assert status["counts"] == {"done": 1, "running": 0, "interrupted": 0, "failed": 0, "pending": 0}
    assert (status["running"], status["left_seconds"]) == ([], None)
    assert status["elapsed_seconds"] > 0
    (trial,) = status["trials"]
    assert trial["trial"].startswith("digits-cnn-erm-durm-2-seed3-")
    assert (trial["state"], trial["reason"]) == ("done", None)


def test_the_status_of_a_study_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One trial took 120 s, one runs since a minute, two wait, of which one failed: 60 + 120 s are left."""
    now = 1_800_000_000
    monkeypatch.setattr("time.time", lambda: now)
    store = synthetic.store(tmp_path / "out", lambda trial: None, dummies=[0, 1], seeds=2)
    first, second, third, _ = store.study.runs()
    for trial, begun in ((first, 300), (second, 60), (third, 200)):
        path = store.begin(trial) / "trial.json"
        os.utime(path, (now - begun, now - begun))
    store.keep(first, synthetic.result(first, 90.0))
    os.utime(store.trial_folder(first) / "result.json", (now - 180, now - 180))
    store.fail(third, "it broke")
    with store.lock(second):
        told = lines(call("status", tmp_path / "out"))
        status = json.loads("\n".join(lines(call("status", tmp_path / "out", "--json"))))
    assert [line.split() for line in told[2:6]] == [["done", "1"], ["running", "1"], ["failed", "1"], ["pending", "1"]]
    assert f"running: {second.folder_name}, for 1 min" in told
    assert any(line.startswith(f"failed: {third.folder_name}") and line.endswith("it broke") for line in told)
    assert told[-1] == "5 min elapsed, about 3 min left"
    (running,) = status["running"]
    assert running["trial"] == second.folder_name
    assert datetime.fromisoformat(running["since"]).timestamp() == now - 60
    assert (status["left_seconds"], status["elapsed_seconds"]) == (pytest.approx(180), pytest.approx(300))


# Studies.


def test_a_study_is_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model of one's own from the working folder, and a batch that is larger than the data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_network.py").write_text(
        "from torch import nn\n"
        "def network(num_classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))\n"
    )
    (tmp_path / "small.yaml").write_text(
        "model: my_network:network\n"
        "seeds: 2\n"
        "train: {epochs: 1}\n"
        "arms: [{name: erm}, {name: durm, dummies: 1}, {name: whole, batch_size: 100000}]\n"
    )
    first = lines(call("run", "small.yaml", "--trust-code", "--quiet", "--workers", 1))
    found = results(tmp_path / "runs" / "small")
    assert len(found) == 6
    assert [result["cost"]["steps"] for name, result in found.items() if "whole" in name] == [1, 1]
    assert first[-2:] == ["6 of 6 trials are done, kept in runs/small", "the page: runs/small/report.html"]
    assert (tmp_path / "runs/small/report.html").is_file()
    assert [line.split()[:2] for line in first[3:6]] == [["erm", "2"], ["durm", "2"], ["whole", "2"]]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/small/trials/*/result.json")}
    assert lines(call("run", "small.yaml", "--trust-code")) == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/small/trials/*/result.json")} == before


def test_trials_that_diverge_fail_alone(tmp_path: Path) -> None:
    """One after a few steps; one in its only step, the loss of which is still a number, unlike those after it."""
    path, folder = tmp_path / "study.yaml", tmp_path / "out"
    path.write_text(
        "seeds: 1\n"
        "train: {epochs: 1, schedule: constant}\n"
        "arms: [{name: erm}, {name: fast, lr: 1e20}, {name: late, lr: 1e30, iterations: 1}, {name: durm, dummies: 1}]\n"
    )
    answer = call("run", path, "--out", folder, "--quiet", "--workers", 1)
    assert answer.code == 1
    assert "Traceback" not in answer.err
    told = dict(re.findall(r"durm: trial digits-cnn-erm-(\w+)-seed0-\w+ failed: (.+)\n", answer.err))
    assert told.keys() == {"fast", "late"}
    assert re.fullmatch(r"the loss became (nan|inf) at step \d+ with learning rate 1e\+20", told["fast"])
    assert re.search(r"step 1 with learning rate 1e\+30", told["late"])
    assert answer.out.splitlines()[-2] == f"2 of 4 trials are done, kept in {folder}"
    assert set(results(folder)) == {"digits-cnn-erm-erm-seed0", "digits-cnn-erm-durm-seed0"}

    status = lines(call("status", folder))
    assert [line.split() for line in status[1:4]] == [["state", "trials"], ["done", "2"], ["failed", "2"]]
    assert status[4].startswith("failed: digits-cnn-erm-fast-seed0-")
    assert status[4].endswith(told["fast"])
    assert "left" not in status[-1]


@pytest.mark.parametrize("precision", ["32", "'32'", "64", "bf16-mixed"])
def test_a_precision_in_a_study_needs_no_quotes(precision: str, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(f"precision: {precision}")
    assert read_study(path).precision == precision.strip("'")
