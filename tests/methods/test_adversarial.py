"""Adversarial training against its formula on a linear model, where the worst inputs are known."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import durm
from durm.data.bundle import InputFormat
from durm.errors import InputError
from durm.methods import Batch
from durm.training.trainer import Interrupted, RunContext, run
from durm.training.trial import Trial
from tests.methods.making import objective

PIXEL_MAX, EPS = 16.0, 0.1
FORMAT = InputFormat((3,), torch.tensor([4.0, 8.0, 6.0]), torch.tensor([2.0, 4.0, 5.0]), pixel_max=PIXEL_MAX)


def linear(dummies: int) -> nn.Module:
    torch.manual_seed(0)
    return durm.widen(nn.Sequential(nn.Flatten(), nn.Linear(3, 2)), dummies)


def batch() -> Batch:
    """Pixels in the middle of their range, so that no ball leaves the box."""
    random = torch.Generator().manual_seed(1)
    pixels = 0.3 + 0.4 * torch.rand(6, 3, generator=random)
    return Batch(FORMAT.normalise(pixels * PIXEL_MAX), torch.tensor([0, 1, 0, 1, 1, 0]), step=3)


def made(name: str, model: nn.Module, **changes: object) -> Any:
    return objective(name, 2, **{"model": model, "input": FORMAT, "eps": EPS, "through": "real", **changes})


@pytest.mark.parametrize("method", ["fgsm-at", "pgd-at"])
@pytest.mark.parametrize("dummies", [0, 2])
def test_the_worst_inputs_of_a_linear_model(method: str, dummies: int) -> None:
    """Through the two real logits the worst pixels are x + ε sign(w_other − w_y), where w acts on x · white / std."""
    model, given = linear(dummies), batch()
    method_made = made(method, model)
    weight = model[1].weight[:2].detach() * PIXEL_MAX / FORMAT.std
    direction = (weight[1 - given.targets] - weight[given.targets]).sign()
    pixels = (given.inputs * FORMAT.std + FORMAT.mean) / PIXEL_MAX
    expected = FORMAT.normalise((pixels + EPS * direction) * PIXEL_MAX)
    assert torch.allclose(method_made.worst(given), expected, atol=1e-5)
    model.train()
    loss = method_made.loss(model, given)
    assert loss.item() == pytest.approx(F.cross_entropy(model(expected), given.targets).item(), abs=1e-5)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_the_clean_loss_is_mixed_in(share: float) -> None:
    model, given = linear(1).train(), batch()
    worst = made("pgd-at", model).loss(model, given)
    clean = F.cross_entropy(model(given.inputs), given.targets)
    mixed = made("pgd-at", model, clean=share).loss(model, given)
    assert mixed.item() == pytest.approx((share * clean + (1 - share) * worst).item(), abs=1e-6)


def test_no_radius_is_plain_training() -> None:
    model, given = linear(2).train(), batch()
    method_made = objective("pgd-at", 2, model=model, input=FORMAT, eps=0.0)
    assert torch.allclose(method_made.worst(given), given.inputs, atol=1e-6)


def test_passes_are_counted() -> None:
    assert made("fgsm-at", linear(0)).attack_passes == 1
    assert made("pgd-at", linear(0), steps=7).attack_passes == 7


def test_inputs_without_a_range_are_refused() -> None:
    plain = InputFormat((3,), torch.zeros(3), torch.ones(3))
    with pytest.raises(InputError, match="'pgd-at' needs images"):
        objective("pgd-at", 2, model=linear(0), input=plain)


def trial(method: str, dummies: int = 0, **train: object) -> Trial:
    recipe = {"iterations": 30, "batch_size": 32, "at_eps": 0.1, "at_steps": 2, **train}
    return Trial(data="digits", model="cnn", method=method, dummies=dummies, train=recipe)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["fgsm-at", "pgd-at"])
def test_a_run_that_is_cut_off_ends_with_the_same_bits(method: str, tmp_path: Path) -> None:
    described = trial(method, 2)
    whole = run(described)
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        run(described, RunContext(folder=tmp_path, stop=lambda: next(calls) == 17))
    assert run(described, RunContext(folder=tmp_path)).weights_sha256 == whole.weights_sha256
    assert whole.cost.attack_passes == 30 * (1 if method == "fgsm-at" else 2)


def test_arms_of_a_seed_are_attacked_from_the_same_starts() -> None:
    """Dummies that never get any probability change nothing, attack included."""
    model, other = linear(0), linear(2)
    with torch.no_grad():
        other[1].weight[2:], other[1].bias[2:] = 0.0, -1e9
    for method in ("fgsm-at", "pgd-at"):
        losses = [
            objective(method, 2, model=m, input=FORMAT, eps=EPS, seed=5).loss(m.train(), batch())
            for m in (model, other)
        ]
        assert losses[0].item() == pytest.approx(losses[1].item(), abs=1e-6)


@pytest.mark.slow
def test_adversarial_training_makes_robust() -> None:
    """On digits, ε = 0.15: PGD leaves little of plain training and most of adversarial training."""
    attacks = [{"kind": "pgd", "eps": 0.15, "steps": 10}]
    left = {}
    for method in ("erm", "fgsm-at", "pgd-at"):
        described = Trial(
            data="digits", model="cnn", method=method, dummies=1, attacks=attacks, attack_samples=300,  # type: ignore[arg-type]
            train={"epochs": 20, "at_eps": 0.15, "at_steps": 5},  # type: ignore[arg-type]
        )  # fmt: skip
        left[method] = run(described).metrics["robust_pgd_real"]
    assert left["pgd-at"] > left["erm"] + 25
    assert left["fgsm-at"] > left["erm"] + 15
