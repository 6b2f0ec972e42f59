"""What the objectives of domain generalization share: the domains of a batch, and the features that the head sees."""

import torch
from torch import Tensor, nn

from durm.errors import InputError
from durm.heads import dummies
from durm.heads.finding import find_heads
from durm.heads.layer import LAYERS
from durm.methods.objective import Objective, ObjectiveConfig, ObjectiveContext


class FeatureObjective(Objective):
    """An objective that sees the features: the input of the model's head.

    It works on every model whose head is one linear layer that takes one vector for each sample.
    """

    def __init__(self, config: ObjectiveConfig, context: ObjectiveContext) -> None:
        super().__init__(config, context)
        assert context.model is not None
        width = context.num_classes + dummies(context.model)
        head, *others = find_heads(context.model, None, width).values()
        if others or not isinstance(head, nn.Linear):
            kinds = " and ".join(_kind(one) for one in (head, *others))
            raise InputError(
                f"method {config.name!r} needs a model with one linear head; the head of this one is {kinds}"
            )
        self.head = head

    def with_features(self, model: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The logits (N, C + C_d), and the features (N, width) that the head made them from."""
        seen: list[Tensor] = []
        handle = self.head.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0]))
        try:
            logits = model(inputs)
        finally:
            handle.remove()
        if len(seen) != 1 or seen[0].ndim != 2:
            shapes = " and ".join(str(tuple(features.shape)) for features in seen) or "nothing"
            raise InputError(
                f"method {self.config.name!r} needs a model whose head takes one vector for each sample; this one's "
                f"takes {shapes}"
            )
        return logits, seen[0]


def _kind(head: nn.Module) -> str:
    """What it was before it was widened."""
    return next((kind.__name__ for kind in LAYERS if isinstance(head, kind)), type(head).__name__)


def long_enough(values: Tensor) -> Tensor:
    """In at least 32 bits: distances and quantiles do not exist in fewer."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def domain_masks(domains: Tensor | None, context: ObjectiveContext) -> list[Tensor]:
    """For each domain, which samples of the batch are from it: tensors of shape (N,)."""
    assert domains is not None
    return [domains == domain for domain in range(context.domains)]
