"""Studies on a Ray cluster: the same numbers as in processes, whoever dies in between. Nodes are processes here."""

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

import durm
from durm.errors import InputError
from durm.study.executors.ray_worker import Setup, work_on
from durm.study.jobs import Execution, TrialJob
from durm.study.reading import make_study
from durm.study.runner import run_study
from durm.study.status import trial_states
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from tests.cli.calling import call, refusal
from tests.study.run_small import STUDY
from tests.study.test_executors import COMMAND, HANG, ROOT, numbers

ray = pytest.importorskip("ray")
SMALL = {"model": "mlp", "dummies": [0], "seeds": 1, "train": {"epochs": 1}}
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100_000_000}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"executor": "rai"}, ["executor", "'rai'", "'ray'"]),
        ({"address": "auto"}, ["`address` auto", "`executor` ray"]),
        ({"executor": "processes", "trial_gpus": 0.5}, ["`trial_gpus` 0.5", "`executor` ray"]),
        ({"executor": "ray", "trial_gpus": 1.5}, ["`trial_gpus` 1.5", "0.25"]),
        ({"executor": "ray", "trial_cpus": 0}, ["`trial_cpus` 0", "0.25"]),
    ],
)
def test_what_ray_is_asked_for_is_checked(given: dict, said: list[str]) -> None:
    with pytest.raises(InputError) as error:
        Execution(**given)
    assert all(part in str(error.value) for part in said), error.value


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--address", "auto"], ["--address auto", "--executor ray"]),
        (["--executor", "rai"], ["'rai'", "'ray'"]),
        (["--executor", "ray", "--trial-gpus", "1.5"], ["--trial-gpus 1.5", "0.25"]),
    ],
)
def test_on_the_command_line_it_is_said_in_flags(flags: list[str], said: list[str], tmp_path: Path) -> None:
    line = refusal(call("compare", *flags, "--out", tmp_path / "out"))
    assert all(part in line for part in said), line
    assert not (tmp_path / "out").exists()


def test_without_ray_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.exceptions", None)
    with pytest.raises(InputError, match=r"'ray'.*durm\[ray\]"):
        run_study(Store.create(tmp_path, make_study(SMALL)), Execution(executor="ray"))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "ray://10.0.0.1:many"])
def test_an_address_where_no_ray_answers_is_said_at_once(address: str, tmp_path: Path) -> None:
    execution = Execution(executor="ray", address=address)
    with pytest.raises(InputError, match=f"`address` '{address}'"):
        run_study(Store.create(tmp_path, make_study(SMALL)), execution)


def test_threads_are_for_commands(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"`executor` threads.*processes"):
        run_study(Store.create(tmp_path, make_study(SMALL)), Execution(executor="threads"))


def a_setup(store: Store, marker: str) -> bytes:
    here = Path.cwd()
    records = {"data.json": (store.folder / "data.json").read_bytes()}
    execution = Execution(executor="ray")
    return pickle.dumps(Setup(store.folder, marker, records, store.study, True, execution, here, here.stat().st_ino))


class NoBoard:
    class post:
        @staticmethod
        def remote(event: Any) -> None: ...


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_worker_writes_checkpoints_where_the_disk_is_shared_and_nothing_elsewhere(
    is_shared: bool, tmp_path: Path
) -> None:
    study = make_study(SMALL)
    run_study(Store.create(tmp_path / "here", study), Execution(workers=0))  # which also records the data
    there = Store.create(tmp_path / "there", study)
    (there.folder / "data.json").write_bytes((tmp_path / "here" / "data.json").read_bytes())
    (there.folder / ".marker").touch()
    trial = study.trials()[0]
    job = pickle.dumps(TrialJob(trial))
    with patch("durm.study.executors.ray_worker._listening", lambda board: nullcontext(threading.Event())):
        report = work_on(durm.__version__, a_setup(there, ".marker" if is_shared else ".gone"), job, {}, NoBoard)
    written = {path.name for path in there.folder.glob("trials/*/*")}
    logs = {"checkpoint.pt", "metrics.jsonl"}
    assert (written, {*report["files"]}) == ((logs, set()) if is_shared else (set(), logs))
    ((name, (_, result), _),) = report["kept"]
    expected = Store.open(tmp_path / "here").result(trial)
    assert name == "keep"
    assert expected is not None
    assert result.weights_sha256 == expected.weights_sha256
    assert [event["kind"] for event in report["events"]] == ["finished"]


def test_another_version_on_a_node_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InputError) as error:
        work_on("0.0.1", b"not a pickle", b"not a pickle", {}, None)
    assert "durm 0.0.1" in str(error.value)
    assert f"durm {durm.__version__}" in str(error.value)


