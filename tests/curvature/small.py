"""Small losses whose Hessian is known, and the Hessian of others entry by entry, by torch.func."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian

import durm
from durm.curvature import ClassifierLoss, ClosureLoss

CLASSES = 3


def network(dummies: int = 2, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A smooth network with dropout and batch normalisation, in training mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, CLASSES))
        durm.widen(model, dummies)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape))
            model[1].running_mean.normal_()
            model[1].running_var.uniform_(0.5, 2)
    return model.to(dtype)


def batch(count: int = 20, seed: int = 1) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    inputs = 2 * torch.randn(count, 4, generator=random, dtype=torch.float64)
    return inputs, torch.randint(CLASSES, (count,), generator=random)


def loss_of(model: nn.Module, kind: str = "training", **settings: object) -> ClassifierLoss:
    return ClassifierLoss(model, *batch(), num_classes=CLASSES, kind=kind, **settings)


def dense(model: nn.Module, kind: str) -> Tensor:
    """The whole Hessian, `(n, n)`, in the order of the parameters. Of "real" the rows of the dummies are cut out."""
    inputs, targets = batch()
    model.eval()
    names = [name for name, _ in model.named_parameters()]
    shapes = [parameter.shape for parameter in model.parameters()]
    start = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    def function(weights: Tensor) -> Tensor:
        parts = [
            part.view(shape) for part, shape in zip(weights.split([s.numel() for s in shapes]), shapes, strict=True)
        ]
        logits = functional_call(model, dict(zip(names, parts, strict=True)), inputs)
        z = logits if kind == "training" else logits[:, :CLASSES]
        return (z.logsumexp(1) - z.gather(1, targets[:, None])[:, 0]).mean()

    with durm.full_logits(model):
        matrix = hessian(function)(start)
    keep = torch.cat([_kept(name, shape, kind) for name, shape in zip(names, shapes, strict=True)])
    return matrix[keep][:, keep]


def _kept(name: str, shape: torch.Size, kind: str) -> Tensor:
    mask = torch.ones(shape, dtype=torch.bool)
    if kind == "real" and name.startswith("4."):
        mask[CLASSES:] = False
    return mask.flatten()


def quadratic(matrix: Tensor, gradient: Tensor | None = None, at: Tensor | None = None) -> ClosureLoss:
    """f(w) = gᵀ(w − a) + (w − a)ᵀ A (w − a) / 2 at w = a, as one filter with the norm ‖a‖."""
    at = torch.ones(len(matrix), dtype=matrix.dtype) if at is None else at
    slope = torch.zeros_like(at) if gradient is None else gradient
    w = nn.Parameter(at.clone())

    def closure() -> Tensor:
        v = w - at
        return slope @ v + v @ matrix @ v / 2

    return ClosureLoss(closure, {"w": w})


def symmetric(eigenvalues: Tensor, seed: int = 0) -> Tensor:
    """A matrix with these eigenvalues and random eigenvectors."""
    random = torch.Generator().manual_seed(seed)
    rotation = torch.linalg.qr(torch.randn(len(eigenvalues), len(eigenvalues), generator=random, dtype=torch.float64)).Q
    return rotation @ torch.diag(eigenvalues.double()) @ rotation.T


def unchanged(model: nn.Module, look: Callable[[], object]) -> None:
    """Looks, and checks that nothing of the model or of the global random state is another afterwards."""
    for index, parameter in enumerate(model.parameters()):
        parameter.grad = None if index == 0 else torch.full_like(parameter, index)
    modes = [module.training for module in model.modules()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    needs = [p.requires_grad for p in model.parameters()]
    random = torch.get_rng_state()
    look()
    assert [module.training for module in model.modules()] == modes
    assert not any(getattr(module, "full", False) for module in model.modules())
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
    for parameter, grad, need in zip(model.parameters(), grads, needs, strict=True):
        assert (parameter.grad is None) == (grad is None)
        assert grad is None or torch.equal(parameter.grad, grad)
        assert parameter.requires_grad == need
    assert torch.equal(torch.get_rng_state(), random)
