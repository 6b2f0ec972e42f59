"""Risk extrapolation, V-REx (Krueger et al., 2021): risks that differ between domains are a penalty.

L = mean_e R_e + β · Var_e R_e, with R_e the cross-entropy of domain e and Var the mean squared deviation. β is 1 in the
first `anneal` steps, while the risks are still settling, and `weight` afterwards.
"""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from durm._config import NotNegative
from durm._ranks import mean_of_all
from durm.methods.domains import domain_masks
from durm.methods.objective import Batch, Objective, ObjectiveConfig, objective, risk


@objective
class RiskExtrapolation(Objective):
    class Config(ObjectiveConfig):
        """`weight` is β; in the first `anneal` steps it is 1."""

        name: Literal["vrex"] = "vrex"
        weight: NotNegative = 10.0
        anneal: Annotated[int, Field(ge=0)] = 500

    config: Config
    least_domains = 2

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits, masks = model(batch.inputs), domain_masks(batch.domains, self.context)
        risks = mean_of_all(torch.stack([risk(logits[mask], batch.targets[mask], self.context) for mask in masks]))
        weight = self.config.weight if batch.step >= self.config.anneal else 1.0
        return risks.mean() + weight * risks.var(correction=0)
