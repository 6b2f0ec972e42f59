"""Which layers `widen` takes for the head, and what it says when it cannot tell."""

import re

import pytest
from torch import nn

import durm
from durm.heads.finding import find_heads


def parts(**children: nn.Module) -> nn.Module:
    """A module of one's own with these children, in this order."""
    module = nn.Module()
    for name, child in children.items():
        module.add_module(name, child)
    return module


def two_towers() -> nn.Module:
    return parts(body=nn.Linear(4, 64), cls=nn.Linear(64, 10), box=nn.Linear(64, 4))


FOUND = {
    "one layer": (nn.Linear(4, 3), [""]),
    "the last of a sequence": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), ["2"]),
    "the last child": (parts(fc1=nn.Linear(64, 64), fc2=nn.Linear(64, 64), fc3=nn.Linear(64, 10)), ["fc3"]),
    "after convolutions": (parts(conv=nn.Conv2d(1, 16, 3), hidden=nn.Linear(784, 32), out=nn.Linear(32, 10)), ["out"]),
    "a named head that comes first": (parts(head=nn.Linear(8, 3), body=nn.Linear(4, 8)), ["head"]),
    "normalisation and linear": (parts(out=nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 3))), ["out.1"]),
    "an MLP head": (parts(classifier=nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3))), ["classifier.2"]),
    "linear and softmax": (nn.Sequential(nn.Linear(8, 3), nn.LogSoftmax(1)), ["0"]),
    "a wrapped model": (nn.Sequential(nn.Identity(), parts(fc=nn.Linear(8, 3), other=nn.Linear(4, 8))), ["1.fc"]),
    "distilled": (parts(head=nn.Linear(8, 3), head_dist=nn.Linear(8, 3)), ["head", "head_dist"]),
    "parallel layers": (parts(body=nn.Linear(4, 8), one=nn.Linear(8, 3), two=nn.Linear(8, 3)), ["one", "two"]),
    "a list of branches": (parts(exits=nn.ModuleList(nn.Linear(8, 3) for _ in range(2))), ["exits.0", "exits.1"]),
    "a list of layers": (parts(layers=nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 3)])), ["layers.1"]),
    "branches of several layers": (
        parts(exits=nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 3)) for _ in range(2))),
        ["exits.0.1", "exits.1.1"],
    ),
    "joint queries, keys, values": (
        parts(qkv=nn.Linear(64, 192), mix=nn.Linear(64, 64), out=nn.Linear(64, 10)),
        ["out"],
    ),
    "auxiliary segmentation": (
        parts(head=nn.Conv2d(8, 3, 1), auxiliary_head=nn.Conv2d(4, 3, 1)),
        ["head", "auxiliary_head"],
    ),
    "segmentation beside classification": (
        parts(segmentation_head=nn.Sequential(nn.Conv2d(8, 3, 1)), classification_head=nn.Linear(8, 3)),
        ["segmentation_head.0"],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_head_is_found(name: str) -> None:
    model, expected = FOUND[name]
    assert sorted(find_heads(model, None, None)) == sorted(expected)


def test_it_can_be_named_given_or_listed() -> None:
    model = two_towers()
    assert list(find_heads(model, "cls", None)) == ["cls"]
    assert list(find_heads(model, model.cls, None)) == ["cls"]
    assert list(find_heads(model, ["cls", model.box], None)) == ["cls", "box"]
    assert list(find_heads(model, None, 10)) == ["cls"]
    assert list(find_heads(parts(top=nn.Sequential(nn.Dropout(), nn.Linear(8, 3))), "top", None)) == ["top.1"]


def test_a_declared_head_that_the_user_has_replaced() -> None:
    """Swapping the head of a timm model by hand: `model.head = nn.Linear(…)` where `head.fc` is declared."""
    model = parts(head=nn.Linear(8, 3), neck=nn.Linear(4, 8))
    model.pretrained_cfg = {"classifier": "head.fc"}
    assert list(find_heads(model, None, None)) == ["head"]


def test_a_layer_with_two_names_is_widened_once() -> None:
    layer = nn.Linear(8, 3)
    model = parts(fc=layer, classifier=layer)
    assert list(find_heads(model, None, None)) == ["fc"]


REFUSED = {
    "no layer": (nn.ReLU(), {}, "found no head in this ReLU; pass head=…. The model has no Linear or Conv layer."),
    "no classifier": (
        parts(conv=nn.Conv2d(3, 8, 3), fc=nn.Identity()),
        {},
        "found no head in this Module; pass head=…. Its layers: 'conv' (Conv2d, 8 outputs).",
    ),
    "two candidates": (
        two_towers(),
        {},
        "which of these gives the class logits? 'cls' (Linear, 10 outputs), 'box' (Linear, 4 outputs). Say it with ",
    ),
    "named heads of different widths": (
        parts(fc=nn.Linear(8, 3), aux_classifier=nn.Linear(8, 4)),
        {},
        "which of these gives the class logits? 'fc' (Linear, 3 outputs), 'aux_classifier' (Linear, 4 outputs)",
    ),
    "two equal square layers": (
        parts(a=nn.Linear(8, 8), b=nn.Linear(8, 8)),
        {},
        "which of these gives the class logits? 'a' (Linear, 8 outputs), 'b' (Linear, 8 outputs)",
    ),
    "unknown name": (
        parts(classifier=nn.Linear(8, 3)),
        {"head": "clasifier"},
        "head 'clasifier': the model has no module of that name. Did you mean 'classifier'?",
    ),
    "a part without layers": (
        parts(norm=nn.BatchNorm1d(8), fc=nn.Linear(8, 3)),
        {"head": "norm"},
        "head 'norm' is a BatchNorm1d without a Linear or Conv layer. Its layers: 'fc' (Linear, 3 outputs)",
    ),
    "a module of another model": (
        parts(fc=nn.Linear(8, 3)),
        {"head": nn.Linear(8, 3)},
        "head: the Linear that was given is not a part of the model",
    ),
    "an empty list": (parts(fc=nn.Linear(8, 3)), {"head": []}, "found no head"),
    "another number of classes": (
        parts(fc=nn.Linear(8, 3)),
        {"num_classes": 10},
        "head 'fc' has 3 outputs, not num_classes=10",
    ),
    "something made for C outputs after it": (
        nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3)),
        {},
        "cannot widen '0': '1' (BatchNorm1d) comes after it and is made for its 3 outputs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_doubt_is_an_error_that_names_the_candidates(name: str) -> None:
    model, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        durm.widen(model, 2, **options)


def test_a_head_that_is_no_name_and_no_module() -> None:
    with pytest.raises(TypeError, match="head=3: expected a dotted name, a module, or a list of them"):
        durm.widen(nn.Linear(8, 3), 2, head=[3])
