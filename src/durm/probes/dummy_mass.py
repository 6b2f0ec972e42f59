"""How much probability the dummies get in training, and how many samples: p_D and dummy hits, as in `durm.scores`.

The effect of DuRM on the gradient fades as p_D → 0, and the paper claims that no sample is classified as a dummy.
"""

from typing import ClassVar

from durm.probes import PROBES, State, StepState
from durm.probes._running import EpochProbe, Sums
from durm.probes.describe import Description, ProbeFigure, Quantity
from durm.scores import dummy_hits, dummy_mass

DESCRIPTION = Description(
    rank=5,
    quantities=(
        Quantity(
            "training_dummy_mass",
            "mean probability on dummies in the last epoch, %",
            lambda run: 100 * run.seen["mass"][-1],
        ),
        Quantity(
            "training_dummy_hits",
            "training samples in the last epoch whose largest logit is a dummy, %",
            lambda run: 100 * run.seen["hits"][-1] / run.seen["samples"][-1],
        ),
    ),
    figures=(
        ProbeFigure(
            "training_dummy_mass",
            "probability on dummies in training, %",
            "The mean probability on the dummies in training, mean and standard deviation over the seeds. DuRM's "
            "effect on the gradient fades with it.",
            lambda run: [100 * mass for mass in run.seen["mass"]],
            whole=False,
            needs_dummies=True,
        ),
    ),
    dummies=lambda seen: int(any(seen["mass"])),
)


@PROBES.register("dummy_mass")
class DummyMass(EpochProbe[Sums]):
    """For each epoch `mass`, the mean of p_D, and `hits`, how many of its `samples` had a dummy as largest logit."""

    description: ClassVar = DESCRIPTION
    entries: ClassVar = ("mass", "hits", "samples")
    gathered = Sums

    def on_step(self, state: StepState) -> None:
        mass = dummy_mass(state.logits, state.num_classes) * state.counted
        hits = dummy_hits(state.logits, state.num_classes) & state.counted
        self.running.add(mass=mass, hits=hits, samples=state.counted)

    def on_epoch(self, state: State) -> None:
        sums = self.running.take()
        self.enter(mass=sums["mass"] / sums["samples"], hits=int(sums["hits"]), samples=int(sums["samples"]))
