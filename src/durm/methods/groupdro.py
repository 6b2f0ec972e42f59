"""Group distributionally robust optimization, GroupDRO (Sagawa et al., 2020): the worst domains count most.

L = Σ_e q_e R_e, with R_e the cross-entropy of domain e. The weights q begin equal, and in every step

    q_e ← q_e exp(`step_size` · R_e), then q ← q / Σ q,

before the loss is taken (Algorithm 1 of the paper); no gradient goes through them. Several devices update q by the mean
of their risks, so that it is the same on all.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from durm._config import NotNegative
from durm._ranks import mean_of_all
from durm.methods.domains import Forward, domain_risks
from durm.methods.objective import Batch, Objective, ObjectiveConfig, ObjectiveContext, objective


@objective
class GroupRobust(Objective):
    class Config(ObjectiveConfig):
        """How domains are weighted.

        Attributes:
            step_size: η, by which the weights follow the risks.
            forward: joint or per-domain, which matters to batch normalisation.
        """

        name: Literal["groupdro"] = "groupdro"
        step_size: NotNegative = 0.01
        forward: Forward = "joint"

    config: Config
    least_domains = 2

    def __init__(self, config: Config, context: ObjectiveContext) -> None:
        super().__init__(config, context)
        self.weights = torch.full((context.domains,), 1 / context.domains, dtype=torch.float64)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        risks = domain_risks(model, batch, self.context, self.config.forward)
        logarithms = self.weights.log() + self.config.step_size * mean_of_all(risks.detach()).cpu().double()
        self.weights = logarithms.softmax(0)
        return self.weights.to(risks) @ risks

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights = state["weights"]
