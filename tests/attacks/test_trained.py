"""Attacks on a trained model with dummies: stronger ones leave less, and one without gradients sees through masks."""

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import durm
from durm.attacks import Attack, Normalised
from tests.attacks.small import predictions

EPS = 0.1


@pytest.fixture(scope="module")
def trained() -> tuple[nn.Module, Tensor, Tensor]:
    """A small CNN with two dummies, for digits in [0, 1], and 150 samples that it has not seen."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None]
    labels = torch.tensor(digits.target)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        convolutions = [nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2)]
        model = durm.widen(nn.Sequential(*convolutions, nn.Flatten(), nn.Dropout(0.1), nn.Linear(192, 10)), 2)
        mean, std = images.mean(), images.std()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(6):
            for rows in torch.randperm(1400).split(64):
                optimizer.zero_grad()
                F.cross_entropy(model((images[rows] - mean) / std), labels[rows]).backward()
                optimizer.step()
    return Normalised(model, mean, std, scale=16).eval(), images[1400:1550] / 16, labels[1400:1550]


def accuracy(model: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    return (predictions(model, inputs) == targets).double().mean().item()


@pytest.mark.parametrize("through", ["real", "full"])
@pytest.mark.parametrize(("norm", "eps"), [("linf", EPS), ("l2", 0.5)])
def test_stronger_attacks_leave_less(trained: tuple[nn.Module, Tensor, Tensor], norm: str, eps: float, through: str):
    model, inputs, targets = trained
    clean = accuracy(model, inputs, targets)
    one, ten, auto = (
        accuracy(model, Attack(kind, eps, norm, 10, through=through)(model, inputs, targets), targets)
        for kind in ("fgsm", "pgd", "apgd")
    )
    assert clean > 0.9
    assert one < clean - 0.05
    assert ten <= one
    assert auto <= ten + 0.02


def test_square_lowers_the_accuracy(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, inputs, targets = trained
    found = Attack("square", EPS, steps=200)(model, inputs, targets, early_stop=True)
    assert accuracy(model, found, targets) < accuracy(model, inputs, targets) - 0.2


def test_samples_can_be_pushed_towards_the_dummies(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, inputs, targets = trained
    found = Attack("apgd", 0.3, steps=10, through="dummy")(model, inputs, targets)
    with torch.no_grad(), durm.full_logits(model):
        before, after = (durm.dummy_mass(model(points), 10) for points in (inputs, found))
    assert (after >= before).all()
    assert after.mean() > 2 * before.mean()


class Rounded(nn.Module):
    """Inputs rounded to 8 levels: the gradient is 0 everywhere, and the model no more robust for it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        return self.model((inputs * 7).round() / 7)


class Saturated(nn.Module):
    """Logits so large that the softmax is 0 or 1, and the gradient of the cross-entropy 0."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        return 1e4 * self.model(inputs)


@pytest.mark.parametrize("mask", [Rounded, Saturated])
def test_square_sees_through_masked_gradients(trained: tuple[nn.Module, Tensor, Tensor], mask: type) -> None:
    model, inputs, targets = trained
    masked = mask(model).eval()
    pgd = accuracy(masked, Attack("pgd", EPS)(masked, inputs, targets), targets)
    square = accuracy(masked, Attack("square", EPS, steps=200)(masked, inputs, targets, early_stop=True), targets)
    assert square < pgd - 0.2


def test_dlr_sees_through_saturation(trained: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, inputs, targets = trained
    masked = Saturated(model).eval()
    entropy, ratio = (
        accuracy(masked, Attack("apgd", EPS, loss=loss)(masked, inputs, targets), targets) for loss in ("ce", "dlr")
    )
    assert ratio < entropy - 0.2
