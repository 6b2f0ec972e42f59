"""Objectives against their formulas written out, and the traps that dummies lay for them."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm
from durm import _torchvision as _torchvision  # before timm
from durm._random import derived_seed
from durm.errors import InputError
from durm.methods import OBJECTIVES, Batch, parse_method
from tests.methods.making import objective

CLASSES, DUMMIES = 4, 2


def widened() -> nn.Module:
    torch.manual_seed(0)
    return durm.widen(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, CLASSES)), DUMMIES).double()


def batch(step: int = 7) -> Batch:
    random = torch.Generator().manual_seed(1)
    inputs = torch.randn(8, 3, generator=random, dtype=torch.float64)
    return Batch(inputs, torch.randint(0, CLASSES, (8,), generator=random), step)


def test_mixup_is_the_mean_of_two_cross_entropies() -> None:
    """−λ log p_i − (1 − λ) log p_j, the probabilities over all C + C_d outputs, at the mixed inputs."""
    model, given = widened(), batch()
    random = np.random.default_rng(derived_seed(3, "mixup", 7))
    share, partner = random.beta(0.4, 0.4), torch.from_numpy(random.permutation(8))
    mixed = share * given.inputs + (1 - share) * given.inputs[partner]
    log_p = torch.log_softmax(model(mixed), 1)
    rows = torch.arange(8)
    expected = -(share * log_p[rows, given.targets] + (1 - share) * log_p[rows, given.targets[partner]]).mean()
    loss = objective("mixup", CLASSES, alpha=0.4, seed=3).loss(model, given)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)


def test_mixed_targets_have_no_mass_on_dummies() -> None:
    """Their width is C, and they add up to 1 there. timm's Mixup smooths over all outputs by default."""
    _, targets = objective("mixup", CLASSES).mix(batch())
    assert targets.shape == (8, CLASSES)
    assert torch.allclose(targets.sum(1), torch.ones(8, dtype=targets.dtype))
    timm_mixup = pytest.importorskip("timm.data.mixup")
    theirs = timm_mixup.mixup_target(batch().targets, CLASSES + DUMMIES, lam=0.5, smoothing=0.1)
    assert (theirs[:, CLASSES:] > 0).all()


def test_the_gradient_of_mixup_only_pushes_the_dummies_down() -> None:
    """∂L/∂d_j = p_j ≥ 0, the mean over the batch, as for plain targets."""
    model, given = widened(), batch()
    logits: list[Tensor] = []

    def keep(module: nn.Module, args: object, output: Tensor) -> None:
        output.retain_grad()
        logits.append(output)

    model.register_forward_hook(keep)
    objective("mixup", CLASSES, label_smoothing=0.1).loss(model, given).backward()
    gradient = logits[0].grad
    assert gradient is not None
    expected = torch.softmax(logits[0], 1)[:, CLASSES:] / 8
    assert torch.allclose(gradient[:, CLASSES:], expected)


def test_mixup_depends_on_seed_and_step_alone() -> None:
    mix = objective("mixup", CLASSES, seed=1).mix
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, again = mix(batch()), mix(batch())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], mix(batch(step=8))[0])
    assert not torch.equal(first[0], objective("mixup", CLASSES, seed=2).mix(batch())[0])


def test_tokens_cannot_be_mixed() -> None:
    with pytest.raises(InputError, match="tokens of text cannot be mixed"):
        objective("mixup", CLASSES).mix(Batch(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, dtype=torch.long)))


def test_logit_adjustment_adds_the_log_of_the_prior() -> None:
    """Counts 8, 4, 2, 2 are priors 1/2, 1/4, 1/8, 1/8; a dummy has that of the rarest class."""
    model, given = widened(), batch()
    method = objective("logit-adjustment", CLASSES, class_counts=(8, 4, 2, 2))
    prior = torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 8, 1 / 8, 1 / 8], dtype=torch.float64)
    expected = F.cross_entropy(model(given.inputs) + prior.log(), given.targets)
    assert method.loss(model, given).item() == pytest.approx(expected.item(), rel=1e-6)
    assert method.log_priors(CLASSES).shape == (CLASSES,)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("erm", ("erm", None)),
        ("mixup", ("mixup", None)),
        ("ema", ("erm", "ema")),
        ("mixup+swa", ("mixup", "swa")),
        ("swa+mixup", ("mixup", "swa")),
    ],
)
def test_a_method_is_an_objective_an_averager_or_both(name: str, parts: tuple[str, str | None]) -> None:
    method = parse_method(name)
    assert (method.objective.name, method.average and method.average.name) == parts
    assert parts[0] in OBJECTIVES.names()


@pytest.mark.parametrize(
    ("name", "message"),
    [("mixp", "did you mean 'mixup'"), ("ema+swa", "two of a kind"), ("erm+mixup", "two of a kind"), ("", "unknown")],
)
def test_other_methods_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_method(name)
