"""Studies in TensorBoard and MLflow, as these read them back."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from durm.errors import InputError
from durm.integrations.trackers import track
from durm.report.page import write_report
from durm.study import runner
from durm.study.runner import Outcome
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from durm.training.trial import Trial
from tests.cli.calling import call, refusal
from tests.study import synthetic

BOTH = pytest.mark.parametrize("tracker", ["tensorboard", "mlflow"])

VERDICT = "verdict-tracked"


def accuracy(trial: Trial) -> float:
    return 95.0 + (1.0 + 0.1 * (trial.seed % 2)) * trial.dummies


def judged(folder: Path, seeds: int = 6, **values: Any) -> Store:
    store = synthetic.store(folder, accuracy, name="tracked", dummies=[0, 1], seeds=seeds, **values)
    results = read_results(store)
    write_report(folder, write_summary(store, results), store=store, results=results)
    return store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return judged(tmp_path / "study")


def summary_of(store: Store) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((store.folder / "summary.json").read_text())
    return found


# TensorBoard.


def events(folder: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    return read.Reload()


def text_of(read: Any, name: str) -> str:
    (event,) = read.Tensors(f"{name}/text_summary")
    text: str = event.tensor_proto.string_val[0].decode()
    return text


def test_tensorboard_has_a_run_for_each_trial(store: Store) -> None:
    folder = Path(track(store, "tensorboard"))
    assert folder == store.folder / "tensorboard"
    trials = store.study.runs()
    assert {path.name for path in folder.iterdir()} == {VERDICT, *(trial.folder_name for trial in trials)}
    trial = trials[-1]
    read = events(folder / trial.folder_name)
    (value,) = read.Scalars("test/accuracy")
    assert value.value == pytest.approx(accuracy(trial))
    assert read.Scalars("cost/seconds")[0].value == 10.0 + trial.seed
    curve = read.Scalars("val_nll")
    small = 0.001 * (trial.seed + 1) + 0.01 * trial.dummies
    assert [(event.step, event.value) for event in curve] == [(e, pytest.approx(1 / e + small)) for e in range(1, 6)]


def test_tensorboard_knows_the_parameters(store: Store) -> None:
    """In the records of its plugin hparams."""
    plugin = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    folder = Path(track(store, "tensorboard"))
    trial = store.study.runs()[-1]
    content = events(folder / trial.folder_name).summary_metadata["_hparams_/session_start_info"].plugin_data.content
    started = plugin.HParamsPluginData.FromString(content).session_start_info.hparams
    assert started["seed"].number_value == trial.seed
    assert started["arm"].string_value == "durm-1"
    assert started["train.lr"].number_value == 0.05
    assert started["method.name"].string_value == "erm"


def test_tensorboard_has_the_verdict(store: Store) -> None:
    folder = Path(track(store, "tensorboard"))
    (one,) = summary_of(store)["settings"][0]["comparisons"]
    read = events(folder / VERDICT)
    found = [read.Scalars(f"durm-1/{name}")[0].value for name in ("difference", "low", "high")]
    assert found == pytest.approx([one["difference"], *one["ci_family"]])
    assert (text_of(read, "verdict/durm-1"), one["verdict"]) == ("better", "better")
    assert "1 dummy is better than erm" in text_of(read, "headline")
    assert text_of(read, "report") == (store.folder / "report.md").read_text()
    assert "report.html" in text_of(read, "page")


# MLflow.


def mlflow_runs(store: Store, address: str | None = None) -> tuple[Any, list[Any]]:
    client = pytest.importorskip("mlflow").MlflowClient(address or (store.folder / "mlruns").as_uri())
    experiment = client.get_experiment_by_name(store.study.name)
    return client, list(client.search_runs([experiment.experiment_id]))


def test_mlflow_has_a_run_for_each_trial(store: Store) -> None:
    pytest.importorskip("mlflow")
    assert track(store, "mlflow") == str(store.folder / "mlruns")
    client, runs = mlflow_runs(store)
    trials = {trial.id: trial for trial in store.study.runs()}
    found = {run.data.tags["durm.trial"]: run for run in runs if "durm.trial" in run.data.tags}
    assert found.keys() == trials.keys()
    assert len(runs) == len(trials) + 1
    for name, trial in trials.items():
        run = found[name]
        assert (run.info.status, run.info.run_name) == ("FINISHED", trial.folder_name)
        assert run.data.metrics["test/accuracy"] == accuracy(trial)
        expected = {"seed": str(trial.seed), "arm": trial.arm, "dummies": str(trial.dummies), "train.lr": "0.05"}
        assert {key: run.data.params[key] for key in expected} == expected
        history = client.get_metric_history(run.info.run_id, "train_loss")
        assert [(entry.step, entry.value) for entry in history] == [(e, 2 / e) for e in range(1, 6)]
        begun, kept = store.times(trial)
        assert (run.info.start_time, run.info.end_time) == (int(1000 * begun), int(1000 * kept))


def test_mlflow_has_the_verdict_and_the_page(store: Store) -> None:
    pytest.importorskip("mlflow")
    track(store, "mlflow")
    client, runs = mlflow_runs(store)
    (run,) = (run for run in runs if run.info.run_name == VERDICT)
    (one,) = summary_of(store)["settings"][0]["comparisons"]
    assert run.data.tags["verdict/durm-1"] == one["verdict"] == "better"
    found = [run.data.metrics[f"durm-1/{name}"] for name in ("difference", "low", "high")]
    assert found == pytest.approx([one["difference"], *one["ci_family"]])
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files == {"report.html", "summary.json"}
    path = client.download_artifacts(run.info.run_id, "report.html")
    assert Path(path).read_bytes() == (store.folder / "report.html").read_bytes()


def test_a_run_that_broke_off_is_written_again(store: Store) -> None:
    pytest.importorskip("mlflow")
    track(store, "mlflow")
    client, runs = mlflow_runs(store)
    run = next(run for run in runs if "durm.trial" in run.data.tags)
    client.update_run(run.info.run_id, status="RUNNING")
    track(store, "mlflow")
    _, again = mlflow_runs(store)
    assert len(again) == len(runs)
    assert {one.info.status for one in again} == {"FINISHED"}
    assert run.info.run_id not in {one.info.run_id for one in again}


# Both.


def names_in(tracker: str, store: Store) -> list[str]:
    if tracker == "tensorboard":
        return sorted(str(path.relative_to(store.folder)) for path in store.folder.glob("tensorboard/*/*"))
    return sorted(run.info.run_name for run in mlflow_runs(store)[1])


@BOTH
def test_twice_makes_no_run_twice(tracker: str, store: Store) -> None:
    pytest.importorskip(tracker)
    track(store, tracker)
    first = names_in(tracker, store)
    track(store, tracker)
    again = names_in(tracker, store)
    assert len(again) == len(first) == 13
    if tracker == "mlflow":
        assert again == first
    else:  # the verdict is written anew, the trials stay as they are
        assert [name for name in again if "verdict" not in name] == [name for name in first if "verdict" not in name]


@BOTH
def test_seeds_that_are_added_are_added(tracker: str, store: Store) -> None:
    pytest.importorskip(tracker)
    track(store, tracker)
    track(judged(store.folder, seeds=8), tracker)
    names = names_in(tracker, store)
    assert len(names) == 2 * 8 + 1
    assert sum("verdict" in name for name in names) == 1


@BOTH
def test_results_without_curves_and_with_strange_names(tracker: str, tmp_path: Path) -> None:
    """As those of a function or a command; names of metrics, data and arms may be anything."""
    pytest.importorskip(tracker)
    store = synthetic.store(tmp_path, lambda trial: None, dummies=[0], seeds=2, arms=[{"name": "a+b c", "lr": 0.1}])
    for trial in store.study.runs():
        metrics = {"accuracy": 90.0, "acc_<script>/../x": 1.0}
        store.begin(trial)
        store.keep(trial, synthetic.result(trial, 90.0, curves=[], metrics=metrics))
    write_summary(store, read_results(store))
    track(store, tracker)
    trial = store.study.runs()[-1]
    if tracker == "tensorboard":
        measured = events(store.folder / "tensorboard" / trial.folder_name).Tags()["scalars"]
    else:
        (run,) = (run for run in mlflow_runs(store)[1] if run.data.tags.get("durm.trial") == trial.id)
        assert run.data.params["arm"] == "a+b c"
        measured = [*run.data.metrics]
    assert [name for name in measured if re.fullmatch(r"test/acc_.script._..?_x", name)] != []
    assert "val_nll" not in measured


@BOTH
def test_several_settings_have_their_own_words(tracker: str, tmp_path: Path) -> None:
    pytest.importorskip(tracker)
    store = judged(tmp_path, model=["cnn", "mlp"])
    track(store, tracker)
    if tracker == "tensorboard":
        read = events(store.folder / "tensorboard" / VERDICT)
        assert text_of(read, "verdict/digits mlp erm/durm-1") == "better"
    else:
        (run,) = (run for run in mlflow_runs(store)[1] if run.info.run_name == VERDICT)
        assert run.data.tags["verdict/digits mlp erm/durm-1"] == "better"


@BOTH
def test_a_study_without_a_verdict(tracker: str, tmp_path: Path) -> None:
    pytest.importorskip(tracker)
    with pytest.raises(InputError, match=r"no summary\.json"):
        track(synthetic.store(tmp_path, accuracy, seeds=2), tracker)


# The command line.


@BOTH
def test_the_flag(tracker: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a study that is done, so that nothing is trained."""
    pytest.importorskip(tracker)
    monkeypatch.setattr(runner, "run_study", lambda store, execution, send: Outcome(done=store.study.runs()))
    folder, path = tmp_path / "elsewhere", tmp_path / "study.yaml"
    path.write_text((store.folder / "study.yaml").read_text())
    command = ("run", path, "--out", store.folder, "--track", f"{tracker}:{folder}")
    answer = call(*command)
    assert answer.code == 0, answer
    assert f"{tracker}: {folder}" in answer.out.splitlines()
    assert any(folder.iterdir())
    plain = json.loads(call("run", path, "--out", store.folder, "--track", tracker, "--json").out)
    assert plain["done"] == 12
    assert (store.folder / {"tensorboard": "tensorboard", "mlflow": "mlruns"}[tracker]).is_dir()


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is trained."""
    monkeypatch.chdir(tmp_path)
    line = refusal(call("compare", "--track", "tensorbord"))
    assert all(part in line for part in ("--track 'tensorbord'", "'tensorboard'"))
    line = refusal(call("compare", "--track", "mlflow:"))
    assert all(part in line for part in ("--track 'mlflow:'", "folder", "mlflow:FOLDER"))
    for name in ("tensorboard", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setattr("durm.integrations.trackers.find_spec", lambda name: None)
        line = refusal(call("compare", "--track", name))
        assert all(part in line for part in (f"--track {name!r}", f"pip install {name}"))
    assert list(tmp_path.iterdir()) == []
