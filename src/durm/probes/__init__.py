"""What is watched while training, one probe to a file.

Probes read what a training loop already has: the logits, the targets, the gradients, the weights. The gradient of the
cross-entropy with respect to the logits is p − y, so nothing runs a backward pass of its own. Nothing is changed or
drawn: training goes the same way, bit for bit, with probes and without.

The cross-entropy is that of Eq. (2), unweighted. Class weights, and other terms of the loss, show in the gradient of
the parameters (`gradient_norm`) alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from durm._registry import Registry
from durm.heads import dummies
from durm.heads.layer import widened_layers
from durm.losses import check_target
from durm.probes._running import EpochProbe


@dataclass(frozen=True)
class State:
    """Where the training is: the model, and the steps and epochs that lie behind it."""

    model: nn.Module
    step: int
    epoch: int


@dataclass(frozen=True)
class StepState(State):
    """A step whose gradients are there and whose update is still to come.

    The M rows are samples, or pixels. One that is not counted (`ignore_index`) has no target and so no gradient.

    Attributes:
        logits: `(M, C + C_d)`, detached, in 32 or 64 bit.
        targets: `(M, C)`, probabilities over the real classes; zeros in the rows that are not counted.
        counted: `(M,)`, which rows count.
        num_classes: C.
    """

    logits: Tensor
    targets: Tensor
    counted: Tensor
    num_classes: int

    @cached_property
    def probabilities(self) -> Tensor:
        """The softmax p over all C + C_d logits, `(M, C + C_d)`."""
        return self.logits.softmax(1)

    @cached_property
    def gradient(self) -> Tensor:
        """Each row's ∂L/∂z = p · Σ_c t_c − t for targets t, `(M, C + C_d)`; p − y for labels."""
        gradient = self.probabilities * self.targets.sum(1, keepdim=True)
        gradient[:, : self.num_classes] -= self.targets
        return gradient


class Probe(Protocol):
    """Watches one thing. It is made before training, with the model as it is at the start."""

    def on_step(self, state: StepState) -> None:
        """After each backward pass, before the update."""

    def on_epoch(self, state: State) -> None:
        """At the end of each epoch, in all processes at once: here, and only here, they may talk to each other."""

    def result(self) -> dict[str, Any]:
        """What was seen, as lists and numbers that JSON can hold; what is undefined is None."""

    def state_dict(self) -> dict[str, Any]:
        """What the rest of the training depends on, as tensors, numbers and lists of them."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


PROBES: Registry[Callable[..., Probe]] = Registry("probe", "durm.probes")
"""Name → what makes the probe from the model and the probe's own settings."""

Probes = Iterable[str] | Mapping[str, Mapping[str, Any]]
"""Names of probes; or a mapping of name to settings."""


def watch(model: nn.Module, probes: Probes, *, label_smoothing: float = 0.0, ignore_index: int = -100) -> "Watch":
    """Watches a training with these probes.

    Args:
        model: the model that is trained, widened or not, as it is at the start.
        probes: names of probes; or a mapping of name to settings, such as `{"distance": {"every": 1}}`.
        label_smoothing: that of the loss; as in `durm.cross_entropy`, over the real classes.
        ignore_index: the class index whose samples or pixels do not count.

    Examples:
        >>> import durm
        >>> model = durm.widen(nn.Linear(4, 3), dummies=2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> inputs, targets = torch.zeros(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        >>> with watch(model, ["dummy_mass", "gradient_norm"]) as watching:
        ...     for epoch in range(2):
        ...         logits = model(inputs)
        ...         durm.cross_entropy(logits, targets, num_classes=3).backward()
        ...         watching.step(logits, targets)  # after backward, before the gradients are cleared
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         watching.epoch()
        >>> results = watching.results()
        >>> results["dummy_mass"]["samples"], len(results["gradient_norm"]["norm"])
        ([6, 6], 2)
    """
    return Watch(model, probes, label_smoothing=label_smoothing, ignore_index=ignore_index)


