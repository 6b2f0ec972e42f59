"""Robust accuracy: how often a model is right on inputs that were changed on purpose, within a small ball.

With dummies there are three surfaces to attack: the real logits, all of them, or into a dummy. A number without its
surface means nothing, so every result is named after both: `pgd_real`, `pgd_full`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from durm._random import generator
from durm.attacks import Attack, Normalised, auto, check_model
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
Attempts = dict[str, list[Tensor]]
"""Of each attack and surface, for each batch that was attacked: its flags and those of the curve, (1 + radii, N, 3)."""
STEPS = {"fgsm": 1, "pgd": 10, "apgd": 100, "square": 5000, "auto": 100}
QUERIES_OF_AUTO = 50
"""For each step of its APGDs."""
BY_SQUARE = 0.2
"""Points that Square may take after attacks by gradients before it is a sign of masked ones, as in AutoAttack."""
NOBODY = 255


def robustness(
    model: nn.Module,
    samples: Samples,
    format: InputFormat,
    attacks: Sequence[AttackSpec],
    *,
    limit: int,
    seed: int = 0,
    device: torch.device = CPU,
    attempts: Attempts | None = None,
    on_batch: Callable[[], None] = lambda: None,
) -> dict[str, Attacked]:
    """What is left of a model's accuracy under each attack, on up to `limit` of the samples, the same for every model.

    Args:
        model: the classifier.
        samples: those that are attacked are drawn from them.
        format: of the samples.
        attacks: with which.
        limit: how many samples at the most.
        seed: of the attacks.
        device: where.
        attempts: what an interrupted run has found, which is not done again; what is found now is added to it.
        on_batch: called after each batch that was attacked; it may raise.

    Returns:
        For `clean`, and for each attack and surface (`pgd_real`), what the model makes of the samples then. Surfaces
        that the model does not have are left out.
    """
    attacked, batches = _unit_model(model, format, device), _batches(samples, limit, format, device)
    attempts = {} if attempts is None else attempts
    clean = _outcome(torch.cat([_flags(attacked, *batch) for batch in batches]))
    found = {"clean": clean.model_copy(update={"warnings": check_model(attacked, *batches[0]) if attacks else []})}
    for spec in attacks:
        for through, key in zip(spec.through, spec.keys, strict=True):
            if through == "dummy" and not dummies(model):
                continue
            if through == "full" and not dummies(model) and (same := f"{spec.label}_real") in found:
                found[key] = found[same]  # without dummies it is the same attack
            else:
                done = attempts.setdefault(key, [])
                found[key] = _attacked(attacked, batches, spec, through, seed, attempts=done, on_batch=on_batch)
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
    model: Normalised,
    batches: _Batches,
    spec: AttackSpec,
    through: str,
    seed: int,
    shown: Normalised | None = None,
    *,
    attempts: list[Tensor] | None = None,
    on_batch: Callable[[], None] = lambda: None,
) -> Attacked:
    """What a model, or another one that is shown the same, makes of the inputs that an attack on it has changed.

    Each radius of the curve is attacked from what the one before has found, the attack's own from the inputs.
    """
    real, every = _logits(model, batches[0][0][:1])
    attacks, shown = _attacks(spec, through, real.shape[1], every.shape[1] - real.shape[1]), shown or model
    done = [] if attempts is None else attempts
    for index, (pixels, targets) in list(enumerate(batches))[len(done) :]:
        purpose, start, curve = (seed, spec.label, index), None, []
        for eps in spec.curve:
            smaller = [replace(attack, eps=eps) for attack in attacks]
            start, by = strongest(model, pixels, targets, smaller, purpose, start)
            curve.append(_flags(shown, start, targets, by))
        changed, by = strongest(model, pixels, targets, attacks, purpose)
        done.append(torch.stack([_flags(shown, changed, targets, by), *curve]))
        on_batch()
    flags, *radii = torch.cat(done, 1)
    points = [(eps, _outcome(one).accuracy) for eps, one in zip(spec.curve, radii, strict=True)]
    noticed = {"eps": spec.eps, "curve": points, "warnings": _fooled_by_square(flags, attacks)}
    return _outcome(flags).model_copy(update=noticed)


def _fooled_by_square(flags: Tensor, attacks: Sequence[Attack]) -> list[str]:
    """A sentence, if Square fools many samples that the attacks by gradients before it have not."""
    if len(attacks) < 2:
        return []
    taken = 100 * sum((flags[:, 2] == number).sum().item() for number in _squares(attacks)) / len(flags)
    if taken <= BY_SQUARE:
        return []
    return [
        f"Masked gradients: Square, which sees no gradients, fools another {taken:.1f} % of the samples after attacks "
        "by gradients. More queries, or an attack made for this model, would leave less."
    ]


def _squares(attacks: Sequence[Attack]) -> list[int]:
    return [number for number, attack in enumerate(attacks) if attack.kind == "square"]


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
) -> tuple[Tensor, Tensor]:
    """The pixels after all attacks, each on those that the ones before have not fooled, and by which each was, (N,).

    Those that need no attack stay as they are: another point of the ball, where the model is right, is no defence.
    """
    seed, name, batch = purpose
    changed = pixels.clone()
    stood = _stands(model, pixels, targets, attacks[0].through)
    left, by = torch.ones_like(stood), torch.full_like(targets, NOBODY)
    for number, attack in enumerate(attacks):
        random = generator(seed, "attack", name, batch, number)
        begin = None if start is None else start[left]
        changed[left] = attack(
            model, pixels[left], targets[left], generator=random, start=begin, early_stop=True, keep_best=True
        )
        stands = _stands(model, changed, targets, attack.through)
        by[stood & left & ~stands] = number
        left &= stands
        if not left.any():
            break
    return torch.where(per_sample(stood, pixels), changed, pixels), by


def _stands(model: Normalised, pixels: Tensor, targets: Tensor, through: str) -> Tensor:
    """Which samples are not where an attack on that surface wants them: misclassified, or in a dummy."""
    real, every = _logits(model, pixels)
    return every.argmax(1) < real.shape[1] if through == "dummy" else real.argmax(1) == targets


def _flags(model: Normalised, pixels: Tensor, targets: Tensor, by: Tensor | None = None) -> Tensor:
    """Of each sample, whether it is right over the real logits, whether it is in a dummy, and which attack fooled it.

    (N, 3), of bytes.
    """
    real, every = _logits(model, pixels)
    by = torch.full_like(targets, NOBODY) if by is None else by
    return torch.stack([real.argmax(1) == targets, every.argmax(1) >= real.shape[1], by], 1).to("cpu", torch.uint8)


def _outcome(flags: Tensor) -> Attacked:
    right, dummy = (int(column.sum()) for column in flags[:, :2].unbind(1))
    return Attacked(
        accuracy=100 * right / len(flags),
        into_dummies=100 * dummy / len(flags),
        samples=len(flags),
        right=tuple(flags[:, 0].bool().tolist()),
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
