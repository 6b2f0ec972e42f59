"""What an attack maximises, and when it has succeeded.

With z the C real logits and d the C_d dummy logits, three surfaces:

- "real": the loss over z alone, which is all that a deployed, narrowed model shows.
- "full": the loss over all C + C_d logits with the true label, DuRM's own loss. Without dummies it is "real".
- "dummy": pushes a sample into a dummy, whatever its label.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from durm._checks import one_of
from durm.scores import dummy_hits, split

SURFACES = ("real", "full", "dummy")
LOSSES = ("ce", "cw", "dlr")


@dataclass(frozen=True)
class AttackLoss:
    """A loss on a surface, to be raised for the true labels, or lowered for labels that are wanted (`targeted`)."""

    through: str
    loss: str
    targeted: bool

    def __post_init__(self) -> None:
        one_of("through", self.through, SURFACES)
        one_of("loss", self.loss, LOSSES)
        if self.through == "dummy" and self.targeted:
            raise ValueError("through='dummy' wants the dummies, so it cannot be targeted at classes as well")
        if self.through == "dummy" and self.loss == "dlr":
            raise ValueError("loss='dlr' has no meaning with through='dummy': use 'ce' or 'cw'")

    def check(self, num_classes: int, dummies: int, *, aimed: bool = False) -> None:
        """Refuses a goal that a model of so many logits does not have. Aimed attacks go for one class at a time."""
        if self.through == "dummy" and not dummies:
            raise ValueError("through='dummy': this model has no dummies; durm.widen gives it some")
        width = num_classes + dummies if self.through == "full" else num_classes
        if self.loss == "dlr" and width < (needed := 4 if self.targeted or aimed else 3):
            kind = "targeted " if self.targeted or aimed else ""
            raise ValueError(f"loss='dlr': the {kind}DLR loss needs at least {needed} logits, and there are {width}")

    def __call__(
        self, logits: Tensor, targets: Tensor, num_classes: int, aimed_at: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """What the attack wants to be large, and whether it has succeeded, each of shape (N,).

        Success is to be misclassified over the real logits; if targeted, to be classified as wanted; through "dummy",
        that a dummy has the largest of all logits.

        Args:
            logits: (N, C), or (N, C + C_d) for "full" and "dummy".
            targets: (N,), the true classes, or the wanted ones.
            num_classes: C.
            aimed_at: (N,), classes to go for, although any wrong one is a success.
        """
        real, dummy = split(logits, num_classes, 1)
        if self.through == "dummy":
            value = dummy_log_mass(real, dummy) if self.loss == "ce" else dummy.amax(1) - real.amax(1)
            return value, dummy_hits(logits, num_classes)
        hit = real.argmax(1) == targets
        surface = logits if self.through == "full" else real
        if aimed_at is not None:
            return _AIMED[self.loss](surface, targets, aimed_at), ~hit
        if self.targeted:
            value = targeted_dlr(surface, targets) if self.loss == "dlr" else -_UNTARGETED[self.loss](surface, targets)
            return value, hit
        return _UNTARGETED[self.loss](surface, targets), ~hit


def dummy_log_mass(real: Tensor, dummy: Tensor) -> Tensor:
    """log p_D = logsumexp(d) - logsumexp([z, d])."""
    return dummy.logsumexp(1) - torch.cat([real, dummy], 1).logsumexp(1)


def margin(logits: Tensor, targets: Tensor) -> Tensor:
    """max_{k != y} z_k - z_y (Carlini & Wagner 2017, f_6): above 0 where another logit is the largest.

    Examples:
        >>> margin(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]))
        tensor([-1.])
    """
    own = targets[:, None]
    return logits.scatter(1, own, -torch.inf).amax(1) - logits.gather(1, own)[:, 0]


def dlr(logits: Tensor, targets: Tensor) -> Tensor:
    """The difference of logits ratio, (max_{k != y} z_k - z_y) / (z_(1) - z_(3)) (Croce & Hein 2020, Eq. 6).

    z_(1) >= z_(2) >= … are the logits in order. Unlike the cross-entropy it does not change when the logits are scaled,
    so it has a gradient where the softmax has none left.

    Examples:
        >>> dlr(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]))
        tensor([-0.5000])
    """
    top = logits.topk(3, 1).values
    return margin(logits, targets) / (top[:, 0] - top[:, 2]).clamp_min(_SMALL)


def targeted_dlr(logits: Tensor, targets: Tensor) -> Tensor:
    """(z_t - max_{k != t} z_k) / (z_(1) - (z_(3) + z_(4)) / 2), to be raised for the wanted class t.

    Croce & Hein (2020, Eq. 7) have the true class's logit in place of the largest other one; a targeted attack here is
    not given the true class.
    """
    top = logits.topk(4, 1).values
    return -margin(logits, targets) / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2).clamp_min(_SMALL)


def aimed_dlr(logits: Tensor, targets: Tensor, aimed_at: Tensor) -> Tensor:
    """(z_t - z_y) / (z_(1) - (z_(3) + z_(4)) / 2), for the true class y and the class t to go for: Eq. 7 as it stands.

    Examples:
        >>> aimed_dlr(torch.tensor([[4.0, 1.0, 2.0, 0.0]]), torch.tensor([0]), torch.tensor([2]))
        tensor([-0.5714])
    """
    top = logits.topk(4, 1).values
    return aimed_margin(logits, targets, aimed_at) / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2).clamp_min(_SMALL)


def aimed_margin(logits: Tensor, targets: Tensor, aimed_at: Tensor) -> Tensor:
    """z_t - z_y."""
    return (logits.gather(1, aimed_at[:, None]) - logits.gather(1, targets[:, None]))[:, 0]


_AIMED: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ce": lambda logits, _, aimed_at: -F.cross_entropy(logits, aimed_at, reduction="none"),
    "cw": aimed_margin,
    "dlr": aimed_dlr,
}
_UNTARGETED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "ce": partial(F.cross_entropy, reduction="none"),
    "cw": margin,
    "dlr": dlr,
}
_SMALL = 1e-12
"""In place of the denominator where the largest logits are equal."""
