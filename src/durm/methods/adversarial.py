"""Adversarial training (Goodfellow et al., 2015; Madry et al., 2018): train on the worst inputs within a ball.

L = a · CE(h(x), y) + (1 − a) · CE(h(x′), y), where x′ maximises the cross-entropy within ‖x′ − x‖ ≤ ε, as far as one
step of FGSM or `steps` of PGD find it, and a is `clean`. With dummies the attack goes through all C + C_d logits,
the loss that is trained on, or through the real ones (`through`).

The attack sees the model in eval mode: neither batch statistics nor dropout know of it. PGD starts at random; where is
a function of the seed and the step. FGSM starts at the inputs.
"""

from typing import Literal

from torch import Tensor, nn

from durm._config import Epsilon, Positive, Share, StepSize
from durm._random import generator
from durm.errors import InputError
from durm.methods.objective import Batch, Objective, ObjectiveConfig, ObjectiveContext, objective, risk


class AdversarialTraining(Objective):
    """What both have in common."""

    class Config(ObjectiveConfig):
        """Settings of the attack, for inputs in [0, 1].

        Attributes:
            eps: the radius, as in 8/255.
            norm: linf or l2.
            steps: of PGD.
            step_size: of PGD; null is 2.5 eps / steps.
            through: the logits that are attacked, real or full; full is the loss that is trained on.
            clean: the share of the clean loss in the loss.
        """

        eps: Epsilon = 8 / 255
        norm: Literal["linf", "l2"] = "linf"
        steps: Positive = 10
        step_size: StepSize | None = None
        through: Literal["real", "full"] = "full"
        clean: Share = 0.0

    config: Config
    is_adversarial = True

    def __init__(self, config: Config, context: ObjectiveContext) -> None:
        from durm.attacks import Attack, Normalised  # which other methods do without

        super().__init__(config, context)
        assert context.model is not None
        assert context.input is not None
        if context.input.pixel_max is None:
            raise InputError(f"method {config.name!r} needs images, whose pixels go from black to white")
        self.format, self.pixel_max = context.input, context.input.pixel_max
        settings = config.model_dump(exclude={"name", "version", "clean"})
        self.attack = Attack(config.name.removesuffix("-at"), **settings)
        self.attack_passes = self.attack.gradient_passes
        self.attacked = Normalised(context.model, self.format.mean, self.format.std, self.pixel_max)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        loss = risk(model(self.worst(batch)), batch.targets, self.context)
        if share := self.config.clean:
            loss = share * risk(model(batch.inputs), batch.targets, self.context) + (1 - share) * loss
        return loss

    def worst(self, batch: Batch) -> Tensor:
        """The attacked inputs, normalised as those of the batch are."""
        mean, std = (value.to(batch.inputs) for value in (self.format.mean, self.format.std))
        pixels = batch.inputs.mul(std).add_(mean).div_(self.pixel_max).clamp_(0, 1)
        random = generator(self.context.seed, "attack", batch.step)
        model = self.attacked.to(pixels.device)
        attacked = self.attack(model, pixels, batch.targets, generator=random, keep_best=True)
        return self.format.normalise(attacked * self.pixel_max)


@objective
class FastGradientSignTraining(AdversarialTraining):
    class Config(AdversarialTraining.Config):
        name: Literal["fgsm-at"] = "fgsm-at"


@objective
class ProjectedGradientTraining(AdversarialTraining):
    class Config(AdversarialTraining.Config):
        name: Literal["pgd-at"] = "pgd-at"
