"""The dummies' parts of the gradient, from the definition, with gradients by autograd."""

import pytest
import torch

from durm.probes import watch
from tests.probes.small import CLASSES, batches, close, logit_gradients, network, train


@pytest.mark.parametrize("dummies", [1, 2, 4])
def test_fractions_and_shares(dummies: int) -> None:
    model = network(dummies)
    watching = watch(model, ["dummy_gradient"])
    seen = train(model, [batches(), batches((4, 8), seed=2)], watching)
    result = watching.results()["dummy_gradient"]
    for epoch, steps in enumerate(seen):
        gradients = logit_gradients(steps)
        own = gradients[:, CLASSES:]
        close(result["fraction"][epoch], own.sum(0) / own.sum())
        close(result["sample_fraction"][epoch], (own / own.sum(1, keepdim=True)).mean(0))
        close(result["share"][epoch], own.sum(0) / gradients.abs().sum())
        assert sum(result["fraction"][epoch]) == pytest.approx(1)
        assert sum(result["sample_fraction"][epoch]) == pytest.approx(1)
    assert result["samples"] == [13, 12]


def test_without_dummies_there_are_no_fractions() -> None:
    model = network(0)
    watching = watch(model, ["dummy_gradient"])
    train(model, [batches()], watching)
    assert watching.results()["dummy_gradient"] == {
        "fraction": [[]], "sample_fraction": [[]], "share": [[]], "samples": [13]
    }  # fmt: skip


def test_dummies_that_get_nothing_have_no_fraction() -> None:
    model = network(2)
    watching = watch(model, ["dummy_gradient"])
    watching.step(torch.tensor([[0.0, 0.0, 0.0, -1e4, -1e4]]), torch.tensor([1]))
    watching.epoch()
    result = watching.results()["dummy_gradient"]
    assert result["fraction"] == [[None, None]]
    assert result["sample_fraction"] == [[0.5, 0.5]]
    assert result["share"] == [[0.0, 0.0]]


def test_what_does_not_count() -> None:
    model = network(2)
    ((inputs, targets),) = batches((6,))
    logits = model(inputs).detach()
    targets[3:] = -100
    found = []
    for watching, rows in ((watch(model, ["dummy_gradient"]), 6), (watch(model, ["dummy_gradient"]), 3)):
        watching.step(logits[:rows], targets[:rows])
        watching.epoch()
        found.append(watching.results()["dummy_gradient"])
    assert found[0]["samples"] == [3]
    for name in ("fraction", "sample_fraction", "share"):
        close(found[0][name], torch.tensor(found[1][name]))
