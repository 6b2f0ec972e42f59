"""Adversarial training (Goodfellow et al., 2015; Madry et al., 2018): train on the worst inputs within a ball.

L = a · CE(h(x), y) + (1 − a) · CE(h(x′), y), where x′ maximises the cross-entropy within ‖x′ − x‖ ≤ ε, as far as one
step of FGSM or `at_steps` of PGD find it, and a is `at_clean`. With dummies the attack goes through all C + C_d logits,
the loss that is trained on, or through the real ones (`at_through`).

The attack sees the model in eval mode: neither batch statistics nor dropout know of it. PGD starts at random; where is
a function of the seed and the step. FGSM starts at the inputs.
"""

from typing import ClassVar

from torch import Tensor, nn

from durm._random import generator
from durm.attacks import Attack, Normalised
from durm.errors import InputError
from durm.objectives import OBJECTIVES, Batch, Problem, risk


class AdversarialTraining:
    """What both have in common. `passes` counts the passes of the attack in every step, forward and backward."""

    kind: ClassVar[str]

    def __init__(self, problem: Problem) -> None:
        assert problem.model is not None
        assert problem.input is not None
        if problem.input.white is None:
            raise InputError(f"method '{self.kind}-at' needs images, whose pixels go from black to white")
        self.problem, self.format, self.white = problem, problem.input, problem.input.white
        self.attack = Attack(
            self.kind,
            eps=problem.at_eps,
            norm=problem.at_norm,
            steps=problem.at_steps,
            step_size=problem.at_step_size,
            through=problem.at_through,
        )
        self.passes = self.attack.gradient_passes
        self.attacked = Normalised(problem.model, self.format.mean, self.format.std, self.white)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        worst = risk(model(self.worst(batch)), batch.targets, self.problem)
        share = self.problem.at_clean
        return (
            worst if not share else share * risk(model(batch.inputs), batch.targets, self.problem) + (1 - share) * worst
        )

    def worst(self, batch: Batch) -> Tensor:
        """The attacked inputs, normalised as those of the batch are."""
        mean, std = (value.to(batch.inputs) for value in (self.format.mean, self.format.std))
        pixels = batch.inputs.mul(std).add_(mean).div_(self.white).clamp_(0, 1)
        random = generator(self.problem.seed, "attack", batch.step)
        attacked = self.attack(self.attacked.to(pixels.device), pixels, batch.targets, generator=random)
        return self.format.normalise(attacked * self.white)


@OBJECTIVES.register("fgsm-at")
class FastGradientSignTraining(AdversarialTraining):
    kind = "fgsm"


@OBJECTIVES.register("pgd-at")
class ProjectedGradientTraining(AdversarialTraining):
    kind = "pgd"
