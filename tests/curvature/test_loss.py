"""The losses: their values and gradients, whose parameters they are, and that looking leaves no trace."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import durm
from durm.curvature import ClassifierLoss, hessian, loss_along, stability, top_eigenvalues, trace
from tests.curvature.small import CLASSES, batch, dense, loss_of, network, unchanged


@pytest.mark.parametrize("chunk", [None, 6, 100])
def test_values_and_gradients(chunk: int | None) -> None:
    model = network().eval()
    inputs, targets = batch()
    with durm.full_logits(model):
        every = model(inputs)
    for kind, logits in (("training", every), ("real", model(inputs))):
        expected = F.cross_entropy(logits, targets)
        loss = loss_of(model, kind, chunk=chunk)
        value, gradient = loss.gradient()
        assert value == loss.value() == pytest.approx(expected.item(), rel=1e-12)
        assert loss.values()[kind] == value
        parts = torch.autograd.grad(expected, list(model.parameters()), retain_graph=True)
        if kind == "real":
            parts = [part[:CLASSES] if len(part) == CLASSES + 2 else part for part in parts]
        torch.testing.assert_close(gradient, torch.cat([part.flatten() for part in parts]))
        with hessian(loss) as matrix:
            torch.testing.assert_close(matrix.gradient(), gradient)


def test_the_training_loss_is_that_of_the_library() -> None:
    """With smoothing over the real classes, and targets that do not count."""
    model = network().eval()
    inputs, targets = batch()
    targets[:7] = -100
    with durm.full_logits(model):
        expected = durm.cross_entropy(model(inputs), targets, CLASSES, label_smoothing=0.2).item()
        real = F.cross_entropy(model(inputs)[:, :CLASSES], targets).item()
    loss = ClassifierLoss(model, inputs, targets, num_classes=CLASSES, label_smoothing=0.2, chunk=8)
    assert loss.value() == pytest.approx(expected, rel=1e-12)
    assert loss.values() == pytest.approx({"training": expected, "real": real}, rel=1e-12)


def test_soft_targets() -> None:
    model = network().eval()
    inputs, targets = batch()
    soft = ClassifierLoss(model, inputs, F.one_hot(targets, CLASSES).double(), num_classes=CLASSES)
    assert soft.value() == pytest.approx(loss_of(model).value(), rel=1e-12)


def test_pixels() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = durm.widen(nn.Conv2d(2, CLASSES, 1), 1)
        inputs, targets = torch.randn(3, 2, 4, 4), torch.randint(CLASSES, (3, 4, 4))
    loss = ClassifierLoss(model, inputs, targets, num_classes=CLASSES, kind="real", chunk=2)
    expected = F.cross_entropy(model.eval()(inputs), targets).item()
    assert loss.value() == pytest.approx(expected, rel=1e-6)
    assert top_eigenvalues(loss).converged


def test_parameters_of_each_kind() -> None:
    model = network()
    training, real = loss_of(model), loss_of(model, "real")
    every = sum(parameter.numel() for parameter in model.parameters())
    assert training.size == every
    assert real.size == every - 2 * 7  # two rows of six weights and a bias
    assert [tuple(part.shape) for part in real.layout.split(real.layout.weights())][-2:] == [(CLASSES, 6), (CLASSES,)]


def test_the_same_weights_have_the_same_real_loss_whatever_the_dummies() -> None:
    """Up to rounding: the loss, the gradient and the spectrum."""
    plain, wide = network(0), network(2)
    state = {name: value[: plain.state_dict()[name].shape[0]] if value.ndim else value
             for name, value in wide.state_dict().items()}  # fmt: skip
    plain.load_state_dict(state)
    ours, theirs = loss_of(wide, "real"), loss_of(plain, "training")
    assert ours.size == theirs.size
    for one, other in zip(ours.gradient(), theirs.gradient(), strict=True):
        torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other))
    assert top_eigenvalues(ours, 2).values == pytest.approx(top_eigenvalues(theirs, 2).values, rel=1e-9)


@pytest.mark.parametrize(
    "only", ["4.*", ["4.weight", "4.bias"], lambda name: name.startswith("4"), ["*.weight", "*.bias", "!"]]
)
def test_filters(only: object) -> None:
    """The Hessian of some parameters is a block of the whole."""
    whole = dense(network(), "training")
    loss = loss_of(network(), only=only)
    if not isinstance(only, list) or "!" not in only:
        assert {block.name for block in loss.layout.blocks} == {"4.weight", "4.bias"}
        whole = whole[-loss.size :, -loss.size :]
    with hessian(loss) as matrix:
        eye = torch.eye(loss.size, dtype=torch.float64)
        torch.testing.assert_close(torch.stack([matrix.product(row) for row in eye]), whole)


def test_frozen_parameters_are_not_looked_at() -> None:
    model = network()
    model[0].requires_grad_(False)
    assert next(block.name for block in loss_of(model).layout.blocks) == "1.weight"
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ValueError, match="no parameters that require a gradient"):
        loss_of(model)


def test_parameters_that_the_loss_does_not_use() -> None:
    model = network(0)
    model.unused = nn.Linear(2, 2).double()
    model.forward = lambda inputs: nn.Sequential(*list(model)[:5])(inputs)
    loss = loss_of(model)
    with hessian(loss) as matrix:
        assert torch.equal(matrix.product(torch.ones(loss.size, dtype=torch.float64))[-6:], torch.zeros(6).double())
    assert torch.equal(loss.gradient()[1][-6:], torch.zeros(6).double())


def test_random_vectors_of_shared_parameters_do_not_depend_on_the_dummies() -> None:
    plain, wide = loss_of(network(0)), loss_of(network(2))
    for one, other in zip(
        plain.layout.split(plain.layout.random(torch.randn, 0, "x")),
        wide.layout.split(wide.layout.random(torch.randn, 0, "x")),
        strict=True,
    ):
        assert torch.equal(one, other[: len(one)])
    assert not torch.equal(plain.layout.random(torch.randn, 0, "x"), plain.layout.random(torch.randn, 1, "x"))


@pytest.mark.parametrize("training", [True, False])
def test_products_leave_the_model_as_it_was(training: bool) -> None:
    model = network().train(training)
    model[1].eval()
    unchanged(model, lambda: top_eigenvalues(loss_of(model)))


def test_an_error_leaves_the_model_as_it_was() -> None:
    model = network()

    def look() -> None:
        with pytest.raises(ValueError, match="expected logits"):
            ClassifierLoss(model, *batch(), num_classes=2).value()

    unchanged(model, look)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("chunk", [None, 6])
def test_without_gradients_around(mode: Callable[[], AbstractContextManager[None]], chunk: int | None) -> None:
    model = network()

    def look() -> list[object]:
        loss = loss_of(model, chunk=chunk)
        rise = stability(loss, 0.1, steps=2, starts=2, points=2)
        return [top_eigenvalues(loss), trace(loss, samples=2), rise, loss_along(loss, distances=[0.1])]

    expected = look()
    with mode():
        assert look() == expected


def test_a_graph_that_the_caller_holds_stays_of_use() -> None:
    """In the midst of a training step."""
    model = network().eval()
    inputs, targets = batch()
    waiting = F.cross_entropy(model(inputs), targets)
    loss = loss_of(model)
    with loss.perturbed() as move:
        move(torch.ones(loss.size, dtype=torch.float64))
        assert loss.value() != pytest.approx(waiting.item(), rel=1e-3)
    waiting.backward()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_classes": 4}, r"output of shape \(20, 5\): expected logits, \(20, 6, …\), for num_classes=4 and 2 dum"),
        ({"num_classes": 0}, "num_classes=0"),
        ({"kind": "reel"}, "loss 'reel' is unknown: did you mean 'real'"),
        ({"only": "head.*"}, r"only='head.\*' fits none of the parameters, which are 0.weight, 0.bias"),
        ({"only": []}, r"only=\[\] fits none"),
        ({"chunk": 0}, "chunk=0: expected an int of at least 1"),
        ({"label_smoothing": 1.5}, "label_smoothing=1.5: expected a number from 0 to 1"),
        ({"inputs": torch.zeros(3, 4)}, "inputs of 3 and targets of 20 samples: expected as many, at least one"),
        ({"targets": torch.full((20,), 3)}, "target 3 is outside"),
        ({"targets": torch.full((20,), -100)}, "targets: all of them are -100"),
    ],
)
def test_bad_input(settings: dict, message: str) -> None:
    inputs, targets = batch()
    settings = {"inputs": inputs, "targets": targets, "num_classes": CLASSES, **settings}
    with pytest.raises(ValueError, match=message):
        ClassifierLoss(network(), **settings).value()


def test_other_outputs_and_precisions_are_refused() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = network(0)

        def forward(self, inputs: torch.Tensor) -> dict:
            return {"logits": self.model(inputs)}

    with pytest.raises(ValueError, match="output of type dict"):
        ClassifierLoss(Named(), *batch(), num_classes=CLASSES).value()
    with pytest.raises(ValueError, match=r"'0.weight' is torch.bfloat16: expected float32 or float64"):
        loss_of(network(dtype=torch.bfloat16))


def test_a_data_loader() -> None:
    """It may shuffle and draw from the global random state, which is left as it was."""
    model = network()
    inputs, targets = batch()
    for shuffle in (False, True):
        loader = DataLoader(TensorDataset(inputs, targets), batch_size=6, shuffle=shuffle)
        found, expected = ClassifierLoss(model, loader, num_classes=CLASSES), loss_of(model, chunk=6)
        assert found.samples == 20
        unchanged(model, found.value)
        assert found.value() == pytest.approx(expected.value(), rel=1e-12)
        torch.testing.assert_close(found.gradient()[1], expected.gradient()[1])
        assert top_eigenvalues(found).values == pytest.approx(top_eigenvalues(expected).values, rel=1e-9)
        torch.manual_seed(0)
        state = torch.get_rng_state()
        top_eigenvalues(found)
        assert torch.equal(torch.get_rng_state(), state)


def test_augmentation_is_the_same_in_every_pass() -> None:
    class Noisy(Dataset):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
            inputs, targets = batch()
            return inputs[index] + torch.randn(4), targets[index]

    loss = ClassifierLoss(network(), DataLoader(Noisy(), batch_size=6, shuffle=True), num_classes=CLASSES)
    assert loss.value() == loss.value()


@pytest.mark.parametrize(
    ("inputs", "settings", "message"),
    [
        (torch.zeros(3, 4), {}, "targets=None: inputs in a tensor need targets"),
        ([batch()], {"targets": torch.zeros(20).long()}, "targets: batches have targets and a size of their own"),
        ([batch()], {"chunk": 3}, "chunk=3: batches have targets"),
        (iter([batch()]), {}, "of type list_iterator can be gone through once only; try a list"),
        ([], {}, "there are no samples in them"),
        ([torch.zeros(3)], {}, "a batch of type Tensor: expected inputs and targets"),
    ],
)
def test_other_batches_are_refused(inputs: object, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClassifierLoss(network(), inputs, num_classes=CLASSES, **settings)


def test_batches_that_change_are_refused() -> None:
    batches = [batch()]
    loss = ClassifierLoss(network(), batches, num_classes=CLASSES)
    batches.append(batch())
    with pytest.raises(ValueError, match="gave 40 targets, after 20 before: expected the same ones"):
        loss.value()
