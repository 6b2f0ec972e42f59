"""The push and the pull term of Eq. (3) for each of the C + C_d classes, as means over the samples of an epoch.

    1/N Σ_i ∂L_i/∂z_k = 1/N Σ_i (1 − t_k^(i)) p_k^(i)  +  1/N Σ_i t_k^(i) (p_k^(i) − 1)
                                   push                             pull

For labels, t is 0 or 1 and these are the sums of `durm.push_pull` divided by N, the number of samples of all classes.
For soft targets (mixup, label smoothing) a sample belongs to each class as much as its target says. A dummy's pull term
is exactly 0.
"""

from typing import ClassVar

from torch.nn.functional import pad

from durm.probes import PROBES, State, StepState
from durm.probes._running import EpochProbe, Sums
from durm.probes.describe import Description, ProbeFigure

DESCRIPTION = Description(
    rank=7,
    figures=(
        ProbeFigure(
            "push",
            "push on the real logits, mean over samples",
            "The push term of the gradient, added up over the real classes; mean over samples and seeds.",
            lambda run: [sum(classes[: run.num_classes]) for classes in run.seen["push"]],
        ),
    ),
)


@PROBES.register("push_pull")
class PushPull(EpochProbe[Sums]):
    """`push` and `pull`: for each epoch C + C_d values. `samples`: for each epoch how many they are over."""

    description: ClassVar = DESCRIPTION
    entries: ClassVar = ("push", "pull", "samples")
    gathered = Sums

    def on_step(self, state: StepState) -> None:
        own, p = state.targets, state.probabilities
        pull = pad(own * (p[:, : state.num_classes] - 1), (0, p.shape[1] - state.num_classes))
        self.running.add(push=state.gradient - pull, pull=pull, samples=state.counted)

    def on_epoch(self, state: State) -> None:
        sums = self.running.take()
        self.enter(
            push=sums["push"] / sums["samples"], pull=sums["pull"] / sums["samples"], samples=int(sums["samples"])
        )
