"""Averages of weights, against those kept in a plain list and against torch's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, update_bn

import durm
from durm.errors import InputError
from durm.methods import Length
from durm.methods.averager import Averaged
from durm.study.check import check_study
from durm.study.reading import make_study
from durm.training.inference import load_model
from durm.training.trainer import Interrupted, RunContext, run
from durm.training.trial import Trial
from tests.methods.making import averager as averager_of


def network() -> nn.Module:
    torch.manual_seed(0)
    return durm.widen(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)), 2)


def inputs(count: int = 5) -> list[Tensor]:
    return [torch.randn(10, 4, generator=torch.Generator().manual_seed(index)) for index in range(count)]


def disturb(model: nn.Module, step: int) -> None:
    random = torch.Generator().manual_seed(100 + step)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=random)
    model.train()(inputs(1)[0])  # moves the statistics of batch normalisation


def test_ema_is_the_recursion_written_out() -> None:
    model = network()
    averager = averager_of("ema", model, Length(20, 5), decay=0.9)
    expected = {name: value.clone().double() for name, value in model.state_dict().items()}
    for step in range(1, 21):
        disturb(model, step)
        averager.on_step(model, step)
        decay = min(0.9, (1 + step) / (10 + step))
        for name, value in model.state_dict().items():
            expected[name] = decay * expected[name] + (1 - decay) * value.double()
    averager.finish(model, lambda: iter(()))
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            assert torch.allclose(value.double(), expected[name], atol=1e-5), name
    assert model.state_dict()["1.num_batches_tracked"] == 20
    assert averager.averaged(20) == Averaged(1, 20, 20)
    assert averager.without_effect(20) == []


def test_swa_is_the_mean_of_the_last_epochs_with_new_batch_statistics() -> None:
    """Of 8 epochs of 5 steps those after step 20: the weights after steps 25, 30, 35 and 40, as torch averages them."""
    model = network()
    averager = averager_of("swa", model, Length(40, 5), start=0.5)
    theirs = AveragedModel(model)
    for step in range(1, 41):
        disturb(model, step)
        averager.on_step(model, step)
        if step in (25, 30, 35, 40):
            theirs.update_parameters(model)
    update_bn(inputs(), theirs)
    averager.finish(model, lambda: iter(inputs()))
    for name, value in theirs.module.state_dict().items():
        assert torch.allclose(model.state_dict()[name].double(), value.double(), atol=1e-5), name
    assert model[1].momentum == 0.1  # type: ignore[index]
    assert model.training
    assert averager.averaged(40) == Averaged(25, 40, 4)
    assert averager.without_effect(40) == []


@pytest.mark.parametrize(
    ("length", "start", "told"),
    [
        (Length(40, 5), 0.9, "swa averaged nothing: it took the weights after step 40 alone"),
        (Length(4, 1), 0.0, "swa averaged everything: the weights after each of all 4 steps"),
    ],
)
def test_swa_says_if_it_averaged_nothing_or_everything(length: Length, start: float, told: str) -> None:
    model = network()
    averager = averager_of("swa", model, length, start=start)
    for step in range(1, length.steps + 1):
        averager.on_step(model, step)
    assert averager.without_effect(length.steps) == [told]


def test_what_is_averaged_can_be_narrowed() -> None:
    model = network()
    averager = averager_of("swa", model, Length(4, 2), start=0)
    for step in range(1, 5):
        disturb(model, step)
        averager.on_step(model, step)
    averager.finish(model, lambda: iter(inputs()))
    x = inputs(1)[0]
    expected = model.eval()(x)
    assert torch.equal(durm.narrow(model)(x), expected)
    assert expected.shape == (10, 3)


# In the loop.


def trial(method: str, **train: object) -> Trial:
    return Trial.model_validate(
        {"data": "digits", "model": "cnn", "method": method, "dummies": 2, "train": {"epochs": 3, **train}}
    )


@pytest.mark.parametrize("method", ["ema", "swa", "mixup", "mixup+ema", "logit-adjustment"])
def test_every_method_learns(method: str) -> None:
    result = run(trial(method, epochs=6, ema_decay=0.95, swa_start=0.5))
    assert result.metrics["accuracy"] > 80


@pytest.mark.parametrize("method", ["ema", "swa", "mixup+swa"])
def test_a_run_that_is_cut_off_ends_with_the_same_bits(method: str, tmp_path: Path) -> None:
    described = trial(method, swa_start=0.3)
    whole = run(described)
    calls = iter(range(1000))
    with pytest.raises(Interrupted):
        run(described, RunContext(folder=tmp_path, stop=lambda: next(calls) == 20))
    assert run(described, RunContext(folder=tmp_path)).weights_sha256 == whole.weights_sha256
    again = run(described, RunContext(folder=tmp_path))  # from the finished checkpoint
    assert again.weights_sha256 == whole.weights_sha256
    model, *_ = load_model(tmp_path / "checkpoint.pt")
    assert durm.dummies(model) == 2


def test_averaged_weights_are_not_the_last_ones() -> None:
    assert run(trial("ema")).weights_sha256 != run(trial("erm")).weights_sha256


def test_training_stops_when_validation_no_longer_improves() -> None:
    """A learning rate that spoils the model: the best epoch is early, and two more are tried."""
    result = run(trial("erm", epochs=30, lr=3.0, schedule="constant", weight_decay=0.0, patience=2))
    accuracies = [entry["val_accuracy"] for entry in result.curves]
    best = 1 + accuracies.index(max(accuracies))
    assert result.selected_epoch == best
    assert len(accuracies) == min(30, best + 2) < 30
    assert result.val["accuracy"] == max(accuracies)
    assert result.cost.steps == 9 * len(accuracies)


def test_patience_survives_a_resume(tmp_path: Path) -> None:
    described = trial("erm", epochs=30, lr=3.0, schedule="constant", weight_decay=0.0, patience=2)
    whole = run(described)
    calls: Iterator[int] = iter(range(1000))
    with pytest.raises(Interrupted):
        run(described, RunContext(folder=tmp_path, stop=lambda: next(calls) == 12))
    again = run(described, RunContext(folder=tmp_path))
    assert (again.weights_sha256, again.selected_epoch) == (whole.weights_sha256, whole.selected_epoch)
    assert run(described, RunContext(folder=tmp_path)).weights_sha256 == whole.weights_sha256


@pytest.mark.parametrize("change", [{"select": "best-val"}, {"train": {"patience": 3}}])
def test_averaging_does_not_go_with_picking(change: dict) -> None:
    study = make_study({"method": "ema", "seeds": 1, **change}, "a study")
    with pytest.raises(InputError, match="averages weights"):
        check_study(study, None)
