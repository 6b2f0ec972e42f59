"""Modules that widen themselves: `widen` keeps its promises for them, and `narrow` says why it cannot."""

import copy
import io
import pickle
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm
from durm._random import generator
from tests.heads.small import batch


class Meeting(nn.Module):
    """Classes that meet each other: cosines with class tokens, a scale for each class, a LayerNorm over the classes."""

    def __init__(self, width: int = 8, classes: int = 5) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(classes, width) * 0.3)
        self.shared = nn.Parameter(torch.randn(width, width))
        self.norm = nn.LayerNorm(classes)

    def forward(self, features: Tensor) -> Tensor:
        return self.norm(F.normalize(features @ self.shared, dim=-1) @ self.tokens.T)

    def class_parameters(self) -> dict[str, float | None]:
        return {"tokens": None, "norm.weight": 1.0, "norm.bias": 0.0}

    def resize_classes(self, count: int) -> None:
        self.norm.normalized_shape = (count,)


def network(classes: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), Meeting(8, classes))


KEYS = ("tokens", "norm.weight", "norm.bias")


def test_training_gives_all_logits_and_evaluation_the_first_of_them() -> None:
    model = durm.widen(network(), 2)
    assert model.train()(batch()).shape == (4, 7)
    model.eval()
    with durm.full_logits(model):
        every = model(batch())
    assert every.shape == (4, 7)
    assert torch.equal(model(batch()), every[:, :5])
    assert durm.dummies(model) == 2


def test_the_dummies_take_part_in_the_real_logits() -> None:
    """Which is why they must be computed in eval mode too, and cannot be taken off."""
    plain, widened = network().eval(), durm.widen(network(), 2).eval()
    assert not torch.allclose(plain(batch()), widened(batch()))


def test_real_rows_are_kept_and_all_else_is_left_alone() -> None:
    plain, widened = network(), durm.widen(network(), 3)
    assert list(plain.state_dict()) == list(widened.state_dict())
    for key, value in plain.state_dict().items():
        assert torch.equal(widened.state_dict()[key][: len(value)], value)
    assert widened[2].norm.normalized_shape == (8,)
    assert isinstance(widened[2], Meeting)
    assert [len(widened[2].get_parameter(key)) for key in KEYS] == [8, 8, 8]


def test_dummies_start_as_the_module_says() -> None:
    """As one more class, from the generator of that parameter; or filled."""
    torch.manual_seed(0)
    head = Meeting(300, 100)
    tokens = head.tokens.detach().clone()
    durm.widen(nn.ModuleDict({"head": head}), 2, seed=3)
    random = generator(3, "dummies", "head", "tokens")
    expected = torch.stack([torch.randn(300, generator=random) * tokens.double().std().item() for _ in range(2)])
    assert torch.equal(head.tokens[100:], expected)
    assert torch.equal(head.norm.weight[100:], torch.ones(2))
    assert torch.equal(head.norm.bias[100:], torch.zeros(2))


def test_dummies_are_nested_and_leave_the_random_state_alone() -> None:
    largest = durm.widen(network(), 17)[2].tokens
    for dummies in (1, 2, 3):
        model = network()
        before = torch.random.get_rng_state()
        durm.widen(model, dummies)
        assert torch.equal(torch.random.get_rng_state(), before)
        assert torch.equal(model[2].tokens, largest[: 5 + dummies])
    assert not torch.equal(durm.widen(network(), 2, seed=1)[2].tokens[5:], largest[5:7])


def test_tokens_of_zeros_get_the_size_of_a_row_as_their_bound() -> None:
    model = network()
    nn.init.zeros_(model[2].tokens)
    durm.widen(model, 200)
    dummies = model[2].tokens[5:]
    assert dummies.abs().max() <= 8**-0.5
    assert dummies.std().item() == pytest.approx(8**-0.5 / 3**0.5, rel=0.1)


def test_an_optimizer_gets_the_new_parameters_with_its_state() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    F.cross_entropy(model(batch()), torch.arange(4)).backward()
    optimizer.step()
    kept = {key: optimizer.state[model[2].get_parameter(key)]["exp_avg"].clone() for key in KEYS}
    durm.widen(model, 2, optimizer=optimizer)
    for key, value in kept.items():
        state = optimizer.state[model[2].get_parameter(key)]["exp_avg"]
        assert torch.equal(state[:5], value)
        assert not state[5:].any()
        assert model[2].get_parameter(key).grad.shape[0] == 7
    assert len(optimizer.state) == len(list(model.parameters()))
    before = {key: model[2].get_parameter(key).detach().clone() for key in KEYS}
    optimizer.zero_grad()
    F.cross_entropy(model(batch()), torch.arange(4)).backward()
    optimizer.step()
    assert all(not torch.equal(model[2].get_parameter(key)[5:], value[5:]) for key, value in before.items())


