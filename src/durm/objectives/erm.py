"""Empirical risk: the mean cross-entropy. With dummies on the model it is DuRM, Eq. (2) of the paper."""

from torch import Tensor, nn

from durm.objectives import OBJECTIVES, Batch, Problem, risk


@OBJECTIVES.register("erm")
class EmpiricalRisk:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return risk(model(batch.inputs), batch.targets, self.problem)
