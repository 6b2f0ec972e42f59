"""`narrow` gives back the C-class model; `narrow_state_dict` does it to a saved one."""

import io

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load, save
from torch import nn

import durm
from tests.heads.small import batch, mlp


def trained(dummies: int = 3) -> nn.Sequential:
    model = durm.widen(mlp(), dummies)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(batch()), torch.arange(4)).backward()
        optimizer.step()
    return model.eval()


def test_outputs_are_those_of_the_widened_model_bit_for_bit() -> None:
    model = trained()
    for samples in (1, 2, 7, 64, 257):
        x = batch(samples)
        before = model(x)
        assert torch.equal(durm.narrow(trained())(x), before)


def test_classes_keys_and_shapes_are_those_of_before() -> None:
    model, plain = durm.narrow(trained()), mlp()
    assert [type(module) for module in model.modules()] == [type(module) for module in plain.modules()]
    assert [(k, v.shape) for k, v in model.state_dict().items()] == [
        (k, v.shape) for k, v in plain.state_dict().items()
    ]
    assert repr(model) == repr(plain)
    assert model[3].__dict__.keys() == plain[3].__dict__.keys()
    assert model.state_dict()._metadata == plain.state_dict()._metadata


def test_a_model_without_dummies_is_left_alone() -> None:
    model = mlp()
    weight = model[3].weight
    assert durm.narrow(model) is model
    assert model[3].weight is weight


def test_it_can_be_widened_again() -> None:
    model = durm.widen(durm.narrow(trained(3)), 1)
    assert durm.dummies(model) == 1


def test_the_narrowed_weights_do_not_hold_on_to_the_dummies() -> None:
    weight = durm.narrow(trained())[3].weight
    assert weight.untyped_storage().nbytes() == 5 * 16 * 4


@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_saved_state_dict_says_itself_what_was_widened(prefix: str) -> None:
    model = trained()
    saved = nn.ModuleDict({"module": model}) if prefix else model
    file = io.BytesIO()
    torch.save(saved.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    narrowed = durm.narrow_state_dict(state)
    assert state[f"{prefix}3.weight"].shape == (8, 16)
    assert narrowed[f"{prefix}3.weight"].shape == (5, 16)
    plain = nn.ModuleDict({"module": mlp()}) if prefix else mlp()
    plain.load_state_dict(narrowed)
    fresh = plain["module"] if prefix else plain
    assert torch.equal(fresh.eval()(batch()), model(batch()))
    assert narrowed._metadata == plain.state_dict()._metadata


def test_a_narrowed_state_dict_can_be_saved_and_loaded_safely() -> None:
    file = io.BytesIO()
    torch.save(durm.narrow_state_dict(trained().state_dict()), file)
    file.seek(0)
    mlp().load_state_dict(torch.load(file, weights_only=True))


def test_a_state_dict_without_notes_needs_the_head_and_the_classes() -> None:
    model = trained()
    state = load(save(model.state_dict()))
    with pytest.raises(ValueError, match=r"pass head=… and num_classes=…"):
        durm.narrow_state_dict(state)
    with pytest.raises(ValueError, match="num_classes=None: expected C"):
        durm.narrow_state_dict(state, head="3")
    plain = mlp().eval()
    plain.load_state_dict(durm.narrow_state_dict(state, head="3", num_classes=5))
    assert torch.equal(plain(batch()), model(batch()))


def test_the_state_dict_of_a_model_without_dummies_is_left_alone() -> None:
    state = mlp().state_dict()
    assert all(torch.equal(value, state[key]) for key, value in durm.narrow_state_dict(state).items())


def test_bad_input_is_named() -> None:
    state = trained().state_dict()
    with pytest.raises(ValueError, match=r"head '4': the state dict has no '4.weight', but"):
        durm.narrow_state_dict(state, head="4", num_classes=5)
    with pytest.raises(ValueError, match=r"'3.weight' has 8 rows, fewer than num_classes=9"):
        durm.narrow_state_dict(state, head="3", num_classes=9)
    with pytest.raises(ValueError, match=r"num_classes=6: the state dict says that '3' has 5 real classes"):
        durm.narrow_state_dict(state, num_classes=6)
