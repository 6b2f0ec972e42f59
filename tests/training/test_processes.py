"""Several processes train one model as one process does: DDP over gloo, started here or by torchrun."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from durm import _ranks
from durm._random import derived_seed, generator
from durm.errors import InputError
from durm.training import launch
from durm.training.building import load_bundle
from durm.training.engine import Engine, check_processes, with_engine
from durm.training.inference import score_checkpoint
from durm.training.result import Result
from durm.training.trainer import Interrupted, RunContext, _run, run
from durm.training.trial import TrainSpec, Trial
from tests.training.plain import network
from tests.training.torchrun import STEPS
from tests.training.torchrun import trial as trial_of_torchrun

SEED, SIZE, RATE = 5, 32, 0.1


def test_two_processes_have_the_loss_curve_of_a_plain_pytorch_loop() -> None:
    """20 steps of SGD with momentum on augmented digits, 2 dummies: the mean loss of each whole batch."""
    train = {"iterations": 20, "validate_every": 1, "batch_size": SIZE, "lr": RATE, "schedule": "constant"}
    train |= {"augment": "crop-flip", "weight_decay": 0.0}
    described = Trial(data="digits", model="tests.training.plain:network", dummies=2, seed=SEED, devices=2, train=train)
    seen: list[float] = []
    found = run(described, RunContext(progress=lambda entry, epochs: seen.append(entry["step"])))
    assert [entry["train_loss"] for entry in found.curves] == pytest.approx(plain_losses(described), abs=1e-5)
    assert seen == list(range(1, 21))
    assert found.provenance.processes == 2


def plain_losses(described: Trial) -> list[float]:
    """With nothing of durm's but the data, the seeds for each purpose, and the dummy rows of the head."""
    bundle = load_bundle(described)
    images, labels = bundle.train.inputs, bundle.train.labels
    assert isinstance(images, torch.Tensor)
    torch.manual_seed(derived_seed(SEED, "model"))
    model = network(10)
    from durm import widen

    widen(model, 2, seed=SEED)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    losses: list[float] = []
    for epoch in range(20):
        order = torch.randperm(len(labels), generator=generator(SEED, "order", epoch))
        random = generator(SEED, "augment", epoch)
        offsets = torch.randint(3, (len(labels), 2), generator=random)
        flips = torch.randint(2, (len(labels),), generator=random)
        for first in range(0, len(labels) - SIZE + 1, SIZE):
            batch = []
            for index in order[first : first + SIZE].tolist():
                top, left = offsets[index].tolist()
                image = F.pad(images[index], (1, 1, 1, 1))[:, top : top + 8, left : left + 8]
                image = image.flip(-1) if flips[index] else image
                batch.append((image.float() - bundle.input.mean) / bundle.input.std)
            loss = F.cross_entropy(model(torch.stack(batch)), labels[order[first : first + SIZE]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == 20:
                return losses
    raise AssertionError


# All methods.

METHODS = {
    "digits": ["erm", "mixup", "logit-adjustment", "fgsm-at", "fgsm-at: clean", "mixup+ema", "erm+swa"],
    "digits-domains:noisy": ["vrex", "mmd", "rsc", "dann"],
}


def of_method(data: str, method: str) -> Trial:
    name, _, clean = method.partition(": ")
    train = {"iterations": 8, "batch_size": 16, "lr": 0.05, "validate_every": 4, "augment": "none"}
    probes = () if name.endswith("swa") else ("dummy_mass", "gradient_variance", "push_pull")
    described = {"name": name, "clean": 0.5} if clean else name
    return Trial(
        data=data, model="tests.training.plain:network", method=described, dummies=2, probes=probes, train=train
    )  # type: ignore[arg-type]


def every_result(trials: list[Trial], context: RunContext, engine: Engine) -> list[Result]:
    return [_run(one, context, engine) for one in trials]


def work(trials: list[Trial], **calls: object) -> launch.Work:
    return partial(every_result, trials, RunContext(**calls))  # type: ignore[arg-type]


@pytest.mark.slow
def test_every_method_learns_the_same_from_batches_that_are_shared() -> None:
    """Mixup's partners, RSC's quantile, V-REx's risks and MMD's pairs are those of the whole batch."""
    trials = [of_method(data, method) for data, methods in METHODS.items() for method in methods]
    first = trials[0].model_copy(update={"devices": 2})
    shared = launch.in_processes(first, partial(work, trials), RunContext())
    for described, two in zip(trials, shared, strict=True):
        one = run(described)
        for name in ("train_loss", "val_nll"):
            ours, alone = ([entry[name] for entry in result.curves] for result in (two, one))
            assert ours == pytest.approx(alone, rel=1e-4), (described.method_name, name)
        assert two.metrics["nll"] == pytest.approx(one.metrics["nll"], rel=1e-4), described.method_name
        for probe, values in one.probes.items():
            for name, value in values.items():
                given = torch.tensor(two.probes[probe][name], dtype=torch.float64)
                expected = torch.tensor(value, dtype=torch.float64)
                torch.testing.assert_close(given, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_two_processes_score_the_model_that_they_save(tmp_path: Path) -> None:
    """With BatchNorm, whose running statistics each process has of its own part: those of the first one count."""
    train = {"epochs": 2, "batch_size": 32}
    described = Trial(data="digits", model="cnn", dummies=2, devices=2, train=TrainSpec.model_validate(train))
    found = run(described, RunContext(folder=tmp_path))
    alone = score_checkpoint(tmp_path / "checkpoint.pt")[0].metrics
    assert {name: found.metrics[name] for name in alone} == pytest.approx(alone, rel=1e-5)


# Interrupts, and resuming with another number of processes.


@pytest.mark.slow
def test_an_interrupt_of_two_processes_leaves_a_checkpoint_for_one(tmp_path: Path) -> None:
    described = trial_of_torchrun()
    steps: list[float] = []
    context = RunContext(
        folder=tmp_path, progress=lambda entry, epochs: steps.append(entry["step"]), stop=lambda: 5 in steps
    )
    with pytest.raises(Interrupted):
        run(described.model_copy(update={"devices": 2, "train": longer(described)}), context)
    assert steps[0] == 5
    assert (tmp_path / "checkpoint.pt").exists()


def longer(described: Trial) -> TrainSpec:
    """So long that the interrupt always comes before the end."""
    return described.train.model_copy(update={"iterations": 100_000})


def start(processes: int, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, *arguments], env={**os.environ, **environment}, stdout=pipe, stderr=pipe, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 2), (1, 2)])
def test_a_killed_trial_goes_on_with_another_number_of_processes(before: int, after: int, tmp_path: Path) -> None:
    """Killed in step 13, inside of an epoch that the probes have half seen; checkpoints after each step."""
    described = trial_of_torchrun()
    whole = run(described)
    if before == 2:
        killed = start(2, "tests.training.torchrun", str(tmp_path), DURM_TEST_DIES="13")
        assert killed.wait(300) != 0
    else:
        asked = iter(range(12))
        with pytest.raises(Interrupted):
            run(described, RunContext(folder=tmp_path, stop=lambda: next(asked, None) is None))
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert state["progress"]["step"] == 12
    assert len(state["further_random_states"]) == before - 1
    resumed = run(described.model_copy(update={"devices": after}), RunContext(folder=tmp_path))
    assert resumed.cost.steps == STEPS
    assert [one["train_loss"] for one in resumed.curves] == pytest.approx([x["train_loss"] for x in whole.curves], 1e-5)
    assert resumed.metrics["nll"] == pytest.approx(whole.metrics["nll"], 1e-5)
    for probe, values in whole.probes.items():
        for name, value in values.items():
            given = torch.tensor(resumed.probes[probe][name], dtype=torch.float64)
            torch.testing.assert_close(given, torch.tensor(value, dtype=torch.float64), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_torchrun_trains_from_the_command_line_and_stops_on_sigterm(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    flags = ["--model", "tests.training.plain:network", "--dummies", "2", "--iterations", "40000", "--out", out]
    flags += ["--validate-every", "100", "--json"]
    running = start(2, "durm", "train", *flags)
    while not any("}\n" in path.read_text() for path in Path(out).glob("trials/*/metrics.jsonl")):
        assert running.poll() is None, running.communicate()
        time.sleep(0.2)
    running.send_signal(signal.SIGTERM)
    assert running.wait(300) != 0
    (checkpoint,) = Path(out).glob("trials/*/checkpoint.pt")
    state = torch.load(checkpoint, weights_only=True)
    assert 100 <= state["progress"]["step"] < 40000
    assert len(state["further_random_states"]) == 1
    assert not any(Path(out).glob("trials/*/error.txt"))


@pytest.mark.slow
def test_torchrun_writes_once_and_knows_what_is_done(tmp_path: Path) -> None:
    flags = ["--model", "tests.training.plain:network", "--epochs", "1", "--out", str(tmp_path / "out"), "--json"]
    for _ in range(2):
        done = start(2, "durm", "train", *flags)
        printed, complaints = done.communicate(timeout=300)
        assert done.returncode == 0, complaints
        assert json.loads(printed)["failed"] == {}
    assert len([*tmp_path.glob("out/trials/*/result.json")]) == 1


@pytest.mark.slow
def test_torchrun_with_bad_input_says_one_line() -> None:
    bad = start(2, "durm", "train", "--batch-size", "33")
    printed, complaints = bad.communicate(timeout=300)
    assert bad.returncode != 0
    (line,) = [line for line in complaints.splitlines() if line.startswith("durm:")]
    assert line.startswith("durm: --batch-size 33: 33 samples cannot be shared equally by 2 processes; take 32")
    assert printed == ""


# What cannot be shared.


def plain_trial(devices: int, device: str = "cpu", **train: object) -> Trial:
    return Trial(data="digits", model="cnn", devices=devices, device=device, train=TrainSpec.model_validate(train))


@pytest.mark.parametrize(
    ("described", "samples", "domains", "message"),
    [
        (plain_trial(3), 1000, 0, "`batch_size` 64: 64 samples cannot be shared equally by 3 processes; take 63"),
        (plain_trial(2), 27, 0, r"27 samples \(all 27 training samples\) cannot be shared equally by 2 processes"),
        (plain_trial(4), 3, 0, "`devices` 4: there are only 3 training samples, fewer than processes"),
        (plain_trial(2, batch_size=7), 1000, 4, "`batch_size` 7: 7 samples cannot be shared"),
        (plain_trial(2, device="cuda:1"), 1000, 0, "`device` 'cuda:1' is one device, and 2 processes need one each"),
    ],
)
def test_batches_that_cannot_be_shared_are_refused(described: Trial, samples: int, domains: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_processes(described, samples, domains)


def test_torchrun_and_devices_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="`devices` 3: torchrun started 2 processes; leave it out"):
        check_processes(plain_trial(3), 1000)
    check_processes(plain_trial(2), 1000)


def test_one_process_keeps_what_it_has() -> None:
    rows = torch.arange(3.0)
    assert _ranks.whole_batch(rows) is rows
    assert _ranks.mean_of_all(rows) is rows
    assert _ranks.of_all("a") == ["a"]
    assert with_engine(plain_trial(1), lambda engine: engine.world_size) == 1


@pytest.mark.slow
def test_a_large_result_of_two_devices_comes_back() -> None:
    """The confusion matrix of many classes does not fit into a pipe, which nobody reads before the processes end."""
    found = launch.in_processes(plain_trial(2), lambda **calls: large_result, RunContext())
    assert found == large_result(None)


def large_result(_: object) -> list[int]:
    return list(range(300_000))
