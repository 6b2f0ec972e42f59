"""APGD against a transcription of the published algorithm that takes one sample at a time."""

import math

import pytest
import torch
from torch import Tensor, nn

from durm.attacks import apgd
from durm.attacks.auto_pgd import _begin, _checked, checkpoints
from tests.attacks.small import batch, network


def plain_apgd(model: nn.Module, sample: Tensor, target: int, eps: float, steps: int, norm: str) -> list[float]:
    """The losses of all points of Algorithm 1 of Croce & Hein (2020), lists in place of batches."""

    def loss_and_gradient(point: Tensor) -> tuple[float, Tensor]:
        leaf = point.clone().requires_grad_()
        loss = -model(leaf[None])[0].log_softmax(0)[target]
        loss.backward()
        return loss.item(), leaf.grad

    def project(point: Tensor) -> Tensor:
        change = point - sample
        if norm == "linf":
            return (sample + change.clamp(-eps, eps)).clamp(0, 1)
        return (sample + change * min(1.0, eps / max(change.norm().item(), 1e-12))).clamp(0, 1)

    def step(gradient: Tensor) -> Tensor:
        return gradient.sign() if norm == "linf" else gradient / gradient.norm()

    shares = [0.0, 0.22]
    while shares[-1] < 1:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
    checked_at = {math.ceil(round(share * steps, 9)) for share in shares[1:]}

    size, path, used = 2 * eps, [sample], []
    loss, gradient = loss_and_gradient(sample)
    history, all_losses = [loss], [loss]
    best = (loss, sample, gradient)
    last, size_then, best_then = 0, None, None
    for k in range(steps):
        ahead = project(path[-1] + size * step(gradient))
        if k:
            ahead = project(path[-1] + 0.75 * (ahead - path[-1]) + 0.25 * (path[-1] - path[-2]))
        loss, gradient = loss_and_gradient(ahead)
        path.append(ahead)
        all_losses.append(loss)
        used.append(loss > history[-1])
        history.append(loss)
        if loss > best[0]:
            best = (loss, ahead, gradient)
        if k + 1 in checked_at:
            few = sum(used[last:]) < 0.75 * (k + 1 - last)
            stuck = size == size_then and best[0] == best_then
            last, size_then, best_then = k + 1, size, best[0]
            if few or stuck:
                size /= 2
                history[-1], path[-1], gradient = best
    return all_losses


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_it_is_the_published_algorithm(norm: str) -> None:
    model, (inputs, targets) = network(), batch(4)
    eps = 0.1 if norm == "linf" else 0.8
    judged: list[Tensor] = []
    hook = model.register_forward_hook(lambda module, given, logits: judged.append(logits.detach()))
    apgd(model, inputs, targets, eps=eps, norm=norm, steps=30, random_start=False)
    hook.remove()
    assert [len(logits) for logits in judged[:30]] == [4] * 30
    losses = torch.stack([nn.functional.cross_entropy(logits, targets, reduction="none") for logits in judged[:30]], 1)
    for sample, target, ours in zip(inputs, targets.tolist(), losses, strict=True):
        truth = plain_apgd(model, sample, target, eps, 30, norm)[:30]
        torch.testing.assert_close(ours, torch.tensor(truth, dtype=torch.float64), rtol=1e-6, atol=1e-9)


def test_checkpoints() -> None:
    """By hand: 0.22, then 0.19, 0.16, 0.13, 0.10, 0.07 and 0.06 further on."""
    assert list(checkpoints(100)) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert list(checkpoints(10)) == [3, 5, 6, 7, 8, 9, 10, 10]


def test_when_a_step_is_halved() -> None:
    """Of ten steps 7.5 must rise; and if all did but nothing was gained, the second checkpoint in a row halves."""
    points = torch.arange(4.0)[:, None]
    state = _begin(points, 1.0)._replace(
        best=10 + points,
        best_loss=torch.tensor([5.0, 5.0, 5.0, 5.0]),
        best_gradient=20 + points,
        rises=torch.tensor([7.0, 8.0, 10.0, 10.0]),
        halved=torch.tensor([False, False, False, True]),
        checkpoint_loss=torch.tensor([4.0, 4.0, 5.0, 5.0]),
    )
    after = _checked(state, 10)
    assert after.halved.tolist() == [True, False, True, False]
    assert after.size.tolist() == [0.5, 1.0, 0.5, 1.0]
    assert after.points.flatten().tolist() == [10.0, 1.0, 12.0, 3.0]
    assert after.gradient.flatten().tolist() == [20.0, 0.0, 22.0, 0.0]
    assert after.rises.tolist() == [0.0] * 4
    assert after.checkpoint_loss.tolist() == [5.0] * 4
