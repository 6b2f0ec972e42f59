"""Models and batches that several tests of attacks use, and plain transcriptions to compare with."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm


def linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """The model z = W x + b, with those weights."""
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        model.weight.copy_(weight)
        if bias is not None:
            model.bias.copy_(bias)
    return model


def two_classes(features: int = 6, seed: int = 0) -> nn.Linear:
    random = torch.Generator().manual_seed(seed)
    return linear(torch.randn(2, features, generator=random, dtype=torch.float64))


def network(
    shape: tuple[int, ...] = (1, 6, 6), classes: int = 5, dummies: int = 2, seed: int = 0, dtype=torch.float64
) -> nn.Module:
    """An untrained network with a hidden layer, whose weights are large enough for attacks to have work to do."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        features = torch.Size(shape).numel()
        model = nn.Sequential(nn.Flatten(), nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, classes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return durm.widen(model, dummies).to(dtype).eval()


def batch(
    count: int = 8, shape: tuple[int, ...] = (1, 6, 6), classes: int = 5, seed: int = 1, dtype=torch.float64
) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    inputs = torch.rand(count, *shape, generator=random, dtype=dtype)
    return inputs, torch.randint(classes, (count,), generator=random)


def predictions(model: nn.Module, inputs: Tensor) -> Tensor:
    """The largest real logit."""
    with torch.no_grad():
        return model(inputs).argmax(1)


def real_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    with torch.no_grad():
        return F.cross_entropy(model(inputs), targets, reduction="none")


def within(points: Tensor, inputs: Tensor, eps: float, norm: str, tolerance: float = 1e-6) -> bool:
    """Whether all points lie in the ball around the inputs, and in the box."""
    order = torch.inf if norm == "linf" else 2
    distance = torch.linalg.vector_norm((points.double() - inputs.double()).flatten(1), order, dim=1)
    return bool((distance <= eps + tolerance).all() and (points >= 0).all() and (points <= 1).all())


def plain_pgd(
    model: nn.Module, sample: Tensor, target: int, eps: float, size: float, steps: int, norm: str
) -> list[tuple[bool, float, Tensor]]:
    """PGD from the sample, one sample at a time, as one writes it by hand: (success, loss, point) of all points."""
    point, path = sample.clone(), []
    for step in range(steps + 1):
        leaf = point.clone().requires_grad_()
        logits = model(leaf[None])[0]
        loss = -logits.log_softmax(0)[target]
        path.append((int(logits.argmax()) != target, loss.item(), point))
        if step == steps:
            return path
        loss.backward()
        gradient = leaf.grad
        if norm == "linf":
            point = point + size * gradient.sign()
            point = torch.minimum(torch.maximum(point, sample - eps), sample + eps)
        else:
            change = point + size * gradient / gradient.norm() - sample
            point = sample + change * min(1, eps / change.norm().item())
        point = point.clamp(0, 1)
    raise AssertionError
