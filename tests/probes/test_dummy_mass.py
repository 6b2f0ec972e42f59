import pytest
import torch

import durm
from durm.probes import watch
from tests.probes.small import CLASSES, batches, close, network, train


@pytest.mark.parametrize("dummies", [0, 2])
def test_mass_and_hits_of_each_epoch(dummies: int) -> None:
    model = network(dummies)
    model[2].bias.data[CLASSES:] += 3
    watching = watch(model, ["dummy_mass"])
    seen = train(model, [batches(), batches((9, 9, 9), seed=2)], watching)
    result = watching.results()["dummy_mass"]
    logits = [torch.cat([logits for logits, _ in steps]) for steps in seen]
    close(result["mass"], torch.stack([durm.dummy_mass(rows.double(), CLASSES).mean() for rows in logits]))
    assert result["hits"] == [int(durm.dummy_hits(rows, CLASSES).sum()) for rows in logits]
    assert result["samples"] == [13, 27]
    assert (sum(result["hits"]) > 0) == bool(dummies)


def test_what_does_not_count() -> None:
    watching = watch(network(1), ["dummy_mass"])
    watching.step(torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 9.0]]), torch.tensor([0, -100]))
    watching.epoch()
    assert watching.results()["dummy_mass"] == {"mass": [0.25], "hits": [0], "samples": [1]}
