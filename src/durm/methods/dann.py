"""Domain-adversarial training, DANN (Ganin et al., 2016): features from which no one can tell the domain.

L = cross-entropy of the labels + cross-entropy of the domains as the discriminator D tells them from R(features). R is
the identity whose gradient is reversed and scaled by −`weight`: D learns to tell the domains apart, the model to
prevent it. D has two hidden layers of `hidden` units, with ReLU, and `lr_scale` times the model's learning rate; both
take their step at the same time.

Under Ganin's schedule the weight grows with the share p of the training that is done, while D is still learning:
`weight` · (2 / (1 + e^(−10 p)) − 1). What is left of the labels' gradient shrinks as they are learned, and the domains'
does not; so the norm of the reversed gradient is clipped, batch by batch, to `clip_ratio` times the labels', both as
they arrive at the features.
"""

import math
from dataclasses import replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from durm._config import AboveZero, NotNegative, Positive
from durm._random import derived_seed
from durm.methods.domains import FeatureObjective
from durm.methods.objective import Batch, ObjectiveConfig, ObjectiveContext, objective, risk

STEEPNESS = 10
"""Of Ganin's schedule."""


@objective
class DomainAdversarial(FeatureObjective):
    class Config(ObjectiveConfig):
        """The game of model and discriminator.

        Attributes:
            weight: by which the reversed gradient is scaled.
            schedule: ganin lets the weight grow from 0, constant does not.
            lr_scale: the discriminator's learning rate over the model's.
            hidden: units of each of the discriminator's two hidden layers.
            weight_decay: of the discriminator; null is that of the model.
            clip_ratio: the largest norm of the reversed gradient, at the features of a batch, as a multiple of the
                norm of the labels' gradient there; null does not clip. The discriminator's own gradient never is.
        """

        VERSION = 2
        EARLIER: ClassVar = {1: {"schedule": "constant", "clip_ratio": None}}

        name: Literal["dann"] = "dann"
        weight: NotNegative = 1.0
        schedule: Literal["constant", "ganin"] = "ganin"
        lr_scale: AboveZero = 1.0
        hidden: Positive = 256
        weight_decay: NotNegative | None = None
        clip_ratio: AboveZero | None = 0.3

    config: Config
    extra_module: nn.Module
    least_domains = 2

    def __init__(self, config: Config, context: ObjectiveContext) -> None:
        super().__init__(config, context)
        self.lr_scale, self.extra_weight_decay = config.lr_scale, config.weight_decay
        with torch.random.fork_rng():
            torch.manual_seed(derived_seed(context.seed, "discriminator"))
            self.extra_module = discriminator(self.head.in_features, context.domains, config.hidden)
        self.discriminator = self.extra_module

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert batch.domains is not None
        logits, features = self.with_features(model, batch.inputs)
        weight = self.weight(batch.step)
        if self.config.clip_ratio is not None:
            weight = min(weight, self.config.clip_ratio * self.norm_ratio(features, batch))
        predicted = self.extra_module(reverse_gradient(features, weight))
        return risk(logits, batch.targets, self.context) + F.cross_entropy(predicted, batch.domains)

    def norm_ratio(self, features: Tensor, batch: Batch) -> float:
        """‖gradient of the labels' loss‖ / ‖gradient of the domains'‖, both at the features of the batch.

        It goes through the head and the discriminator alone, as they are without the wrapper for devices.
        """
        assert batch.domains is not None
        norms = []
        unseen = replace(self.context, on_logits=None)  # probes have seen these logits
        of_labels = (self.head, batch.targets, lambda logits, targets: risk(logits, targets, unseen))
        of_domains = (self.discriminator, batch.domains, F.cross_entropy)
        for layers, targets, loss_of in (of_labels, of_domains):
            precision = next(layers.parameters()).dtype  # autocast may have made the features shorter
            given = features.detach().to(precision).requires_grad_()
            with torch.enable_grad():
                loss = loss_of(layers(given), targets)
            norms.append(torch.autograd.grad(loss, given)[0].norm().item())
        return norms[0] / norms[1] if norms[1] else math.inf

    def weight(self, step: int) -> float:
        """Of the reversed gradient in that step, counted from 0."""
        if self.config.schedule == "constant":
            return self.config.weight
        return self.config.weight * (2 / (1 + math.exp(-STEEPNESS * step / max(1, self.context.steps))) - 1)


def discriminator(features: int, domains: int, hidden: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, domains))
    )


def reverse_gradient(features: Tensor, weight: float) -> Tensor:
    """The features themselves; on the way back, the gradient times −weight."""
    same = features.view_as(features)
    if same.requires_grad:
        same.register_hook(lambda gradient: -weight * gradient)
    return same
