"""Gradient norms against the plain one, over one long vector in 64 bit."""

from itertools import accumulate

import pytest
import torch
from torch import nn

import durm
from durm.probes import watch
from durm.probes._weights import parameters, squared_norms
from tests.probes.small import CLASSES, batches, close, network, train


@pytest.mark.parametrize("dummies", [0, 2])
def test_norms_of_each_step_and_added_up(dummies: int) -> None:
    model = network(dummies)
    expected, shared = [], []
    watching = watch(model, ["gradient_norm"])
    look = watching.probes["gradient_norm"].on_step

    def compute_too(state) -> None:
        look(state)
        body, head = model[0], model[2]
        every = [parameter.grad for parameter in model.parameters()]
        common = [body.weight.grad, body.bias.grad, head.weight.grad[:CLASSES], head.bias.grad[:CLASSES]]
        for values, norms in ((every, expected), (common, shared)):
            norms.append(torch.cat([value.flatten() for value in values]).double().norm())

    watching.probes["gradient_norm"].on_step = compute_too
    train(model, [batches((5, 7, 1)), batches((2, 3))], watching)
    result = watching.results()["gradient_norm"]
    close(result["norm"], torch.stack(expected))
    close(result["shared"], torch.stack(shared))
    assert (result["norm"] == result["shared"]) == (dummies == 0)
    for name in ("norm", "shared"):
        sums = list(accumulate(result[name]))
        assert result[f"cumulative_{name}"] == pytest.approx([sums[2], sums[4]], rel=1e-12)


def test_frozen_parameters_have_no_gradient() -> None:
    model = network()
    model[0].requires_grad_(False)
    watching = watch(model, ["gradient_norm"])
    ((inputs, targets),) = batches((4,))
    logits = model(inputs)
    durm.cross_entropy(logits, targets, CLASSES).backward()
    watching.step(logits, targets)
    expected = torch.cat([model[2].weight.grad.flatten(), model[2].bias.grad]).norm()
    close(watching.results()["gradient_norm"]["norm"], expected[None])


def test_after_zero_grad_there_is_nothing_to_see() -> None:
    model = network()
    ((inputs, targets),) = batches((4,))
    with pytest.raises(ValueError, match=r"after backward\(\) and before zero_grad\(\)"):
        watch(model, ["gradient_norm"]).step(model(inputs), targets)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_million_weights_in_any_layout(dtype: torch.dtype) -> None:
    """Equal values are the worst case, in which all roundings go the same way."""
    random = torch.randn((200, 500, 3, 3), generator=torch.Generator().manual_seed(0))
    for values, tolerance in ((random.to(dtype), 2e-6), (torch.full_like(random, 0.01, dtype=dtype), 1e-5)):
        parts = values.double().split([50, 150])
        expected = torch.stack([part.square().sum() for part in parts])
        for value in (values, values.contiguous(memory_format=torch.channels_last)):
            torch.testing.assert_close(squared_norms([(value, 50)]), expected, rtol=tolerance, atol=0)


def test_scalars_and_shared_parameters_of_every_shape() -> None:
    module = nn.Module()
    module.scale, module.vector = nn.Parameter(torch.tensor(3.0)), nn.Parameter(torch.tensor([4.0, 12.0]))
    assert squared_norms(parameters(module)).tolist() == [169.0, 0.0]
