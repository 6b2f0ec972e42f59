"""The part of the gradient that falls on each dummy (Figs. 4c, 4d and 10).

A dummy's logit gets ∂L/∂d_j = p_j. The paper's fraction is p_j over the probability of all dummies together, so these
share 1 between them and 1/C_d is the level of equals. How it goes over samples is not said. Gradients add up, so our
`fraction` is that of the sums over an epoch, in which samples with a large p_D weigh more; `sample_fraction` is the
mean of each sample's own; with p_D = Σ_j p_j,

    fraction_j = Σ_i p_j^(i) / Σ_i p_D^(i)        sample_fraction_j = 1/N Σ_i p_j^(i) / p_D^(i)

How much of the whole gradient this is, fractions of dummies cannot say; that is

    share_j = Σ_i p_j^(i) / Σ_i Σ_k |∂L_i/∂z_k|    over all C + C_d logits; for labels Σ_k |∂L_i/∂z_k| = 2 (1 − p_y^(i))
"""

from typing import ClassVar

from torch import nn

from durm.probes import PROBES, State, StepState
from durm.probes._running import EpochProbe, Sums


@PROBES.register("dummy_gradient")
class DummyGradient(EpochProbe[Sums]):
    """`fraction`, `sample_fraction` and `share`: for each epoch C_d values. `samples`: how many they are over."""

    entries: ClassVar = ("fraction", "sample_fraction", "share", "samples")

    def __init__(self, model: nn.Module) -> None:
        super().__init__(Sums())

    def on_step(self, state: StepState) -> None:
        self.running.add(
            dummies=state.gradient[:, state.num_classes :],
            own=state.logits[:, state.num_classes :].softmax(1) * state.counted[:, None],
            every=state.gradient.abs().sum(1),
            samples=state.counted,
        )

    def on_epoch(self, state: State) -> None:
        sums = self.running.take()
        dummies = sums["dummies"]
        self.enter(
            fraction=dummies / dummies.sum(),
            sample_fraction=sums["own"] / sums["samples"],
            share=dummies / sums["every"],
            samples=int(sums["samples"]),
        )
