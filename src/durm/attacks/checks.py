"""Signs that an attack by gradients overrates a model, as AutoAttack looks for them (Croce & Hein 2020)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from durm.heads.layer import eval_mode

PASSES = 5
ALIKE = 1e-4
"""How far logits of the same inputs, each divided by its length, may lie apart."""
SUM_TO_ONE = 1e-5


def check_model(model: nn.Module, inputs: Tensor, targets: Tensor) -> list[str]:
    """Sentences about a model whose robust accuracy is not to be believed; none for a usual one.

    Three things are looked at over the real logits, in eval mode: whether they differ from pass to pass, whether they
    are probabilities, and whether the gradient of the cross-entropy is 0 for samples that are classified rightly.

    Args:
        model: takes inputs in [0, 1].
        inputs: (N, …), a few samples.
        targets: (N,), their classes.

    Examples:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Softmax(1))
        >>> check_model(model, torch.rand(4, 2), torch.zeros(4, dtype=torch.long))[0].partition(":")[0]
        'Probabilities'
    """
    if not len(inputs):
        return []
    with torch.inference_mode(False), eval_mode(model, full=False):
        with torch.no_grad():
            passes = [model(inputs) for _ in range(PASSES)]
        found = []
        if _differ(passes):
            found.append(
                "Random outputs: the same inputs have other logits in each pass, and an attack that averages no "
                "gradients over passes overrates such a model."
            )
        if _are_probabilities(passes[0]):
            found.append(
                "Probabilities: the model gives numbers from 0 to 1 that sum to 1, and attacks need the logits before "
                "the softmax."
            )
        right = passes[0].argmax(1) == targets
        if count := _without_gradient(model, inputs[right], targets[right]):
            found.append(
                f"Zero gradients: of {int(right.sum())} samples that are classified rightly {count} have a gradient of "
                "0, which attacks by gradients cannot follow."
            )
    return found


def _differ(passes: list[Tensor]) -> bool:
    directions = [F.normalize(logits, dim=1) for logits in passes]
    return any(bool((other - directions[0]).norm(dim=1).max() > ALIKE) for other in directions[1:])


def _are_probabilities(logits: Tensor) -> bool:
    inside = logits.min() >= -SUM_TO_ONE and logits.max() <= 1 + SUM_TO_ONE
    return bool(inside and ((logits.sum(1) - 1).abs() < SUM_TO_ONE).all())


def _without_gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> int:
    if not len(inputs):
        return 0
    with torch.enable_grad():
        points = inputs.detach().clone().requires_grad_()
        loss = F.cross_entropy(model(points), targets, reduction="sum")
        if not loss.requires_grad:
            return len(inputs)
        (gradient,) = torch.autograd.grad(loss, points, allow_unused=True)
    return len(inputs) if gradient is None else int((gradient.flatten(1) == 0).all(1).sum())
