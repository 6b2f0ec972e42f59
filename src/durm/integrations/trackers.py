"""A study that was run, in TensorBoard or MLflow: each trial is a run, and so is the verdict.

    from durm.integrations.trackers import track
    track(Store.open(Path("runs/digits")), "tensorboard")  # into runs/digits/tensorboard

It reads what the study left on disk; training knows nothing of it. What is there already is not written again.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from durm.errors import InputError, unknown
from durm.report.text import headline
from durm.study.base import AnyTrial
from durm.study.records import Summary
from durm.study.store import Store, read_summary
from durm.training.result import Result

TRACKERS = ("mlflow", "tensorboard")
TRIAL_TAG, SUMMARY_TAG = "durm.trial", "durm.summary"
MOST_METRICS, MOST_PARAMETERS = 1000, 100
"""In one request to MLflow."""


@dataclass(frozen=True)
class Run:
    """What a tracker gets of a trial, or of the verdict.

    Attributes:
        name: as it is shown.
        id: of the trial, or a hash of the summary: a run of that id is not written again.
        parameters: names with dots, such as `train.lr`.
        metrics: of the test set as `test/NAME`, of the cost as `cost/NAME`; of the verdict as `ARM/difference`.
        curves: pairs of step and values.
        tags: texts, such as the word of each arm.
        times: of its beginning and its end, in seconds since 1970.
    """

    name: str
    id: str
    parameters: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    curves: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    times: tuple[float, float] = (0.0, 0.0)


def track(store: Store, tracker: str, where: str | Path | None = None) -> str:
    """Writes the trials that are done, and the verdict with its page, and says where to.

    Args:
        store: of a study that was judged.
        tracker: `tensorboard` or `mlflow`.
        where: a folder; for MLflow also the address of a server or of a database. Left out, `tensorboard` or `mlruns`
            in the folder of the study.

    Raises:
        InputError: if there is no such tracker, it is not installed, or the study has no verdict yet.
    """
    check_tracker(tracker)
    path = store.folder / "summary.json"
    if not path.is_file():
        raise InputError(f"{store.folder}: there is nothing to track, for the study has no summary.json yet")
    verdict = verdict_run(read_summary(path))
    if tracker == "tensorboard":
        folder = Path(where) if where else store.folder / "tensorboard"
        _track_tensorboard(store, folder, verdict)
        return str(folder)
    address = str(where) if where and "://" in str(where) else None
    folder = Path(where) if where else store.folder / "mlruns"
    _track_mlflow(store, address or folder.resolve().as_uri(), verdict)
    return address or str(folder)


def check_tracker(name: str) -> None:
    """Raises an `InputError` if there is no such tracker, or what it needs is not installed."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    found = find_spec("tensorboard") if name == "tensorboard" else find_spec("mlflow")
    if found is None:
        raise InputError(f"tracker {name!r} is not installed: pip install {name}")


def trial_runs(store: Store) -> Iterator[Run]:
    """One for each trial that is done."""
    for trial in store.study.runs():
        if (result := store.result(trial)) is not None:
            begun, kept = store.times(trial)
            end = kept or time.time()
            yield trial_run(trial, result, (min(begun or end, end), end))


def trial_run(trial: AnyTrial, result: Result, times: tuple[float, float]) -> Run:
    measured = {f"test/{_part(name)}": value for name, value in result.metrics.items()}
    cost = {f"cost/{name}": float(value) for name, value in result.cost}
    curves = [
        (int(entry.get("step", entry.get("epoch", place))), _without(entry, "step", "epoch"))
        for place, entry in enumerate(result.curves, 1)
    ]
    parameters = dict(_flat(trial.model_dump(mode="json")))
    return Run(trial.folder_name, trial.id, parameters, measured | cost, curves, {TRIAL_TAG: trial.id}, times)


