"""Runs with the same seed differ in nothing but the dummies, and without dummies they are plain PyTorch."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm
from durm import models
from durm._random import derived_seed, generator
from durm.data import reading
from durm.methods import Batch
from durm.methods.erm import EmpiricalRisk
from durm.training.building import load_bundle
from durm.training.checkpoint import weights_sha256
from durm.training.inference import load_model
from durm.training.trainer import Interrupted, RunContext, run
from durm.training.trial import TrainSpec, Trial
from tests.training.images import write_folder
from tests.training.pieces import run_in_pieces

SEED = 3


def trial(data: str, dummies: int = 0, **train: object) -> Trial:
    recipe = {"epochs": 3, "batch_size": 16, "lr": 0.05, "weight_decay": 1e-3, "schedule": "cosine", **train}
    return Trial(data=data, model="cnn", dummies=dummies, seed=SEED, train=TrainSpec.model_validate(recipe))


def plain_pytorch(described: Trial) -> nn.Module:
    """What the trial describes, in a loop without anything of durm's but the seeds for each purpose and the data."""
    torch.manual_seed(derived_seed(SEED, "model"))
    bundle = load_bundle(described)
    spec, images, labels = described.train, bundle.train.inputs, bundle.train.labels
    assert isinstance(images, Tensor)
    model = models.tiny.cnn(bundle.num_classes, bundle.input.shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=spec.lr, momentum=0.9, weight_decay=spec.weight_decay)
    torch.manual_seed(derived_seed(SEED, "dropout", 0))
    model.train()
    steps_per_epoch = len(labels) // spec.batch_size
    step, steps = 0, 3 * steps_per_epoch
    for epoch in range(3):
        order = torch.randperm(len(labels), generator=generator(SEED, "order", epoch))
        random = generator(SEED, "augment", epoch)
        offsets = torch.randint(3, (len(labels), 2), generator=random)
        flips = torch.randint(2, (len(labels),), generator=random)
        for first in range(0, steps_per_epoch * spec.batch_size, spec.batch_size):
            indices = order[first : first + spec.batch_size].tolist()
            batch = []
            for index in indices:
                image = images[index]
                if bundle.augment == "crop-flip":
                    top, left = offsets[index].tolist()
                    image = F.pad(image, (1, 1, 1, 1))[:, top : top + 8, left : left + 8]
                    image = image.flip(-1) if flips[index] else image
                batch.append((image.float() - bundle.input.mean) / bundle.input.std)
            for group in optimizer.param_groups:
                group["lr"] = spec.lr * (1 + math.cos(math.pi * step / steps)) / 2
            optimizer.zero_grad()
            F.cross_entropy(model(torch.stack(batch)), labels[indices]).backward()
            optimizer.step()
            step += 1
    return model


@pytest.mark.parametrize("augmented", [False, True])
def test_without_dummies_it_is_a_plain_pytorch_loop_bit_for_bit(augmented: bool, tmp_path: Path) -> None:
    """Data order, augmentation and dropout included."""
    described = trial(write_folder(tmp_path / "images") if augmented else "digits")
    torch.set_num_threads(1)
    assert run(described).weights_sha256 == weights_sha256(plain_pytorch(described).state_dict())


@dataclass
class Record:
    """What a run fed to its model, and the random state that dropout drew from, step by step."""

    inputs: list[Tensor] = field(default_factory=list)
    targets: list[Tensor] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)
    start: dict[str, Tensor] = field(default_factory=dict)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch):
    """Runs a trial and gives the record of it."""
    record = Record()
    loss = EmpiricalRisk.loss

    def recording(self: EmpiricalRisk, model: nn.Module, batch: Batch) -> Tensor:
        if not record.start:
            record.start = {name: value.clone() for name, value in model.state_dict().items()}
        record.inputs.append(batch.inputs.clone())
        record.targets.append(batch.targets.clone())
        record.states.append(torch.get_rng_state())
        return loss(self, model, batch)

    monkeypatch.setattr(EmpiricalRisk, "loss", recording)

    def run_recorded(described: Trial, context: RunContext | None = None) -> Record:
        nonlocal record
        record = Record()
        run(described, context)
        return record

    return run_recorded


def assert_paired(one: Record, other: Record) -> None:
    for name in ("inputs", "targets", "states"):
        first, second = getattr(one, name), getattr(other, name)
        assert len(first) == len(second) > 0
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True)), name
    assert one.start.keys() == other.start.keys()
    for name, value in one.start.items():
        assert torch.equal(value, other.start[name][: len(value)] if value.ndim else other.start[name]), name


