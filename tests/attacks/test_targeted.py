"""Targeted APGD: classes that an untargeted attack never tries, and the exact margin of linear models."""

import pytest
import torch
from torch import Tensor, nn

from durm.attacks import Attack, auto, targeted_apgd
from durm.attacks.auto_pgd import apgd
from durm.attacks.loss import aimed_dlr
from tests.attacks.small import batch, linear, network, predictions, within

DUAL = {"linf": 1, "l2": 2}
"""The norm of the weights by which a margin is divided."""


def linear_case() -> tuple[nn.Linear, Tensor, Tensor]:
    """Six classes, all equal at a half; ten features around it, so that the box is out of reach."""
    random = torch.Generator().manual_seed(3)
    weight = torch.randn(6, 10, generator=random, dtype=torch.float64)
    model = linear(weight, -weight.sum(1) / 2)
    inputs = 0.4 + 0.2 * torch.rand(60, 10, generator=random, dtype=torch.float64)
    targets = predictions(model, inputs)
    clear = distances(model, inputs, targets, "linf") > 2e-3
    return model, inputs[clear], targets[clear]


def distances(model: nn.Linear, inputs: Tensor, targets: Tensor, norm: str) -> Tensor:
    """min_k (z_y - z_k) / ‖w_y - w_k‖_dual: how far the nearest other class is."""
    logits = model(inputs).detach()
    ahead = logits.gather(1, targets[:, None]) - logits
    slopes = torch.linalg.vector_norm(model.weight.detach()[targets][:, None] - model.weight.detach(), DUAL[norm], 2)
    return (ahead / slopes).scatter(1, targets[:, None], torch.inf).amin(1)


@pytest.mark.parametrize("norm", DUAL)
def test_a_linear_model_is_fooled_exactly_beyond_its_margin(norm: str) -> None:
    model, inputs, targets = linear_case()
    far = 0.001  # so that those that were nearest do not leave the box
    inputs = 0.5 + (inputs - 0.5) * (far / distances(model, inputs, targets, norm))[:, None]  # each as far as that
    for eps, fooled in ((1.05 * far, True), (0.99 * far, False)):
        found = targeted_apgd(model, inputs, targets, eps=eps, norm=norm, steps=50, target_classes=5)
        assert within(found, inputs, eps, norm)
        assert ((predictions(model, found) != targets) == fooled).all()


@pytest.mark.parametrize("norm", DUAL)
def test_auto_leaves_what_is_farther_than_the_radius(norm: str) -> None:
    model, inputs, targets = linear_case()
    nearest = distances(model, inputs, targets, norm)
    eps = nearest.median().item() * 1.0001
    left = torch.ones_like(targets, dtype=torch.bool)
    for attack in auto(eps, norm, steps=40, queries=20):
        found = attack(model, inputs, targets)
        left &= predictions(model, found) == targets
    assert torch.equal(left, nearest > eps)


class DeadEnd(nn.Module):
    """From 0.5 the class 1 is the nearest and never comes nearer, the class 2 wins from x = 0.75 on; 3 is far off."""

    def forward(self, inputs: Tensor) -> Tensor:
        nought = 0 * inputs
        return torch.cat([nought, nought - 0.1, 4 * inputs - 3, nought - 10], 1)


def test_it_goes_for_classes_that_an_untargeted_attack_does_not_see() -> None:
    point, target = torch.tensor([[0.5]]), torch.tensor([0])
    common = {"eps": 0.3, "steps": 20, "random_start": False}
    for loss in ("cw", "dlr"):
        assert predictions(DeadEnd(), apgd(DeadEnd(), point, target, loss=loss, **common)) == 0
    for loss in ("cw", "dlr", "ce"):
        assert predictions(DeadEnd(), targeted_apgd(DeadEnd(), point, target, loss=loss, **common)) == 2
    nearest_only = targeted_apgd(DeadEnd(), point, target, target_classes=1, **common)
    assert predictions(DeadEnd(), nearest_only) == 0


@pytest.mark.parametrize("early_stop", [False, True])
def test_a_batch_is_attacked_as_its_samples_are(early_stop: bool) -> None:
    """Each sample goes for a class of its own, also when others have been left out."""
    model, (inputs, targets) = network(dummies=0), batch(12)
    settings = {"eps": 0.05, "steps": 10, "target_classes": 1, "random_start": False, "early_stop": early_stop}
    together = targeted_apgd(model, inputs, targets, **settings)
    one_by_one = [targeted_apgd(model, inputs[i : i + 1], targets[i : i + 1], **settings) for i in range(12)]
    torch.testing.assert_close(together, torch.cat(one_by_one), rtol=0, atol=1e-9)


def test_the_loss_by_hand() -> None:
    """z = (5, 1, 3, 2, 0): in order 5, 3, 2, 1, so the denominator is 5 - (2 + 1) / 2 = 3.5."""
    logits = torch.tensor([[5.0, 1.0, 3.0, 2.0, 0.0]] * 2)
    value = aimed_dlr(logits, torch.tensor([0, 0]), torch.tensor([2, 4]))
    torch.testing.assert_close(value, torch.tensor([-2 / 3.5, -5 / 3.5]))


def test_there_are_no_more_classes_than_the_model_has() -> None:
    """A pass for the order of the classes; for each of three, five steps and the points where they end."""
    seen: list[int] = []
    model, (inputs, _) = network(classes=4, dummies=0), batch(6, classes=4)
    targets = predictions(model, inputs)
    model.register_forward_hook(lambda module, given, logits: seen.append(len(logits)))
    Attack("apgd-t", 1e-6, steps=5, target_classes=9)(model, inputs, targets)
    assert seen == [6] * (1 + 3 * (5 + 1))
