"""Robust accuracy: how often a model is right on inputs that were changed on purpose, within a small ball.

With dummies there are three surfaces to attack: the real logits, all of them, or into a dummy. A number without its
surface means nothing, so every result is named after both: `pgd_real`, `pgd_full`.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from durm._random import generator
from durm.attacks import Attack, Normalised, auto
from durm.attacks.ball import per_sample
from durm.data.bundle import InputFormat, Samples
from durm.errors import InputError
from durm.heads import dummies, full_logits
from durm.training.loaders import raw_batches
from durm.training.result import Attacked
from durm.training.trial import AttackSpec

BATCH = 128
CPU = torch.device("cpu")
_Batches = list[tuple[Tensor, Tensor]]
STEPS = {"fgsm": 1, "pgd": 10, "apgd": 100, "square": 5000, "auto": 100}
QUERIES_OF_AUTO = 50
"""For each step of its APGDs."""


def robustness(
    model: nn.Module,
    samples: Samples,
    format: InputFormat,
    attacks: Sequence[AttackSpec],
    *,
    limit: int,
    seed: int = 0,
    device: torch.device = CPU,
) -> dict[str, Attacked]:
    """What is left of a model's accuracy under each attack, on up to `limit` of the samples, the same for every model.

    Returns:
        For `clean`, and for each attack and surface (`pgd_real`), what the model makes of the samples then. Surfaces
        that the model does not have are left out.
    """
    attacked, batches = _unit_model(model, format, device), _batches(samples, limit, format, device)
    found = {"clean": _outcome([_flags(attacked, *batch) for batch in batches])}
    for spec in attacks:
        for through, key in zip(spec.through, spec.keys, strict=True):
            if through == "dummy" and not dummies(model):
                continue
            if through == "full" and not dummies(model) and (same := f"{spec.label}_real") in found:
                found[key] = found[same]  # without dummies it is the same attack
            else:
                found[key] = _attacked(attacked, batches, spec, through, seed)
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
    attacked, shown = _unit_model(source, source_format or format), _unit_model(target, format)
    batches, once = _batches(samples, limit, format), attack.model_copy(update={"curve": ()})
    return _attacked(attacked, batches, once, "real", 0, shown).accuracy


def attacked_samples(samples: Samples, limit: int) -> Samples:
    """Up to so many of the samples, drawn once and for all."""
    if len(samples) <= limit:
        return samples
    chosen = torch.randperm(len(samples), generator=generator(0, "attacked samples"))[:limit]
    return samples.subset(chosen.sort().values)


def _attacked(
    model: Normalised, batches: _Batches, spec: AttackSpec, through: str, seed: int, shown: Normalised | None = None
) -> Attacked:
    """What a model, or another one that is shown the same, makes of the inputs that an attack on it has changed.

    Each radius of the curve is attacked from what the one before has found, the attack's own from the inputs.
    """
    real, every = _logits(model, batches[0][0][:1])
    attacks, shown = _attacks(spec, through, real.shape[1], every.shape[1] - real.shape[1]), shown or model
    flags: list[Tensor] = []
    curve: dict[float, list[Tensor]] = {eps: [] for eps in spec.curve}
    for index, (pixels, targets) in enumerate(batches):
        purpose, changed = (seed, spec.label, index), None
        for eps, counted in curve.items():
            smaller = [replace(attack, eps=eps) for attack in attacks]
            changed = strongest(model, pixels, targets, smaller, purpose, changed)
            counted.append(_flags(shown, changed, targets))
        flags.append(_flags(shown, strongest(model, pixels, targets, attacks, purpose), targets))
    points = [(eps, _outcome(counted).accuracy) for eps, counted in curve.items()]
    return _outcome(flags).model_copy(update={"eps": spec.eps, "curve": points})


def _attacks(spec: AttackSpec, through: str, num_classes: int, dummies: int) -> list[Attack]:
    steps = spec.steps or STEPS[spec.kind]
    if spec.kind == "auto":
        return auto(
            spec.eps, spec.norm, through=through, steps=steps, queries=QUERIES_OF_AUTO * steps,
            target_classes=spec.target_classes, num_classes=num_classes, dummies=dummies,
        )  # fmt: skip
    settings = {name: getattr(spec, name) for name in ("eps", "norm", "step_size", "restarts", "loss")}
    return [Attack(spec.kind, through=through, steps=steps, **settings)]


def strongest(
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


def _flags(model: Normalised, pixels: Tensor, targets: Tensor) -> Tensor:
    """Of each sample, whether it is right over the real logits, and whether it is in a dummy; (N, 2)."""
    real, every = _logits(model, pixels)
    return torch.stack([real.argmax(1) == targets, every.argmax(1) >= real.shape[1]], 1).cpu()


def _outcome(flags: list[Tensor]) -> Attacked:
    every = torch.cat(flags)
    (right, dummy), count = every.sum(0).tolist(), len(every)
    return Attacked(
        accuracy=100 * right / count,
        into_dummies=100 * dummy / count,
        samples=count,
        right=tuple(every[:, 0].tolist()),
    )


@torch.no_grad()
def _logits(model: Normalised, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The real logits, and all of them."""
    with full_logits(model):
        every = model(pixels)
    return every[:, : every.shape[1] - dummies(model)], every


def _unit_model(model: nn.Module, format: InputFormat, device: torch.device = CPU) -> Normalised:
    """The model, in eval mode, for pixels in [0, 1]."""
    if format.pixel_max is None:
        raise InputError("attacks need images, whose pixels go from black to white")
    return Normalised(model.eval(), format.mean, format.std, format.pixel_max).to(device)


def _batches(samples: Samples, limit: int, format: InputFormat, device: torch.device = CPU) -> _Batches:
    """Pixels in [0, 1] and labels."""
    chosen = attacked_samples(samples, limit)
    order = torch.arange(len(chosen)).split(BATCH)
    raw = (part.to(device).float() for part in raw_batches(chosen.inputs, order))
    pixels = (part.div(format.pixel_max or 1.0).clamp(0, 1) for part in raw)
    return list(zip(pixels, chosen.labels.to(device).split(BATCH), strict=True))
