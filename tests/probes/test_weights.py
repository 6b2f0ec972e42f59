"""A head that widens itself: which of its rows are the dummies'."""

import torch

import durm
from durm import models
from durm.probes._weights import parameters


def test_rows_of_dummies_are_not_shared() -> None:
    torch.manual_seed(0)
    model = models.build("segmenter-test_vit", 3, (3, 160, 160), task="segmentation")
    heights = {name: len(parameter) for name, parameter in model.named_parameters() if parameter.ndim}
    durm.widen(model, 2)
    shared = {id(parameter): rows for parameter, rows in parameters(model)}
    grown = {name for name, p in model.named_parameters() if p.ndim and len(p) != heights[name]}
    assert len(grown) == 3  # the tokens of the classes, and weight and bias of the norm over them
    for name, parameter in model.named_parameters():
        if parameter.ndim:
            assert shared[id(parameter)] == heights[name], name
