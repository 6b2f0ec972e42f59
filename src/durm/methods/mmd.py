"""Maximum mean discrepancy (Gretton et al., 2012; Li et al., 2018): features are to have one distribution.

L = mean cross-entropy + `weight` · mean over the pairs of domains of MMD²(F_i, F_j), with

    MMD²(X, Y) = mean k(x, x') + mean k(y, y') − 2 mean k(x, y),   k(a, b) = Σ_γ exp(−γ ‖a − b‖²),

the means over all pairs, equal ones included, and γ from 10⁻³ to 10³.
"""

from itertools import combinations
from typing import Literal

import torch
from torch import Tensor, nn

from durm._config import NotNegative
from durm._ranks import whole_batch
from durm.methods.domains import FeatureObjective, domain_masks, long_enough
from durm.methods.objective import Batch, ObjectiveConfig, objective, risk

GAMMAS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)


@objective
class MaximumMeanDiscrepancy(FeatureObjective):
    class Config(ObjectiveConfig):
        """`weight` is that of the discrepancy."""

        name: Literal["mmd"] = "mmd"
        weight: NotNegative = 1.0

    config: Config
    least_domains = 2

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        assert batch.domains is not None
        logits, features = self.with_features(model, batch.inputs)
        features, domains = whole_batch(long_enough(features)), whole_batch(batch.domains)
        parts = [features[mask] for mask in domain_masks(domains, self.context)]
        distances = [squared_mmd(one, other) for one, other in combinations(parts, 2)]
        return risk(logits, batch.targets, self.context) + self.config.weight * torch.stack(distances).mean()


def squared_mmd(one: Tensor, other: Tensor) -> Tensor:
    """MMD² of two sets of features, (N, width) and (M, width)."""
    return kernel(one, one).mean() + kernel(other, other).mean() - 2 * kernel(one, other).mean()


def kernel(one: Tensor, other: Tensor) -> Tensor:
    """k(a, b) for all pairs, (N, M). Distances are taken directly: by way of products, short ones drown in rounding."""
    squared = torch.cdist(one, other, compute_mode="donot_use_mm_for_euclid_dist").square()
    return torch.stack([torch.exp(-gamma * squared) for gamma in GAMMAS]).sum(0)
