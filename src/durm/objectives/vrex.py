"""Risk extrapolation, V-REx (Krueger et al., 2021): risks that differ between domains are a penalty.

L = mean_e R_e + β · Var_e R_e, with R_e the cross-entropy of domain e and Var the mean squared deviation. β is 1 in the
first `vrex_anneal` steps, while the risks are still settling, and `vrex_weight` afterwards.
"""

import torch
from torch import Tensor, nn

from durm.objectives import OBJECTIVES, Batch, Problem, risk
from durm.objectives.domains import domain_masks, require_domains


@OBJECTIVES.register("vrex")
class RiskExtrapolation:
    def __init__(self, problem: Problem) -> None:
        require_domains(problem, "vrex", 2)
        self.problem = problem

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits, masks = model(batch.inputs), domain_masks(batch, self.problem)
        risks = torch.stack([risk(logits[mask], batch.targets[mask], self.problem) for mask in masks])
        weight = self.problem.vrex_weight if batch.step >= self.problem.vrex_anneal else 1.0
        return risks.mean() + weight * risks.var(correction=0)
