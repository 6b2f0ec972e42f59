"""The rise in a ball against closed forms of linear and quadratic losses."""

import math

import pytest
import torch
from torch import nn

from durm.curvature import ClassifierLoss, ClosureLoss, stability
from durm.curvature.filter_norm import Ball
from tests.curvature.small import CLASSES, batch, loss_of, network, quadratic, symmetric, unchanged


def test_a_linear_loss_rises_most_along_the_gradient_of_each_filter() -> None:
    """max gᵀv over ‖v_F‖ ≤ r ‖w_F‖ is r Σ_F ‖g_F‖ ‖w_F‖, rows of weights being filters, and a bias one."""
    random = torch.Generator().manual_seed(0)
    weight, bias, slope, offset = (
        torch.randn(shape, generator=random, dtype=torch.float64) for shape in ((3, 5), (3,), (3, 5), (3,))
    )
    parameters = {"weight": nn.Parameter(weight), "bias": nn.Parameter(bias)}
    loss = ClosureLoss(lambda: (parameters["weight"] * slope).sum() + parameters["bias"] @ offset, parameters)
    expected = 0.1 * (slope.norm(dim=1) @ weight.norm(dim=1) + offset.norm() * bias.norm())
    found = stability(loss, 0.1, steps=1, starts=1, points=400)
    assert found.worst == pytest.approx(expected.item(), rel=1e-9)
    assert abs(found.mean) < 3 * found.standard_error
    # The variance of gᵀv for a uniform v of a ball of radius R in D dimensions is ‖g‖² R² / (D + 2).
    rows = 0.01 * slope.norm(dim=1).square() @ weight.norm(dim=1).square() / 7
    variance = rows + 0.01 * offset.norm().square() * bias.norm().square() / 5
    assert found.standard_error == pytest.approx(math.sqrt(variance / 400), rel=0.15)


def test_a_quadratic_loss_at_its_minimum() -> None:
    """The worst rise is λ_max R²/2, found from random starts alone; the mean tr A R² / (2 (D + 2))."""
    matrix = symmetric(torch.tensor([6.0, 3.0, 2.0, 1.0, 0.5, 0.1]))
    at = torch.tensor([1.0, -2.0, 0.5, 0.0, 1.0, 3.0], dtype=torch.float64)
    square = 0.04 * at.square().sum().item()
    found = stability(quadratic(matrix, at=at), 0.2, steps=60, starts=3, points=200)
    assert found.loss == 0
    assert found.starts[0] == 0
    assert found.worst == pytest.approx(3 * square, rel=1e-3)
    assert found.worst <= 3 * square * (1 + 1e-9)
    assert abs(found.mean - 12.6 * square / 16) < 3 * found.standard_error


def test_a_quadratic_loss_beside_its_minimum() -> None:
    """The worst v solves (λ I − A) v = g with ‖v‖ = R, λ above all eigenvalues."""
    matrix = symmetric(torch.tensor([3.0, 1.0, -1.0, 0.5]))
    gradient = torch.tensor([0.3, -1.0, 0.2, 0.7], dtype=torch.float64)
    radius = 0.25 * 2  # the norm of four ones is 2
    low, high = 3.0 + 1e-9, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        v = torch.linalg.solve(middle * torch.eye(4, dtype=torch.float64) - matrix, gradient)
        low, high = (middle, high) if v.norm() > radius else (low, middle)
    expected = (gradient @ v + v @ matrix @ v / 2).item()
    assert stability(quadratic(matrix, gradient), 0.25, steps=60).worst == pytest.approx(expected, rel=1e-4)


def test_radius_0() -> None:
    found = stability(loss_of(network()), 0.0)
    assert (found.worst, found.mean, found.standard_error, found.starts) == (0, 0, 0, (0, 0, 0, 0))


