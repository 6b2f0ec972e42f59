"""The trace against the whole Hessian."""

import pytest
import torch

from durm.curvature import trace
from tests.curvature.small import dense, loss_of, network, quadratic, symmetric


@pytest.mark.parametrize("kind", ["training", "real"])
def test_the_standard_error_covers_the_exact_trace(kind: str) -> None:
    exact = float(dense(network(), kind).trace())
    found = trace(loss_of(network(), kind), samples=200)
    assert abs(found.value - exact) < 3 * found.standard_error


def test_the_standard_error_is_that_of_the_estimator() -> None:
    """The variance of zᵀ A z is 2 Σ_{i≠j} A_ij²; of 20 estimates 95 % should be within two errors."""
    matrix = symmetric(torch.linspace(0, 3, 30))
    off = matrix - torch.diag(matrix.diagonal())
    found = [trace(quadratic(matrix), samples=40, seed=seed) for seed in range(20)]
    exact = (2 * off.square().sum() / 40).sqrt().item()
    errors = torch.tensor([one.standard_error for one in found])
    assert errors.mean().item() == pytest.approx(exact, rel=0.1)
    within = [abs(one.value - matrix.trace().item()) < 2 * one.standard_error for one in found]
    assert sum(within) >= 16


def test_a_diagonal_hessian_is_exact() -> None:
    found = trace(quadratic(torch.diag(torch.tensor([1.0, -2.0, 5.0], dtype=torch.float64))), samples=2)
    assert (found.value, found.standard_error, found.samples) == (4.0, 0.0, 2)


def test_one_sample_has_no_error() -> None:
    with pytest.raises(ValueError, match="samples=1: expected an int of at least 2"):
        trace(loss_of(network()), samples=1)
