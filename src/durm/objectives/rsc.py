"""Representation self-challenging, RSC (Huang et al., 2020): the model must do without what it relies on most.

1. For each sample, the features whose gradient ∂z_y / ∂f is among the largest `rsc_features` of them are muted.
2. Of the batch, the `rsc_batch` of the samples whose probability p_y falls most by that keep their muting; the others
   get their features back.
3. The loss is the cross-entropy of the head on these features.

With dummies, p_y is the probability among all C + C_d logits, as in the loss.
"""

import torch
from torch import Tensor, nn

from durm.objectives import OBJECTIVES, Batch, Problem, risk
from durm.objectives.domains import head_of, long_enough, with_features


@OBJECTIVES.register("rsc")
class SelfChallenging:
    def __init__(self, problem: Problem) -> None:
        self.problem, self.head = problem, head_of(problem, "rsc")

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits, features = with_features(model, self.head, batch.inputs, "rsc")
        features = features.to(self.head.weight.dtype)  # autocast may have made them shorter
        stays = self.stays(logits, features, batch.targets)
        return risk(self.head(features * stays), batch.targets, self.problem)

    @torch.no_grad()
    def stays(self, logits: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        """Which features stay and which are muted; of the shape of the features.

        The head is linear, so the gradient ∂z_y / ∂f is row y of its weight.
        """
        gradient = long_enough(self.head.weight[targets])
        stays = gradient < gradient.quantile(1 - self.problem.rsc_features, dim=1, keepdim=True)
        muted = self.head(features * stays)
        falls = _probability(logits, targets) - _probability(muted, targets)
        spared = falls < falls.quantile(1 - self.problem.rsc_batch)
        return stays | spared.unsqueeze(1)


def _probability(logits: Tensor, targets: Tensor) -> Tensor:
    """p_y of each row."""
    return long_enough(logits).softmax(1).gather(1, targets.unsqueeze(1)).squeeze(1)
