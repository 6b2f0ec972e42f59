"""What the objectives of domain generalization share: the domains of a batch, and the features that the head sees.

Features are the input of the head, so these objectives work on every model whose head is one linear layer that takes
one vector for each sample.
"""

import torch
from torch import Tensor, nn

from durm.errors import InputError
from durm.heads import dummies
from durm.heads.finding import find_heads
from durm.heads.layer import LAYERS
from durm.objectives import Batch, Problem


def require_domains(problem: Problem, method: str, least: int = 1) -> None:
    """Raises an InputError where there are not so many domains to train on."""
    if problem.domains < least:
        has = "none" if not problem.domains else "one alone" if problem.domains == 1 else str(problem.domains)
        raise InputError(
            f"method {method!r} needs {least} or more domains to train on, and the data have {has}; data with domains "
            "are digits-domains, pacs or domains:PATH"
        )


def head_of(problem: Problem, method: str) -> nn.Linear:
    """The one linear layer that gives the logits.

    Raises:
        InputError: if the model has several heads, or another kind of head.
    """
    assert problem.model is not None
    width = problem.num_classes + dummies(problem.model)
    heads = list(find_heads(problem.model, None, width).values())
    if len(heads) != 1 or not isinstance(heads[0], nn.Linear):
        kinds = " and ".join(_kind(head) for head in heads)
        raise InputError(f"method {method!r} needs a model with one linear head; the head of this one is {kinds}")
    return heads[0]


def _kind(head: nn.Module) -> str:
    """What it was before it was widened."""
    return next((kind.__name__ for kind in LAYERS if isinstance(head, kind)), type(head).__name__)


def with_features(model: nn.Module, head: nn.Linear, inputs: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """The logits (N, C + C_d), and the features (N, width) that the head made them from."""
    seen: list[Tensor] = []
    handle = head.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0]))
    try:
        logits = model(inputs)
    finally:
        handle.remove()
    if len(seen) != 1 or seen[0].ndim != 2:
        shapes = " and ".join(str(tuple(features.shape)) for features in seen) or "nothing"
        raise InputError(
            f"method {method!r} needs a model whose head takes one vector for each sample; this one's takes {shapes}"
        )
    return logits, seen[0]


def long_enough(values: Tensor) -> Tensor:
    """In at least 32 bits: distances and quantiles do not exist in fewer."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def domain_masks(batch: Batch, problem: Problem) -> list[Tensor]:
    """For each domain, which samples of the batch are from it: tensors of shape (N,)."""
    assert batch.domains is not None
    return [batch.domains == domain for domain in range(problem.domains)]
