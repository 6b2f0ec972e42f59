"""State dicts are split into the C-class model and the rows of the dummies, and put together again."""

import pytest
import torch
from torch import nn

import durm
from durm.heads.dummy_state import check_rows, dummy_rows, with_rows, without_rows


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


@pytest.mark.parametrize("buffer", [False, True])
def test_what_is_split_is_put_together(buffer: bool) -> None:
    model = durm.widen(network(), 2)
    if buffer:  # rows that are not trained are buffers of the head
        model[2].register_buffer("dummy_weight", torch.randn(2, 8))
    state = model.state_dict()
    rows = dummy_rows(model, state)
    plain = without_rows(state, rows)
    network().load_state_dict(plain)  # strictly
    assert torch.equal(plain["2.weight"], state["2.weight"][:3])
    assert torch.equal(rows["2.bias"], state["2.bias"][3:])
    again = with_rows({f"module.{name}": value for name, value in plain.items()}, rows, model, "module.")
    assert again.keys() == {f"module.{name}" for name in state}
    assert all(torch.equal(again[f"module.{name}"], value) for name, value in state.items())


def test_a_part_of_a_state_dict_stays_a_part() -> None:
    model = durm.widen(network(), 2)
    part = {"2.weight": model[2].weight.detach()[:3]}
    assert {name: len(value) for name, value in with_rows(part, dummy_rows(model), model).items()} == {"2.weight": 5}


def test_rows_of_another_model_are_refused() -> None:
    rows = dummy_rows(durm.widen(network(), 2))
    check_rows(rows, durm.widen(network(), 2), "it")
    for other, count in ((durm.widen(network(), 1), 1), (network(), 0)):
        with pytest.raises(ValueError, match=f"it is of a model with 2 dummies, and this one has {count}"):
            check_rows(rows, other, "it")
