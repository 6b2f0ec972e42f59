"""`widen` and `narrow`, without being told the head, on a small model of every family: see `zoo.py`."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import durm
from durm.heads.layer import LAYERS, Widened, width
from tests.heads.zoo import CLASSES, FILES, HUGGING_FACE, REFUSED, SAMPLE, TIMM, ZOO, Case

DUMMIES = 2


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The models are too small to share out, and pytest runs several of them at a time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", SAMPLE)
def test_one_of_each_kind_of_head(name: str) -> None:
    check(ZOO[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_every_model(name: str) -> None:
    check(ZOO[name])


def check(case: Case) -> None:
    model, inputs = case.build(), case.inputs()
    check_evaluation(model, inputs)
    check_training(durm.widen(model, DUMMIES), inputs)


@torch.no_grad()
def check_evaluation(model: nn.Module, inputs: Tensor) -> None:
    """Widening does not show in eval mode unless it is asked for, and narrowing leaves no trace of it."""
    before, state, kinds = logits(model(inputs)), copy_of_state(model), kinds_of_modules(model)
    assert before
    for real in before:
        assert real.shape[class_axis(real)] == CLASSES
        assert real.isfinite().all()
        assert not torch.equal(real[0], real[1])  # what does not depend on the inputs would prove little

    durm.widen(model, DUMMIES)
    assert_equal(logits(model(inputs)), before)
    with durm.full_logits(model):
        full = logits(model(inputs))
    for every, real in zip(full, before, strict=True):
        assert every.shape[class_axis(every)] == CLASSES + DUMMIES
        scale = real.abs().max().item()
        torch.testing.assert_close(every.narrow(class_axis(every), 0, CLASSES), real, rtol=1e-4, atol=1e-5 * scale)

    durm.narrow(model)
    assert_equal(logits(model(inputs)), before)
    assert kinds_of_modules(model) == kinds
    narrowed = model.state_dict()
    assert list(narrowed) == list(state)
    assert_equal(list(narrowed.values()), list(state.values()))


def check_training(model: nn.Module, inputs: Tensor) -> None:
    """Every layer that gives class logits was widened, and its dummies learn."""
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, LAYERS)}
    widened = {name: layer for name, layer in layers.items() if isinstance(layer, Widened)}
    assert {layer.num_classes for layer in widened.values()} == {CLASSES}
    assert CLASSES not in {width(layer) for layer in layers.values()}

    loss = torch.zeros(())
    for every in training_logits(model.train(), inputs):
        assert every.shape[class_axis(every)] == CLASSES + DUMMIES
        loss = loss + every.square().mean()
    loss.backward()
    for name, layer in widened.items():
        for key, parameter in layer.named_parameters(prefix=name):
            assert parameter.grad is not None, key
            assert parameter.grad[CLASSES:].reshape(DUMMIES, -1).any(dim=1).all(), key


def training_logits(model: Any, inputs: Tensor) -> list[Tensor]:
    """What the model gives in training, and also where timm has to be asked for the logits of each head by itself."""
    found = logits(model(inputs))
    if hasattr(model, "set_distilled_training"):
        model.set_distilled_training(True)
        both = logits(model(inputs))
        assert len(both) == 2
        found += both
    if hasattr(model, "forward_train"):  # of VOLO: features, logits of the patches, and a box
        found.append(model.forward_train(inputs)[1])
    return found


def logits(outputs: Any) -> list[Tensor]:
    """All tensors in what a model returns: a tensor, a (named) tuple, or a dict."""
    if isinstance(outputs, Tensor):
        return [outputs]
    return [tensor for tensor in (outputs.values() if isinstance(outputs, Mapping) else outputs) if tensor is not None]


def class_axis(tensor: Tensor) -> int:
    """Second for a map of logits, last for logits of images, texts, tokens or patches."""
    return 1 if tensor.ndim == 4 else -1


def copy_of_state(model: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def kinds_of_modules(model: nn.Module) -> dict[str, type[nn.Module]]:
    return {name: type(module) for name, module in model.named_modules()}


def assert_equal(ones: list[Tensor], others: list[Tensor]) -> None:
    """Bit for bit, and in shape."""
    assert all(torch.equal(one, other) for one, other in zip(ones, others, strict=True))


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_labels_wait_until_the_dummies_are_gone(name: str) -> None:
    """A Hugging Face model computes a loss of its own from labels, which cannot be right for more than C logits."""
    model, inputs = HUGGING_FACE[name].build(), HUGGING_FACE[name].inputs()
    outputs = model(inputs).logits
    labels = outputs.argmax(class_axis(outputs))
    loss = model(inputs, labels=labels).loss

    durm.widen(model, DUMMIES)
    assert torch.equal(model(inputs, labels=labels).loss, loss)
    with pytest.raises(ValueError, match=r"labels=.*durm\.cross_entropy"):
        model.train()(inputs, labels=labels)
    with durm.full_logits(model.eval()), pytest.raises(ValueError, match=r"labels=.*durm\.cross_entropy"):
        model(inputs, labels=labels)

    durm.narrow(model)
    assert torch.equal(model(inputs, labels=labels).loss, loss)
    assert model.train()(inputs, labels=labels).loss.isfinite()


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_without_a_head_is_refused(name: str) -> None:
    model = REFUSED[name].build()
    state, kinds = copy_of_state(model), kinds_of_modules(model)
    with pytest.raises(ValueError, match=r"found no head in this \w+Encoder; pass head=…\. Its layers: .* outputs"):
        durm.widen(model, DUMMIES)
    assert kinds_of_modules(model) == kinds
    assert_equal(list(model.state_dict().values()), list(state.values()))


def test_the_table_has_every_model_file_of_timm() -> None:
    new, gone = FILES.keys() - TIMM.keys(), TIMM.keys() - FILES.keys()
    assert not new, f"timm has model files that the zoo has not: {sorted(new)}"
    assert not gone, f"the zoo has model files that timm has not: {sorted(gone)}"
    assert all(case.make.args[0] in FILES[name] for name, case in TIMM.items())


def test_nearly_all_models_work() -> None:
    """What is in the zoo works, as the slow test shows; the rest is refused."""
    assert len(ZOO) / (len(ZOO) + len(REFUSED)) >= 0.97
