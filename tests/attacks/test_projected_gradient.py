"""FGSM and PGD: the closed-form optimum of linear models, and a transcription that takes one sample at a time."""

import pytest
import torch
from torch import Tensor, nn

import durm
from durm.attacks import Attack, fgsm, pgd
from tests.attacks.small import batch, linear, network, plain_pgd, predictions, real_loss, two_classes


def worst_of_linear(model: nn.Linear, inputs: Tensor, targets: Tensor, eps: float, norm: str) -> Tensor:
    """The point of the ball where the two-class linear model's loss is highest, away from the walls of the box."""
    away = model.weight.detach()[1 - targets] - model.weight.detach()[targets]
    change = away.sign() if norm == "linf" else away / away.norm(dim=1, keepdim=True)
    return (inputs + eps * change).clamp(0, 1)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("loss", ["ce", "cw"])
@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("kind", ["fgsm", "pgd", "apgd"])
def test_linear_models_are_attacked_best(kind: str, norm: str, loss: str, targeted: bool) -> None:
    model = two_classes()
    inputs, targets = batch(16, (6,), 2)
    inputs = 0.3 + 0.4 * inputs  # so that the box is not reached
    attack = Attack(kind, 0.1, norm, steps=8, random_start=False, loss=loss, targeted=targeted)
    best = worst_of_linear(model, inputs, 1 - targets if targeted else targets, 0.1, norm)
    torch.testing.assert_close(attack(model, inputs, targets), best)


def test_in_linf_the_box_cuts_the_optimum_off_and_a_random_start_does_not_matter() -> None:
    model = two_classes()
    inputs, targets = batch(16, (6,), 2)
    best = worst_of_linear(model, inputs, targets, 0.4, "linf")
    assert ((best == 0) | (best == 1)).any()
    torch.testing.assert_close(fgsm(model, inputs, targets, eps=0.4), best)
    torch.testing.assert_close(pgd(model, inputs, targets, eps=0.4), best)


def test_in_l2_steps_from_a_random_start_come_near_the_optimum() -> None:
    model = two_classes()
    inputs, targets = batch(16, (6,), 2)
    inputs = 0.4 + 0.2 * inputs
    best = worst_of_linear(model, inputs, targets, 0.2, "l2")
    found = pgd(model, inputs, targets, eps=0.2, norm="l2", steps=60, step_size=0.1)
    torch.testing.assert_close(real_loss(model, found, targets), real_loss(model, best, targets), rtol=1e-3, atol=0)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("steps", [1, 7])
def test_pgd_is_the_loop_one_writes_by_hand(norm: str, steps: int) -> None:
    """Best by (success, loss); the last of several points does not count for samples that are fooled before."""
    model = durm.narrow(network(dummies=2))
    inputs, targets = batch(12)
    eps, size = (0.05, 0.02) if norm == "linf" else (0.3, 0.1)
    ours = pgd(model, inputs, targets, eps=eps, norm=norm, steps=steps, step_size=size, random_start=False)
    last_counted = 0
    for sample, target, found in zip(inputs, targets.tolist(), ours, strict=True):
        path = plain_pgd(model, sample, target, eps, size, steps, norm)
        fooled_before = any(success for success, _, _ in path[:-1])
        counted = path[:-1] if fooled_before and steps > 1 else path
        torch.testing.assert_close(found, max(counted, key=lambda point: point[:2])[2], rtol=0, atol=1e-10)
        last_counted += counted is path
    assert last_counted if steps == 7 else last_counted == 12


def test_the_step_sizes_that_are_left_out() -> None:
    model, (inputs, targets) = network(), batch()
    for kind, steps, size in (("fgsm", 1, 0.03), ("pgd", 6, 2.5 * 0.03 / 6), ("apgd", 6, 0.06)):
        default, said = Attack(kind, 0.03, steps=steps), Attack(kind, 0.03, steps=steps, step_size=size)
        assert torch.equal(default(model, inputs, targets), said(model, inputs, targets))


