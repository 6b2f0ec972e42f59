"""Mixup (Zhang et al., 2018): train on mixtures of two samples and of their labels.

x = λ x_i + (1 − λ) x_j and y = λ y_i + (1 − λ) y_j with λ ~ Beta(α, α), one λ for a batch and j a permutation of it.

The mixed labels are of width C: no part of them ever lies on a dummy. timm's own Mixup smooths by default and over all
outputs, which would give the dummies positive targets.
"""

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from durm._config import AboveZero
from durm._random import derived_seed
from durm._ranks import own_rows, whole_batch
from durm.errors import InputError
from durm.methods.objective import Batch, Objective, ObjectiveConfig, objective, risk


@objective
class Mixup(Objective):
    class Config(ObjectiveConfig):
        """`alpha` is that of Beta(α, α)."""

        name: Literal["mixup"] = "mixup"
        alpha: AboveZero = 1.0

    config: Config

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        inputs, targets = self.mix(batch)
        return risk(model(inputs), targets, self.context)

    def mix(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The mixed inputs, and soft targets of shape (N, C)."""
        if not batch.inputs.is_floating_point():
            raise InputError("method 'mixup' mixes images or features; tokens of text cannot be mixed")
        random = np.random.default_rng(derived_seed(self.context.seed, "mixup", batch.step))
        share = random.beta(self.config.alpha, self.config.alpha)
        everything, labels = whole_batch(batch.inputs), whole_batch(batch.targets)
        partner = own_rows(torch.from_numpy(random.permutation(len(everything))).to(batch.inputs.device))
        first, second = (
            F.one_hot(targets, self.context.num_classes).to(batch.inputs.dtype)
            for targets in (batch.targets, labels[partner])
        )
        inputs = share * batch.inputs + (1 - share) * everything[partner]
        return inputs, share * first + (1 - share) * second
