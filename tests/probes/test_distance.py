"""Distances from the start, against weights that are kept in a list."""

import pytest
import torch
from torch import Tensor, nn

from durm.probes import watch
from tests.probes.small import CLASSES, batches, close, network, train


def apart(model: nn.Module) -> tuple[Tensor, Tensor]:
    """The shared weights and those of the dummies, as two vectors."""
    body, head = model[0], model[2]
    shared = [body.weight, body.bias, head.weight[:CLASSES], head.bias[:CLASSES]]
    dummies = [head.weight[CLASSES:], head.bias[CLASSES:]]
    return tuple(torch.cat([part.detach().double().flatten() for part in parts]) for parts in (shared, dummies))


@pytest.mark.parametrize("dummies", [0, 2])
def test_distances_every_so_many_steps_and_at_the_end_of_epochs(dummies: int) -> None:
    """Two epochs of 5 steps, watched every 2: before steps 0, 2, 4, after 5 (the end), before 6, 8, after 10."""
    model = network(dummies)
    epochs = [batches((3, 3, 3, 3, 3), seed=seed) for seed in (1, 2)]
    weights = [apart(model)]
    for epoch in epochs:
        for batch in epoch:
            train(model, [[batch]])
            weights.append(apart(model))

    model = network(dummies)
    watching = watch(model, {"distance": {"every": 2}})
    train(model, epochs, watching)
    result = watching.results()["distance"]
    assert result["steps"] == [0, 2, 4, 5, 6, 8, 10]
    for name, part in (("shared", 0), ("dummies", 1)):
        squares = [(weights[step][part] - weights[0][part]).square().sum() for step in result["steps"]]
        close(result[name], torch.stack(squares))
    assert result["shared"][0] == 0 < result["shared"][-1]
    assert (result["dummies"][-1] > 0) == bool(dummies)


def test_an_epoch_that_ends_with_a_look_is_not_looked_at_twice() -> None:
    model = network()
    watching = watch(model, {"distance": {"every": 2}})
    train(model, [batches((3, 3)), batches((3, 3))], watching)
    assert watching.results()["distance"]["steps"] == [0, 2, 4]


def test_by_default_it_is_every_tenth_step() -> None:
    model = network()
    watching = watch(model, ["distance"])
    train(model, [batches((2,) * 25)], watching)
    assert watching.results()["distance"]["steps"] == [0, 10, 20, 25]


def test_every_0_is_refused() -> None:
    with pytest.raises(ValueError, match="every=0"):
        watch(network(), {"distance": {"every": 0}})
