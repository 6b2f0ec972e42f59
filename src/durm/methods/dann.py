"""Domain-adversarial training, DANN (Ganin et al., 2016): features from which no one can tell the domain.

L = cross-entropy of the labels + cross-entropy of the domains as the discriminator D tells them from R(features). R is
the identity whose gradient is reversed and scaled by −`weight`: D learns to tell the domains apart, the model to
prevent it. D has two hidden layers of 256 units and `lr_scale` times the model's learning rate.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from durm._config import AboveZero, NotNegative
from durm._random import derived_seed
from durm.methods.domains import FeatureObjective
from durm.methods.objective import Batch, ObjectiveConfig, ObjectiveContext, objective, risk

HIDDEN = 256


@objective
class DomainAdversarial(FeatureObjective):
    class Config(ObjectiveConfig):
        """`weight` scales the reversed gradient; `lr_scale` is the discriminator's learning rate over the model's."""

        name: Literal["dann"] = "dann"
        weight: NotNegative = 1.0
        lr_scale: AboveZero = 1.0

    config: Config
    extra_module: nn.Module
    least_domains = 2

    def __init__(self, config: Config, context: ObjectiveContext) -> None:
        super().__init__(config, context)
        self.lr_scale = config.lr_scale
        with torch.random.fork_rng():
            torch.manual_seed(derived_seed(context.seed, "discriminator"))
            self.extra_module = discriminator(self.head.in_features, context.domains)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert batch.domains is not None
        logits, features = self.with_features(model, batch.inputs)
        predicted = self.extra_module(reverse_gradient(features, self.config.weight))
        return risk(logits, batch.targets, self.context) + F.cross_entropy(predicted, batch.domains)


def discriminator(features: int, domains: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, domains))
    )


def reverse_gradient(features: Tensor, weight: float) -> Tensor:
    """The features themselves; on the way back, the gradient times −weight."""
    same = features.view_as(features)
    if same.requires_grad:
        same.register_hook(lambda gradient: -weight * gradient)
    return same