def test_fgsm_is_one_step_from_the_inputs() -> None:
    model, (inputs, targets) = network(), batch()
    leaf = inputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(model(leaf), targets), leaf)
    stepped = (inputs + 0.03 * gradient.sign()).clamp(0, 1)
    stays = real_loss(model, stepped, targets) < real_loss(model, inputs, targets)
    expected = torch.where(stays[:, None, None, None], inputs, stepped)
    torch.testing.assert_close(fgsm(model, inputs, targets, eps=0.03), stepped, rtol=0, atol=1e-12)
    kept = fgsm(model, inputs, targets, eps=0.03, keep_best=True)
    torch.testing.assert_close(kept, expected, rtol=0, atol=1e-12)


def test_fgsm_takes_one_pass_and_keeps_the_better_point_only_where_it_is_asked_to() -> None:
    """z = (|x - 0.45|, 0.2): at 0.5 the way down is to the left, and a step of 0.3 comes out higher beyond the valley.

    So for class 0 the loss at 0.2, where z_0 = 0.25, is lower than at 0.5, where it is 0.05.
    """

    class Valley(nn.Module):
        seen = 0

        def forward(self, inputs: Tensor) -> Tensor:
            self.seen += 1
            return torch.cat([(inputs - 0.45).abs(), torch.full_like(inputs, 0.2)], 1)

    model, point = Valley(), torch.tensor([[0.5]])
    for keep_best, expected, passes in ((False, 0.2, 1), (True, 0.5, 2)):
        model.seen = 0
        found = fgsm(model, point, torch.tensor([0]), eps=0.3, keep_best=keep_best)
        assert (found.item(), model.seen) == (pytest.approx(expected), passes)


def test_dummies_far_below_make_full_real() -> None:
    model = network(dummies=2)
    with torch.no_grad():
        model[-1].bias[5:] = -1e9
    inputs, targets = batch()
    real, full = (pgd(model, inputs, targets, eps=0.05, through=through) for through in ("real", "full"))
    torch.testing.assert_close(full, real, rtol=0, atol=1e-9)


def test_through_real_a_widened_model_is_attacked_as_the_narrowed_one() -> None:
    model, (inputs, targets) = network(), batch()
    widened = pgd(model, inputs, targets, eps=0.05)
    with durm.full_logits(model):  # a caller's context does not change what is attacked
        assert torch.equal(pgd(model, inputs, targets, eps=0.05), widened)
    assert not torch.equal(pgd(model, inputs, targets, eps=0.05, through="full"), widened)
    assert torch.equal(pgd(durm.narrow(model), inputs, targets, eps=0.05), widened)


def test_into_a_dummy() -> None:
    """z = x, d = 2 x_0 - 1: a sample goes into the dummy by raising x_0, whatever its label."""
    model = durm.widen(linear(torch.eye(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)), 1)
    with torch.no_grad():
        model.weight[2], model.bias[2] = torch.tensor([4.0, 0.0]), -1.0
    inputs = torch.tensor([[0.3, 0.5]] * 2, dtype=torch.float64)
    for loss in ("ce", "cw"):
        found = pgd(model.eval(), inputs, torch.tensor([0, 1]), eps=0.1, through="dummy", loss=loss)
        torch.testing.assert_close(found[0], found[1])
        assert found[0, 0].item() == pytest.approx(0.4)
        with durm.full_logits(model):
            assert durm.dummy_hits(model(found), 2).all()


def test_targeted_attacks_reach_the_wanted_class() -> None:
    model, (inputs, _) = network(), batch(20)
    wanted = (predictions(model, inputs) + 1) % 5
    for kind in ("pgd", "apgd"):
        for loss in ("ce", "cw", "dlr"):
            found = Attack(kind, 0.3, steps=30, loss=loss, targeted=True)(model, inputs, wanted)
            assert (predictions(model, found) == wanted).float().mean() > 0.8
