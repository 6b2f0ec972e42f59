"""The patches of the Square attack in L2: their shape by the formula of the paper, and that no length is lost."""

import math

import pytest
import torch

from durm.attacks import square
from durm.attacks.squares_l2 import _hill, first_change, pattern, propose, window_size
from tests.attacks.small import batch, linear, network, predictions, within


@pytest.mark.parametrize(("tall", "wide"), [(3, 3), (5, 5), (2, 5), (3, 7)])
def test_a_hill_is_that_of_the_paper(tall: int, wide: int) -> None:
    """Eq. 2 of Andriushchenko et al. (2020), r and s counted from 1: Σ_{k=0}^{M} 1 / (n + 1 - k)², up to a factor.

    M = n - max(|r - ⌊h₁/2⌋ - 1|, |s - ⌊h₂/2⌋ - 1|), n being the larger one of the halves.
    """
    n = max(tall // 2, wide // 2)
    truth = torch.zeros(tall, wide)
    for r in range(1, tall + 1):
        for s in range(1, wide + 1):
            last = n - max(abs(r - tall // 2 - 1), abs(s - wide // 2 - 1))
            truth[r - 1, s - 1] = sum(1 / (n + 1 - k) ** 2 for k in range(last + 1))
    torch.testing.assert_close(_hill(tall, wide), truth / truth.norm())


def test_a_pattern_has_two_halves_of_opposite_signs_and_length_1() -> None:
    upright, turned = pattern(6, 5), pattern(6, 5, turned=True)
    for one in (upright, turned, pattern(1, 5), pattern(5, 1), pattern(1, 1)):
        assert one.norm().item() == pytest.approx(1)
    assert (upright[:3] > 0).all()
    assert (upright[3:] < 0).all()
    assert turned.shape == (6, 5)
    assert (turned[:, :2] > 0).all()
    assert (turned[:, 2:] < 0).all()


def test_windows_are_odd_and_not_below_three() -> None:
    assert window_size(32, 32, 0.1) == (11, 11)
    assert window_size(32, 32, 1e-6) == (3, 3)
    assert window_size(1, 50, 0.5) == (1, 25)
    assert window_size(2, 2, 0.8) == (2, 2)


def test_the_first_change_has_length_1() -> None:
    change = first_change(7, (3, 10, 12), torch.Generator().manual_seed(0))
    torch.testing.assert_close(change.flatten(1).norm(dim=1), torch.ones(7))
    assert (change != 0).double().mean() > 0.9


def test_a_proposal_keeps_the_length_and_what_lies_outside_its_windows() -> None:
    random = torch.Generator().manual_seed(0)
    change = 0.5 * first_change(200, (2, 12, 12), random).double()
    proposed = propose(change, 0.5, 0.05, 200, torch.arange(200), random)
    torch.testing.assert_close(proposed.flatten(1).norm(dim=1), torch.full((200,), 0.5).double())
    side, _ = window_size(12, 12, 0.05)
    changed = ((proposed - change).abs() > 1e-9).any(1)
    assert (changed.sum((1, 2)) <= 2 * side**2).all()
    assert changed.sum((1, 2)).max() > side**2
    # In each channel the squared length of what changed stays what it was.
    torch.testing.assert_close(proposed.norm(dim=(2, 3)), change.norm(dim=(2, 3)))


@pytest.mark.parametrize("shape", [(36,), (6, 6), (1, 6, 6), (3, 4, 9)])
def test_shapes(shape: tuple[int, ...]) -> None:
    model, (inputs, _) = network(shape), batch(30, shape)
    targets = predictions(model, inputs)
    found = square(model, inputs, targets, eps=1.0, norm="l2", steps=150)
    assert within(found, inputs, 1.0, "l2")
    assert (predictions(model, found) != targets).double().mean() > 0.5


def test_a_linear_model_falls_beyond_its_margin_and_not_before() -> None:
    """z = (w·x, 0) with x = ½ everywhere: the distance is w·x / ‖w‖, and random search gets most of the way."""
    random = torch.Generator().manual_seed(1)
    smooth = torch.linspace(-1, 1, 8, dtype=torch.float64)
    weight = (smooth[:, None] + smooth).flatten() + 0.05
    model = linear(torch.stack([weight, torch.zeros_like(weight)]))
    inputs = torch.full((20, 64), 0.5, dtype=torch.float64) + 0.02 * torch.rand(20, 64, generator=random).double()
    far = (inputs @ weight / weight.norm()).min().item()
    assert 0.05 < far < 1.5
    images, targets = inputs.view(20, 1, 8, 8), torch.zeros(20, dtype=torch.long)
    model = torch.nn.Sequential(torch.nn.Flatten(), model)
    near = square(model, images, targets, eps=0.999 * far, norm="l2", steps=300)
    assert (predictions(model, near) == 0).all()
    beyond = square(model, images, targets, eps=1.5 * far * math.sqrt(2), norm="l2", steps=1500, early_stop=True)
    assert (predictions(model, beyond) == 1).double().mean() > 0.9
