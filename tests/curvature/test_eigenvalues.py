"""The top eigenvalues against the whole Hessian, closed forms and curvlinops."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from curvlinops import HessianLinearOperator
from torch import Tensor, nn

import durm
from durm.curvature import ClassifierLoss, ClosureLoss, hessian, top_eigenvalues
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


def test_a_gradient_that_misses_the_top_eigenvector_does_not_mislead() -> None:
    """It lies in another one."""
    values = torch.tensor([5.0, 2.0] + [0.1] * 200, dtype=torch.float64)
    gradient = torch.zeros(202, dtype=torch.float64)
    gradient[1] = 1
    close(top_eigenvalues(quadratic(torch.diag(values), gradient), tolerance=1e-3).values, torch.tensor([5.0]))


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
    assert len(calls) == 2  # one for the graph, one for that of the start


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