def verdict_run(summary: Summary) -> Run:
    """Of every arm against the baseline the word, the difference and the interval that decides."""
    settings = summary.averages or summary.settings
    words: dict[str, str] = {}
    metrics: dict[str, float] = {}
    for setting in settings:
        where = f"{_part(' '.join(setting.names))}/" if len(settings) > 1 else ""
        for one in setting.comparisons:
            low, high = one.ci_family or (None, None)
            words[f"verdict/{where}{one.arm}"] = one.verdict or "not judged"
            values = {"difference": one.difference, "low": low, "high": high}
            metrics |= {f"{where}{one.arm}/{name}": value for name, value in values.items() if value is not None}
    content = json.dumps(summary.as_json(), sort_keys=True)
    made_of = hashlib.sha256(content.encode()).hexdigest()
    about = {"study": summary.study, "metric": summary.metric, "rope": summary.rope}
    tags = {SUMMARY_TAG: made_of, "headline": headline(summary), **words}
    now = time.time()
    return Run(f"verdict-{summary.study}", made_of, about, metrics, tags=tags, times=(now, now))


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """`{"train": {"lr": 0.1}}` as `train.lr`; what is empty is left out, lists are JSON."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif value not in (None, []):
            yield f"{before}{name}", json.dumps(value) if isinstance(value, list) else value


def _part(name: str) -> str:
    """A name as one part of another, whose parts are divided by slashes."""
    return name.replace("/", "_")


def _without(entry: Mapping[str, float], *names: str) -> dict[str, float]:
    return {name: value for name, value in entry.items() if name not in names}


# TensorBoard.


def _track_tensorboard(store: Store, folder: Path, verdict: Run) -> None:
    """One folder for each run. It is written under another name first, so that it is there whole or not at all."""
    for run in trial_runs(store):
        if not (folder / run.name).exists():
            _write_events(folder, run, {})
    texts = {"headline": verdict.tags["headline"], "page": f"`{store.folder / 'report.html'}`"}
    texts |= {name: word for name, word in verdict.tags.items() if name.startswith("verdict/")}
    if (report := store.folder / "report.md").is_file():
        texts["report"] = report.read_text(encoding="utf-8")
    _write_events(folder, verdict, texts)


def _write_events(folder: Path, run: Run, texts: Mapping[str, str]) -> None:
    from torch.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard.summary import hparams

    unfinished = folder / f".{run.name}.{os.getpid()}"
    with SummaryWriter(str(unfinished)) as writer:
        for step, values in run.curves:
            for name, value in values.items():
                writer.add_scalar(name, value, step)
        for name, value in run.metrics.items():
            writer.add_scalar(name, value)
        for name, text in texts.items():
            writer.add_text(name, text)
        for part in hparams(run.parameters, run.metrics):  # what its page HPARAMS shows
            writer.file_writer.add_summary(part)
    if (folder / run.name).exists():
        shutil.rmtree(folder / run.name)
    unfinished.replace(folder / run.name)


# MLflow.


def _track_mlflow(store: Store, address: str, verdict: Run) -> None:
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow 3 asks for it
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        client = MlflowClient(tracking_uri=address)
        found = client.get_experiment_by_name(store.study.name)
        experiment = found.experiment_id if found else client.create_experiment(store.study.name)
        written = _tracked(client, experiment)
        for run in trial_runs(store):
            if (TRIAL_TAG, run.id) not in written:
                _log(client, experiment, run, [])
        if (SUMMARY_TAG, verdict.id) not in written:
            for number in (number for (tag, _), number in written.items() if tag == SUMMARY_TAG):
                client.delete_run(number)
            files = [store.folder / name for name in ("report.html", "summary.json")]
            _log(client, experiment, verdict, [path for path in files if path.is_file()])
    except MlflowException as error:
        raise InputError(f"MLflow at {address}: {str(error).splitlines()[0]}") from None


def _tracked(client: Any, experiment: str) -> dict[tuple[str, str], str]:
    """Which runs are there, by tag and id. Those that broke off are removed."""
    found: dict[tuple[str, str], str] = {}
    token = None
    while True:
        page = client.search_runs([experiment], max_results=MOST_METRICS, page_token=token)
        for run in page:
            for tag in {TRIAL_TAG, SUMMARY_TAG} & run.data.tags.keys():
                if run.info.status == "FINISHED":
                    found[tag, run.data.tags[tag]] = run.info.run_id
                else:
                    client.delete_run(run.info.run_id)
        token = page.token
        if not token:
            return found


def _log(client: Any, experiment: str, run: Run, files: list[Path]) -> None:
    from mlflow.entities import Metric, Param

    begun, ended = (int(1000 * seconds) for seconds in run.times)
    tags = {_allowed(name): text for name, text in run.tags.items()}
    number = client.create_run(experiment, start_time=begun, tags=tags, run_name=run.name).info.run_id
    values = [(name, value, step) for step, entry in run.curves for name, value in entry.items()]
    values += [(name, value, 0) for name, value in run.metrics.items()]
    metrics = [Metric(_allowed(name), float(value), ended, step) for name, value, step in values]
    parameters = [Param(_allowed(name), str(value)) for name, value in run.parameters.items()]
    for start in range(0, len(metrics), MOST_METRICS):
        client.log_batch(number, metrics=metrics[start : start + MOST_METRICS])
    for start in range(0, len(parameters), MOST_PARAMETERS):
        client.log_batch(number, params=parameters[start : start + MOST_PARAMETERS])
    for file in files:
        client.log_artifact(number, str(file))
    client.set_terminated(number, end_time=ended)


def _allowed(name: str) -> str:
    """A name in letters that MLflow takes."""
    return re.sub(r"[^\w\-./ :]", "_", name)