def test_data_that_differ_on_a_node_are_no_fault_of_the_trial(tmp_path: Path) -> None:
    store = Store.create(tmp_path, make_study(SMALL | {"data": f"folder:{tmp_path / 'gone'}"}))
    (tmp_path / "data.json").write_text('{"schema_version": 1, "data": {}}')
    job = pickle.dumps(TrialJob(store.study.trials()[0]))
    with patch("durm.study.executors.ray_worker._listening", lambda board: nullcontext(threading.Event())):
        report = work_on(durm.__version__, a_setup(store, ".gone"), job, {}, NoBoard)
    ((name, (_, reason, _), options),) = report["kept"]
    assert (name, options) == ("fail", {"pending": True})
    assert "gone" in reason
    assert os.uname().nodename in reason


def test_the_cluster_file_and_the_slurm_script_of_the_docs_can_be_read() -> None:
    text = (ROOT / "docs" / "how-to" / "cluster.md").read_text()
    blocks = {kind: re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("yaml", "bash")}
    (file,), (script, torchrun) = blocks["yaml"], blocks["bash"]
    assert {"cluster_name", "provider", "auth", "head_start_ray_commands"} <= yaml.safe_load(file).keys()
    for one in (script, torchrun):
        assert subprocess.run(["bash", "-n"], input=one, text=True, check=False).returncode == 0
    (flags,) = re.findall(r"durm run study.yaml (.*) &", script)
    known = call("run", "--help").out
    assert all(flag in known for flag in re.findall(r"--[a-z-]+", flags))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    yield made
    made.shutdown()


@contextmanager
def connected(cluster: Any) -> Iterator[None]:
    """As a script that has begun Ray itself. The first workers import durm from where this test does."""
    ray.init(cluster.address, log_to_driver=False, logging_level="error", runtime_env={"working_dir": None})
    try:
        yield
    finally:
        ray.shutdown()


def start(folder: Path, cluster: Any) -> subprocess.Popen[str]:
    command = [*COMMAND, str(folder), "0", cluster.address]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=ROOT, **pipes, text=True, start_new_session=True)