@pytest.mark.parametrize("dummies", [1, 2, 7])
def test_other_numbers_of_dummies_see_the_same_run(dummies: int, recorded, tmp_path: Path) -> None:
    """Same batches, same augmentation, same dropout stream, same backbone, same real rows."""
    data = write_folder(tmp_path / "images")
    erm, with_dummies = recorded(trial(data)), recorded(trial(data, dummies))
    assert_paired(erm, with_dummies)
    head = list(with_dummies.start)[-2]
    assert len(with_dummies.start[head]) == len(erm.start[head]) + dummies


def test_workers_that_read_images_change_nothing(recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_folder(tmp_path / "images")
    in_memory = recorded(trial(data))
    monkeypatch.setattr(reading, "MEMORY_LIMIT", 0)
    for workers in (0, 2):
        streamed = recorded(trial(data), RunContext(num_workers=workers))
        assert_paired(in_memory, streamed)


@pytest.mark.parametrize("dummies", [0, 2])
@pytest.mark.parametrize("select", ["last", "best-val"])
def test_a_run_that_is_cut_off_goes_on_to_the_same_bits(dummies: int, select: str, tmp_path: Path) -> None:
    """Stopped in the middle of epochs and between them, again and again."""
    described = trial("digits", dummies, optimizer="adam", lr=0.01).model_copy(update={"select": select})
    whole = run(described)
    resumed, interruptions = run_in_pieces(described, tmp_path, steps=11)
    assert interruptions >= 8
    assert resumed.weights_sha256 == whole.weights_sha256
    for part in ("metrics", "val", "train", "curves", "selected_epoch"):
        assert getattr(resumed, part) == getattr(whole, part), part
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("kind", ["frozen", "constant", "copies"])
def test_dummies_of_every_kind_go_on_from_a_checkpoint(kind: str, tmp_path: Path) -> None:
    described = trial("digits", 2).model_copy(update={"kind": kind})
    whole = run(described)
    resumed, interruptions = run_in_pieces(described, tmp_path, steps=100)
    assert interruptions > 0
    assert resumed.weights_sha256 == whole.weights_sha256
    model, _, _ = load_model(tmp_path / "checkpoint.pt")
    assert (durm.dummies(model), model[-1].dummy_kind) == (2, kind)
    assert durm.dummies(durm.narrow(model)) == 0


def test_the_batches_after_a_resume_are_those_of_an_uninterrupted_run(recorded, tmp_path: Path) -> None:
    data = write_folder(tmp_path / "images")
    whole = recorded(trial(data, 2))
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == 7

    context = RunContext(folder=tmp_path, stop=stop)
    with pytest.raises(Interrupted):
        recorded(trial(data, 2), context)
    rest = recorded(trial(data, 2), context)
    done = len(whole.inputs) - len(rest.inputs)
    assert done == 6
    for ours, theirs in zip(rest.inputs, whole.inputs[done:], strict=True):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(rest.states, whole.states[done:], strict=True):
        assert torch.equal(ours, theirs)


def test_dummies_that_never_fire_are_erm_to_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the dummy logits at -inf a whole run, in 64 bit so that rounding stays small, ends where ERM ends."""
    erm = run(trial("digits").model_copy(update={"precision": "64"}))
    loss = EmpiricalRisk.loss

    def masked(self: EmpiricalRisk, model: nn.Module, batch: Batch) -> Tensor:
        mask = torch.tensor([0.0] * 10 + [-math.inf] * 3, dtype=torch.float64)
        return loss(self, lambda inputs: model(inputs) + mask, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(EmpiricalRisk, "loss", masked)
    masked_run = run(trial("digits", 3).model_copy(update={"precision": "64"}))
    assert masked_run.curves[-1]["train_loss"] == pytest.approx(erm.curves[-1]["train_loss"], rel=1e-6)
    assert masked_run.metrics["nll"] == pytest.approx(erm.metrics["nll"], rel=1e-5)


def test_the_caller_s_random_state_and_threads_are_left_alone() -> None:
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    run(trial("digits", 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_two_runs_of_one_trial_are_equal_and_seeds_differ() -> None:
    first, second = run(trial("digits", 2)), run(trial("digits", 2))
    assert first.weights_sha256 == second.weights_sha256
    other = run(trial("digits", 2).model_copy(update={"seed": SEED + 1}))
    assert other.weights_sha256 != first.weights_sha256
    assert durm.__version__ == first.provenance.durm