class Watch:
    """Probes at work; `watch` makes one. It leaves nothing on the model.

    As a context manager it ends the epoch that is open when the context is left without an error, so that a loop over
    one epoch needs `step` alone.

    With `torch.distributed` each process watches its own part of every batch, and `epoch` brings the parts together:
    the results are then the same in all processes, and those of one process with the whole batches.
    """

    def __init__(
        self, model: nn.Module, probes: Probes, *, label_smoothing: float = 0.0, ignore_index: int = -100
    ) -> None:
        if isinstance(probes, str):
            raise TypeError(f"probes={probes!r}: expected a list of names")
        settings = probes if isinstance(probes, Mapping) else {name: {} for name in probes}
        self.model = model
        self.probes = {name: PROBES[name](model, **own) for name, own in settings.items()}
        self._label_smoothing, self._ignore_index = label_smoothing, ignore_index
        self._dummies = dummies(model)
        self._widths = {layer.num_classes + self._dummies for layer in widened_layers(model)}
        self._step = self._epoch = self._steps_of_epoch = 0

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._steps_of_epoch:
            self.epoch()

    @torch.no_grad()
    def step(self, logits: Tensor, targets: Tensor) -> None:
        """Observes one step: after `backward()`, before the optimizer's step and before the gradients are cleared.

        In Lightning that is `on_after_backward`. Where gradients of several batches are gathered for one update, call
        it once for each update, with their logits and targets together.

        Args:
            logits: `(N, C + C_d, ...)`, as the loss saw them.
            targets: class indices `(N, ...)`, or probabilities over the real classes `(N, C, ...)`.
        """
        state = self._state(logits.detach(), targets.detach())
        for probe in self.probes.values():
            probe.on_step(state)
        self._step += 1
        self._steps_of_epoch += 1

    @torch.no_grad()
    def epoch(self) -> None:
        """Ends an epoch; after the optimizer's last step. With several processes all of them must call it."""
        if not self._steps_of_epoch:
            raise ValueError("epoch() without a step() since the last epoch or the start")
        state = State(self.model, self._step, self._epoch)
        for probe in self.probes.values():
            probe.on_epoch(state)
        self._epoch += 1
        self._steps_of_epoch = 0

    def results(self) -> dict[str, dict[str, Any]]:
        """For each probe what it saw, as lists and numbers that JSON can hold. An epoch counts once it has ended."""
        return {name: probe.result() for name, probe in self.probes.items()}

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint, at any step; `torch.load(weights_only=True)` reads it.

        With several processes each has its own, because an epoch's parts come together at its end; see `merge_states`.
        """
        own = {name: probe.state_dict() for name, probe in self.probes.items()}
        counts = {"step": self._step, "epoch": self._epoch, "steps_of_epoch": self._steps_of_epoch}
        return {**counts, "probes": own}

    def merge_states(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        """One state from those of all processes. Any number of processes can go on from it: see `load_state_dict`."""
        first, *others = states
        if not others:
            return first
        merged = {
            name: probe.merge([state["probes"][name] for state in states]) if isinstance(probe, EpochProbe) else own
            for (name, own), probe in zip(first["probes"].items(), self.probes.values(), strict=True)
        }
        return {**first, "probes": merged}

    def load_state_dict(self, state: dict[str, Any], *, counts: bool = True) -> None:
        """Goes on from a state. One that was merged counts in one process alone, with `counts=False` in the others."""
        if set(state["probes"]) != set(self.probes):
            raise ValueError(f"the state is of the probes {sorted(state['probes'])}, not {sorted(self.probes)}")
        self._step, self._epoch, self._steps_of_epoch = state["step"], state["epoch"], state["steps_of_epoch"]
        *_, last = self.model.parameters()  # of the head, where the logits are computed
        for name, own in state["probes"].items():
            if not counts and "running" in own:
                own = {**own, "running": _zeros(own["running"])}
            self.probes[name].load_state_dict(_moved(own, last.device))

    def _state(self, logits: Tensor, targets: Tensor) -> StepState:
        if logits.ndim < 2 or (self._widths and logits.shape[1] not in self._widths):
            widths = " or ".join(map(str, sorted(self._widths))) or "C"
            raise ValueError(
                f"logits of shape {tuple(logits.shape)}: expected (N, {widths}, ...), dummies included, "
                "as the model gives them in training mode"
            )
        num_classes = logits.shape[1] - self._dummies
        check_target(logits, targets, num_classes, self._ignore_index, 1)
        logits = _rows(logits)
        if logits.dtype not in (torch.float32, torch.float64):
            logits = logits.float()
        if targets.is_floating_point():
            targets = _rows(targets).to(logits.dtype)
            counted = torch.ones_like(targets[:, 0], dtype=torch.bool)
        else:
            labels = targets.flatten()
            counted = labels != self._ignore_index
            own = labels[:, None] == torch.arange(num_classes, device=labels.device)
            targets = (own & counted[:, None]).to(logits.dtype)
        if self._label_smoothing:
            spread = self._label_smoothing / num_classes
            targets = targets * (1 - self._label_smoothing) + spread * counted[:, None]
        return StepState(self.model, self._step, self._epoch, logits, targets, counted, num_classes)


def _rows(values: Tensor) -> Tensor:
    """`(N, K, ...)` as `(M, K)`."""
    return values.movedim(1, -1).flatten(0, -2)


def _zeros(state: Any) -> Any:
    """A state dict whose tensors are all 0: that of a process that has seen no samples."""
    if isinstance(state, dict):
        return {name: _zeros(value) for name, value in state.items()}
    return [_zeros(value) for value in state] if isinstance(state, list) else torch.zeros_like(state)


def _moved(state: Any, device: torch.device) -> Any:
    """A state dict with its tensors on this device."""
    if isinstance(state, dict):
        return {name: _moved(value, device) for name, value in state.items()}
    if isinstance(state, list):
        return [_moved(value, device) for value in state]
    return state.to(device) if isinstance(state, Tensor) else state
