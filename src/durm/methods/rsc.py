"""Representation self-challenging, RSC (Huang et al., 2020): the model must do without what it relies on most.

1. For each sample, the features whose gradient ∂z_y / ∂f is among the largest `features` of them are muted.
2. Of the batch, the `batch` of the samples whose probability p_y falls most by that keep their muting; the others
   get their features back.
3. The loss is the cross-entropy of the head on these features.

With dummies, p_y is the probability among all C + C_d logits, as in the loss.
"""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from durm._ranks import whole_batch
from durm.methods.domains import FeatureObjective, long_enough
from durm.methods.objective import Batch, ObjectiveConfig, objective, risk


@objective
class SelfChallenging(FeatureObjective):
    class Config(ObjectiveConfig):
        """`features` is the share of the features that are muted, `batch` the share of the samples that keep it."""

        name: Literal["rsc"] = "rsc"
        features: Annotated[float, Field(gt=0, lt=1)] = 1 / 3
        batch: Annotated[float, Field(gt=0, le=1)] = 1 / 3

    config: Config

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits, features = self.with_features(model, batch.inputs)
        features = features.to(self.head.weight.dtype)  # autocast may have made them shorter
        stays = self.stays(logits, features, batch.targets)
        return risk(self.head(features * stays), batch.targets, self.context)

    @torch.no_grad()
    def stays(self, logits: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """Which features stay and which are muted; of the shape of the features.

        The head is linear, so the gradient ∂z_y / ∂f is row y of its weight.
        """
        gradient = long_enough(self.head.weight[targets])
        stays = gradient < gradient.quantile(1 - self.config.features, dim=1, keepdim=True)
        muted = self.head(features * stays)
        falls = _probability(logits, targets) - _probability(muted, targets)
        spared = falls < whole_batch(falls).quantile(1 - self.config.batch)
        return stays | spared.unsqueeze(1)


def _probability(logits: Tensor, targets: Tensor) -> Tensor:
    """p_y of each row."""
    return long_enough(logits).softmax(1).gather(1, targets.unsqueeze(1)).squeeze(1)