@pytest.mark.parametrize("kind", ["training", "real"])
def test_more_steps_and_starts_never_lower_the_rise(kind: str) -> None:
    loss = loss_of(network(), kind)
    rises = [stability(loss, 0.3, steps=steps, starts=2).worst for steps in (1, 2, 3, 6)]
    assert rises == sorted(rises)
    assert rises[0] < rises[-1]
    starts = [stability(loss, 0.3, steps=3, starts=count) for count in (1, 2, 4)]
    assert [found.worst for found in starts] == sorted(found.worst for found in starts)
    assert starts[2].starts[:2] == starts[1].starts
    assert stability(loss, 0.4).worst > stability(loss, 0.2).worst


def test_the_worst_point_is_worse_than_random_ones() -> None:
    loss = loss_of(network())
    found = stability(loss, 0.2, points=50)
    with loss.perturbed() as move:
        ball = Ball(loss.layout, 0.2)
        for point in range(50):
            move(ball.random(0, "point", point))
            assert loss.value() - found.loss <= found.worst


def test_points_of_the_ball() -> None:
    layout = loss_of(network()).layout
    ball = Ball(layout, 0.1)
    for seed in range(5):
        inside = layout.split(ball.random(seed, "x"))
        farthest = layout.split(ball.farthest(torch.randn(layout.size, dtype=torch.float64)))
        for part, edge, weight in zip(inside, farthest, layout.split(layout.weights()), strict=True):
            axes = tuple(range(1, weight.ndim)) if weight.ndim > 1 else (0,)
            norms = weight.norm(dim=axes)
            assert (part.norm(dim=axes) <= 0.1 * norms + 1e-12).all()
            torch.testing.assert_close(edge.norm(dim=axes), 0.1 * norms)
    point = ball.random(0, "x")
    assert torch.equal(ball.project(point), point)


def test_filters_of_norm_0_stay_where_they_are() -> None:
    model = network()
    with torch.no_grad():
        model[0].bias.zero_()
        model[0].weight[2].zero_()
    layout = loss_of(model).layout
    weight, bias, *_ = layout.split(Ball(layout, 0.5).farthest(torch.ones(layout.size, dtype=torch.float64)))
    assert not bias.any()
    assert not weight[2].any()
    assert weight[1].all()
    assert math.isfinite(stability(loss_of(model), 0.1).worst)


def test_scaling_a_layer_up_and_the_next_one_down_changes_nothing() -> None:
    """Because the ball is filter-normalised: ReLU networks are the same function."""

    def scaled(by: float) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double()
        with torch.no_grad():
            model[0].weight.mul_(by)
            model[0].bias.mul_(by)
            model[2].weight.div_(by)
        return model

    one, other = (stability(loss_of(scaled(by)), 0.2) for by in (1.0, 64.0))
    assert one.worst == pytest.approx(other.worst, rel=1e-9)
    assert one.mean == pytest.approx(other.mean, rel=1e-9)


@pytest.mark.parametrize("kind", ["training", "real"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_model_is_left_as_it_was(kind: str, dtype: torch.dtype) -> None:
    model = network(dtype=dtype)
    inputs, targets = batch()
    loss = ClassifierLoss(model, inputs.to(dtype), targets, num_classes=CLASSES, kind=kind)
    unchanged(model, lambda: stability(loss, 0.3))


def test_an_interruption_brings_the_weights_back() -> None:
    model = network()
    calls = []

    def interrupt(*_: object) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt

    model.register_forward_hook(interrupt)

    def look() -> None:
        with pytest.raises(KeyboardInterrupt):
            stability(loss_of(model), 0.3)

    unchanged(model, look)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"radius": -0.1}, "radius=-0.1: expected a number of at least 0"),
        ({"radius": math.inf}, "radius=inf"),
        ({"radius": 0.1, "steps": 0}, "steps=0: expected an int of at least 1"),
        ({"radius": 0.1, "starts": 0}, "starts=0"),
        ({"radius": 0.1, "points": 1}, "points=1: expected an int of at least 2"),
    ],
)
def test_bad_input(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stability(loss_of(network()), **settings)


def test_a_loss_that_is_not_finite() -> None:
    model = network()
    with torch.no_grad():
        model[4].weight.fill_(math.nan)
    with pytest.raises(ValueError, match="the loss is nan: expected a finite number"):
        stability(loss_of(model), 0.1)
