"""Correlation alignment, CORAL (Sun and Saenko, 2016): features are to have one mean and one covariance.

L = mean cross-entropy + `weight` · mean over the pairs of domains of D(F_i, F_j), as DomainBed has it:

    D(X, Y) = mean (m_X − m_Y)² + mean (C_X − C_Y)²,

m the mean of the features and C their covariance with N − 1 in the denominator, the means over all entries. The paper
has the covariances alone, and their squared distance over 4 d² for d features.
"""

from typing import Literal

from torch import Tensor

from durm.methods.domains import FeatureMatching
from durm.methods.objective import objective


@objective
class CorrelationAlignment(FeatureMatching):
    class Config(FeatureMatching.Config):
        name: Literal["coral"] = "coral"

    def discrepancy(self, one: Tensor, other: Tensor) -> Tensor:
        means = (one.mean(0) - other.mean(0)).square().mean()
        return means + (covariance(one) - covariance(other)).square().mean()


def covariance(features: Tensor) -> Tensor:
    """Of features (N, width): (width, width); that of one sample is 0."""
    centred = features - features.mean(0)
    return centred.T @ centred / max(1, len(features) - 1)
