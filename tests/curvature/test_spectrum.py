"""The density of the eigenvalues against all of them."""

import pytest
import torch

from durm.curvature import density, gauss_newton, hessian
from tests.curvature.small import dense, loss_of, network, quadratic, symmetric


def test_the_moments_of_one_vector_are_exact() -> None:
    """Σ τ θ^p = bᵀ H^p b up to p = 2m − 1."""
    loss = loss_of(network())
    matrix = dense(network(), "training")
    found = density(loss, samples=1, steps=5)
    b = loss.layout.random(torch.randn, 0, "density", 0)
    b /= b.norm()
    for power in range(10):
        assert found.moment(power) == pytest.approx((b @ torch.linalg.matrix_power(matrix, power) @ b).item(), rel=1e-8)


@pytest.mark.parametrize("kind", ["training", "real"])
def test_the_density_of_a_network(kind: str) -> None:
    """Against eigvalsh, smeared alike: within what so many vectors leave to chance.

    The variance of bᵀ A b, b uniform on the sphere of Rⁿ, is at most 2/n times that of the eigenvalues of A.
    """
    exact = torch.linalg.eigvalsh(dense(network(), kind))
    count = 60
    found = density(loss_of(network(), kind), samples=count, steps=25)
    width = 0.05 * float(exact[-1] - exact[0])

    def close(value: float, eigenvalues: torch.Tensor) -> None:
        error = eigenvalues.std().item() * (2 / (count * len(exact))) ** 0.5
        assert value == pytest.approx(eigenvalues.mean().item(), abs=4 * error)

    for point in torch.linspace(float(exact[0]), float(exact[-1]), 12).tolist():
        close(found.at([point], width)[0], (-0.5 * ((point - exact) / width) ** 2).exp() / (width * 6.283185307**0.5))
    for point in ((exact[-6:] + exact[-7:-1]) / 2).tolist():  # between the largest ones
        close(found.below(point), (exact <= point).double())
    close(found.moment(1), exact)


def test_all_eigenvalues_of_a_small_matrix() -> None:
    """Where the products lead nowhere new, the nodes are all there is."""
    values = torch.tensor([-1.0, 0.5, 2.0, 2.0, 7.0])
    found = density(quadratic(symmetric(values)), samples=3, steps=20)
    for nodes, weights in zip(found.nodes, found.weights, strict=True):
        assert sum(weights) == pytest.approx(1)
        kept = [node for node, weight in zip(nodes, weights, strict=True) if weight]
        assert kept == pytest.approx([-1.0, 0.5, 2.0, 7.0])
    assert found.below(-1.1) == 0
    assert found.below(7.1) == pytest.approx(1)


def test_other_matrices() -> None:
    loss = loss_of(network())
    with gauss_newton(loss) as matrix:
        assert min(density(matrix, samples=2, steps=8).nodes[0]) > -1e-12
    with hessian(loss) as matrix:
        assert density(matrix, samples=2, steps=8) == density(loss, samples=2, steps=8)
        assert matrix.products == 16


@pytest.mark.parametrize("name", ["samples", "steps"])
def test_bad_input(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=0: expected an int of at least 1"):
        density(loss_of(network()), **{name: 0})
