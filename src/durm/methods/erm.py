"""Empirical risk: the mean cross-entropy. With dummies on the model it is DuRM, Eq. (2) of the paper."""

from typing import Literal

from torch import Tensor, nn

from durm.methods.objective import Batch, Objective, ObjectiveConfig, objective, risk


@objective
class EmpiricalRisk(Objective):
    class Config(ObjectiveConfig):
        name: Literal["erm"] = "erm"

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return risk(model(batch.inputs), batch.targets, self.context)
