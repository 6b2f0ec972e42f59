"""The objectives of domain generalization against numbers worked out by hand and against the published formulas."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import durm
from durm.errors import InputError
from durm.methods import OBJECTIVES, Batch, Objective
from durm.methods.coral import covariance
from durm.methods.dann import discriminator, reverse_gradient
from durm.methods.mmd import GAMMAS, kernel, squared_mmd
from durm.training.schedules import learning_rate, make_optimizer
from durm.training.trial import TrainSpec
from tests.methods.making import objective

CLASSES, DOMAINS, EACH = 4, 3, 5


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def linear(weight: list[list[float]]) -> nn.Linear:
    """A layer with these rows and no bias."""
    layer = nn.Linear(len(weight[0]), len(weight), bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(tensor(weight))
    return layer


def two_layers(features: list[list[float]], head: list[list[float]]) -> nn.Sequential:
    return nn.Sequential(linear(features), linear(head))


def network(dummies: int = 0, features: int = 6) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, features), nn.Tanh(), nn.Linear(features, CLASSES)).double()
    durm.widen(model, dummies)
    return model


def batch(step: int = 7) -> Batch:
    """Five samples of each of three domains, which lie apart."""
    random = torch.Generator().manual_seed(1)
    domains = torch.arange(DOMAINS).repeat_interleave(EACH)
    inputs = torch.randn(DOMAINS * EACH, 3, generator=random, dtype=torch.float64) + domains.unsqueeze(1)
    return Batch(inputs, torch.randint(0, CLASSES, (DOMAINS * EACH,), generator=random), step, domains)


def made(name: str, model: nn.Module, **settings: Any) -> Any:
    return objective(name, CLASSES, **{"domains": DOMAINS, "model": model, "seed": 3, **settings})


def extra(made: Objective) -> nn.Module:
    """The module that is trained with the model, in 64 bits; an empty one if there is none."""
    return nn.Identity() if made.extra_module is None else made.extra_module.double()


def gradients(loss: Tensor, model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


# DANN.


@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
def test_dann_reverses_the_gradient_of_the_domains_on_its_way_to_the_features_alone(weight: float) -> None:
    """Two samples, x_1 = (1, 1) of class 0 and domain 0, x_2 = (2, 2) of class 1 and domain 1; f = W x with W = I.

    The head is V = I and the discriminator U = [[1, −1], [−1, 1]], so all logits of a sample are equal and all
    probabilities 1/2: the loss is 2 ln 2. With (p − y)/2 = ∓(1/4, −1/4) for both,

        of the cross-entropy    ∂/∂f_1 = (−1/4, 1/4)   ∂/∂f_2 = (1/4, −1/4)
        of the discriminator    ∂/∂f_1 = (−1/2, 1/2)   ∂/∂f_2 = (1/2, −1/2)

    and what arrives at W is the first minus λ times the second, each times x: [[a, a], [−a, −a]], a = 1/4 − λ/2. V and
    U get [[1/4, 1/4], [−1/4, −1/4]] each, whatever λ is.
    """
    model = two_layers([[1, 0], [0, 1]], [[1, 0], [0, 1]])
    method = objective("dann", 2, domains=2, model=model, weight=weight, schedule="constant", clip_ratio=None)
    told = method.extra_module = linear([[1, -1], [-1, 1]])
    both = torch.tensor([0, 1])
    loss = method.loss(model, Batch(tensor([[1, 1], [2, 2]]), both, domains=both))
    loss.backward()
    assert loss.item() == pytest.approx(2 * math.log(2), abs=1e-12)
    a = 1 / 4 - weight / 2
    assert torch.allclose(model[0].weight.grad, tensor([[a, a], [-a, -a]]), atol=1e-12)
    for layer in (model[1], told):
        assert torch.allclose(layer.weight.grad, tensor([[0.25, 0.25], [-0.25, -0.25]]), atol=1e-12)


def test_a_reversed_gradient_leaves_the_features_as_they_are() -> None:
    features = tensor([[1.0, -2.0], [3.0, 4.0]]).requires_grad_()
    same = reverse_gradient(features, 2.5)
    assert torch.equal(same, features)
    (gradient,) = torch.autograd.grad((same * tensor([[1.0, 2.0], [3.0, 4.0]])).sum(), features)
    assert torch.equal(gradient, tensor([[-2.5, -5.0], [-7.5, -10.0]]))


@pytest.mark.parametrize("dummies", [0, 2])
def test_without_weight_the_model_of_dann_has_the_gradient_of_erm(dummies: int) -> None:
    model, given = network(dummies), batch()
    method = made("dann", model, weight=0.0)
    method.extra_module.double()
    ours = gradients(method.loss(model, given), model)
    erm = gradients(torch.nn.functional.cross_entropy(model(given.inputs), given.targets), model)
    assert all(torch.equal(one, other) for one, other in zip(ours, erm, strict=True))


def test_the_discriminator_is_a_function_of_the_seed_and_draws_nothing_from_the_global_generator() -> None:
    model = network()

    def weights(seed: int, global_seed: int) -> Tensor:
        torch.manual_seed(global_seed)
        state = torch.get_rng_state()
        method = objective("dann", CLASSES, domains=DOMAINS, model=model, seed=seed)
        assert torch.equal(torch.get_rng_state(), state)
        return torch.cat([parameter.detach().flatten() for parameter in method.extra_module.parameters()])

    assert torch.equal(weights(1, 5), weights(1, 6))
    assert not torch.equal(weights(1, 5), weights(2, 5))


def test_the_discriminator_is_the_same_for_every_number_of_dummies() -> None:
    one, other = (made("dann", network(dummies)).extra_module.state_dict() for dummies in (0, 2))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_the_discriminator_has_two_hidden_layers_of_256_units() -> None:
    shapes = [tuple(layer.weight.shape) for layer in discriminator(5, 3, 256).modules() if isinstance(layer, nn.Linear)]
    assert shapes == [(256, 5), (256, 256), (3, 256)]


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_the_discriminator_has_a_learning_rate_of_its_own(optimizer: str) -> None:
    """One group for the model, one for the discriminator; the loop multiplies the learning rate by `lr_scale`."""
    model = network()
    method = made("dann", model, lr_scale=10.0)
    spec = TrainSpec.model_validate({"optimizer": optimizer, "lr": 0.1, "schedule": "constant"})
    groups = make_optimizer(spec, model.parameters(), method.extra_module, method.lr_scale).param_groups
    assert [group["lr_scale"] for group in groups] == [1.0, 10.0]
    assert groups[0]["params"] == list(model.parameters())
    assert groups[1]["params"] == list(method.extra_module.parameters())
    assert learning_rate(spec, 0, 10, 5) * groups[1]["lr_scale"] == pytest.approx(1.0)


def test_ganins_schedule() -> None:
    """λ_p = 2/(1 + e^(−10p)) − 1 with p the share of the steps that are done: 0, tanh(2.5), tanh(5) at 0, 1/2 and 1."""
    method = made("dann", network(), weight=3.0, steps=200)
    assert [method.weight(step) for step in (0, 100, 200)] == pytest.approx(
        [0, 3 * math.tanh(2.5), 3 * math.tanh(5)], abs=1e-12
    )
    assert made("dann", network(), weight=3.0, schedule="constant", steps=200).weight(0) == 3.0
    model, given = network(), batch(step=0)
    method = made("dann", model, steps=200)  # in the first step the model has the gradient of ERM
    extra(method)
    ours = gradients(method.loss(model, given), model)
    erm = gradients(torch.nn.functional.cross_entropy(model(given.inputs), given.targets), model)
    assert all(torch.equal(one, other) for one, other in zip(ours, erm, strict=True))


@pytest.mark.parametrize("dummies", [0, 2])
@pytest.mark.parametrize("ratio", [0.01, 0.3, 1e6])
def test_the_reversed_gradient_is_clipped_to_a_multiple_of_that_of_the_labels(ratio: float, dummies: int) -> None:
    """At the features, r of the labels and s of the domains times −λ: r + s · min(1, ratio ‖r‖ / ‖s‖) arrives."""
    model, given = network(dummies), batch()
    method = made("dann", model, weight=4.0, schedule="constant", clip_ratio=ratio)
    told = extra(method)
    features = model[1](model[0](given.inputs)).detach().requires_grad_()
    (labels,) = torch.autograd.grad(torch.nn.functional.cross_entropy(model[2](features), given.targets), features)
    (domains,) = torch.autograd.grad(torch.nn.functional.cross_entropy(told(features), given.domains), features)
    reversed_gradient = -4 * domains
    share = min(1, ratio * (labels.norm() / reversed_gradient.norm()).item())
    assert (share < 1) == (ratio < 1)
    arriving: list[Tensor] = []
    model[1].register_full_backward_hook(lambda module, inputs, outputs: arriving.append(outputs[0]))
    method.loss(model, given).backward()
    assert torch.allclose(arriving[-1], labels + share * reversed_gradient, atol=1e-8)
    for parameter in told.parameters():  # the discriminator's own is not clipped
        assert parameter.grad is not None
    own = torch.autograd.grad(torch.nn.functional.cross_entropy(told(features), given.domains), list(told.parameters()))
    assert all(torch.allclose(p.grad, g, atol=1e-12) for p, g in zip(told.parameters(), own, strict=True))


def test_the_discriminator_has_a_weight_decay_of_its_own() -> None:
    model = network()
    for decay, expected in ((None, 5e-4), (0.0, 0.0), (0.1, 0.1)):
        method = made("dann", model, weight_decay=decay)
        optimizer = make_optimizer(
            TrainSpec(), model.parameters(), method.extra_module, method.lr_scale, method.extra_weight_decay
        )
        assert [group["weight_decay"] for group in optimizer.param_groups] == [5e-4, expected]


# V-REx.


@pytest.mark.parametrize(
    ("step", "weight", "anneal", "expected"),
    [
        (0, 10.0, 0, 1.5 + 10 * 3.5 / 3),
        (4, 10.0, 5, 1.5 + 3.5 / 3),
        (5, 10.0, 5, 1.5 + 10 * 3.5 / 3),
        (6, 10.0, 5, 1.5 + 10 * 3.5 / 3),
        (4, 0.0, 5, 1.5 + 3.5 / 3),
        (5, 0.0, 5, 1.5),
    ],
)
def test_vrex_on_three_given_risks(step: int, weight: float, anneal: int, expected: float) -> None:
    """R = 1/2, 1, 3: their mean is 3/2 and their mean squared deviation (1 + 1/4 + 9/4) / 3 = 3.5/3.

    A sample of class 0 with logits (a, 0) has the cross-entropy log(1 + e^−a), which is R for a = −log(e^R − 1). Each
    domain has two samples, 0.2 above and below its risk, in an order in which the domains alternate.
    """
    risks = [risk + change for change in (-0.2, 0.2) for risk in (0.5, 1.0, 3.0)]
    logits = tensor([[-math.log(math.expm1(risk)), 0.0] for risk in risks])
    given = Batch(logits, torch.zeros(6, dtype=torch.long), step, torch.tensor([0, 1, 2, 0, 1, 2]))
    method = objective("vrex", 2, domains=3, weight=weight, anneal=anneal)
    assert method.loss(nn.Identity(), given).item() == pytest.approx(expected, abs=1e-9)


def test_equal_risks_have_no_penalty() -> None:
    given = Batch(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), 0, torch.tensor([0, 0, 1, 1]))
    method = objective("vrex", 2, domains=2, weight=1e6, anneal=0)
    assert method.loss(nn.Identity(), given).item() == pytest.approx(math.log(2), abs=1e-6)


# MMD.


def points(count: int, seed: int, width: int = 3, scale: float = 1.0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return scale * torch.randn(count, width, generator=random, dtype=torch.float64)


def plain_kernel(one: list[float], other: list[float]) -> float:
    squared = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
    return sum(math.exp(-(10.0**power) * squared) for power in range(-3, 4))


def plain_mmd(one: list[list[float]], other: list[list[float]]) -> float:
    def mean(first: list[list[float]], second: list[list[float]]) -> float:
        return sum(plain_kernel(a, b) for a in first for b in second) / (len(first) * len(second))

    return mean(one, one) + mean(other, other) - 2 * mean(one, other)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_mmd_is_a_double_loop_over_all_pairs(scale: float) -> None:
    one, other = points(4, 0, scale=scale), points(6, 1, scale=scale) + 0.5 * scale
    assert squared_mmd(one, other).item() == pytest.approx(plain_mmd(one.tolist(), other.tolist()), abs=1e-12)
    assert squared_mmd(one, other).item() > 0


def test_mmd_of_two_single_points() -> None:
    """At a distance of 1 it is 2 Σ_γ (1 − e^−γ) over the seven γ."""
    expected = 2 * sum(1 - math.exp(-gamma) for gamma in (0.001, 0.01, 0.1, 1, 10, 100, 1000))
    assert squared_mmd(tensor([[0.0, 0.0]]), tensor([[0.6, 0.8]])).item() == pytest.approx(expected, abs=1e-12)
    assert GAMMAS == (0.001, 0.01, 0.1, 1, 10, 100, 1000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_distributions_have_no_discrepancy(dtype: torch.dtype) -> None:
    """Also in another order; and the kernel of a point with itself is 7, far from the origin too."""
    same = points(8, 0).to(dtype)
    assert squared_mmd(same, same).item() == pytest.approx(0, abs=1e-6)
    assert squared_mmd(same, same.flip(0)).item() == pytest.approx(0, abs=1e-5 if dtype == torch.float32 else 1e-12)
    assert torch.equal(kernel(same + 1000, same + 1000).diagonal(), torch.full((8,), 7.0, dtype=dtype))


def test_the_gradient_of_mmd_is_the_closed_form() -> None:
    """∂/∂x_i = 2/n² Σ_j k'(x_i, x_j) − 2/(nm) Σ_j k'(x_i, y_j), k'(a, b) = −2 (a − b) Σ_γ γ e^(−γ‖a − b‖²).

    Two points of x are equal: what their distance of 0 gives must be 0 and not NaN.
    """
    one, other = points(4, 0, scale=0.3), points(6, 1, scale=0.3)
    one[3] = one[0]

    def pull(a: list[float], b: list[float]) -> list[float]:
        squared = sum((u - v) ** 2 for u, v in zip(a, b, strict=True))
        factor = -2 * sum(10.0**power * math.exp(-(10.0**power) * squared) for power in range(-3, 4))
        return [factor * (u - v) for u, v in zip(a, b, strict=True)]

    expected = []
    for a in one.tolist():
        own = [sum(column) * 2 / 16 for column in zip(*(pull(a, b) for b in one.tolist()), strict=True)]
        across = [sum(column) * 2 / 24 for column in zip(*(pull(a, b) for b in other.tolist()), strict=True)]
        expected.append([u - v for u, v in zip(own, across, strict=True)])
    one.requires_grad_()
    (gradient,) = torch.autograd.grad(squared_mmd(one, other), one)
    assert torch.allclose(gradient, tensor(expected), atol=1e-10)


def test_the_loss_of_mmd_is_that_of_erm_plus_the_mean_over_the_pairs_of_domains() -> None:
    model, given = network(2), batch()
    assert given.domains is not None
    features = torch.tanh(model[0](given.inputs)).tolist()
    parts = [features[EACH * domain : EACH * (domain + 1)] for domain in range(DOMAINS)]
    discrepancy = sum(plain_mmd(one, other) for one, other in combinations(parts, 2)) / 3
    cross_entropy = torch.nn.functional.cross_entropy(model(given.inputs), given.targets).item()
    order = torch.randperm(DOMAINS * EACH, generator=torch.Generator().manual_seed(2))
    mixed = Batch(given.inputs[order], given.targets[order], 7, given.domains[order])
    for each in (given, mixed):
        loss = made("mmd", model, weight=0.7).loss(model, each)
        assert loss.item() == pytest.approx(cross_entropy + 0.7 * discrepancy, abs=1e-10)


# Per domain or jointly.


def normalised(dummies: int) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, CLASSES)).double()
    durm.widen(model, dummies)
    return model.train()


@pytest.mark.parametrize("dummies", [0, 2])
@pytest.mark.parametrize("name", ["mmd", "coral", "groupdro"])
def test_batch_normalisation_per_domain_is_that_of_each_domain_alone(name: str, dummies: int) -> None:
    """As DomainBed forwards them: z = (a − mean_e a) / √(var_e a + 10⁻⁵) of each domain e, by hand; jointly, of all.

    The loss of a model without batch normalisation on what comes out must be the same.
    """
    given = batch()
    for forward_kind in ("per-domain", "joint"):
        model = normalised(dummies)
        before = given.inputs @ model[0].weight.T + model[0].bias
        parts = before.split(EACH) if forward_kind == "per-domain" else (before,)
        by_hand = torch.cat([(part - part.mean(0)) / (part.var(0, correction=0) + 1e-5).sqrt() for part in parts])
        rest = nn.Sequential(model[2], model[3])
        expected = made(name, rest, forward="joint").loss(rest, replace(given, inputs=by_hand))
        loss = made(name, model, forward=forward_kind).loss(model, given)
        assert loss.item() == pytest.approx(expected.item(), abs=1e-10)
        assert model[1].num_batches_tracked == (DOMAINS if forward_kind == "per-domain" else 1)


@pytest.mark.parametrize("name", ["mmd", "coral", "groupdro"])
def test_without_batch_normalisation_the_two_are_one(name: str) -> None:
    model, given = network(2), batch()
    one, other = (made(name, model, forward=kind).loss(model, given) for kind in ("joint", "per-domain"))
    assert one.item() == pytest.approx(other.item(), abs=1e-12)


# GroupDRO.


def test_groupdro_on_paper() -> None:
    """Risks ln 2, ln 4 and ln 8 with η = 1: q after one step ∝ (2, 4, 8), after two ∝ (4, 16, 64), a state goes on."""
    logits = tensor([[-math.log(math.expm1(math.log(value))), 0.0] for value in (2, 4, 8)])
    given = Batch(logits, torch.zeros(3, dtype=torch.long), 0, torch.tensor([0, 1, 2]))
    method = objective("groupdro", 2, domains=3, step_size=1.0)
    expected = (2 * math.log(2) + 4 * math.log(4) + 8 * math.log(8)) / 14
    assert method.loss(nn.Identity(), given).item() == pytest.approx(expected, abs=1e-12)
    assert method.weights.tolist() == pytest.approx([2 / 14, 4 / 14, 8 / 14], abs=1e-12)
    again = objective("groupdro", 2, domains=3, step_size=1.0)
    again.load_state_dict(method.state_dict())
    expected = (4 * math.log(2) + 16 * math.log(4) + 64 * math.log(8)) / 84
    for each in (method, again):
        assert each.loss(nn.Identity(), given).item() == pytest.approx(expected, abs=1e-12)


# CORAL.


def test_coral_on_paper() -> None:
    """X = (0, 0), (2, 0) and Y = (0, 1), (0, 3): means (1, 0) and (0, 2), covariances diag(2, 0) and diag(0, 2).

    mean (1, −2)² = 2.5 and mean of diag(2, −2)² over four entries = 2.
    """
    method = made("coral", network())
    one, other = tensor([[0, 0], [2, 0]]), tensor([[0, 1], [0, 3]])
    assert method.discrepancy(one, other).item() == pytest.approx(4.5, abs=1e-12)
    assert method.discrepancy(one, one.flip(0)).item() == pytest.approx(0, abs=1e-12)
    assert torch.allclose(covariance(points(7, 0)), torch.cov(points(7, 0).T), atol=1e-12)


# RSC.


def test_rsc_on_paper() -> None:
    """Features f = x, head rows w_0 = (2, 1, 0) and w_1 = (0, 1, 3); a third of the features, a third of the batch.

    ∂z_y/∂f = w_y, so the feature that is muted is the first for class 0 and the third for class 1:

        f          y  z       p_y                      muted      z       p_y                     fall
        (1, 0, 0)  0  (2, 0)  1/(1 + e⁻²) = 0.880797  (0, 0, 0)  (0, 0)  1/2                     0.380797
        (0, 1, 1)  1  (1, 4)  1/(1 + e⁻³) = 0.952574  (0, 1, 0)  (1, 1)  1/2                     0.452574
        (1, 1, 1)  0  (3, 4)  1/(1 + e)   = 0.268941  (0, 1, 1)  (1, 4)  1/(1 + e³) = 0.047426   0.221515

    The second falls most and is the one that keeps its muting. The loss is the mean of log(1 + e⁻²) = 0.126928,
    log 2 = 0.693147 and log(1 + e) = 1.313262. The gradient of the head is the mean of (p − y) f:

        w_0: −0.119203 (1, 0, 0) + 0.5 (0, 1, 0) − 0.731059 (1, 1, 1), over 3;  w_1: the opposite

    and what arrives at the features, (p − y) W of those that stay, over 3, times x: for the layer before, of which
    row k is Σ ∂L/∂f_k x, the third feature of the second sample counts for nothing.
    """
    model = two_layers([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[2, 1, 0], [0, 1, 3]])
    inputs, targets = tensor([[1, 0, 0], [0, 1, 1], [1, 1, 1]]), torch.tensor([0, 1, 0])
    method = objective("rsc", 2, model=model, features=1 / 3, batch=1 / 3)
    features = model[0](inputs)
    kept = method.stays(model[1](features), features, targets)
    assert kept.tolist() == [[1, 1, 1], [1, 1, 0], [1, 1, 1]]
    loss = method.loss(model, Batch(inputs, targets))
    assert loss.item() == pytest.approx((0.126928 + 0.693147 + 1.313262) / 3, abs=1e-6)
    loss.backward()
    row = [(-0.119203 - 0.731059) / 3, (0.5 - 0.731059) / 3, -0.731059 / 3]
    assert torch.allclose(model[1].weight.grad, tensor([row, [-value for value in row]]), atol=1e-6)
    # (p − y) W: −0.119203 (2, 0, −3); 0.5 (2, 0, −3), its third muted; −0.731059 (2, 0, −3)
    first, second, third = (
        [value * 2 / 3 * x for x in each]
        for value, each in ((-0.119203, (1, 0, 0)), (0.5, (0, 1, 1)), (-0.731059, (1, 1, 1)))
    )
    top = [sum(column) for column in zip(first, second, third, strict=True)]
    bottom = [-1.5 * (a + c) for a, c in zip(first, third, strict=True)]
    assert torch.allclose(model[0].weight.grad, tensor([top, [0, 0, 0], bottom]), atol=1e-6)


def test_rsc_on_paper_with_a_dummy() -> None:
    """The same with a dummy (0, 0, 5): p_y is among all three logits, and now the first sample falls most.

        f          z           p_y                          muted, z    p_y                              fall
        (1, 0, 0)  (2, 0 | 0)  e²/(e² + 2)      = 0.786986  (0, 0 | 0)  1/3                          0.453653
        (0, 1, 1)  (1, 4 | 5)  e⁴/(e + e⁴ + e⁵) = 0.265388  (1, 1 | 0)  e/(2e + 1)       = 0.422319  −0.156931
        (1, 1, 1)  (3, 4 | 5)  1/(1 + e + e²)   = 0.090031  (1, 4 | 5)  e/(e + e⁴ + e⁵)  = 0.013213  0.076818

    The loss is the mean of log 3 = 1.098612, −log 0.265388 = 1.326563 and log(1 + e + e²) = 2.407606.
    """
    model = two_layers([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[2, 1, 0], [0, 1, 3]])
    durm.widen(model, 1)
    with torch.no_grad():
        model[1].weight[2] = tensor([0, 0, 5])
    inputs, targets = tensor([[1, 0, 0], [0, 1, 1], [1, 1, 1]]), torch.tensor([0, 1, 0])
    method = objective("rsc", 2, model=model, features=1 / 3, batch=1 / 3)
    loss = method.loss(model, Batch(inputs, targets))
    assert loss.item() == pytest.approx((1.098612 + 1.326563 + 2.407606) / 3, abs=1e-6)


@pytest.mark.parametrize(
    ("width", "share", "muted"), [(6, 0.01, 1), (6, 0.34, 2), (6, 0.5, 3), (6, 0.99, 5), (5, 0.5, 3), (5, 0.25, 2)]
)
def test_rsc_mutes_a_share_of_the_features_of_each_sample(width: int, share: float, muted: int) -> None:
    """Those at or above the quantile 1 − share of the row of the class in the head, with the whole batch keeping it.

    Of five values the quantile 1/2 is the third, which is muted as well.
    """
    model, given = network(features=width), batch()
    method = made("rsc", model, features=share, batch=1.0)
    features = model[1](model[0](given.inputs))
    kept = method.stays(model[2](features), features, given.targets)
    for stays, target in zip(kept.tolist(), given.targets.tolist(), strict=True):
        row = model[2].weight[target].tolist()
        largest = sorted(range(width), key=row.__getitem__)[width - muted :]
        assert [place for place in range(width) if not stays[place]] == sorted(largest)


# One step of each, against the published formula.


Formula = Callable[[list[Tensor], Batch, list[Tensor]], tuple[Tensor, Tensor | None]]


def forward(weights: list[Tensor], inputs: Tensor) -> tuple[Tensor, Tensor]:
    """(features, logits) of the network, with nothing but products."""
    features = torch.tanh(inputs @ weights[0].T + weights[1])
    return features, features @ weights[2].T + weights[3]


def log_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """−log p_y of each sample."""
    return logits.exp().sum(1).log() - logits[torch.arange(len(targets)), targets]


def by_domain(values: Tensor, given: Batch) -> list[Tensor]:
    return list(values.split(EACH))  # as the batch was made


def erm(weights: list[Tensor], given: Batch, told: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    return log_loss(forward(weights, given.inputs)[1], given.targets).mean(), None


def dann(weights: list[Tensor], given: Batch, told: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Ganin et al.: the model minimises L_y − λ L_d, the discriminator L_d, at the same time; λ = 0.8."""
    features, logits = forward(weights, given.inputs)
    hidden = (features @ told[0].T + told[1]).clamp(min=0)
    hidden = (hidden @ told[2].T + told[3]).clamp(min=0)
    assert given.domains is not None
    domain_loss = log_loss(hidden @ told[4].T + told[5], given.domains).mean()
    return log_loss(logits, given.targets).mean() - 0.8 * domain_loss, domain_loss


