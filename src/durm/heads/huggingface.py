"""Hugging Face models: what cannot be trained with dummies, and how a widened model is saved.

A model is known as theirs by its `config.num_labels`; transformers is not imported. Each guard is for a way in
which training would fail silently:

- `labels=` makes the model compute a loss of its own, on logits reshaped to C columns;
- `transformers.Trainer` smooths labels over all logits, the dummies' too;
- `save_pretrained` would write C + C_d rows next to a config that says C, which `from_pretrained` refuses.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from durm.heads.dummy_state import dummy_rows, without_rows
from durm.heads.layer import widened_layers

_LOSSES = {"multi_label_classification": "a sigmoid for each label", "regression": "a squared error"}


def check_problem_type(model: nn.Module) -> None:
    """Refuses models that are not trained with a softmax over their labels."""
    for module in model.modules():
        problem = getattr(getattr(module, "config", None), "problem_type", None)
        if problem in _LOSSES:
            raise ValueError(
                f"config.problem_type={problem!r}: this {type(module).__name__} is trained with {_LOSSES[problem]}, "
                "and DuRM needs a softmax over classes; expected 'single_label_classification'"
            )


def guard_pretrained(model: nn.Module) -> None:
    """Lets a widened Hugging Face model refuse what would train the dummies, and save its real classes alone."""
    for module in _pretrained(model):
        module.register_forward_pre_hook(_check_call, with_kwargs=True)
        if hasattr(module, "save_pretrained"):
            object.__setattr__(module, "save_pretrained", _SaveRealClasses(module))


def unguard_pretrained(model: nn.Module) -> None:
    """Takes the guards away again."""
    for module in _pretrained(model):
        module.__dict__.pop("save_pretrained", None)
        for key, hook in list(module._forward_pre_hooks.items()):
            if hook is _check_call:
                del module._forward_pre_hooks[key], module._forward_pre_hooks_with_kwargs[key]


class _SaveRealClasses:
    """`save_pretrained` of a widened model: the folder holds the C-class model, which loads without durm.

    An object and not a function, so that copies and pickles of the model save themselves.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model: Any = model

    def __call__(
        self,
        save_directory: Any,
        is_main_process: bool = True,
        state_dict: dict[str, Any] | None = None,
        *args: Any,
        **options: Any,
    ) -> Any:
        model = self.model
        state = without_rows(model.state_dict() if state_dict is None else state_dict, dummy_rows(model))
        return type(model).save_pretrained(model, save_directory, is_main_process, state, *args, **options)


def _pretrained(model: nn.Module) -> Iterator[nn.Module]:
    for module in model.modules():
        stated = getattr(getattr(module, "config", None), "num_labels", None)
        if stated is not None and "labels" in inspect.signature(module.forward).parameters:
            yield module


def _check_call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not any(layer.training or layer.full for layer in widened_layers(module)):
        return
    if kwargs.get("labels") is not None:
        raise ValueError(
            f"labels=: {type(module).__name__} cannot compute its loss on dummy logits; call it without labels and use "
            "durm.cross_entropy on its logits, or train with durm.integrations.transformers.DuRMTrainer"
        )
    if not torch.compiler.is_compiling() and (smoothing := _smoothing_of_the_caller()):
        raise ValueError(
            f"label_smoothing_factor={smoothing}: transformers.Trainer would smooth over the dummies too; "
            "train with durm.integrations.transformers.DuRMTrainer"
        )


def _smoothing_of_the_caller() -> float:
    """The label smoothing of the Trainer whose `compute_loss` calls the model. It gives the model no other sign."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "compute_loss" and Path(code.co_filename).parts[-2:] == ("transformers", "trainer.py"):
            trainer = frame.f_locals.get("self")
            if getattr(trainer, "compute_loss_func", None) is None:
                return float(getattr(getattr(trainer, "label_smoother", None), "epsilon", 0.0))
        frame = frame.f_back
    return 0.0
