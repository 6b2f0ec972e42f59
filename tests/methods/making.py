"""Objectives and averagers from a name and their settings."""

from typing import Any

from torch import nn

from durm.methods import AVERAGERS, OBJECTIVES, Averager, Length, ObjectiveContext


def objective(name: str, num_classes: int, **options: Any) -> Any:
    """The options are settings of the objective, or what it may know about the training."""
    kind = OBJECTIVES[name]
    settings = {key: value for key, value in options.items() if key in kind.Config.model_fields}
    known = {key: value for key, value in options.items() if key not in settings}
    return kind(kind.Config(**settings), ObjectiveContext(num_classes, **known))


def averager(name: str, model: nn.Module, length: Length, **settings: Any) -> Averager:
    kind = AVERAGERS[name]
    return kind(kind.Config(**settings), model, length)
