"""What `widen` changes, and everything that it must leave alone."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import durm
from tests.heads.small import CONVOLUTIONS, batch, mlp


def test_training_gives_all_logits_and_evaluation_the_real_ones() -> None:
    model = durm.widen(mlp(), dummies=2)
    assert model.train()(batch()).shape == (4, 7)
    assert model.eval()(batch()).shape == (4, 5)
    with durm.full_logits(model):
        assert model(batch()).shape == (4, 7)
    assert model(batch()).shape == (4, 5)
    assert durm.dummies(model) == 2


def test_it_works_in_place_and_keeps_the_mode() -> None:
    for training in (True, False):
        model = mlp().train(training)
        assert durm.widen(model, 2) is model
        assert all(module.training == training for module in model.modules())


def test_real_rows_are_kept_bit_for_bit() -> None:
    model = mlp()
    weight, bias = model[3].weight.detach().clone(), model[3].bias.detach().clone()
    durm.widen(model, 3)
    assert torch.equal(model[3].weight[:5], weight)
    assert torch.equal(model[3].bias[:5], bias)
    assert model[3].weight.shape == (8, 16)
    assert model[3].out_features == 8


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_every_kind_of_layer(name: str) -> None:
    make, shape = CONVOLUTIONS[name]
    torch.manual_seed(0)
    layer, x = make(), torch.randn(shape)
    kind, before = type(layer), layer(x)
    durm.widen(layer, 2)
    assert isinstance(layer, kind)
    axis = -1 if kind is nn.Linear else 1
    assert layer(x).shape[axis] == 7
    layer.eval()
    assert torch.equal(layer(x), before)
    with durm.full_logits(layer):
        torch.testing.assert_close(layer(x).narrow(axis, 0, 5), before)
    durm.narrow(layer)
    assert type(layer) is kind
    assert torch.equal(layer(x), before)


def test_dummies_start_as_one_more_class_of_the_layer() -> None:
    """Normal, with the standard deviation of the real rows: weights and biases apart."""
    layer = nn.Linear(2000, 100)
    nn.init.normal_(layer.weight, std=0.02)
    nn.init.normal_(layer.bias, mean=0.0, std=3.0)
    durm.widen(layer, 400)
    weight, bias = layer.weight[100:], layer.bias[100:]
    assert weight.std().item() == pytest.approx(0.02, rel=0.01)
    assert abs(weight.mean().item()) < 1e-4
    assert bias.std().item() == pytest.approx(layer.bias[:100].std().item(), rel=0.15)
    kurtosis = ((weight / weight.std()) ** 4).mean().item()
    assert kurtosis == pytest.approx(3.0, rel=0.02)  # 1.8 would be uniform


def test_a_head_of_zeros_gets_the_default_initialiser() -> None:
    """The all-zero head of MLP-Mixer: torch's default for a layer is uniform within 1 / sqrt(fan_in)."""
    layer = nn.Conv2d(25, 10, 2)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    durm.widen(layer, 200)
    for dummy in (layer.weight[10:], layer.bias[10:]):
        assert dummy.abs().max().item() <= 0.1
        assert dummy.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.1)
    assert not layer.weight[:10].any()


def test_dummies_differ_from_each_other() -> None:
    """Dummies that start equal stay equal for ever, and are one dummy with a larger bias."""
    layer = durm.widen(nn.Linear(16, 5), 4)
    assert len(set(layer.bias[5:].tolist())) == 4
    assert torch.linalg.matrix_rank(layer.weight[5:]) == 4


@pytest.mark.parametrize("zero", [False, True])
def test_dummies_are_nested(zero: bool) -> None:
    """So that C_d = 3 differs from C_d = 2 in one dummy, and not in all of them."""

    def widened(dummies: int) -> nn.Linear:
        torch.manual_seed(0)
        layer = nn.Linear(19, 5)
        if zero:
            nn.init.zeros_(layer.weight)
        return durm.widen(layer, dummies)

    largest = widened(40)
    for dummies in (1, 2, 3, 17):
        layer = widened(dummies)
        assert torch.equal(layer.weight, largest.weight[: 5 + dummies])
        assert torch.equal(layer.bias, largest.bias[: 5 + dummies])


def test_the_seed_decides_the_dummies_and_nothing_else_does() -> None:
    def dummies(seed: int, state: int) -> torch.Tensor:
        model = mlp()
        torch.manual_seed(state)
        return durm.widen(model, 2, seed=seed)[3].weight[5:]

    assert torch.equal(dummies(0, 0), dummies(0, 1))
    assert not torch.equal(dummies(0, 0), dummies(1, 0))


def test_the_global_random_state_is_untouched() -> None:
    model = mlp()
    before = torch.random.get_rng_state()
    durm.widen(model, 3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_several_heads_get_dummies_of_their_own() -> None:
    model = nn.ModuleDict({"one": nn.Linear(8, 5), "two": nn.Linear(8, 5)})
    durm.widen(model, 2, head=["one", "two"])
    assert not torch.equal(model["one"].weight[5:], model["two"].weight[5:])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtype_and_requires_grad_are_kept(dtype: torch.dtype) -> None:
    model = mlp().to(dtype)
    model[3].weight.requires_grad_(False)
    durm.widen(model, 2)
    assert model[3].weight.dtype == model[3].bias.dtype == dtype
    assert not model[3].weight.requires_grad
    assert model[3].bias.requires_grad
    durm.narrow(model)
    assert model[3].weight.dtype == dtype
    assert not model[3].weight.requires_grad


def test_memory_format_is_kept() -> None:
    layer = nn.Conv2d(4, 5, 3).to(memory_format=torch.channels_last)
    durm.widen(layer, 2)
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)
    assert not layer.weight.is_contiguous()
    durm.narrow(layer)
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)


