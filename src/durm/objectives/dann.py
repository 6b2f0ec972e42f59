"""Domain-adversarial training, DANN (Ganin et al., 2016): features from which no one can tell the domain.

L = cross-entropy of the labels + cross-entropy of the domains as the discriminator D tells them from R(features). R is
the identity whose gradient is reversed and scaled by −`dann_weight`: D learns to tell the domains apart, the model to
prevent it. D has two hidden layers of 256 units and `dann_lr_scale` times the model's learning rate.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from durm._random import derived_seed
from durm.objectives import OBJECTIVES, Batch, Problem, risk
from durm.objectives.domains import head_of, require_domains, with_features

HIDDEN = 256


@OBJECTIVES.register("dann")
class DomainAdversarial:
    def __init__(self, problem: Problem) -> None:
        require_domains(problem, "dann", 2)
        self.problem, self.head = problem, head_of(problem, "dann")
        self.lr_scale = problem.dann_lr_scale
        with torch.random.fork_rng():
            torch.manual_seed(derived_seed(problem.seed, "discriminator"))
            self.module: nn.Module = discriminator(self.head.in_features, problem.domains)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert batch.domains is not None
        logits, features = with_features(model, self.head, batch.inputs, "dann")
        told = self.module(reverse_gradient(features, self.problem.dann_weight))
        return risk(logits, batch.targets, self.problem) + F.cross_entropy(told, batch.domains)


def discriminator(features: int, domains: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, domains))
    )


def reverse_gradient(features: Tensor, weight: float) -> Tensor:
    """The features themselves; on the way back, the gradient times −weight."""
    same: Tensor = _Reversal.apply(features, weight)  # type: ignore[no-untyped-call]
    return same


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, features: Tensor, weight: float) -> Tensor:
        context.weight = weight
        return features.view_as(features)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -context.weight * gradients[0], None
