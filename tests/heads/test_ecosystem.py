"""Widened models under the rest of PyTorch: compile, autocast, export, ONNX, weight averaging."""

import copy
import io
import shutil

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
import torch.nn.utils.prune
from torch import Tensor, nn

import durm
import durm.models  # before torchmetrics: it cures the import of torchvision

# isort: split
import torchmetrics


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 5))


def images(samples: int = 4) -> Tensor:
    return torch.randn(samples, 3, 8, 8, generator=torch.Generator().manual_seed(1))


LABELS = torch.arange(4)


INDUCTOR = pytest.param(
    "inductor", marks=[pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")]
)


@pytest.mark.parametrize("backend", ["aot_eager", INDUCTOR])
def test_compile_follows_the_mode_and_trains_as_eager_does(backend: str) -> None:
    """One whole graph for each of the three ways to call the model."""
    eager, model = durm.widen(network(), 2), durm.widen(network(), 2)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for one, call in ((eager, eager), (model, compiled)):
        one.train()
        optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
        F.cross_entropy(call(images()), LABELS).backward()
        optimizer.step()
    torch.testing.assert_close(model[4].weight, eager[4].weight, rtol=1e-4, atol=1e-5)
    eager.eval()
    compiled.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(images()), eager(images()), rtol=1e-4, atol=1e-5)
        with durm.full_logits(model):
            assert compiled(images()).shape == (4, 7)
        assert compiled(images()).shape == (4, 5)


def test_widening_a_compiled_model() -> None:
    compiled = torch.compile(network(), backend="aot_eager")
    assert compiled(images()).shape == (4, 5)
    durm.widen(compiled, 2)
    assert compiled(images()).shape == (4, 7)


def test_autocast() -> None:
    model = durm.widen(network(), 2)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(images())
        assert logits.dtype == torch.bfloat16
        assert logits.shape == (4, 7)
        durm.cross_entropy(logits, LABELS, 5, label_smoothing=0.1).backward()
        wide = model.eval()(images())
        narrow = durm.narrow(copy.deepcopy(model))(images())
    assert model[4].weight.grad.dtype == torch.float32
    assert model[4].weight.grad[5:].any()
    assert torch.equal(wide, narrow)


def test_channels_last_gives_the_narrowed_bits() -> None:
    model = durm.widen(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 5, 3)).to(memory_format=torch.channels_last), 2)
    x = images().to(memory_format=torch.channels_last)
    before = model.eval()(x)
    assert torch.equal(durm.narrow(model)(x), before)


@pytest.mark.parametrize("full", [False, True])
def test_export(full: bool) -> None:
    model = durm.widen(network(), 2).eval()
    with torch.no_grad():
        if full:
            with durm.full_logits(model):
                program, expected = torch.export.export(model, (images(),)), model(images())
        else:
            program, expected = torch.export.export(model, (images(),)), model(images())
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    torch.testing.assert_close(torch.export.load(file).module()(images()), expected)


@pytest.mark.parametrize("narrowed", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_onnx(narrowed: bool) -> None:
    model = durm.widen(network(), 2).eval()
    expected = model(images()).detach().numpy()
    program = torch.onnx.export(durm.narrow(model) if narrowed else model, (images(),), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (logits,) = session.run(None, {session.get_inputs()[0].name: images().numpy()})
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_trace() -> None:
    model = durm.widen(network(), 2).eval()
    assert torch.equal(torch.jit.trace(model, images())(images()), model(images()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("training", [False, True])
def test_script_is_refused_with_a_way_out(training: bool) -> None:
    model = durm.widen(network(), 2).train(training)
    with pytest.raises(RuntimeError, match=r"torch\.jit\.script .*durm\.narrow.*torch\.export"):
        torch.jit.script(model)
    narrowed = durm.narrow(model).eval()
    assert torch.equal(torch.jit.script(narrowed)(images()), narrowed(images()))


def test_torchmetrics() -> None:
    """By hand: the right class has the largest real logit in three of four samples, and in one of them a dummy wins."""
    logits = torch.tensor(
        [[2.0, 1, 0, 0, 0], [0, 2.0, 0, 0, 0], [0, 0, 2.0, 9.0, 0], [2.0, 0, 1.0, 0, 0]]
    )  # three classes, two dummies
    labels = torch.tensor([0, 1, 2, 2])
    model = durm.widen(nn.Linear(5, 3, bias=False), 2)
    with torch.no_grad():
        model.weight.copy_(torch.eye(5))
    accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=3, average="micro")
    wide = torchmetrics.Accuracy(task="multiclass", num_classes=5, average="micro")
    assert accuracy(model.eval()(logits), labels) == 0.75
    assert accuracy(model.train()(logits)[:, :3], labels) == 0.75
    assert wide(model(logits), labels) == 0.5  # what the docs warn of
    with pytest.raises(ValueError, match="number of classes"):
        accuracy(model(logits), labels)


def test_averaged_model() -> None:
    """EMA and SWA copy the model, and their average narrows like any other."""
    model = durm.widen(network(), 2)
    average = torch.optim.swa_utils.AveragedModel(model)
    average.update_parameters(model)
    assert durm.dummies(average) == 2
    assert durm.narrow(average).eval()(images()).shape == (4, 5)


def test_functional_call_and_per_sample_gradients() -> None:
    model = durm.widen(nn.Sequential(nn.Flatten(0), nn.Linear(192, 5)), 2)
    parameters = dict(model.named_parameters())

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return durm.cross_entropy(torch.func.functional_call(model, weights, (x,)), y, 5)

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, images(), LABELS)
    (mean,) = torch.autograd.grad(
        sum(loss(parameters, x, y) for x, y in zip(images(), LABELS, strict=True)) / 4, [model[1].weight]
    )
    torch.testing.assert_close(each["1.weight"].mean(0), mean)


def test_pruning_after_widening() -> None:
    """Pruning makes the weight a plain attribute, computed from a parameter of another name."""
    model = durm.widen(nn.Linear(8, 5), 2).eval()
    nn.utils.prune.l1_unstructured(model, "weight", amount=0.5)
    x = torch.randn(3, 8)
    torch.testing.assert_close(model(x), F.linear(x, model.weight[:5], model.bias[:5]))
