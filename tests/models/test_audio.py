"""The LSTM: shapes, what it computes, its head, and that it learns."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm
from durm.data import DataOptions, load
from durm.models import build
from durm.models.audio import lstm
from tests.data.samples import write_sample


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """What is computed here is so small that more would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("shape", [(170, 40), (47, 40), (1, 3), (5, 1)])
def test_a_sequence_gives_a_logit_for_each_class(shape: tuple[int, int]) -> None:
    for model in (lstm(7, shape), build("lstm", 7, shape)):
        assert model(torch.randn(2, *shape)).shape == (2, 7)


def test_it_is_two_layers_by_the_equations_and_the_mean_over_time() -> None:
    torch.manual_seed(0)
    model = lstm(3, (6, 5)).double().eval()
    sequences = torch.randn(2, 6, 5, dtype=torch.float64)
    weights = dict(model.lstm.named_parameters())  # type: ignore[union-attr,operator]
    outputs: list[Tensor] = list(sequences.unbind(1))
    for layer in range(2):
        state = cell = torch.zeros(2, 128, dtype=torch.float64)
        following = []
        for frame in outputs:
            gates = frame @ weights[f"weight_ih_l{layer}"].T + weights[f"bias_ih_l{layer}"]
            gates = gates + state @ weights[f"weight_hh_l{layer}"].T + weights[f"bias_hh_l{layer}"]
            enter, forget, content, leave = gates.chunk(4, 1)
            cell = forget.sigmoid() * cell + enter.sigmoid() * content.tanh()
            state = leave.sigmoid() * cell.tanh()
            following.append(state)
        outputs = following
    assert "weight_ih_l2" not in weights
    head = model.head
    assert isinstance(head, nn.Linear)
    expected = sum(outputs) / 6 @ head.weight.T + head.bias
    torch.testing.assert_close(model(sequences), expected)


def test_its_head_is_widened_and_narrowed() -> None:
    model = lstm(10, (170, 40)).eval()
    sequences = torch.randn(3, 170, 40)
    before = model(sequences)
    durm.widen(model, 2)
    assert model.train()(sequences).shape == (3, 12)
    assert torch.equal(model.eval()(sequences), before)
    durm.narrow(model)
    assert repr(model) == repr(lstm(10, (170, 40)).eval())
    assert torch.equal(model(sequences), before)


def test_it_learns_the_spoken_sample(tmp_path: Path) -> None:
    write_sample("fsdd", tmp_path)
    data = load("fsdd", seed=0, options=DataOptions(tmp_path))
    assert isinstance(data.train.inputs, Tensor)
    inputs, labels = data.input.normalise(data.train.inputs)[:, :20], data.train.labels  # the rest is silent in some
    torch.manual_seed(0)
    model = lstm(data.num_classes, data.input.shape)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(15):
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
