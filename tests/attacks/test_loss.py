"""The losses and the three surfaces, by numbers worked out by hand and by closed forms."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import durm
from durm.attacks.loss import LOSSES, AttackLoss, dlr, dummy_log_mass, margin, targeted_dlr

LOGITS = torch.tensor([[4.0, 1.0, 3.0, -1.0], [0.0, 2.0, 1.0, 5.0]], dtype=torch.float64)


def value(through: str, loss: str, logits: Tensor, targets: list[int], classes: int, targeted: bool = False) -> Tensor:
    return AttackLoss(through, loss, targeted)(logits, torch.tensor(targets), classes)[0]


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_margin_by_hand() -> None:
    """Of class 0: 3 - 4 and 5 - 0; of class 2: 4 - 3 and 5 - 1."""
    torch.testing.assert_close(margin(LOGITS, torch.tensor([0, 0])), double(-1, 5))
    torch.testing.assert_close(margin(LOGITS, torch.tensor([2, 2])), double(1, 4))


def test_dlr_by_hand() -> None:
    """In order the logits are 4, 3, 1, -1 and 5, 2, 1, 0: margins over 4 - 1 and 5 - 1."""
    torch.testing.assert_close(dlr(LOGITS, torch.tensor([0, 0])), double(-1 / 3, 5 / 4))
    torch.testing.assert_close(dlr(LOGITS, torch.tensor([2, 2])), double(1 / 3, 4 / 4))


def test_targeted_dlr_by_hand() -> None:
    """Denominators 4 - (1 - 1) / 2 = 4 and 5 - (1 + 0) / 2 = 4.5; wanted are class 2 and class 3."""
    torch.testing.assert_close(targeted_dlr(LOGITS, torch.tensor([2, 3])), double(-1 / 4, 3 / 4.5))


def test_dlr_knows_neither_shift_nor_scale() -> None:
    targets = torch.tensor([0, 2])
    torch.testing.assert_close(dlr(LOGITS, targets), dlr(1000 * LOGITS - 7, targets))
    torch.testing.assert_close(targeted_dlr(LOGITS, targets), targeted_dlr(1000 * LOGITS - 7, targets))


def test_equal_logits_have_finite_losses() -> None:
    logits = torch.zeros(1, 5, requires_grad=True)
    for loss in (margin, dlr, targeted_dlr):
        (gradient,) = torch.autograd.grad(loss(logits, torch.tensor([0])).sum(), logits)
        assert gradient.isfinite().all()


def test_surfaces_by_hand() -> None:
    """Two classes and two dummies, e^logits = (4, 2, 1, 3), and the sample is of class 1."""
    logits = double(4, 2, 1, 3).log()[None]
    assert value("real", "ce", logits, [1], 2).item() == pytest.approx(-math.log(2 / 6))
    assert value("full", "ce", logits, [1], 2).item() == pytest.approx(-math.log(2 / 10))
    assert value("dummy", "ce", logits, [1], 2).item() == pytest.approx(math.log(4 / 10))
    assert value("real", "cw", logits, [0], 2).item() == pytest.approx(math.log(2 / 4))
    assert value("full", "cw", logits, [0], 2).item() == pytest.approx(math.log(3 / 4))
    assert value("dummy", "cw", logits, [0], 2).item() == pytest.approx(math.log(3 / 4))
    assert value("full", "dlr", logits, [0], 2).item() == pytest.approx(math.log(3 / 4) / math.log(4 / 2))
    for loss in ("ce", "cw"):
        assert torch.equal(value("full", loss, logits, [1], 2, True), -value("full", loss, logits, [1], 2))


def test_success_is_over_the_real_logits() -> None:
    """A dummy has the largest logit, but a narrowed model still gives the first sample's class, 0."""
    logits = torch.tensor([[2.0, 1.0, 3.0], [1.0, 2.0, 0.0]])
    targets = torch.tensor([0, 0])
    for through in ("real", "full"):
        assert AttackLoss(through, "ce", False)(logits, targets, 2)[1].tolist() == [False, True]
        assert AttackLoss(through, "ce", True)(logits, targets, 2)[1].tolist() == [True, False]
    assert AttackLoss("dummy", "ce", False)(logits, targets, 2)[1].tolist() == [True, False]


def test_gradient_of_the_log_dummy_mass() -> None:
    """d log p_D / d d_j = p_j / p_D - p_j, and d log p_D / d z_c = -p_c."""
    logits = torch.randn(7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (gradient,) = torch.autograd.grad(dummy_log_mass(logits[:, :4], logits[:, 4:]).sum(), logits)
    p = (logits.detach().exp().T / logits.detach().exp().sum(1)).T
    mass = p[:, 4:].sum(1, keepdim=True)
    torch.testing.assert_close(gradient, torch.cat([-p[:, :4], p[:, 4:] / mass - p[:, 4:]], 1))


def test_log_dummy_mass_has_a_gradient_where_the_mass_underflows() -> None:
    logits = torch.tensor([[500.0, 0.0, 0.0]], requires_grad=True)
    loss = dummy_log_mass(logits[:, :2], logits[:, 2:])
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert durm.dummy_mass(logits.detach(), 2).item() == 0
    assert loss.item() == -500
    assert gradient.tolist() == [[-1, 0, 1]]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("targeted", [False, True])
def test_full_is_real_without_dummies_and_with_dummies_far_below(loss: str, targeted: bool) -> None:
    logits, targets = LOGITS, [0, 2]
    real = value("real", loss, logits, targets, 4, targeted)
    assert torch.equal(value("full", loss, logits, targets, 4, targeted), real)
    masked = F.pad(logits, (0, 2), value=-1e9)
    assert torch.equal(value("full", loss, masked, targets, 4, targeted), real)
    assert torch.equal(value("real", loss, masked, targets, 4, targeted), real)


@pytest.mark.parametrize(
    ("settings", "size", "message"),
    [
        (("reel", "ce", False), None, "through='reel': expected one of 'real', 'full', 'dummy'; did you mean 'real'"),
        (("real", "mse", False), None, "loss='mse': expected one of 'ce', 'cw', 'dlr'$"),
        (("dummy", "ce", True), None, "through='dummy' wants the dummies, so it cannot be targeted"),
        (("dummy", "dlr", False), None, "loss='dlr' has no meaning with through='dummy'"),
        (("dummy", "ce", False), (3, 0), "through='dummy': this model has no dummies"),
        (("real", "dlr", False), (2, 2), "the DLR loss needs at least 3 logits, and there are 2"),
        (("full", "dlr", False), (2, 0), "the DLR loss needs at least 3 logits, and there are 2"),
        (("real", "dlr", True), (3, 2), "the targeted DLR loss needs at least 4 logits, and there are 3"),
    ],
)
def test_goals_that_cannot_be(settings: tuple, size: tuple | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttackLoss(*settings).check(*size or (9, 9))


def test_dummies_count_as_logits_of_the_full_surface() -> None:
    AttackLoss("full", "dlr", False).check(2, 1)
    AttackLoss("full", "dlr", True).check(2, 2)
