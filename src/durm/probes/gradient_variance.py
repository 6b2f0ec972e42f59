"""The variance of the gradient that each real class's logit gets, over the samples of an epoch (Figs. 2 and 8).

    g_c = ∂L/∂z_c = p_c − y_c,    one value for each sample and class;    D(g_c) over the samples of an epoch

The paper records, over an epoch, what the logit of each class gets, and does not say more. We take, as Eq. (5) and
Theorem 1 do, the gradient of each sample's own loss (not divided by the batch size), all samples of an epoch together
whether they are of class c or not, each as the training saw it: in training mode, augmented, with the weights of its
step. The variance is the unbiased one, over n − 1.

The mean is that of ∂L/∂z_c, so −E(g_c) in the sign of Eq. (3). Theorem 1 says that dummies do not change it; the means
of the C real classes add up to −E(p_D).
"""

from typing import ClassVar

from torch import nn

from durm.probes import PROBES, State, StepState
from durm.probes._running import EpochProbe, Moments


@PROBES.register("gradient_variance")
class GradientVariance(EpochProbe[Moments]):
    """`variance` and `mean`: for each epoch C values. `samples`: for each epoch how many they are over."""

    entries: ClassVar = ("variance", "mean", "samples")

    def __init__(self, model: nn.Module) -> None:
        super().__init__(Moments())

    def on_step(self, state: StepState) -> None:
        self.running.add(state.gradient[:, : state.num_classes], state.counted)

    def on_epoch(self, state: State) -> None:
        samples, mean, variance = self.running.take()
        self.enter(variance=variance, mean=mean, samples=samples)
