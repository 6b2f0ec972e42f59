"""What the objectives of domain generalization share: the domains of a batch, and the features that the head sees.

`forward` says what batch normalisation takes its statistics from in training. `joint`: the whole batch goes through the
model at once, so all domains share them. `per-domain`: each domain goes through it alone, as in DomainBed's MMD, CORAL
and GroupDRO, and has its own; the running statistics, which decide in evaluation, see all domains in turn. Without
batch normalisation, or with a frozen one, the two are the same.
"""

from itertools import combinations
from typing import Literal

import torch
from torch import Tensor, nn

from durm._config import NotNegative
from durm._ranks import whole_batch
from durm.errors import InputError
from durm.heads import dummies
from durm.heads.finding import find_heads
from durm.heads.layer import LAYERS
from durm.methods.objective import Batch, Objective, ObjectiveConfig, ObjectiveContext, risk

Forward = Literal["joint", "per-domain"]


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


class FeatureMatching(FeatureObjective):
    """L = mean cross-entropy + `weight` · mean over the pairs of domains of the `discrepancy` of their features."""

    class Config(ObjectiveConfig):
        """How features are matched.

        Attributes:
            weight: that of the discrepancy.
            forward: joint or per-domain, which matters to batch normalisation.
        """

        weight: NotNegative = 1.0
        forward: Forward = "joint"

    config: Config
    least_domains = 2

    def discrepancy(self, one: Tensor, other: Tensor) -> Tensor:
        """Of two sets of features, (N, width) and (M, width)."""
        raise NotImplementedError

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        masks = domain_masks(batch.domains, self.context)
        if self.config.forward == "joint":
            logits, features = self.with_features(model, batch.inputs)
            parts, targets = [features[mask] for mask in masks], batch.targets
        else:
            seen = [self.with_features(model, batch.inputs[mask]) for mask in masks]
            logits, parts = torch.cat([one for one, _ in seen]), [features for _, features in seen]
            targets = torch.cat([batch.targets[mask] for mask in masks])
        pairs = combinations([whole_batch(long_enough(part)) for part in parts], 2)
        distances = torch.stack([self.discrepancy(one, other) for one, other in pairs])
        return risk(logits, targets, self.context) + self.config.weight * distances.mean()


def domain_risks(model: nn.Module, batch: Batch, context: ObjectiveContext, forward: Forward) -> Tensor:
    """The mean cross-entropy of each domain, of shape (domains,)."""
    masks = domain_masks(batch.domains, context)
    if forward == "joint":
        together = model(batch.inputs)
        logits = [together[mask] for mask in masks]
    else:
        logits = [model(batch.inputs[mask]) for mask in masks]
    return torch.stack([risk(one, batch.targets[mask], context) for one, mask in zip(logits, masks, strict=True)])


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
