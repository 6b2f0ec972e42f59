"""How much probability the dummies get in training, and how many samples: p_D and dummy hits, as in `durm.scores`.

The effect of DuRM on the gradient fades as p_D → 0, and the paper claims that no sample is classified as a dummy.
"""

from typing import ClassVar

from torch import nn

from durm.probes import PROBES, State, StepState
from durm.probes._running import EpochProbe, Sums
from durm.scores import dummy_hits, dummy_mass


@PROBES.register("dummy_mass")
class DummyMass(EpochProbe[Sums]):
    """For each epoch `mass`, the mean of p_D, and `hits`, how many of its `samples` had a dummy as largest logit."""

    entries: ClassVar = ("mass", "hits", "samples")

    def __init__(self, model: nn.Module) -> None:
        super().__init__(Sums())

    def on_step(self, state: StepState) -> None:
        mass = dummy_mass(state.logits, state.num_classes) * state.counted
        hits = dummy_hits(state.logits, state.num_classes) & state.counted
        self.running.add(mass=mass, hits=hits, samples=state.counted)

    def on_epoch(self, state: State) -> None:
        sums = self.running.take()
        self.enter(mass=sums["mass"] / sums["samples"], hits=int(sums["hits"]), samples=int(sums["samples"]))
