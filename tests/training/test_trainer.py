"""The loop's other duties: lengths, precisions, devices, clipping, divergence, checkpoints, what a result holds."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

import durm
from durm.errors import InputError
from durm.training import checkpoint
from durm.training.checkpoint import weights_sha256
from durm.training.inference import load_model, score_checkpoint
from durm.training.trainer import Diverged, Interrupted, RunContext, run
from durm.training.trial import TrainSpec, Trial
from tests.training.images import write_folder


def trial(**changes: object) -> Trial:
    train = changes.pop("train", {"epochs": 2})
    return Trial(data="digits", model="cnn", train=TrainSpec.model_validate(train), **changes)


def test_a_result_holds_what_it_should() -> None:
    result = run(trial(dummies=2, train={"epochs": 8}))
    assert result.metrics["accuracy"] > 90
    usual = {"accuracy", "balanced_accuracy", "nll", "ece", "ece_all", "dummy_mass", "dummy_hits"}
    assert set(result.metrics) == usual | {"soft_accuracy", "p_true", "brier"}
    assert result.metrics.keys() == result.val.keys() == result.train.keys()
    assert 0 < result.metrics["dummy_mass"] < 50
    assert [entry["epoch"] for entry in result.curves] == list(range(1, 9))
    assert result.curves[0]["train_loss"] > result.curves[-1]["train_loss"]
    assert result.selected_epoch == 8
    assert result.cost.parameters == 16 * 9 + 32 + 32 * 16 * 9 + 64 + 12 * 128 + 12
    assert result.cost.steps == 8 * 9
    assert result.cost.seconds_per_step == pytest.approx(result.cost.seconds / 72)
    assert result.cost.peak_memory > 10**7
    assert result.provenance.threads == 1
    assert len(result.provenance.data or "") == 16
    assert not json.dumps(result.model_dump()).count(str(Path.home()))


def test_iterations_end_in_the_middle_of_an_epoch() -> None:
    result = run(trial(train={"iterations": 13}))
    assert result.cost.steps == 13
    assert len(result.curves) == 2
    assert result.curves[-1]["lr"] == pytest.approx(0.05 * (1 + math.cos(math.pi * 12 / 13)) / 2)


def test_a_batch_larger_than_the_data_is_the_whole_data() -> None:
    assert run(trial(train={"epochs": 2, "batch_size": 10_000})).cost.steps == 2


def test_the_best_weights_of_the_validation_set_are_taken(tmp_path: Path) -> None:
    """With a learning rate that spoils the model at the end, the best epoch is not the last."""
    train = {"epochs": 6, "lr": 3.0, "schedule": "constant", "weight_decay": 0.0}
    best = run(trial(select="best-val", train=train), RunContext(folder=tmp_path))
    accuracies = [entry["val_accuracy"] for entry in best.curves]
    assert best.selected_epoch == 1 + accuracies.index(max(accuracies))
    assert best.val["accuracy"] == max(accuracies)
    assert run(trial(train=train)).val["accuracy"] == accuracies[-1]


@pytest.mark.parametrize("train", [{"epochs": 2, "lr": 1e15}, {"epochs": 2, "lr": 1e30, "optimizer": "adam"}])
def test_a_loss_that_is_no_number_names_the_step_and_the_learning_rate(train: dict) -> None:
    with pytest.raises(Diverged, match=r"the loss became (nan|inf) at step \d+ with learning rate (1|9\.\d+)e\+\d\d"):
        run(trial(train=train))


def test_clipping_bounds_the_first_step() -> None:
    """One step of plain SGD moves the weights by lr times the clipped gradient."""
    train = {"iterations": 1, "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0, "schedule": "constant"}
    moved = {}
    for clip in (None, 0.01):
        weights = _first_and_last_weights(trial(train={**train, "clip_norm": clip}))
        moved[clip] = sum((last - first).square().sum() for first, last in weights).sqrt().item()
    assert moved[0.01] == pytest.approx(0.01, rel=1e-3)
    assert moved[None] > 0.1


def _first_and_last_weights(described: Trial) -> list[tuple[torch.Tensor, torch.Tensor]]:
    from durm.training.building import build_model, load_bundle
    from durm.training.engine import Plain
    from durm.training.trainer import Trainer as Training

    bundle = load_bundle(described)
    first = [p.detach().clone() for p in build_model(described, bundle).parameters()]
    training = Training(described, bundle, Plain(), RunContext())
    training.fit()
    return list(zip(first, (p.detach() for p in training.plain_model.parameters()), strict=True))


def test_label_smoothing_warm_up_and_channels_last_train() -> None:
    train = {"epochs": 6, "label_smoothing": 0.1, "warmup": 10, "channels_last": True, "optimizer": "adamw", "lr": 0.01}
    result = run(trial(dummies=1, train=train))
    assert result.metrics["accuracy"] > 85


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64"])
def test_other_precisions_run_under_fabric(precision: str) -> None:
    result = run(trial(dummies=2, precision=precision, train={"epochs": 4}))
    assert result.metrics["accuracy"] > 60
    assert result.metrics["dummy_mass"] > 0


def test_a_run_under_fabric_resumes_too(tmp_path: Path) -> None:
    described = trial(dummies=2, precision="64", train={"epochs": 2})
    whole = run(described)
    asked = iter(range(100))
    with pytest.raises(Interrupted):
        run(described, RunContext(folder=tmp_path, stop=lambda: next(asked) == 12))
    assert run(described, RunContext(folder=tmp_path)).weights_sha256 == whole.weights_sha256


def test_a_precision_that_the_device_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="device 'cpu' with precision '16-mixed' cannot be used"):
        run(trial(precision="16-mixed"))


# Checkpoints.


def test_the_checkpoint_of_a_finished_trial_is_its_model(tmp_path: Path) -> None:
    result = run(trial(dummies=2), RunContext(folder=tmp_path))
    model, described, bundle = load_model(tmp_path / "checkpoint.pt")
    assert described == trial(dummies=2)
    assert durm.dummies(model) == 2
    assert not model.training
    assert weights_sha256(model.state_dict()) == result.weights_sha256
    assert score_checkpoint(tmp_path / "checkpoint.pt")[0].metrics == result.metrics
    narrowed = durm.narrow_state_dict(checkpoint.load(tmp_path / "checkpoint.pt")["model"])
    assert narrowed["10.weight"].shape == (bundle.num_classes, 128)


def test_other_data_of_the_same_format_can_be_evaluated(tmp_path: Path) -> None:
    run(trial(), RunContext(folder=tmp_path))
    with pytest.raises(InputError, match="has 3 classes and samples of shape"):
        score_checkpoint(tmp_path / "checkpoint.pt", data=write_folder(tmp_path / "images"))


@pytest.mark.parametrize("damage", [b"", b"not a checkpoint", None])
def test_a_damaged_checkpoint_is_reported_and_the_trial_starts_again(damage: bytes | None, tmp_path: Path) -> None:
    whole = run(trial(), RunContext(folder=tmp_path))
    path = tmp_path / "checkpoint.pt"
    damaged = path.read_bytes()[:-500] if damage is None else damage
    path.write_bytes(damaged)
    warnings: list[str] = []
    again = run(trial(), RunContext(folder=tmp_path, warn=warnings.append))
    (line,) = warnings
    assert line.startswith(f"checkpoint {path} is damaged")
    assert "checkpoint.pt.damaged-1" in line
    assert (tmp_path / "checkpoint.pt.damaged-1").read_bytes() == damaged
    assert again.weights_sha256 == whole.weights_sha256


def test_the_checkpoint_of_another_trial_is_not_taken_up(tmp_path: Path) -> None:
    run(trial(seed=1), RunContext(folder=tmp_path))
    assert run(trial(), RunContext(folder=tmp_path)).weights_sha256 == run(trial()).weights_sha256


def test_checkpoints_cannot_run_code(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "sprung",))

    torch.save({"trial": "", "model": Trap()}, tmp_path / "checkpoint.pt")
    with pytest.raises(InputError, match="is damaged, or no checkpoint"):
        checkpoint.load(tmp_path / "checkpoint.pt")
    assert not (tmp_path / "sprung").exists()


def test_weights_sha256_sees_every_bit() -> None:
    model = nn.BatchNorm1d(3)
    before = weights_sha256(model.state_dict())
    model.num_batches_tracked += 1
    assert weights_sha256(model.state_dict()) != before
    model.num_batches_tracked -= 1
    assert weights_sha256(model.state_dict()) == before
    with torch.no_grad():
        model.weight[0] = torch.nextafter(model.weight[0], torch.tensor(2.0))
    assert weights_sha256(model.state_dict()) != before


# The trial itself.


def test_the_id_of_a_trial_is_a_function_of_its_content() -> None:
    assert trial(seed=1).id == trial(seed=1).id
    assert len({trial(seed=1).id, trial(seed=2).id, trial(dummies=1).id, trial(train={"epochs": 3}).id}) == 4
    assert trial(train={"lr": 0.05}).id == trial(train={"epochs": 20}).id
    assert Trial.model_validate_json(trial(seed=1).model_dump_json()) == trial(seed=1)


def test_names_of_folders_are_safe() -> None:
    name = Trial(data="folder:/tmp/my images/ü", model="a.b:c").folder_name
    assert "/" not in name
    assert ":" not in name
    assert " " not in name


@pytest.mark.parametrize("kernel", [1, 3])
def test_the_hash_does_not_depend_on_the_memory_format(kernel: int) -> None:
    """A kernel of 1 × 1 counts as contiguous in both formats, with strides that cannot be viewed as bytes."""
    weight = torch.randn(4, 3, kernel, kernel, generator=torch.Generator().manual_seed(0))
    other = weight.to(memory_format=torch.channels_last)
    assert weights_sha256({"weight": weight}) == weights_sha256({"weight": other})
