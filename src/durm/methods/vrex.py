"""Risk extrapolation, V-REx (Krueger et al., 2021): risks that differ between domains are a penalty.

L = mean_e R_e + β · Var_e R_e, with R_e the cross-entropy of domain e and Var the mean squared deviation. β is 1 in the
first `anneal` steps, while the risks are still settling, and `weight` afterwards.

The gradient grows with β, and where β jumps one step can undo all that was learned. So its norm is clipped, and the
optimizer restarts there, as its moments are of the smaller gradients; DomainBed does the second, for Adam.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from durm._config import AboveZero, NotNegative
from durm._ranks import mean_of_all
from durm.methods.domains import domain_risks
from durm.methods.objective import Batch, Objective, ObjectiveConfig, ObjectiveContext, objective


@objective
class RiskExtrapolation(Objective):
    class Config(ObjectiveConfig):
        """How risks are made equal.

        Attributes:
            weight: β.
            anneal: in so many steps, the first ones, β is 1.
            clip_norm: the largest norm of the gradient; null does not clip.
            restart: whether the optimizer forgets its moments where β becomes `weight`.
        """

        VERSION = 2
        EARLIER: ClassVar = {1: {"clip_norm": None, "restart": False}}

        name: Literal["vrex"] = "vrex"
        weight: NotNegative = 10.0
        anneal: Annotated[int, Field(ge=0)] = 500
        clip_norm: AboveZero | None = 1.0
        restart: bool = True

    config: Config
    least_domains = 2

    def __init__(self, config: Config, context: ObjectiveContext) -> None:
        super().__init__(config, context)
        self.clip_norm = config.clip_norm
        self.restart_step = config.anneal if config.restart else None

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        risks = mean_of_all(domain_risks(model, batch, self.context, "joint"))
        weight = self.config.weight if batch.step >= self.config.anneal else 1.0
        return risks.mean() + weight * risks.var(correction=0)

    def without_effect(self, steps: int) -> list[str]:
        weight, anneal = self.config.weight, self.config.anneal
        if steps > anneal or weight == 1:
            return []
        return [f"`weight` {weight:g} of vrex never took effect: `anneal` is {anneal}, the training had {steps} steps"]