def test_hooks_attributes_and_aliases_are_kept() -> None:
    calls = []
    layer = nn.Linear(8, 5)
    model = nn.ModuleDict({"head": layer, "alias": layer})
    layer.register_forward_hook(lambda *_: calls.append(1))
    layer.weight.tag = "mine"
    durm.widen(model, 2, head="head")
    layer(batch())
    assert calls
    assert model["alias"] is model["head"] is layer
    assert layer.weight.tag == "mine"


def test_state_dict_keys_are_kept() -> None:
    model = mlp()
    keys = list(model.state_dict())
    assert list(durm.widen(model, 2).state_dict()) == keys


def test_widened_state_dict_round_trip() -> None:
    model = durm.widen(mlp(), 2).eval()
    other = durm.widen(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 5)), 2).eval()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    with durm.full_logits(model), durm.full_logits(other):
        assert torch.equal(model(batch()), other(batch()))


def test_no_dummies_is_erm_bit_for_bit() -> None:
    model, plain = durm.widen(mlp(), 0), mlp()
    assert durm.dummies(model) == 0
    assert type(model[3]) is nn.Linear
    for one in (model, plain):
        optimizer = torch.optim.SGD(one.parameters(), lr=0.1)
        torch.manual_seed(3)
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(one(batch()), torch.arange(4)).backward()
            optimizer.step()
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    durm.narrow(model)


def test_dummies_that_start_equal_stay_equal() -> None:
    model = durm.widen(mlp(), 2)
    with torch.no_grad():
        model[3].weight[6], model[3].bias[6] = model[3].weight[5], model[3].bias[5]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for _ in range(20):
        optimizer.zero_grad()
        F.cross_entropy(model(batch()), torch.arange(4)).backward()
        optimizer.step()
    assert torch.equal(model[3].weight[5], model[3].weight[6])


def test_dummies_at_minus_infinity_are_erm_to_rounding() -> None:
    """Masked logits, not a bias of -inf, which weight decay turns into NaN."""
    erm, masked = mlp().double(), durm.widen(mlp().double(), 3)
    mask = torch.tensor([0.0] * 5 + [-torch.inf] * 3, dtype=torch.float64)
    for model in (erm, masked):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
        torch.manual_seed(3)
        for _ in range(10):
            optimizer.zero_grad()
            logits = model(batch().double())
            F.cross_entropy(logits + mask[: logits.shape[1]], torch.arange(4)).backward()
            optimizer.step()
    durm.narrow(masked)
    for ours, theirs in zip(masked.parameters(), erm.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_pending_gradients_are_kept() -> None:
    model = mlp()
    model(batch()).sum().backward()
    before = model[3].weight.grad.clone()
    durm.widen(model, 2)
    assert torch.equal(model[3].weight.grad[:5], before)
    assert not model[3].weight.grad[5:].any()


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_widened_and_independent(copier) -> None:
    model = durm.widen(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 5)), 2).eval()
    x = torch.randn(2, 3, 4, 4)
    twin = copier(model)
    assert durm.dummies(twin) == 2
    assert torch.equal(twin(x), model(x))
    with durm.full_logits(twin):
        assert twin(x).shape == (2, 7)
        assert model(x).shape == (2, 5)
    durm.narrow(twin)
    assert durm.dummies(model) == 2
    assert torch.equal(twin(x), model(x))


def test_the_representation_can_be_read() -> None:
    assert repr(durm.widen(nn.Linear(8, 5), 2)) == "WidenedLinear(in_features=8, out_features=7, bias=True, dummies=2)"
    assert "Conv2d(3, 7, kernel_size=(1, 1), stride=(1, 1), dummies=2)" in repr(durm.widen(nn.Conv2d(3, 5, 1), 2))


def test_training_a_model_that_is_kept_in_eval_mode() -> None:
    """Without `full_logits` this would silently be ERM."""
    model = durm.widen(mlp(), 2).eval()
    F.cross_entropy(model(batch()), torch.arange(4)).backward()
    assert not model[3].weight.grad[5:].any()
    with durm.full_logits(model):
        F.cross_entropy(model(batch()), torch.arange(4)).backward()
    assert model[3].weight.grad[5:].any()


def test_full_logits_nest_and_survive_an_error() -> None:
    model = durm.widen(mlp(), 2).eval()
    with durm.full_logits(model):
        with durm.full_logits(model):
            pass
        assert model(batch()).shape == (4, 7)
    with pytest.raises(RuntimeError, match="cannot be multiplied"), durm.full_logits(model):
        model(batch(width=9))
    assert model(batch()).shape == (4, 5)
    with durm.full_logits(model) as same:
        assert same is model
        durm.narrow(model)
    assert not hasattr(model[3], "full")


@pytest.mark.parametrize(("classes", "multiple", "dummies"), [(10, 8, 6), (16, 8, 0), (50, 64, 14), (7, 1, 0)])
def test_pad_to_multiple(classes: int, multiple: int, dummies: int) -> None:
    model = durm.pad_to_multiple(mlp(classes), multiple)
    assert durm.dummies(model) == dummies
    assert model(batch()).shape[1] % multiple == 0
