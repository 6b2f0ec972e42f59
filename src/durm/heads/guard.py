"""Watches the training of a widened head for two mistakes that nothing else would show.

**A loss that trains the dummies.** Every right loss has, at the logits of one sample, the gradient

    g = w (p - t),   p the softmax over all C + C_d logits, t = 0 on the dummies,

for some number w of any sign, so dummies lie on the ray g = w p. Wrong ones give themselves away:

- label smoothing, or the soft targets of a mixup, over C + C_d instead of C classes: all classes but the targets, the
  dummies among them, lie on one line g = w p - b with b > 0 (b = w ε / (C + C_d));
- binary cross-entropy: all classes but the targets lie on one line g = a sigmoid(z) - b, and the sum of g is not 0,
  which it is for every function of the softmax.

Both need the line to fit. So a gradient of any other form gives no vote: margins, a temperature or a scale between
the head and the loss, logits that are interpolated, pooled or averaged after the head.

**An optimizer that was made before `widen`** holds the old parameters of the head and never trains the new ones.

A hook on the logits looks at a few samples in the first steps, and rarely afterwards. It changes no number and keeps
nothing but those few rows of logits until the backward pass.
"""

import warnings
import weakref
from typing import Any

import torch
from torch import Tensor

FIRST_STEPS, LATER = 20, 100
"""The steps that are looked at: these first ones, then every so many."""
POSITIONS = 64
"""So many samples, or pixels, are looked at in a step."""
LEAST_SPREAD = 0.25
"""The standard deviation of the logits of a sample that can be judged."""
LEAST_VOTES = 16
"""A warning needs at least so many samples that could be judged, and more than half of them against the loss."""


