"""The balls, against projections worked out by hand and the definition of the norms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from durm.attacks.ball import NORMS, make_ball
from tests.attacks.small import within


def test_projection_into_an_l2_ball_by_hand() -> None:
    """From (0.5, 0.5) by (0.3, 0.4), which is 0.5 long: a fifth of it is left at ε = 0.1, all of it at ε = 0.5."""
    centre, point = torch.tensor([[0.5, 0.5]], dtype=torch.float64), torch.tensor([[0.8, 0.9]], dtype=torch.float64)
    expected = torch.tensor([[0.56, 0.58]], dtype=torch.float64)
    torch.testing.assert_close(make_ball(centre, 0.1, "l2").project(point), expected)
    assert torch.equal(make_ball(centre, 0.6, "l2").project(point), point)


def test_the_box_comes_after_the_l2_ball() -> None:
    """From (0.9, 0.5) by (3, 4) at ε = 0.5: (1.2, 0.9), and clipped (1, 0.9), which is nearer to the centre."""
    ball = make_ball(torch.tensor([[0.9, 0.5]]), 0.5, "l2")
    torch.testing.assert_close(ball.project(torch.tensor([[3.9, 4.5]])), torch.tensor([[1.0, 0.9]]))


def test_projection_into_an_linf_ball_by_hand() -> None:
    ball = make_ball(torch.tensor([[0.5, 0.05, 0.95]]), 0.1, "linf")
    torch.testing.assert_close(ball.project(torch.tensor([[0.9, -1.0, 2.0]])), torch.tensor([[0.6, 0.0, 1.0]]))
    assert torch.equal(ball.project(torch.tensor([[0.55, 0.1, 0.9]])), torch.tensor([[0.55, 0.1, 0.9]]))


@pytest.mark.parametrize("norm", NORMS)
def test_a_centre_is_its_own_projection(norm: str) -> None:
    inputs = torch.rand(3, 2, 4, 4)
    assert torch.equal(make_ball(inputs, 0.1, norm).project(inputs), inputs)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(NORMS)),
    st.sampled_from([torch.float32, torch.float64]),
    st.floats(1e-4, 1.0),
    st.integers(0, 10**6),
)
def test_what_is_projected_or_drawn_lies_inside_and_stays(norm: str, dtype: torch.dtype, eps: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    inputs = torch.rand(4, 3, 8, 8, generator=random, dtype=dtype).round(decimals=1)  # some on the walls of the box
    ball = make_ball(inputs, eps, norm)
    far = inputs + 3 * eps * torch.randn(inputs.shape, generator=random, dtype=dtype)
    for points in (ball.project(far), ball.random(random)):
        assert within(points, inputs, eps, norm)
        torch.testing.assert_close(ball.project(points), points, rtol=0, atol=1e-6)
        larger = make_ball(inputs, min(1.1 * eps, 1.0), norm)
        assert eps > 0.9 or torch.equal(larger.project(points), points)
    assert torch.equal(ball.of(torch.tensor([2, 0])).project(far[[2, 0]]), ball.project(far)[[2, 0]])


def test_random_points_fill_the_ball() -> None:
    """In F dimensions the share of points within half the radius is 2^-F, in both norms."""
    inputs = torch.full((20_000, 2), 0.5)
    for norm, order in (("linf", torch.inf), ("l2", 2)):
        points = make_ball(inputs, 0.2, norm).random(torch.Generator().manual_seed(0))
        distance = torch.linalg.vector_norm(points - inputs, order, dim=1)
        assert distance.max() > 0.199
        assert (distance < 0.1).float().mean().item() == pytest.approx(1 / 4, abs=0.015)
        torch.testing.assert_close(points.mean(0), inputs[0], rtol=0, atol=0.003)


def test_directions() -> None:
    gradient = torch.tensor([[3.0, -4.0], [0.0, 0.0], [3e-30, 4e-30], [3e30, 4e30]])
    ball = make_ball(torch.full((4, 2), 0.5), 0.1, "linf")
    assert torch.equal(ball.direction(gradient), torch.tensor([[1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]))
    ball = make_ball(torch.full((4, 2), 0.5), 0.1, "l2")
    expected = torch.tensor([[0.6, -0.8], [0.0, 0.0], [0.6, 0.8], [0.6, 0.8]])
    torch.testing.assert_close(ball.direction(gradient), expected)


def test_the_largest_l2_radius_is_the_diagonal_of_the_box() -> None:
    inputs = torch.rand(2, 3, 4, 4)
    make_ball(inputs, math.sqrt(48), "l2")
    with pytest.raises(ValueError, match=r"eps=7.0: two inputs of 48 values in \[0, 1\] are at most 6.928 apart"):
        make_ball(inputs, 7.0, "l2")
