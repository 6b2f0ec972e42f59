"""The top eigenvalues against the whole Hessian, closed forms and curvlinops."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from curvlinops import HessianLinearOperator
from torch import Tensor, nn

import durm
from durm.curvature import ClassifierLoss, ClosureLoss, bottom_eigenvalues, hessian, top_eigenvalues
from durm.curvature.lanczos import largest_bound, tridiagonal
from tests.curvature.small import CLASSES, batch, dense, loss_of, network, quadratic, symmetric


def close(found: object, expected: Tensor, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(
        torch.tensor(found, dtype=torch.float64), expected.double(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("chunk", [None, 6])
@pytest.mark.parametrize("kind", ["training", "real"])
@pytest.mark.parametrize("dummies", [0, 2])
def test_the_whole_hessian_of_a_network(dummies: int, kind: str, chunk: int | None) -> None:
    model = network(dummies)
    expected = torch.linalg.eigvalsh(dense(network(dummies), kind)).flip(0)[:3]
    found = top_eigenvalues(loss_of(model, kind, chunk=chunk), 3, tolerance=1e-6)
    close(found.values, expected, 1e-9)
    assert found.converged
    assert found.values == tuple(sorted(found.values, reverse=True))


def test_in_32_bit() -> None:
    inputs, targets = batch()
    loss = ClassifierLoss(network(dtype=torch.float32), inputs.float(), targets, num_classes=CLASSES)
    found = top_eigenvalues(loss, 2, tolerance=1e-4)
    assert found.converged
    close(found.values, torch.linalg.eigvalsh(dense(network(), "training")).flip(0)[:2])


@pytest.mark.parametrize("kind", ["training", "real"])
def test_curvlinops(kind: str) -> None:
    """With their own matrix over all parameters; that of the real logits, which eval mode gives, is 0 for dummies."""
    model = network().eval()
    with durm.full_logits(model) if kind == "training" else nullcontext():
        parameters = list(model.parameters())
        operator = HessianLinearOperator(model, nn.CrossEntropyLoss(), parameters, [batch()], check_deterministic=False)
        matrix = operator @ torch.eye(operator.shape[1], dtype=torch.float64)
    expected = torch.linalg.eigvalsh(matrix).flip(0)[:2]
    close(top_eigenvalues(loss_of(network(), kind), 2, tolerance=1e-6).values, expected)


def test_multinomial_logistic_regression() -> None:
    """H = 1/n Σ_i (diag p_i − p_i p_iᵀ) ⊗ x_i x_iᵀ, dummies among the classes; it does not depend on the labels."""
    inputs, targets = batch(30)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = durm.widen(nn.Linear(4, CLASSES, bias=False, dtype=torch.float64), 2)
    for kind, width in (("training", CLASSES + 2), ("real", CLASSES)):
        p = (inputs @ model.weight.detach().T)[:, :width].softmax(1)
        curved = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        matrix = sum(torch.kron(curved[i], torch.outer(inputs[i], inputs[i])) for i in range(30)) / 30
        loss = ClassifierLoss(model, inputs, targets, num_classes=CLASSES, kind=kind)
        assert loss.size == 4 * width
        close(top_eigenvalues(loss, 2, tolerance=1e-6).values, torch.linalg.eigvalsh(matrix).flip(0)[:2], 1e-9)


def test_binary_logistic_regression() -> None:
    """H = Xᵀ S X / n with S = σ(1 − σ), for one logit."""
    inputs, targets = batch(40)
    w = nn.Parameter(torch.tensor([0.3, -0.2, 0.1, 0.5], dtype=torch.float64))
    labels = (targets > 0).double()
    loss = ClosureLoss(lambda: F.binary_cross_entropy_with_logits(inputs @ w, labels), {"w": w})
    sigma = torch.sigmoid(inputs @ w.detach())
    matrix = inputs.T @ ((sigma * (1 - sigma))[:, None] * inputs) / 40
    close(top_eigenvalues(loss, 4, tolerance=1e-8).values, torch.linalg.eigvalsh(matrix).flip(0), 1e-9)


def test_residuals_are_those_of_the_vectors() -> None:
    loss = loss_of(network())
    found = top_eigenvalues(loss, 2, tolerance=1e-2, vectors=True)
    assert found.vectors.shape == (2, loss.size)
    torch.testing.assert_close(found.vectors @ found.vectors.T, torch.eye(2, dtype=torch.float64))
    with hessian(loss) as matrix:
        for value, residual, vector in zip(found.values, found.residuals, found.vectors, strict=True):
            assert residual <= 1e-2 * value
            assert residual == pytest.approx(float((matrix.product(vector) - value * vector).norm()), rel=1e-6)
    assert top_eigenvalues(loss).vectors is None


def test_it_says_when_the_budget_is_too_small() -> None:
    matrix = symmetric(torch.linspace(-1, 1, 60))
    short = top_eigenvalues(quadratic(matrix), tolerance=1e-3, max_products=4)
    assert (short.converged, short.products) == (False, 4)
    assert short.residuals[0] > 1e-3 * short.values[0]
    assert short.values[0] < 1
    whole = top_eigenvalues(quadratic(matrix), tolerance=1e-3, max_products=60)
    assert whole.converged
    assert whole.products < 60
    close(whole.values, torch.ones(1), 1e-3)


def test_more_products_never_lower_the_largest() -> None:
    matrix = symmetric(torch.linspace(0, 1, 40))
    values = [top_eigenvalues(quadratic(matrix), tolerance=1e-12, max_products=n).values[0] for n in range(1, 12)]
    assert values == sorted(values)


def test_largest_not_largest_in_magnitude() -> None:
    matrix = symmetric(torch.tensor([-9.0, -2.0, 0.0, 1.0, 3.0]))
    close(top_eigenvalues(quadratic(matrix), 2).values, torch.tensor([3.0, 1.0]))
    matrix = symmetric(torch.tensor([-9.0, -2.0, -1.0]))
    close(top_eigenvalues(quadratic(matrix), 1).values, torch.tensor([-1.0]))
    matrix = symmetric(torch.tensor([-9.0, -2.0, 0.0]))
    close(top_eigenvalues(quadratic(matrix), 1).values, torch.tensor([0.0]))


@pytest.mark.parametrize("seed", range(5))
def test_an_eigenvalue_hidden_from_the_gradient_and_from_every_16th_sample(seed: int) -> None:
    """λ₁ = 6 and λ₂ = 5 of a linear model at w = 0: H = [[1, −1], [−1, 1]]/4 ⊗ Σ_i x_i x_iᵀ / n.

    Every 16th sample has x = √160 e₁, and the gradient lies in e₁. The others have √12.8 e₂ and balanced labels.
    """
    inputs, targets = torch.zeros(160, 1000, dtype=torch.float64), torch.zeros(160, dtype=torch.long)
    seldom = torch.arange(160) % 16 == 0
    inputs[seldom, 0], inputs[~seldom, 1] = 160**0.5, 12.8**0.5
    targets[~seldom] = torch.arange(150) % 2
    model = nn.Linear(1000, 2, bias=False, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    loss = ClassifierLoss(model, inputs, targets, num_classes=2)
    _, gradient = loss.gradient()
    assert gradient.view(2, 1000)[:, 1:].abs().max() < 1e-12 < gradient.abs().max()
    found = top_eigenvalues(loss, seed=seed)
    assert found.converged
    close(found.values, torch.tensor([6.0]), 1e-9)


HARD = {
    "clustered": (torch.cat([torch.linspace(5, 5.001, 50), torch.tensor([5.5]), torch.linspace(0, 1, 2000)]), 5.5),
    "negative dominant": (torch.cat([torch.tensor([-50.0, -40.0, 3.0]), torch.linspace(-1, 1, 2000)]), 3.0),
    "rank-deficient": (torch.cat([torch.tensor([6.0, 5.0, 5.0, 5.0]), torch.zeros(2000)]), 6.0),
    "tiny gap": (torch.cat([torch.tensor([6.0, 5.999]), torch.linspace(0, 5, 2000)]), 6.0),
}


@pytest.mark.parametrize("case", HARD)
def test_hard_spectra(case: str) -> None:
    """Converged is within the tolerance of the truth, which lies below the bound."""
    values, largest = HARD[case]
    for seed in range(5):
        found = top_eigenvalues(quadratic(torch.diag(values.double())), seed=seed)
        assert found.converged
        assert found.values[0] == pytest.approx(largest, rel=1e-3)
        assert largest - 1e-6 <= found.bound <= 1.01 * found.values[0]


def test_a_small_residual_alone_is_not_enough() -> None:
    """After four products at a loose tolerance, λ = 5 has a small residual, and λ = 5.4 is still to be found."""
    values = torch.cat([torch.full((5000,), 5.0), torch.tensor([5.4])]).double()
    found = top_eigenvalues(quadratic(torch.diag(values)), tolerance=0.01, max_products=1)
    assert found.residuals[0] < 0.01 * found.values[0]
    assert found.values[0] < 5.01
    assert not found.converged
    assert found.bound > 5.4
    assert top_eigenvalues(quadratic(torch.diag(values)), tolerance=0.01).values[0] == pytest.approx(5.4)


@pytest.mark.slow
def test_the_bound_fails_as_seldom_as_it_says() -> None:
    """At δ = 0.3 it may be too low for 30 % of the starts, at any of the first twelve products."""
    values = torch.cat([torch.tensor([3.0]), torch.linspace(-1, 1, 100)]).double()
    loss, starts, missed = quadratic(torch.diag(values)), 300, 0
    with hessian(loss) as matrix:
        for seed in range(starts):
            start = loss.layout.random(torch.randn, seed, "test")
            bounds = []
            for found in tridiagonal(matrix, start, seed):
                theta = torch.linalg.eigvalsh(found.lower).flip(0)
                bounds.append(largest_bound(theta, found.lengths, 101, missed=0.3))
                if len(bounds) == 12:
                    break
            missed += min(bounds) < 3
    assert 0 < missed <= 0.3 * starts + 3 * (0.21 * starts) ** 0.5


@pytest.mark.parametrize("chunk", [None, 6])
def test_the_smallest(chunk: int | None) -> None:
    expected = torch.linalg.eigvalsh(dense(network(), "training"))[:2]
    found = bottom_eigenvalues(loss_of(network(), chunk=chunk), 2, tolerance=1e-6, vectors=True)
    assert found.converged
    close(found.values, expected, 1e-9)
    assert found.bound <= found.values[0] + 1e-12
    with hessian(loss_of(network())) as matrix:
        torch.testing.assert_close(matrix.product(found.vectors[0]), expected[0] * found.vectors[0], atol=1e-6, rtol=0)


def test_all_of_them_and_none() -> None:
    values = torch.tensor([1.0, 2.0, 3.0, 7.0])
    found = top_eigenvalues(quadratic(symmetric(values)), 4)
    close(found.values, values.flip(0), 1e-9)
    assert found.converged
    assert found.products == 4
    flat = top_eigenvalues(quadratic(torch.zeros(3, 3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)), 2)
    assert (flat.values, flat.residuals, flat.converged) == ((0.0, 0.0), (0.0, 0.0), True)


def test_a_hessian_is_used_again() -> None:
    loss = loss_of(network())
    alone = top_eigenvalues(loss)
    calls = []
    loss.model.register_forward_hook(lambda *_: calls.append(1))
    with hessian(loss) as matrix:
        assert top_eigenvalues(matrix) == alone
        assert matrix.products == alone.products
    assert len(calls) == 1


def test_memory_is_bounded_in_chunks() -> None:
    """No forward pass is of more samples than that, and each product has its own."""
    loss = loss_of(network(), chunk=6)
    seen = []
    loss.model.register_forward_hook(lambda module, inputs, logits: seen.append(len(logits)))
    with hessian(loss) as matrix:
        assert seen == []
        for _ in range(2):
            matrix.product(torch.ones(loss.size, dtype=torch.float64))
    assert seen == [6, 6, 6, 2] * 2


def test_attention_can_be_differentiated_twice() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        model = durm.widen(nn.Sequential(layer, nn.Flatten(), nn.Linear(24, CLASSES)), 1)
        inputs = torch.randn(6, 3, 8)
    loss = ClassifierLoss(model, inputs, torch.tensor([0, 1, 2, 0, 1, 2]), num_classes=CLASSES)
    assert top_eigenvalues(loss).values[0] > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k=0: expected an int of at least 1"),
        ({"k": 6}, "k=6: the Hessian of 5 weights has no more than 5 eigenvalues"),
        ({"k": 3, "max_products": 2}, "max_products=2: expected an int of at least 3"),
        ({"tolerance": 0.0}, "tolerance=0.0: expected a number above 0"),
        ({"tolerance": float("nan")}, "tolerance=nan: expected a number above 0"),
    ],
)
def test_bad_input(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        top_eigenvalues(quadratic(torch.eye(5, dtype=torch.float64)), **settings)


def test_a_loss_without_second_derivative() -> None:
    w = nn.Parameter(torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="not finite"):
        top_eigenvalues(ClosureLoss(lambda: w.sqrt().sum() + w[0] ** 1.5, {"w": w}))
