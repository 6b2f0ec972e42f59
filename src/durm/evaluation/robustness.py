"""Robust accuracy: how often a model is right on inputs that were changed on purpose, within a small ball.

With dummies there are three surfaces to attack: the real logits, all of them, or into a dummy. A number without its
surface means nothing, so every result is named after both: `pgd_real`, `pgd_full`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from durm._random import generator
from durm.attacks import Attack, Normalised, auto
from durm.attacks.ball import per_sample
from durm.data.bundle import InputFormat, Samples
from durm.errors import InputError
from durm.heads import dummies, full_logits
from durm.training.trial import AttackSpec

BATCH = 128
CLEAN = "clean"


def robustness(
    model: nn.Module,
    samples: Samples,
    format: InputFormat,
    attacks: Sequence[AttackSpec],
    *,
    limit: int,
    seed: int = 0,
    device: torch.device | None = None,
) -> dict[str, dict[str, Any]]:
    """What is left of a model's accuracy under each attack, on up to `limit` of the samples, the same for every model.

    Returns:
        For `clean`, and for each attack and surface (`pgd_real`): `accuracy` over the real logits, in percent;
        `into_dummies`, the share of samples whose largest logit of all is a dummy then, in percent; `eps`; and `curve`,
        pairs of eps and accuracy, if it was asked for. Surfaces that the model does not have are left out.
    """
    device = device or torch.device("cpu")
    attacked = unit_model(model, format).to(device)
    chosen = attacked_samples(samples, limit)
    found = {CLEAN: _measured([(pixels, targets) for pixels, targets in _batches(chosen, format, device)], attacked)}
    for spec in attacks:
        for through, key in zip(spec.through, spec.keys, strict=True):
            if through == "dummy" and not dummies(model):
                continue
            same = f"{spec.label}_real"
            if through == "full" and not dummies(model) and same in found:
                found[key] = found[same]  # without dummies it is the same attack
                continue
            found[key] = _attacked(attacked, chosen, format, spec, through, seed, device)
    return found


def transfer(
    source: nn.Module,
    target: nn.Module,
    samples: Samples,
    format: InputFormat,
    attack: AttackSpec,
    *,
    limit: int,
    source_format: InputFormat | None = None,
) -> float:
    """The accuracy of one model, in percent, on what an attack through the real logits of another made of inputs.

    The format is that of the samples and of the target, and of the source too unless it has another one.
    """
    crafted, shown = unit_model(source, source_format or format), unit_model(target, format)
    chosen, device = attacked_samples(samples, limit), torch.device("cpu")
    batches = list(_batches(chosen, format, device))
    changed = [
        (_strongest(crafted, pixels, targets, _attacks(attack, "real"), (0, attack.label, index)), targets)
        for index, (pixels, targets) in enumerate(batches)
    ]
    accuracy: float = _measured(changed, shown)["accuracy"]
    return accuracy


def unit_model(model: nn.Module, format: InputFormat) -> Normalised:
    """The model, in eval mode, for pixels in [0, 1].

    Raises:
        InputError: if the inputs are no images.
    """
    if format.white is None:
        raise InputError("attacks need images, whose pixels go from black to white")
    return Normalised(model.eval(), format.mean, format.std, format.white)


def attacked_samples(samples: Samples, limit: int) -> Samples:
    """Up to so many of the samples, drawn once and for all."""
    if len(samples) <= limit:
        return samples
    chosen = torch.randperm(len(samples), generator=generator(0, "attacked samples"))[:limit]
    return samples.subset(chosen.sort().values)


def _attacked(
    model: Normalised,
    samples: Samples,
    format: InputFormat,
    spec: AttackSpec,
    through: str,
    seed: int,
    device: torch.device,
) -> dict[str, Any]:
    attacks = _attacks(spec, through)
    changed: list[tuple[Tensor, Tensor]] = []
    curve = {eps: [] for eps in spec.curve}  # type: dict[float, list[tuple[Tensor, Tensor]]]
    for index, (pixels, targets) in enumerate(_batches(samples, format, device)):
        purpose = (seed, spec.label, index)
        start = None
        for eps, kept in curve.items():
            start = _strongest(model, pixels, targets, [replace(attack, eps=eps) for attack in attacks], purpose, start)
            kept.append((start, targets))
        changed.append((_strongest(model, pixels, targets, attacks, purpose), targets))
    found = {**_measured(changed, model), "eps": spec.eps}
    if curve:
        found["curve"] = [[eps, _measured(kept, model)["accuracy"]] for eps, kept in curve.items()]
    return found


STEPS = {"fgsm": 1, "pgd": 10, "apgd": 100, "square": 5000, "auto": 100}
QUERIES_OF_AUTO = 50
"""For each step of its APGDs."""


def _attacks(spec: AttackSpec, through: str) -> list[Attack]:
    steps = spec.steps or STEPS[spec.kind]
    if spec.kind == "auto":
        return auto(spec.eps, spec.norm, through=through, steps=steps, queries=QUERIES_OF_AUTO * steps)
    settings = {name: getattr(spec, name) for name in ("eps", "norm", "step_size", "restarts", "loss")}
    return [Attack(spec.kind, through=through, steps=steps, **settings)]


def _strongest(
    model: Normalised,
    pixels: Tensor,
    targets: Tensor,
    attacks: Sequence[Attack],
    purpose: tuple[int, str, int],
    start: Tensor | None = None,
) -> Tensor:
    """The pixels after all attacks, each on those that the ones before have not fooled.

    Those that need no attack stay as they are: another point of the ball, where the model is right, is no defence.
    """
    seed, name, batch = purpose
    changed = pixels.clone()
    stood = _stands(model, pixels, targets, attacks[0].through)
    left = torch.ones_like(stood)
    for number, attack in enumerate(attacks):
        random = generator(seed, "attack", name, batch, number)
        begin = None if start is None else start[left]
        changed[left] = attack(model, pixels[left], targets[left], generator=random, start=begin, early_stop=True)
        if number + 1 < len(attacks):
            left &= _stands(model, changed, targets, attack.through)
            if not left.any():
                break
    return torch.where(per_sample(stood, pixels), changed, pixels)


def _stands(model: Normalised, pixels: Tensor, targets: Tensor, through: str) -> Tensor:
    """Which samples are not where an attack on that surface wants them: misclassified, or in a dummy."""
    real, every = _logits(model, pixels)
    return every.argmax(1) < real.shape[1] if through == "dummy" else real.argmax(1) == targets


@torch.no_grad()
def _measured(batches: Sequence[tuple[Tensor, Tensor]], model: Normalised) -> dict[str, Any]:
    right, dummy, count = 0, 0, 0
    for pixels, targets in batches:
        real, every = _logits(model, pixels)
        right += int((real.argmax(1) == targets).sum())
        dummy += int((every.argmax(1) >= real.shape[1]).sum())
        count += len(targets)
    return {"accuracy": 100 * right / count, "into_dummies": 100 * dummy / count, "samples": count}


@torch.no_grad()
def _logits(model: Normalised, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The real logits, and all of them."""
    with full_logits(model):
        every = model(pixels)
    return every[:, : every.shape[1] - dummies(model)], every


def _batches(samples: Samples, format: InputFormat, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Pixels in [0, 1] and labels."""
    inputs, white = samples.inputs, format.white or 1.0
    for first in range(0, len(samples), BATCH):
        last = min(first + BATCH, len(samples))
        raw = inputs[first:last] if isinstance(inputs, Tensor) else torch.stack([inputs[i] for i in range(first, last)])
        yield raw.to(device).float().div(white).clamp(0, 1), samples.labels[first:last].to(device)
