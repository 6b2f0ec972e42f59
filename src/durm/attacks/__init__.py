"""Adversarial attacks on classifiers with and without dummies: FGSM, PGD, APGD, targeted APGD and Square.

    model = Normalised(model, mean, std, scale=255)               # takes images in [0, 1]
    adversarial = Attack("pgd", eps=8 / 255)(model, images, labels)

Attacking through the C real logits and through all C + C_d gives different robust accuracy, so both are offered; see
`through` and `durm.attacks.loss`. A model's mode, parameters, gradients and buffers are left as they were.

Papers: Goodfellow, Shlens & Szegedy, Explaining and harnessing adversarial examples, 2015 (FGSM). Madry et al., Towards
deep learning models resistant to adversarial attacks, 2018 (PGD). Carlini & Wagner, Towards evaluating the robustness
of neural networks, 2017 (the margin). Croce & Hein, Reliable evaluation of adversarial robustness with an ensemble of
diverse parameter-free attacks, 2020 (APGD, DLR). Andriushchenko et al., Square attack, 2020.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature

import torch
from torch import Tensor, nn

from durm._checks import one_of, positive_or_none, whole_number
from durm.attacks.auto_pgd import apgd, targeted_apgd
from durm.attacks.ball import NORMS, check_eps
from durm.attacks.checks import check_model
from durm.attacks.loss import LOSSES, SURFACES, AttackLoss
from durm.attacks.normalised import Normalised
from durm.attacks.projected_gradient import fgsm, pgd
from durm.attacks.squares import square

__all__ = [
    "KINDS",
    "LOSSES",
    "NORMS",
    "SURFACES",
    "Attack",
    "Normalised",
    "apgd",
    "auto",
    "check_model",
    "fgsm",
    "pgd",
    "square",
    "targeted_apgd",
]

_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "fgsm": fgsm,
    "pgd": pgd,
    "apgd": apgd,
    "apgd-t": targeted_apgd,
    "square": square,
}
KINDS = tuple(_FUNCTIONS)


@dataclass(frozen=True)
class Attack:
    """An attack with all its settings; call it with a model.

    Attributes:
        kind: "fgsm", "pgd", "apgd" or "square", the functions of these names, or "apgd-t", `targeted_apgd`.
        eps: the radius of the ball, in units of [0, 1].
        norm: "linf" or "l2".
        steps: how many gradient steps a restart takes; for "square" how many queries. "fgsm" takes one, whatever this
            says.
        step_size: None is ε for "fgsm", 2.5 ε / steps for "pgd" and, as the first size, 2 ε for "apgd". "square" has
            none.
        restarts: how often; each after the first begins at random. "fgsm" has one, "apgd-t" one for each class.
        random_start: whether the first begins at random too. "fgsm" always begins at the inputs: with a random start it
            is "pgd" with one step.
        loss: "ce", "cw" (margin) or "dlr"; None is "cw" for "square", which needs one that does not saturate, "dlr" for
            "apgd-t", and "ce" for the others.
        through: the logits that the loss is of, "real", "full" or "dummy".
        targeted: whether the targets are the wanted classes instead of the true ones.
        target_classes: how many classes "apgd-t" goes for, one after the other.

    Examples:
        >>> attack = Attack("pgd", eps=8 / 255, steps=20, restarts=2)
        >>> attack.gradient_passes
        40
        >>> attack(nn.Linear(4, 3), torch.rand(5, 4), torch.tensor([0, 1, 2, 0, 1])).shape
        torch.Size([5, 4])
    """

    kind: str = "pgd"
    eps: float = 8 / 255
    norm: str = "linf"
    steps: int = 10
    step_size: float | None = None
    restarts: int = 1
    random_start: bool = True
    loss: str | None = None
    through: str = "real"
    targeted: bool = False
    target_classes: int = 9

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        check_eps(self.eps, self.norm)
        whole_number("steps", self.steps, minimum=1)
        positive_or_none("step_size", self.step_size)
        whole_number("restarts", self.restarts, minimum=1)
        whole_number("target_classes", self.target_classes, minimum=1)
        AttackLoss(self.through, self._loss, self.targeted or self.kind == "apgd-t")
        if self.kind == "apgd-t" and (self.targeted or self.restarts > 1):
            given = "targeted=True" if self.targeted else f"restarts={self.restarts}"
            raise ValueError(f"{given}: kind='apgd-t' chooses its classes, and has a start for each; use 'apgd'")
        if self.kind == "square" and self.step_size is not None:
            raise ValueError(f"step_size={self.step_size}: kind='square' takes no steps of a size")
        if self.kind == "fgsm" and self.restarts > 1:
            raise ValueError(f"restarts={self.restarts}: kind='fgsm' always begins at the inputs; use 'pgd'")

    def __call__(
        self,
        model: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        *,
        generator: torch.Generator | None = None,
        start: Tensor | None = None,
        early_stop: bool = False,
        keep_best: bool = False,
    ) -> Tensor:
        """The attacked inputs, (N, …), in the ball and the box; see `pgd` for the arguments.

        `keep_best` is that of `fgsm`; the others always do.
        """
        function = _FUNCTIONS[self.kind]
        settings = vars(self) | {"loss": self._loss, "generator": generator, "start": start, "early_stop": early_stop}
        settings["keep_best"] = keep_best
        taken = signature(function).parameters
        return function(model, inputs, targets, **{name: settings[name] for name in settings if name in taken})

    @property
    def gradient_passes(self) -> int:
        """How many forward and input-gradient passes a sample takes at most; a restart adds one forward pass."""
        if self.kind == "square":
            return 0
        if self.kind == "apgd-t":
            return self.steps * self.target_classes
        return 1 if self.kind == "fgsm" else self.steps * self.restarts

    @property
    def _loss(self) -> str:
        return self.loss or {"square": "cw", "apgd-t": "dlr"}.get(self.kind, "ce")


def auto(
    eps: float,
    norm: str = "linf",
    *,
    through: str | Sequence[str] = "real",
    steps: int = 100,
    queries: int = 5000,
    target_classes: int = 9,
    num_classes: int | None = None,
    dummies: int = 0,
) -> list[Attack]:
    """An ensemble in the manner of AutoAttack (Croce & Hein 2020): APGD on CE, targeted APGD on DLR, and Square.

    A sample is robust if none of them fools it. AutoAttack's standard version also has FAB, which is not here. The
    targeted DLR needs four logits, DLR three: with fewer, untargeted APGD on DLR or on the margin takes its place.
    "dummy" has the margin too.

    Args:
        eps: the radius of the ball, in units of [0, 1].
        norm: "linf" or "l2".
        through: one surface or several, each attacked with all; ("real", "full") is worth it for models with dummies.
        steps: of each APGD, for each class.
        queries: of Square.
        target_classes: how many classes each sample goes for; 0 has untargeted APGD on DLR instead.
        num_classes: C, where it may be below four.
        dummies: C_d.

    Examples:
        >>> [(attack.kind, attack.loss) for attack in auto(8 / 255)]
        [('apgd', 'ce'), ('apgd-t', 'dlr'), ('square', 'cw')]
        >>> [(attack.kind, attack.loss) for attack in auto(8 / 255, num_classes=2)]
        [('apgd', 'ce'), ('apgd', 'cw'), ('square', 'cw')]
    """
    ensemble = []
    for surface in [through] if isinstance(through, str) else through:
        logits = 4 if num_classes is None else num_classes + (dummies if surface == "full" else 0)
        ensemble.append(Attack("apgd", eps, norm, steps, loss="ce", through=surface))
        if surface == "dummy" or logits < 3:
            ensemble.append(Attack("apgd", eps, norm, steps, loss="cw", through=surface))
        elif logits < 4 or not target_classes:
            ensemble.append(Attack("apgd", eps, norm, steps, loss="dlr", through=surface))
        else:
            targeted = Attack("apgd-t", eps, norm, steps, through=surface, target_classes=target_classes, loss="dlr")
            ensemble.append(targeted)
        ensemble.append(Attack("square", eps, norm, queries, loss="cw", through=surface))
    return ensemble