def test_the_optimizer_of_another_model_is_refused_and_nothing_changes() -> None:
    model = network()
    with pytest.raises(ValueError, match=r"this SGD does not hold '2.tokens'"):
        durm.widen(model, 2, optimizer=torch.optim.SGD(network().parameters(), lr=0.1))
    assert type(model[2]) is Meeting
    assert durm.dummies(model) == 0


def test_no_dummies_leave_the_module_as_it_is() -> None:
    model = durm.widen(network(), 0)
    assert type(model[2]) is Meeting
    assert durm.narrow(model) is model


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_widened_and_independent(copier: Callable[[nn.Module], nn.Module]) -> None:
    model = durm.widen(network(), 2).eval()
    twin = copier(model)
    assert durm.dummies(twin) == 2
    assert torch.equal(twin(batch()), model(batch()))
    with durm.full_logits(twin):
        assert twin(batch()).shape == (4, 7)
        assert model(batch()).shape == (4, 5)


def test_a_state_dict_goes_into_a_widened_model_and_cannot_be_narrowed() -> None:
    model, other = durm.widen(network(), 2).eval(), durm.widen(network(), 2, seed=1).eval()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    other.load_state_dict(state)
    assert torch.equal(other(batch()), model(batch()))
    for options in ({}, {"head": "2", "num_classes": 5}):
        with pytest.raises(ValueError, match="cannot narrow '2': its classes take part in each other's logits"):
            durm.narrow_state_dict(state, **options)


def test_narrow_refuses_and_changes_nothing() -> None:
    model = nn.ModuleDict({"head": nn.Linear(8, 5), "aux_head": Meeting()})
    durm.widen(model, 2, head=["head", "aux_head"])
    with pytest.raises(ValueError, match="cannot narrow 'aux_head': its classes take part in each other's logits"):
        durm.narrow(model)
    assert model["head"].weight.shape == (7, 8)
    assert durm.dummies(model) == 2


def test_the_representation_says_how_many() -> None:
    assert repr(durm.widen(network(), 2)[2]).startswith("WidenedMeeting(\n  dummies=2\n  (norm): LayerNorm((7,)")


def test_it_is_found_before_the_layers_and_with_the_auxiliary_head() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.ModuleDict({"decoder": Meeting()})
            self.aux_head = nn.Linear(8, 5)
            self.fc = nn.Linear(8, 5)

    model = durm.widen(Both(), 2)
    assert type(model.body["decoder"]).__name__ == "WidenedMeeting"
    assert type(model.aux_head).__name__ == "WidenedLinear"
    assert type(model.fc) is nn.Linear


def test_it_can_be_named_padded_and_compiled() -> None:
    model = network()
    assert durm.dummies(durm.widen(network(), 2, head="2")) == 2
    assert durm.dummies(durm.widen(network(), 2, num_classes=5)) == 2
    with pytest.raises(ValueError, match="head '2' has 5 outputs, not num_classes=6"):
        durm.widen(model, 2, num_classes=6)
    assert durm.dummies(durm.pad_to_multiple(model, 8)) == 3
    compiled = torch.compile(Meeting(), backend="aot_eager", fullgraph=True)  # which has all attributes of the module
    assert durm.widen(compiled, 2)(batch()).shape == (4, 7)
    assert compiled.eval()(batch()).shape == (4, 5)
    assert type(compiled._orig_mod).__name__ == "WidenedMeeting"


class Counting(Meeting):
    def __init__(self) -> None:
        super().__init__()
        self.num_classes = 5


class Misspelt(Meeting):
    def class_parameters(self) -> dict[str, float | None]:
        return {"token": None}


class Uneven(Meeting):
    def class_parameters(self) -> dict[str, float | None]:
        return {"tokens": None, "shared": None}


class Nothing(Meeting):
    def class_parameters(self) -> dict[str, float | None]:
        return {}


def tied() -> nn.Module:
    model = nn.ModuleDict({"embedding": nn.Embedding(5, 8), "head": Meeting()})
    model["head"].tokens = model["embedding"].weight
    return model


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "a number of its own": (Counting, "it has an attribute 'num_classes', which belongs to widen"),
    "no such parameter": (Misspelt, "class_parameters of Misspelt names 'token', which is no parameter of it"),
    "unequal rows": (
        Uneven,
        "must have one row for each class, and has {'tokens': 5, 'shared': 8}",
    ),
    "no parameters": (Nothing, "class_parameters of Nothing must have one row for each class, and has none"),
    "one class": (lambda: Meeting(classes=1), "it has 1 output"),
    "tied": (tied, "cannot widen 'head': it shares parameters with 'embedding.weight'"),
    "meta": (lambda: Meeting().to("meta"), "its 'tokens' are on the meta device"),
    "widened": (lambda: durm.widen(Meeting(), 2), "has 2 dummies already, and they cannot be taken off"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_modules_that_cannot_be_widened(name: str) -> None:
    make, message = REFUSED[name]
    model = make()
    kind = type(model)
    with pytest.raises(ValueError, match=re.escape(message)):
        durm.widen(model, 2)
    assert type(model) is kind
