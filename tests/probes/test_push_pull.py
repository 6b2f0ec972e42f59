"""The terms of Eq. (3), against `durm.push_pull` and, for soft targets, against the gradient that they add up to."""

import pytest
import torch

import durm
from durm.probes import watch
from tests.probes.small import CLASSES, batches, close, logit_gradients, network, train


@pytest.mark.parametrize("dummies", [0, 2])
def test_means_over_each_epoch(dummies: int) -> None:
    model = network(dummies)
    watching = watch(model, ["push_pull"])
    seen = train(model, [batches(), batches((9, 3), seed=2)], watching)
    result = watching.results()["push_pull"]
    assert result["samples"] == [13, 12]
    for epoch, steps in enumerate(seen):
        logits, targets = (torch.cat(parts) for parts in zip(*steps, strict=True))
        push, pull = durm.push_pull(logits.double(), targets, CLASSES)
        close(result["push"][epoch], push / len(targets))
        close(result["pull"][epoch], pull / len(targets))
        assert result["pull"][epoch][CLASSES:] == [0.0] * dummies


def test_what_does_not_count() -> None:
    logits, targets = torch.randn(6, CLASSES + 2), torch.tensor([0, -100, 1, 2, -100, 0])
    watching = watch(network(), ["push_pull"])
    watching.step(logits, targets)
    watching.epoch()
    result = watching.results()["push_pull"]
    for found, expected in zip(
        (result["push"][0], result["pull"][0]), durm.push_pull(logits, targets, CLASSES), strict=True
    ):
        close(found, expected / 4)


def test_soft_targets_belong_to_each_class_in_part() -> None:
    soft = [(inputs, torch.rand(len(inputs), CLASSES).softmax(1)) for inputs, _ in batches()]
    model = network()
    watching = watch(model, ["push_pull"])
    (steps,) = train(model, [soft], watching)
    result = watching.results()["push_pull"]
    push, pull = torch.tensor(result["push"][0]), torch.tensor(result["pull"][0])
    close((push + pull).tolist(), logit_gradients(steps).mean(0))
    logits, targets = (torch.cat(parts).double() for parts in zip(*steps, strict=True))
    p = logits.softmax(1)
    close(pull[:CLASSES].tolist(), (targets * (p[:, :CLASSES] - 1)).mean(0))
    assert (push >= 0).all()
    assert pull[CLASSES:].tolist() == [0, 0]