class Guard:
    """What the guard of one head remembers; copies of the head start over with the optimizer, and keep the rest.

    Args:
        replaced: a parameter of the head as it was before `widen`.
        own: the one that took its place.
        other: a parameter elsewhere in the model.
    """

    def __init__(self, replaced: Tensor | None = None, own: Tensor | None = None, other: Tensor | None = None) -> None:
        self.steps = 0
        self.warned: set[str] = set()
        self._votes = {"judged": 0, "softmax": 0, "sigmoid": 0}
        self._watched = None
        if replaced is not None and own is not None and other is not None:
            self._watched = tuple(map(weakref.ref, (replaced, own, other)))
        self._versions: tuple[int, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_watched": None, "_versions": None}  # weak references cannot be copied

    def watch(self, logits: Tensor, num_classes: int, dim: int) -> None:
        """Called with the logits of each training forward; `dim` is the class axis."""
        if type(logits) is not Tensor or not logits.requires_grad or _is_transformed():
            return
        self.steps += 1
        if self.steps > FIRST_STEPS and self.steps % LATER:
            return
        rows = _some_rows(logits.detach(), dim).clone()

        def look(gradient: Tensor) -> None:
            with torch.no_grad():
                own = _some_rows(gradient.detach(), dim)
                if not own.any():
                    return
                if "loss" not in self.warned:
                    self._judge_loss(rows, own, num_classes)
                if "optimizer" not in self.warned:
                    self._judge_optimizer()

        logits.register_hook(look)

    def _judge_loss(self, logits: Tensor, gradient: Tensor, num_classes: int) -> None:
        judged, softmax, sigmoid = votes(logits, gradient, num_classes)
        for name, value in (("judged", judged), ("softmax", softmax), ("sigmoid", sigmoid)):
            self._votes[name] += value
        found = self._votes
        if found["judged"] < LEAST_VOTES:
            return
        width = logits.shape[1]
        if found["softmax"] > found["judged"] / 2:
            self._warn(
                "loss",
                f"the loss gives dummy classes a positive target, which trains them: label smoothing or soft targets "
                f"(mixup, cutmix) are spread over {width} logits instead of the {num_classes} real classes. Use "
                f"durm.CrossEntropyLoss(num_classes={num_classes}), with label_smoothing=… or soft targets of width "
                f"{num_classes}, as timm's Mixup(num_classes={num_classes}) gives them",
            )
        elif found["sigmoid"] > found["judged"] / 2:
            self._warn(
                "loss",
                f"the loss is a binary cross-entropy over {width} logits, which trains each dummy as a class that is "
                f"never there; DuRM needs a softmax: use durm.CrossEntropyLoss(num_classes={num_classes})",
            )
        self._votes = dict.fromkeys(found, 0)

    def _judge_optimizer(self) -> None:
        replaced, own, other = (one() for one in self._watched) if self._watched else (None, None, None)
        if replaced is None or own is None or other is None:  # nobody holds the old head any more
            return
        if self._versions is None:
            self._versions = own._version, other._version
        elif self.steps >= FIRST_STEPS and own._version == self._versions[0] and other._version > self._versions[1]:
            self._warn(
                "optimizer",
                f"the head has not changed in {self.steps} training steps, and other parameters have: the optimizer "
                "was made before durm.widen and holds the old head. Make it after durm.widen, or pass it: "
                "durm.widen(…, optimizer=optimizer)",
            )

    def _warn(self, kind: str, message: str) -> None:
        self.warned.add(kind)
        warnings.warn(f"durm guard: {message}. (durm.widen(…, guard=False) switches this off.)", stacklevel=2)


def votes(logits: Tensor, gradient: Tensor, num_classes: int) -> tuple[int, int, int]:
    """How many of the rows can be judged, and how many speak for a softmax, or a sigmoid, with targets on dummies.

    A row can be judged if its logits differ enough to tell a line from a curve: where they do not, a temperature, or a
    penalty on the entropy, looks like smoothing.

    Args:
        logits: `(N, C + C_d)`.
        gradient: of the loss with respect to them.
        num_classes: C.
    """
    width, precision = logits.shape[1], torch.finfo(gradient.dtype).eps
    dummies, targets = width - num_classes, 2 if width > 4 else 1  # a mixup has two
    kept = num_classes - targets
    if kept + dummies < 3 or (kept < 3 and dummies < 2):
        return 0, 0, 0
    z, g = logits.double(), gradient.double()
    usable = z.isfinite().all(1) & g.isfinite().all(1) & g.any(1) & (z.std(1) > LEAST_SPREAD)
    z, g = z[usable], g[usable]
    if not len(z):
        return 0, 0, 0
    others = g[:, :num_classes].argsort(1)[:, targets:]  # without the most negative ones, which are those of targets

    def split(values: Tensor) -> tuple[Tensor, Tensor]:
        return values.gather(1, others), values[:, num_classes:]

    p, p_dummy = split(z.softmax(1))
    g_real, g_dummy = split(g)
    p_all, g_all, s_all = torch.cat([p, p_dummy], 1), torch.cat([g_real, g_dummy], 1), torch.cat(split(z.sigmoid()), 1)
    size = g_all.square().mean(1).sqrt()
    rounding = precision * size

    if kept >= 3:
        w, b, error = _line(p, g_real)
        on_the_ray = torch.zeros_like(w, dtype=torch.bool)
    else:  # too few for a line: the dummies help to draw it, if they are not where they should be
        w, b, error = _line(p_all, g_all)
        ratio = g_dummy / p_dummy
        on_the_ray = ratio.amax(1) - ratio.amin(1) < (0.01 + 4 * precision) * ratio.abs().amax(1)
    smoothing = width * b / w
    off_the_line = (g_dummy - w[:, None] * p_dummy + b[:, None]).abs().amax(1)
    softmax = (
        ((smoothing > 0.01) & (smoothing < 0.4) & (b > 0) & ~on_the_ray)
        & (error < 0.01 * b + rounding)
        & (off_the_line < 0.1 * b + rounding)
        & (rounding < 0.25 * b * z.var(1).clamp(max=1))  # a curve would leave about b times the variance
    )

    ray_error = (g_all - (p_all * g_all).sum(1, keepdim=True) / p_all.square().sum(1, keepdim=True) * p_all).square()
    sigmoid_error = _line(s_all, g_all)[2]
    sigmoid = (
        (g.sum(1).abs() > 0.1 * g.abs().sum(1))
        & (sigmoid_error < 0.01 * size + rounding)
        & (sigmoid_error < 0.25 * ray_error.mean(1).sqrt())
    )
    return len(z), int(softmax.sum()), int(sigmoid.sum())


def _line(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The least-squares line y = slope x - offset of each row, and the root mean square of what it leaves."""
    mean_x, mean_y = x.mean(1), y.mean(1)
    dx, dy = x - mean_x[:, None], y - mean_y[:, None]
    slope = (dx * dy).sum(1) / dx.square().sum(1).clamp(min=1e-300)
    error = (dy - slope[:, None] * dx).square().mean(1).sqrt()
    return slope, slope * mean_x - mean_y, error


def _some_rows(values: Tensor, dim: int) -> Tensor:
    """At most about POSITIONS samples or pixels, evenly spread, as `(n, width)`."""
    if values.ndim == 1:
        return values[None]
    each = max(1, round(POSITIONS ** (1 / (values.ndim - 1))))
    rows = values.movedim(dim, -1)
    for axis, size in enumerate(rows.shape[:-1]):
        step = -(-size // each)
        index = torch.arange(step // 2, size, max(step, 1), device=values.device)
        rows = rows.index_select(axis, index)
    return rows.flatten(0, -2)


def _is_transformed() -> bool:
    """Whether a graph is being recorded, or torch.func is at work, whose values cannot be read."""
    return torch._C._get_tracing_state() is not None or bool(torch._C._are_functorch_transforms_active())
