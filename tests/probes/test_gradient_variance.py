"""Per-class gradient variances, against torch.var over gradients that autograd gives sample by sample."""

import pytest
import torch

import durm
from durm.probes import watch
from durm.probes._running import CHUNK, Moments
from tests.probes.small import CLASSES, batches, close, logit_gradients, network, train


@pytest.mark.parametrize("dummies", [0, 2])
def test_each_epoch_has_the_variance_over_its_own_samples(dummies: int) -> None:
    model = network(dummies)
    watching = watch(model, ["gradient_variance"])
    seen = train(model, [batches(seed=1), batches((4, 6, 2, 8), seed=2)], watching)
    result = watching.results()["gradient_variance"]
    assert result["samples"] == [13, 20]
    for epoch, steps in enumerate(seen):
        gradients = logit_gradients(steps)[:, :CLASSES]
        close(result["variance"][epoch], gradients.var(0))
        close(result["mean"][epoch], gradients.mean(0))


def test_the_means_add_up_to_minus_the_mean_of_p_d() -> None:
    """Σ_c ∂L/∂z_c = −p_D: with dummies the mean that Theorem 1 leaves alone is moved."""
    model = network()
    watching = watch(model, ["gradient_variance", "dummy_mass"])
    train(model, [batches(), batches()], watching)
    results = watching.results()
    for mean, mass in zip(results["gradient_variance"]["mean"], results["dummy_mass"]["mass"], strict=True):
        assert sum(mean) == pytest.approx(-mass, rel=1e-6)
        assert mass > 0.01


def test_one_sample_has_no_variance() -> None:
    model = network()
    watching = watch(model, ["gradient_variance"])
    train(model, [batches((1,))], watching)
    assert watching.results()["gradient_variance"]["variance"] == [[None] * CLASSES]


@pytest.mark.parametrize("loss", [{"label_smoothing": 0.1}, {"ignore_index": 2}])
def test_options_of_the_loss(loss: dict[str, float]) -> None:
    model = network()
    watching = watch(model, ["gradient_variance"], **loss)
    (steps,) = train(model, [batches((5, 7))], watching, **loss)
    gradients = logit_gradients(steps, reduction="sum", **loss)
    labels = torch.cat([targets for _, targets in steps])
    if "ignore_index" in loss:
        assert 0 < (labels == 2).sum() < 12
        gradients = gradients[labels != 2]
    close(watching.results()["gradient_variance"]["variance"][0], gradients[:, :CLASSES].var(0))
    assert watching.results()["gradient_variance"]["samples"] == [len(gradients)]


def test_a_batch_that_does_not_count_at_all() -> None:
    model = network()
    watching = watch(model, ["gradient_variance"])
    logits, ignored = model(torch.randn(4, 4)), torch.full((4,), -100)
    watching.step(logits, ignored)
    watching.step(logits, torch.tensor([0, 1, 2, -100]))
    watching.step(logits, ignored)
    watching.epoch()
    result = watching.results()["gradient_variance"]
    assert result["samples"] == [3]
    gradients = logit_gradients([(logits.detach()[:3], torch.tensor([0, 1, 2]))])
    close(result["variance"][0], gradients[:, :CLASSES].var(0))


def test_soft_targets() -> None:
    soft = [(inputs, torch.rand(len(inputs), CLASSES).softmax(1)) for inputs, _ in batches()]
    model = network()
    watching = watch(model, ["gradient_variance"])
    (steps,) = train(model, [soft], watching)
    close(watching.results()["gradient_variance"]["variance"][0], logit_gradients(steps)[:, :CLASSES].var(0))


@pytest.mark.parametrize("soft", [False, True])
def test_pixels_are_samples(soft: bool) -> None:
    torch.manual_seed(0)
    model = durm.widen(torch.nn.Conv2d(2, CLASSES, 1), 1)
    logits = model(torch.randn(2, 2, 3, 5))
    targets = torch.randn(2, CLASSES, 3, 5).softmax(1) if soft else torch.randint(CLASSES, (2, 3, 5))
    watching = watch(model, ["gradient_variance"])
    watching.step(logits, targets)
    watching.epoch()
    flat = targets.permute(0, 2, 3, 1).reshape(-1, CLASSES) if soft else targets.reshape(-1)
    gradients = logit_gradients([(logits.detach().permute(0, 2, 3, 1).reshape(-1, CLASSES + 1), flat)])
    result = watching.results()["gradient_variance"]
    close(result["variance"][0], gradients[:, :CLASSES].var(0))
    assert result["samples"] == [30]


def test_moments_of_more_rows_than_are_widened_at_once() -> None:
    """Far from 0, where the difference of two sums would have lost all digits."""
    values = 1e6 + torch.randn(CHUNK + 10, 2, dtype=torch.float64)
    moments = Moments()
    moments.add(values, torch.ones(len(values), dtype=torch.bool))
    count, mean, variance = moments.take()
    assert count == len(values)
    torch.testing.assert_close(mean, values.mean(0))
    torch.testing.assert_close(variance, values.var(0), rtol=1e-9, atol=0)
