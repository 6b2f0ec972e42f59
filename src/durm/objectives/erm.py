"""Empirical risk: the mean cross-entropy. With dummies on the model it is DuRM, Eq. (2) of the paper."""

from torch import Tensor, nn

from durm.losses import cross_entropy
from durm.objectives import OBJECTIVES, Batch, Problem


@OBJECTIVES.register("erm")
class EmpiricalRisk:
    def __init__(self, problem: Problem) -> None:
        self.num_classes = problem.num_classes
        self.label_smoothing = problem.label_smoothing

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return cross_entropy(model(batch.inputs), batch.targets, self.num_classes, label_smoothing=self.label_smoothing)
