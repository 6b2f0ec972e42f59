"""Logit-adjusted cross-entropy (Menon et al., 2021), for long-tailed training sets.

log π_c, the log of the class's share of the training samples, is added to its logit in training; the plain logits
decide in evaluation. A dummy has no samples, and log 0 would switch it off: it gets the prior of the rarest real class,
so that it starts as one more class of the tail.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from durm.methods.objective import Batch, Objective, ObjectiveConfig, ObjectiveContext, objective, risk


@objective
class LogitAdjustment(Objective):
    class Config(ObjectiveConfig):
        name: Literal["logit-adjustment"] = "logit-adjustment"

    def __init__(self, config: Config, context: ObjectiveContext) -> None:
        super().__init__(config, context)
        counts = torch.tensor(context.class_counts, dtype=torch.float64)
        self.log_prior = (counts / counts.sum()).log().float()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = model(batch.inputs)
        adjusted = logits + self.log_priors(logits.shape[1]).to(logits)
        return risk(adjusted, batch.targets, self.context)

    def log_priors(self, outputs: int) -> Tensor:
        """Of the C real classes, then of the dummies."""
        return torch.cat([self.log_prior, self.log_prior.min().expand(outputs - len(self.log_prior))])
