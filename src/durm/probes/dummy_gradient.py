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

from durm.probes import PROBES, State, StepState
from durm.probes._running import EpochProbe, Sums
from durm.probes.describe import Description, ProbeFigure, Quantity, known

DESCRIPTION = Description(
    rank=4,
    quantities=(
        Quantity(
            "dummy_share",
            "share of the logits' gradient that falls on dummies in the last epoch, %",
            lambda run: 100 * sum(run.seen["share"][-1]) if known(run.seen["share"][-1]) else None,
        ),
        Quantity(
            "dummy_unevenness",
            "largest fraction of one dummy in the last epoch, as a multiple of that of equals",
            lambda run: _unevenness(run.seen["fraction"][-1]),
        ),
    ),
    figures=(
        ProbeFigure(
            "dummy_fraction",
            "fraction of the dummies' gradient",
            "How the dummies share their gradient between them: in each run ordered by the last epoch, then mean and "
            "standard deviation over the seeds. Equals would all be at one over their number.",
            lambda run: run.seen["fraction"],
            kind="dummies",
            needs_dummies=True,
        ),
    ),
    dummies=lambda seen: len(seen["fraction"][0]),
)


def _unevenness(fractions: list[float]) -> float | None:
    return max(fractions) * len(fractions) if known(fractions) else None


@PROBES.register("dummy_gradient")
class DummyGradient(EpochProbe[Sums]):
    """`fraction`, `sample_fraction` and `share`: for each epoch C_d values. `samples`: how many they are over."""

    description: ClassVar = DESCRIPTION
    entries: ClassVar = ("fraction", "sample_fraction", "share", "samples")
    gathered = Sums

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