def until(process: subprocess.Popen[str], kind: str, times: int) -> list[str]:
    """The lines up to that many of one kind."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if sum(one.startswith(kind) for one in lines) == times:
            break
    return lines


def without_cost(summary: Any) -> Any:
    """What a study found: time and memory are those of the machine."""
    if isinstance(summary, dict):
        cost = ("cost", "cost_ratio", "seconds", "seconds_per_step", "peak_memory", "provenance", "warnings")
        return {key: without_cost(value) for key, value in summary.items() if key not in cost}
    return [without_cost(one) for one in summary] if isinstance(summary, list) else summary


@pytest.mark.slow
def test_a_node_and_the_driver_are_killed_and_each_trial_is_done_once(cluster: Any, tmp_path: Path) -> None:
    """Then the weights and the summary are those of local processes."""
    study = make_study({**STUDY, "train": {"epochs": 40, "batch_size": 16}})  # longer than it takes to kill
    Store.create(tmp_path / "ray", study)
    second = cluster.add_node(**NODE)
    process = start(tmp_path / "ray", cluster)
    lines = until(process, "epoch", 3)
    process.kill()
    process.wait()
    process = start(tmp_path / "ray", cluster)
    lines += until(process, "epoch", 4)
    states = trial_states(Store.open(tmp_path / "ray"))
    assert any(one.state == "running" for one in states)  # as `durm status` would say
    cluster.remove_node(second, allow_graceful=False)
    rest, _ = process.communicate(timeout=HANG)
    assert process.returncode == 0
    finished = Counter(line for line in [*lines, *rest.splitlines(keepends=True)] if line.startswith("finished"))
    assert len(finished) == 4
    assert set(finished.values()) == {1}
    assert "warning" in rest  # of the trial that ran on the lost node
    local = Store.create(tmp_path / "local", study)
    run_study(local, Execution(workers=1))
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
    summaries = [write_summary(one, read_results(one)).as_json() for one in (Store.open(tmp_path / "ray"), local)]
    assert without_cost(summaries[0]) == without_cost(summaries[1])
    assert not list((tmp_path / "ray").glob(".driver-*"))


@pytest.mark.slow
def test_an_interrupt_leaves_the_checkpoint_of_what_ran(cluster: Any, tmp_path: Path) -> None:
    Store.create(tmp_path, make_study({**STUDY, "train": {"epochs": 10_000, "batch_size": 16}}))  # never done before
    process = start(tmp_path, cluster)
    try:
        running = until(process, "epoch", 1)[-1].split()[1]
        for path in tmp_path.glob("trials/*/checkpoint.pt"):
            path.unlink()  # what is there afterwards was written because of the signal
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG)
    finally:
        process.kill()  # or its trials take the room of the cluster
    assert process.returncode == 1
    left = {path.parent.name.rpartition("-")[2] for path in tmp_path.glob("trials/*/*") if path.name == "checkpoint.pt"}
    assert running in left
    assert not list(tmp_path.glob("trials/*/result.json"))


@contextmanager
def unseen(folder: Path) -> Iterator[Path]:
    """In place of the file that shows that the disk is shared: nobody sees it."""
    yield folder / ".gone"


@pytest.mark.slow
def test_attacks_are_carried_over_between_models_without_a_shared_disk(cluster: Any, tmp_path: Path) -> None:
    """The checkpoints of both models come home with their results, and go out again."""
    study = make_study(SMALL | {"dummies": [0, 2], "attacks": [{"kind": "fgsm", "eps": 0.1}], "attack_samples": 50})
    stores = [Store.create(tmp_path / name, study) for name in ("ray", "local")]
    with patch("durm.study.executors.ray._marker", unseen):
        outcome = run_study(stores[0], Execution(workers=0, executor="ray", address=cluster.address))
    assert not outcome.failed
    run_study(stores[1], Execution(workers=0))
    ours, theirs = (store.transfer(study.trials()[1]) for store in stores)
    assert ours.keys() == {"from_baseline", "to_baseline"}
    assert ours == theirs


@pytest.mark.slow
def test_functions_and_commands_run_on_nodes_without_a_shared_disk(cluster: Any, tmp_path: Path) -> None:
    """A function that dies runs once again, one that raises does not; files of a command stay where it ran."""
    counts = tmp_path / "counts"

    def train(seed: int, how: str = "") -> float:
        with counts.open("a") as file:
            file.write(f"{how}\n")
        if how == "dies":
            os._exit(3)
        if how == "raises":
            raise RuntimeError("no luck")
        return 90.0 + seed

    arms = {"base": {}, "dies": {"how": "dies"}, "raises": {"how": "raises"}}

    with connected(cluster), patch("durm.study.executors.ray._marker", unseen):
        result = durm.compare(train, arms, seeds=1, out=tmp_path / "function", executor="ray", quiet=True)
        assert Counter(counts.read_text().splitlines()) == {"": 1, "dies": 2, "raises": 1}
        reasons = sorted(reason.strip().splitlines()[-1] for reason in result.failed.values())
        assert "died 2 times" in reasons[1]
        assert "no luck" in reasons[0]
        code = 'import os; open(os.environ["DURM_FOLDER"] + "/kept", "w"); print(93.5)'
        done = durm.compare(
            command=f"{sys.executable} -c '{code}' {{x}}",
            arms={"base": {"x": 1}, "other": {"x": 2}},
            seeds=1,
            out=tmp_path / "command",
            executor="ray",
            quiet=True,
        )
    assert list(done.runs()["value"]) == [93.5, 93.5]
    assert [path.read_text() for path in tmp_path.glob("command/trials/*/stdout.txt")] == ["93.5\n", "93.5\n"]
    assert not list(tmp_path.glob("command/trials/*/files"))


@pytest.mark.slow
def test_code_travels_without_runs_data_and_hidden_files(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("helper.py", "runs/old", "data/image", ".secret", "out/study/old"):
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).touch()
    Path("train.py").write_text("import json, os; print(json.dumps({n: 1 for n in os.listdir('.')} | {'value': 1}))")

    def on_other_disk(**values: Any) -> Setup:
        return Setup(**{**values, "inode": -1})

    with patch("durm.study.executors.ray.Setup", on_other_disk):
        result = durm.compare(
            command=f"{sys.executable} train.py {{x}}",
            arms={"base": {"x": 1}, "other": {"x": 2}},
            seeds=1,
            metric="value",
            out="out/study",
            executor="ray",
            address=cluster.address,
            quiet=True,
        )
    assert not result.failed
    assert {*result.runs().columns} & {"helper.py", "train.py", "runs", "data", ".secret", "study"} == {
        "helper.py",
        "train.py",
    }


@pytest.mark.slow
def test_a_trial_for_which_no_node_has_room_is_bad_input(cluster: Any, tmp_path: Path) -> None:
    execution = Execution(workers=0, executor="ray", address=cluster.address, trial_cpus=64)
    with pytest.raises(InputError, match=r"`trial_cpus`.*64 CPU"):
        run_study(Store.create(tmp_path, make_study(SMALL)), execution)


@pytest.mark.long
def test_a_campaign_of_200_trials_outlives_lost_nodes_and_drivers(cluster: Any, tmp_path: Path) -> None:
    """Six times a node joins and is lost in the middle; the first five times the driver is killed as well."""
    study = make_study({**STUDY, "seeds": 100, "train": {"epochs": 2}})
    Store.create(tmp_path / "ray", study)
    finished: Counter[str] = Counter()
    for kills in (True,) * 5 + (False,):
        node = cluster.add_node(**NODE)
        process = start(tmp_path / "ray", cluster)
        lines = until(process, "finished", 15)
        cluster.remove_node(node, allow_graceful=False)
        lines += until(process, "finished", 15)
        if kills:
            process.kill()
        lines += process.stdout or []
        process.wait()
        finished.update(line.split()[1] for line in lines if line.startswith("finished"))
    assert process.returncode == 0
    assert set(finished.values()) == {1}
    local = Store.create(tmp_path / "local", study)
    run_study(local, Execution(workers=1))
    assert len(numbers(tmp_path / "ray")) == 200
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
