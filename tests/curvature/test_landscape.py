"""The loss along directions, against models whose weights are moved by hand."""

import math

import pytest
import torch
import torch.nn.functional as F

import durm
from durm.curvature import loss_along
from tests.curvature.small import CLASSES, batch, loss_of, network, unchanged

DISTANCES = [-0.5, -0.1, 0.0, 0.2]


def by_hand(direction: list[torch.Tensor], distance: float) -> tuple[float, float]:
    """Both losses of a fresh model whose parameters are moved."""
    model = network().eval()
    inputs, targets = batch()
    with torch.no_grad():
        for parameter, along in zip(model.parameters(), direction, strict=True):
            parameter.add_(distance * along)
        with durm.full_logits(model):
            logits = model(inputs)
    return F.cross_entropy(logits, targets).item(), F.cross_entropy(logits[:, :CLASSES], targets).item()


def test_the_gradient_direction() -> None:
    (path,) = loss_along(loss_of(network()), ["gradient"], DISTANCES)
    model = network().eval()
    inputs, targets = batch()
    with durm.full_logits(model):
        F.cross_entropy(model(inputs), targets).backward()
    length = math.sqrt(sum(float(p.detach().square().sum()) for p in model.parameters()))
    steep = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
    direction = [p.grad * length / steep for p in model.parameters()]
    for distance, training, real in zip(DISTANCES, path.training, path.real, strict=True):
        assert (training, real) == pytest.approx(by_hand(direction, distance), rel=1e-9)
    assert path.direction == "gradient"
    assert path.distances == tuple(DISTANCES)
    assert path.training[3] > path.training[2] > min(path.training[:2])


def test_the_random_direction_has_the_norm_of_each_filter() -> None:
    loss = loss_of(network())
    seen = []
    write = loss.layout.write
    loss.layout.write = lambda weights: (seen.append(weights.clone()), write(weights))[1]
    (path,) = loss_along(loss, ["random"], [1.0, -0.25])
    direction = loss.layout.split(seen[0] - loss.layout.weights())
    for along, parameter in zip(direction, network().parameters(), strict=True):
        axes = tuple(range(1, along.ndim)) if along.ndim > 1 else (0,)
        torch.testing.assert_close(along.norm(dim=axes), parameter.detach().norm(dim=axes))
    for distance, training, real in zip(path.distances, path.training, path.real, strict=True):
        assert (training, real) == pytest.approx(by_hand(direction, distance), rel=1e-9)


def test_both_by_default_and_the_seed() -> None:
    loss = loss_of(network())
    random, gradient = loss_along(loss)
    assert (random.direction, gradient.direction) == ("random", "gradient")
    assert len(random.distances) == len(random.real) == 41
    assert random.distances[20] == 0
    assert random.training[20] == gradient.training[20] == loss.value()
    other = loss_along(loss, seed=1)
    assert other[0].real != random.real
    assert other[1].real == gradient.real


def test_the_model_is_left_as_it_was() -> None:
    model = network()
    unchanged(model, lambda: loss_along(loss_of(model)))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="direction 'gradent' is unknown: did you mean 'gradient'"):
        loss_along(loss_of(network()), ["gradent"])
    with pytest.raises(ValueError, match="distances: expected finite numbers, not inf"):
        loss_along(loss_of(network()), distances=[0.0, math.inf])