def vrex(weights: list[Tensor], given: Batch, told: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Krueger et al.: the mean of the risks and β = 5 times their variance."""
    losses = log_loss(forward(weights, given.inputs)[1], given.targets)
    risks = [sum(part) / EACH for part in by_domain(losses, given)]  # type: ignore[arg-type]
    mean = sum(risks) / DOMAINS
    return mean + 5 * sum((risk - mean) ** 2 for risk in risks) / DOMAINS, None


def mmd(weights: list[Tensor], given: Batch, told: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Li et al. with Gaussian kernels: every pair of domains, all pairs of samples; the weight is 0.6."""
    features, logits = forward(weights, given.inputs)
    parts = by_domain(features, given)

    def mean(one: Tensor, other: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for a in one:
            for b in other:
                squared = ((a - b) ** 2).sum()
                total = total + sum(torch.exp(-gamma * squared) for gamma in (1e-3, 1e-2, 0.1, 1, 10, 100, 1000))
        return total / (len(one) * len(other))

    pairs = [mean(a, a) + mean(b, b) - 2 * mean(a, b) for a, b in combinations(parts, 2)]
    return log_loss(logits, given.targets).mean() + 0.6 * sum(pairs) / len(pairs), None


def coral(weights: list[Tensor], given: Batch, told: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """DomainBed's: the mean squared differences of the means and of the covariances; the weight is 0.9."""
    features, logits = forward(weights, given.inputs)
    parts = by_domain(features, given)

    def moments(part: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        means = [part[:, k].sum() / EACH for k in range(6)]
        away = [part[:, k] - means[k] for k in range(6)]
        return means, [(away[k] * away[m]).sum() / (EACH - 1) for k in range(6) for m in range(6)]

    distances = []
    for one, other in combinations(map(moments, parts), 2):
        for a, b in zip(one, other, strict=True):
            distances.append(sum((u - v) ** 2 for u, v in zip(a, b, strict=True)) / len(a))
    return log_loss(logits, given.targets).mean() + 0.9 * sum(distances) / DOMAINS, None  # type: ignore[return-value]


def groupdro(weights: list[Tensor], given: Batch, told: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Sagawa et al., the first step: q_e = exp(η R_e) / Σ exp(η R), η = 20; no gradient goes through q."""
    losses = log_loss(forward(weights, given.inputs)[1], given.targets)
    risks = [sum(part) / EACH for part in by_domain(losses, given)]  # type: ignore[arg-type]
    grown = [math.exp(20 * risk.item()) for risk in risks]
    return sum(q / sum(grown) * risk for q, risk in zip(grown, risks, strict=True)), None  # type: ignore[return-value]


def rsc(weights: list[Tensor], given: Batch, told: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Huang et al.: of the six features a third are muted, the two of the largest gradient; in a third of the samples,
    the five whose probability falls most.
    """
    features, logits = forward(weights, given.inputs)
    before = torch.exp(-log_loss(logits, given.targets)).tolist()
    masks, falls = [], []
    for index, target in enumerate(given.targets.tolist()):
        gradient = weights[2][target].tolist()
        strongest = sorted(range(6), key=lambda place: -gradient[place])[:2]
        mask = tensor([0.0 if place in strongest else 1.0 for place in range(6)])
        muted = (features[index] * mask) @ weights[2].T + weights[3]
        masks.append(mask)
        falls.append(before[index] - (muted[target].exp() / muted.exp().sum()).item())
    worst = sorted(range(len(falls)), key=lambda index: -falls[index])[:5]
    kept = torch.stack([masks[index] if index in worst else torch.ones_like(masks[index]) for index in range(15)])
    return log_loss((features * kept) @ weights[2].T + weights[3], given.targets).mean(), None


FORMULAS: dict[str, tuple[Formula, dict[str, Any]]] = {
    "erm": (erm, {}),
    "dann": (dann, {"weight": 0.8, "schedule": "constant", "clip_ratio": None}),
    "vrex": (vrex, {"weight": 5.0, "anneal": 3}),
    "rsc": (rsc, {"features": 1 / 3, "batch": 1 / 3}),
    "mmd": (mmd, {"weight": 0.6}),
    "coral": (coral, {"weight": 0.9}),
    "groupdro": (groupdro, {"step_size": 20.0}),
}


def test_every_method_that_needs_domains_has_its_formula_here() -> None:
    needing = {name for name in OBJECTIVES.names() if OBJECTIVES[name].least_domains}
    assert needing <= FORMULAS.keys()


@pytest.mark.parametrize("dummies", [0, 2])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_step_is_that_of_the_published_formula(name: str, dummies: int) -> None:
    """The loss, and every weight after a step of SGD with learning rate 0.1, dummies and discriminator included."""
    formula, settings = FORMULAS[name]
    model, given = network(dummies), batch()
    method = made(name, model, **settings)
    beside = extra(method)
    ours = [*model.parameters(), *beside.parameters()]
    weights, told = (
        [value.detach().clone().requires_grad_() for value in part.parameters()] for part in (model, beside)
    )

    expected, domain_loss = formula(weights, given, told)
    steps = list(torch.autograd.grad(expected, weights, retain_graph=True))
    steps += torch.autograd.grad(domain_loss, told) if domain_loss is not None else []
    shown = expected if domain_loss is None else expected + 1.8 * domain_loss  # what DANN shows is L_y + L_d

    optimizer = torch.optim.SGD(ours, lr=0.1)
    loss = method.loss(model, given)
    loss.backward()
    optimizer.step()
    assert loss.item() == pytest.approx(shown.item(), abs=1e-10)
    for after, before, step in zip(ours, [*weights, *told], steps, strict=True):
        assert torch.allclose(after, before - 0.1 * step, atol=1e-10)
    moved = torch.cat([step.flatten() for step in steps])
    assert moved.norm() > 0.1


def test_the_formulas_differ_from_each_other() -> None:
    """So that each of them shows something."""
    weights = [parameter.detach() for parameter in network().parameters()]
    method = made("dann", network())
    told = [parameter.detach().double() for parameter in method.extra_module.parameters()]
    losses = [formula(weights, batch(), told)[0].item() for formula, _ in FORMULAS.values()]
    assert all(abs(one - other) > 0.01 for one, other in combinations(losses, 2))


@pytest.mark.parametrize("name", ["dann", "rsc", "mmd", "coral"])
def test_no_hook_stays_on_the_head(name: str) -> None:
    model = network(2)
    method = made(name, model)
    extra(method)
    method.loss(model, batch())
    assert not model[2]._forward_pre_hooks


@pytest.mark.parametrize("name", ["dann", "vrex", "rsc", "mmd", "coral"])
def test_labels_are_smoothed_over_the_real_classes(name: str) -> None:
    """With smoothing s the loss grows by s times what it grows from 0 to 1, and no dummy gets mass: ∂L/∂d_j ≥ 0."""
    model, given = network(2), batch()
    losses = []
    for smoothing in (0.0, 0.25, 1.0):
        settings = {"label_smoothing": smoothing, **({"weight": 0.0, "anneal": 0} if name == "vrex" else {})}
        method = made(name, model, **settings)
        extra(method)
        losses.append(method.loss(model, given))
    assert losses[1].item() == pytest.approx(0.75 * losses[0].item() + 0.25 * losses[2].item(), abs=1e-10)
    model.zero_grad()
    losses[2].backward()
    assert (model[2].bias.grad[CLASSES:] > 0).all()


# Refusals.


@pytest.mark.parametrize("name", ["dann", "vrex", "mmd", "coral", "groupdro"])
@pytest.mark.parametrize(("domains", "told"), [(0, "the data have none"), (1, "the data have one alone")])
def test_too_few_domains_are_refused(name: str, domains: int, told: str) -> None:
    with pytest.raises(InputError, match=f"method '{name}' needs 2 or more domains to train on, and {told}"):
        objective(name, CLASSES, domains=domains, model=network())


@pytest.mark.parametrize("name", ["erm", "rsc"])
@pytest.mark.parametrize("domains", [0, 1])
def test_other_objectives_take_any_number_of_domains(name: str, domains: int) -> None:
    objective(name, CLASSES, domains=domains, model=network())


class SeveralHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.head_dist = nn.Linear(3, 6), nn.Linear(6, CLASSES), nn.Linear(6, CLASSES)


@pytest.mark.parametrize("dummies", [0, 2])
@pytest.mark.parametrize("name", ["dann", "rsc", "mmd", "coral"])
@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, CLASSES, 1)), "Conv2d"),
        (SeveralHeads, "Linear and Linear"),
    ],
)
def test_heads_of_another_kind_are_refused(build: Callable[[], nn.Module], told: str, name: str, dummies: int) -> None:
    model = durm.widen(build(), dummies, num_classes=CLASSES)
    message = f"method '{name}' needs a model with one linear head; the head of this one is {told}"
    with pytest.raises(InputError, match=message):
        made(name, model)


