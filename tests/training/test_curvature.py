"""Flatness in the loop: the eigenvalue is the dense Hessian's, and looking changes nothing."""

from pathlib import Path

import pytest
import torch
from torch.func import functional_call

from durm.training.building import load_bundle
from durm.training.inference import load_model
from durm.training.trainer import Interrupted, RunContext, run
from durm.training.trial import TrainSpec, Trial

SAMPLES = 40


def trial(flatness: int | None = SAMPLES, dummies: int = 1) -> Trial:
    train = TrainSpec(epochs=3, batch_size=256, lr=0.1)
    return Trial(
        data="digits", model="tests.training.test_curvature:small", dummies=dummies, flatness=flatness, train=train
    )


def small(num_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.AvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 3),
        torch.nn.Tanh(),
        torch.nn.Linear(3, num_classes),
    )


def test_the_last_eigenvalue_is_that_of_the_dense_hessian(tmp_path: Path) -> None:
    result = run(trial(), RunContext(folder=tmp_path))
    model, described, _ = load_model(tmp_path / "checkpoint.pt", trust_code=True)
    bundle = load_bundle(described)
    assert isinstance(bundle.train.inputs, torch.Tensor)
    inputs, targets = bundle.input.normalise(bundle.train.inputs[:SAMPLES]).double(), bundle.train.labels[:SAMPLES]
    model = model.double().eval()
    shapes = {
        name: (parameter[:10] if name.startswith("4.") else parameter).shape
        for name, parameter in model.named_parameters()
    }
    start = torch.cat([parameter.detach()[: shapes[name][0]].flatten() for name, parameter in model.named_parameters()])
    plain = small(10).double()

    def loss(flat: torch.Tensor) -> torch.Tensor:
        parts = flat.split([shape.numel() for shape in shapes.values()])
        weights = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        return torch.nn.functional.cross_entropy(functional_call(plain, weights, (inputs,)), targets)

    matrix = torch.func.hessian(loss)(start)
    largest = torch.linalg.eigvalsh(matrix)[-1].item()
    seen = result.probes["flatness"]
    assert seen["samples"] == SAMPLES
    assert len(seen["top_eigenvalue"]) == len(seen["gradient_norm"]) == 3
    assert all(seen["converged"])
    assert seen["top_eigenvalue"][-1] == pytest.approx(largest, rel=0.01)
    assert seen["end"]["real"]["eigenvalues"]["values"][0] == pytest.approx(largest, rel=1e-3)
    assert seen["gradient_norm"][-1] == pytest.approx(torch.func.grad(loss)(start).norm().item(), rel=1e-4)


def test_looking_changes_nothing_and_goes_on_after_a_cut(tmp_path: Path) -> None:
    alone, watched = (run(trial(flatness)) for flatness in (None, SAMPLES))
    assert watched.weights_sha256 == alone.weights_sha256
    asked = iter(range(3))
    with pytest.raises(Interrupted):
        run(trial(), RunContext(folder=tmp_path, stop=lambda: next(asked, None) is None))
    assert run(trial(), RunContext(folder=tmp_path)).probes == watched.probes
