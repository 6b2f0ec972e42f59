"""Models of which an attack by gradients says too much."""

import torch
from torch import Tensor, nn

import durm
from durm.attacks import check_model
from tests.attacks.small import batch, network, predictions


def kinds(model: nn.Module) -> list[str]:
    inputs, _ = batch()
    return [text.partition(":")[0] for text in check_model(model, inputs, predictions(model, inputs))]


def test_a_usual_model_has_none() -> None:
    model = network()
    model.train()
    assert kinds(model) == []
    assert model.training
    assert durm.dummies(model) == 2


def test_random_outputs() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, inputs: Tensor) -> Tensor:
            return self.inner(inputs + 0.01 * torch.rand_like(inputs))

    assert kinds(Noisy()) == ["Random outputs"]
    assert kinds(nn.Sequential(nn.Dropout(0.5), network())) == []  # in eval mode it draws nothing


def test_probabilities() -> None:
    assert kinds(nn.Sequential(network(), nn.Softmax(1))) == ["Probabilities"]


def test_zero_gradients_are_counted_where_the_model_is_right() -> None:
    """Logits 1,000 apart: the softmax is 1 to the last bit, and its gradient 0. A step function has none at all."""

    class Sure(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return 1000 * (inputs.flatten(1)[:, :3] - 0.5)

    inputs = torch.zeros(4, 1, 6, 6)
    inputs[:, 0, 0, 0] = torch.tensor([1.0, 1.0, 0.501, 0.501])
    inputs[:, 0, 0, 1] = torch.tensor([0.0, 0.0, 0.5, 0.5])
    (text,) = check_model(Sure(), inputs, torch.tensor([0, 1, 0, 0]))
    assert text.startswith("Zero gradients: of 3 samples that are classified rightly 1 have a gradient of 0")

    class Stepped(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return 3 * (inputs.flatten(1)[:, :5] > 0.5).double()

    assert kinds(Stepped()) == ["Zero gradients"]


def test_no_samples_say_nothing() -> None:
    assert check_model(network(), torch.zeros(0, 1, 6, 6), torch.zeros(0, dtype=torch.long)) == []