@pytest.mark.parametrize("name", ["dann", "rsc", "mmd", "coral"])
def test_heads_that_take_more_than_one_vector_are_refused(name: str) -> None:
    """A head on (N, T, d), as of a classifier of tokens."""
    model = nn.Sequential(nn.Linear(3, 6), nn.Linear(6, CLASSES))
    method = made(name, model)
    given = Batch(torch.zeros(6, 5, 3), torch.zeros(6, dtype=torch.long), 0, torch.arange(3).repeat(2))
    message = rf"method '{name}' needs a model whose head takes one vector for each sample; .* takes \(6, 5, 6\)"
    with pytest.raises(InputError, match=message):
        method.loss(model, given)


@pytest.mark.parametrize("name", ["dann", "rsc", "mmd", "coral"])
def test_heads_that_are_called_twice_are_refused(name: str) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(3, 6), nn.Linear(6, CLASSES)

        def forward(self, inputs: Tensor) -> Tensor:
            features = self.body(inputs)
            return self.head(features) + self.head(-features)

    model = Twice()
    given = Batch(torch.zeros(6, 3), torch.zeros(6, dtype=torch.long), 0, torch.arange(3).repeat(2))
    with pytest.raises(InputError, match=r"takes \(6, 6\) and \(6, 6\)"):
        made(name, model).loss(model, given)


def test_rsc_takes_a_model_that_is_its_head_alone() -> None:
    """∂z_y/∂f is the row of y in the head; that nothing before it is trained does not matter.

    One sample f = (1, 2) of class 0, rows (1, 0) and (0, 1): the first feature is muted, z = (0, 2), and the loss
    log(1 + e²).
    """
    model = linear([[1, 0], [0, 1]])
    method = objective("rsc", 2, model=model, features=0.5, batch=1.0)
    loss = method.loss(model, Batch(tensor([[1.0, 2.0]]), torch.tensor([0])))
    assert loss.item() == pytest.approx(math.log1p(math.exp(2)), abs=1e-10)
