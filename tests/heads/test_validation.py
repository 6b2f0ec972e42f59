"""What `widen` refuses, with the reason: never a model that is silently wrong."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, weight_norm

import durm
from tests.heads.small import mlp


class Scaled(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


class Gained(nn.Linear):
    def __init__(self) -> None:
        super().__init__(8, 5)
        self.gain = nn.Parameter(torch.ones(5, 1))


def tied() -> nn.Module:
    model = nn.ModuleDict({"embedding": nn.Embedding(5, 8), "head": nn.Linear(8, 5, bias=False)})
    model["head"].weight = model["embedding"].weight
    return model


def twins() -> nn.Module:
    model = nn.ModuleDict({"head": nn.Linear(8, 5), "head_dist": nn.Linear(8, 5)})
    model["head_dist"].weight = model["head"].weight
    return model


LAYERS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "weight norm": (lambda: parametrizations.weight_norm(nn.Linear(8, 5)), "its weight is computed from other"),
    "old weight norm": (lambda: weight_norm(nn.Linear(8, 5)), "its weight is computed from other parameters"),
    "spectral norm": (lambda: parametrizations.spectral_norm(nn.Linear(8, 5)), "its weight is computed from other"),
    "tied": (tied, "cannot widen 'head': it shares parameters with 'embedding.weight'"),
    "twins": (twins, "cannot widen 'head': it shares parameters with 'head_dist.weight'"),
    "lazy": (lambda: nn.LazyLinear(5), "it is lazy and has no weights yet"),
    "meta": (lambda: nn.Linear(8, 5, device="meta"), "its weights are on the meta device"),
    "own forward": (lambda: Scaled(8, 5), "Scaled computes its outputs in a way of its own"),
    "more parameters": (Gained, "Gained has more than weight and bias: gain"),
    "groups": (lambda: nn.Conv2d(8, 4, 1, groups=2), "it is a grouped convolution"),
    "one output": (lambda: nn.Linear(8, 1), "it has 1 output, and DuRM needs a softmax over at least 2 classes"),
    "widened": (lambda: durm.widen(nn.Linear(8, 5), 3), "the model has 3 dummies already: narrow the model"),
    "one": (lambda: nn.Sequential(durm.widen(nn.Linear(8, 5), 1)), "'0' has 1 dummy already: narrow the model"),
    "traced": (lambda: torch.jit.trace(nn.Linear(8, 5), torch.zeros(1, 8)), "a scripted or traced model"),
    "data parallel": (lambda: nn.DataParallel(nn.Linear(8, 5)), "already wrapped in DataParallel; widen it before"),
}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_cannot_be_widened(name: str) -> None:
    make, message = LAYERS[name]
    model = make()
    keys = list(model.state_dict())
    with pytest.raises(ValueError, match=re.escape(message)):
        durm.widen(model, 2)
    assert list(model.state_dict()) == keys


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dummies": -1}, ValueError, "dummies=-1: expected an int of at least 0"),
        ({"dummies": 1.5}, TypeError, "dummies=1.5: expected an int, not float"),
        ({"dummies": "2"}, TypeError, "dummies='2': expected an int, not str"),
        ({"dummies": True}, TypeError, "dummies=True: expected an int, not bool"),
        ({"dummies": None}, TypeError, "dummies=None: expected an int, not NoneType"),
        ({"seed": -1}, ValueError, "seed=-1: expected an int of at least 0"),
        ({"num_classes": 1}, ValueError, "num_classes=1: expected an int of at least 2"),
        ({"model": "resnet18"}, TypeError, "model: expected a torch.nn.Module, not str"),
    ],
)
def test_bad_arguments_are_named(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        durm.widen(**({"model": mlp(), "dummies": 2} | options))


def test_a_refusal_leaves_no_head_half_widened() -> None:
    model = nn.ModuleDict({"head": nn.Linear(8, 5), "head_dist": nn.Conv2d(10, 5, 1, groups=5)})
    with pytest.raises(ValueError, match="'head_dist': it is a grouped convolution"):
        durm.widen(model, 2)
    assert durm.dummies(model) == 0


def test_numbers_of_numpy_are_accepted() -> None:
    import numpy as np

    assert durm.dummies(durm.widen(mlp(), np.int64(2))) == 2


def test_different_numbers_of_dummies_cannot_be_told_as_one() -> None:
    model = nn.ModuleDict({"one": nn.Linear(8, 5), "two": nn.Linear(8, 4)})
    durm.widen(model, 2, head="one")
    durm.widen(model, 3, head="two")
    with pytest.raises(ValueError, match=r"different numbers of dummies: \[2, 3\]"):
        durm.dummies(model)


def test_padding_heads_of_different_widths_is_refused() -> None:
    model = nn.ModuleDict({"one": nn.Linear(8, 5), "two": nn.Linear(8, 4)})
    with pytest.raises(ValueError, match=r"heads of \[4, 5\] outputs need different numbers of dummies"):
        durm.pad_to_multiple(model, 8, head=["one", "two"])
    with pytest.raises(ValueError, match="multiple=0: expected an int of at least 1"):
        durm.pad_to_multiple(model, 0)
