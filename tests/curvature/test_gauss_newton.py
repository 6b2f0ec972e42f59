"""The Gauss-Newton matrix against closed forms, curvlinops and Jacobians entry by entry."""

import pytest
import torch
from curvlinops import GGNLinearOperator
from torch import Tensor, nn
from torch.func import functional_call, jacrev

import durm
from durm.curvature import ClassifierLoss, ClosureLoss, Operator, gauss_newton, hessian, top_eigenvalues, trace
from durm.curvature.products import operator
from tests.curvature.small import CLASSES, batch, loss_of, network


def whole(matrix: Operator) -> Tensor:
    return torch.stack([matrix.product(row) for row in torch.eye(matrix.size, dtype=torch.float64)])


def test_of_a_linear_model_it_is_the_hessian() -> None:
    """J does not depend on w then; whatever the labels, the smoothing and the dummies."""
    inputs, targets = batch(30)
    model = durm.widen(nn.Linear(4, CLASSES, dtype=torch.float64), 2)
    for kind in ("training", "real"):
        loss = ClassifierLoss(model, inputs, targets, num_classes=CLASSES, kind=kind, label_smoothing=0.1)
        with hessian(loss) as curved, gauss_newton(loss) as flat:
            torch.testing.assert_close(whole(flat), whole(curved), atol=1e-12, rtol=0)


@pytest.mark.parametrize("chunk", [None, 6])
@pytest.mark.parametrize("kind", ["training", "real"])
def test_it_is_the_fisher_matrix(kind: str, chunk: int | None) -> None:
    """1/n Σ_i Σ_y p_i(y) ∇log p_i(y) ∇log p_i(y)ᵀ, by the Jacobian of the log-probabilities."""
    model = network().eval()
    loss = loss_of(model, kind, chunk=chunk)
    inputs, _ = batch()
    weights = dict(model.named_parameters())

    def log_p(weights: dict[str, Tensor]) -> Tensor:
        logits = functional_call(model, weights, inputs)
        return (logits if kind == "training" else logits[:, :CLASSES]).log_softmax(1)

    with durm.full_logits(model):
        p = log_p(weights).detach().exp()
        by_parameter = jacrev(log_p)(weights)
    rows = {block.name: block for block in loss.layout.blocks}
    scores = torch.cat([part[:, :, : rows[name].rows].flatten(2) for name, part in by_parameter.items()], 2)
    expected = torch.einsum("iy,iya,iyb->ab", p, scores, scores) / len(inputs)
    with gauss_newton(loss) as matrix:
        torch.testing.assert_close(whole(matrix), expected)
        torch.testing.assert_close(matrix.gradient(), loss.gradient()[1])


def test_curvlinops() -> None:
    model = network().eval()
    with durm.full_logits(model):
        parameters = list(model.parameters())
        theirs = GGNLinearOperator(model, nn.CrossEntropyLoss(), parameters, [batch()], check_deterministic=False)
        expected = theirs @ torch.eye(theirs.shape[1], dtype=torch.float64)
    with gauss_newton(loss_of(network())) as matrix:
        torch.testing.assert_close(whole(matrix), expected)
        top = top_eigenvalues(matrix, 2, tolerance=1e-6)
        assert top.values == pytest.approx(torch.linalg.eigvalsh(expected).flip(0)[:2].tolist(), rel=1e-9)
        total = trace(matrix, samples=200)
        assert abs(total.value - expected.trace().item()) < 3 * total.standard_error


def test_what_is_refused() -> None:
    w = nn.Parameter(torch.ones(2))
    with (
        pytest.raises(ValueError, match="this loss has no logits"),
        gauss_newton(ClosureLoss(lambda: w.sum(), {"w": w})),
    ):
        pass
    with (
        pytest.raises(ValueError, match="matrix='gnn': expected one of 'hessian', 'ggn'; did you mean 'ggn'"),
        operator(loss_of(network()), "gnn"),
    ):
        pass
