"""Probes in a Lightning training: `Trainer(callbacks=[Watching(["gradient_norm"])])`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from durm import _torchvision as _torchvision  # before lightning, which imports torchvision
from durm.probes import Watch, watch

import lightning  # isort: skip


class Watching(lightning.Callback):
    """Watches the training of a Lightning module with durm's probes, and logs nothing of its own.

    It looks at what the classifier inside the module gives in `training_step`, after the backward pass. The classifier
    is called once for each batch, and its logits are those of the loss.

    Args:
        probes: names of probes, or a mapping of name to settings, as for `durm.probes.watch`.
        model: the attribute of the module that holds the classifier; None is the module itself.
        targets: takes the labels out of a batch; of a pair they are the second.
        label_smoothing: that of the loss.
        ignore_index: the class index whose samples or pixels do not count.

    Examples:
        >>> watching = Watching(["gradient_norm", "dummy_mass"])
        >>> trainer = lightning.Trainer(callbacks=[watching])  # doctest: +SKIP
        >>> trainer.fit(module, loader)  # doctest: +SKIP
        >>> watching.results()  # doctest: +SKIP
    """

    def __init__(
        self,
        probes: Iterable[str] | Mapping[str, Mapping[str, Any]],
        *,
        model: str | None = "model",
        targets: Callable[[Any], Tensor] = lambda batch: batch[1],
        label_smoothing: float = 0.0,
        ignore_index: int = -100,
    ) -> None:
        self.probes, self.model, self.targets = probes, model, targets
        self.label_smoothing, self.ignore_index = label_smoothing, ignore_index
        self.watch: Watch | None = None
        self._saved: dict[str, Any] | None = None
        self._handle: Any = None
        self._logits: list[Tensor] = []
        self._batch: Any = None

    def results(self) -> dict[str, dict[str, Any]]:
        """What each probe saw so far."""
        return {} if self.watch is None else self.watch.results()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.accumulate_grad_batches != 1:
            raise ValueError(
                f"accumulate_grad_batches={trainer.accumulate_grad_batches}: probes look at updates of one batch each"
            )
        classifier = self._classifier(pl_module)
        if self.watch is None:
            self.watch = watch(
                classifier, self.probes, label_smoothing=self.label_smoothing, ignore_index=self.ignore_index
            )
            if self._saved is not None:
                self.watch.load_state_dict(self._saved)
        self._handle = classifier.register_forward_hook(self._keep)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._batch = batch
        self._logits.clear()

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        assert self.watch is not None
        if len(self._logits) != 1:
            raise ValueError(f"the classifier was called {len(self._logits)} times in this step; expected once")
        self.watch.step(self._logits[0], self.targets(self._batch))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        assert self.watch is not None
        self.watch.epoch()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._handle.remove()

    def state_dict(self) -> dict[str, Any]:
        return {} if self.watch is None else self.watch.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._saved = state_dict or None

    def _classifier(self, module: nn.Module) -> nn.Module:
        if self.model is None:
            return module
        found = getattr(module, self.model, None)
        if not isinstance(found, nn.Module):
            raise ValueError(
                f"model={self.model!r}: the {type(module).__name__} has no module of that name; "
                "expected the attribute that holds the classifier, or None"
            )
        return found

    def _keep(self, module: nn.Module, inputs: Any, logits: Tensor) -> None:
        if module.training:
            self._logits.append(logits.detach())
