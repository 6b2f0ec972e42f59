"""DuRM and its probes in a Lightning training: `Trainer(callbacks=[DuRM(dummies=2), Watching(["gradient_norm"])])`."""

from collections.abc import Callable
from typing import Any

from durm.integrations import need

need("lightning", "lightning")

from torch import Tensor, nn

from durm.heads import dummies, narrow, widen
from durm.heads.dummy_state import check_rows, dummy_rows, with_rows, without_rows
from durm.heads.layer import Widened, widened_layers
from durm.probes import Probes, Watch, watch
from durm.scores import dummy_hits, dummy_mass

import lightning  # isort: skip


class DuRM(lightning.Callback):
    """Trains the classifier of a Lightning module with dummies, and gives it back without them.

    It is widened when `fit` begins, before the optimizer is made, and narrowed when `fit` ends; until then evaluation
    sees the C real logits. `training_step` computes its loss from all C + C_d logits; with label smoothing, class
    weights or soft targets by `durm.cross_entropy`. The means of p_D and of the samples where a dummy is largest are
    logged for each epoch, as `dummy_mass` and `dummy_hits`.

    Checkpoints hold the C-class model, which `load_from_checkpoint` loads without durm, and the rows of the dummies
    under the key "durm", with which `fit(ckpt_path=…)` goes on.

    Put it before callbacks that copy the module, such as `StochasticWeightAveraging` and `EMAWeightAveraging`.

    Args:
        dummies: C_d; 0 trains as without this callback.
        model: the attribute of the module that holds the classifier; None is the module itself.
        keep: whether the dummies stay when `fit` ends, say for `durm.dummy_mass`.
        **options: for `durm.widen`: `head`, `num_classes`, `seed`.

    Examples:
        >>> trainer = lightning.Trainer(callbacks=[DuRM(dummies=2)])  # doctest: +SKIP
        >>> trainer.fit(module, loader)  # doctest: +SKIP
        >>> trainer.test(module, loader)  # doctest: +SKIP
    """

    def __init__(
        self,
        dummies: int,
        *,
        model: str | None = "model",
        keep: bool = False,
        **options: Any,
    ) -> None:
        self.dummies, self.model, self.keep, self.options = dummies, model, keep, options
        self._handles: list[Any] = []
        self._seen: list[tuple[Tensor, Tensor, int]] = []

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        for callback in trainer.callbacks[: trainer.callbacks.index(self)]:
            if hasattr(callback, "_average_model"):
                name = type(callback).__name__
                raise ValueError(f"callbacks: {name} has copied the module without dummies; put DuRM before it")
        classifier = _classifier(pl_module, self.model)
        if (present := dummies(classifier)) not in (0, self.dummies):
            raise ValueError(f"dummies={self.dummies}: the classifier has {present} already")
        if not present:
            widen(classifier, self.dummies, **self.options)
        for name in ("on_save_checkpoint", "on_load_checkpoint"):
            pl_module.__dict__[name] = getattr(_Checkpoints(pl_module), name)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        layers = widened_layers(_classifier(pl_module, self.model))
        self._handles = [layer.register_forward_hook(self._keep_scores) for layer in layers]

    def _keep_scores(self, layer: Widened, inputs: Any, logits: Tensor) -> None:
        if layer.training:
            dim = -1 if isinstance(layer, nn.Linear) else 1
            mass, hits = (score(logits.detach(), layer.num_classes, dim=dim) for score in (dummy_mass, dummy_hits))
            self._seen.append((mass.float().mean(), hits.float().mean(), mass.numel()))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        for mass, hits, samples in self._seen:
            options = {"on_step": False, "on_epoch": True, "sync_dist": True, "batch_size": samples}
            pl_module.log_dict({"dummy_mass": mass, "dummy_hits": hits}, **options)
        self._seen.clear()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._stop_looking()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._stop_looking()
        if stage == "fit" and not self.keep:
            narrow(_classifier(pl_module, self.model))
            for name in ("on_save_checkpoint", "on_load_checkpoint"):
                pl_module.__dict__.pop(name, None)

    def _stop_looking(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


class _Checkpoints:
    """Two hooks of a module with dummies, in place of its own.

    Lightning calls the module's after those of all callbacks when it saves, for checkpoints of weights alone too, and
    before the weights are loaded. The hooks of a callback would come too early or too late, or not at all.
    """

    STATES = ("state_dict", "current_model_state")  # the second is that of Lightning's weight averaging

    def __init__(self, module: Any) -> None:
        self.module = module

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        type(self.module).on_save_checkpoint(self.module, checkpoint)
        rows = {key: dummy_rows(self.module, checkpoint[key]) for key in self.STATES if key in checkpoint}
        checkpoint.update({key: without_rows(checkpoint[key], rows[key]) for key in rows}, durm=rows)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        saved = checkpoint.get("durm", {})
        check_rows(saved.get("state_dict", {}), self.module, "this checkpoint")
        checkpoint.update({key: with_rows(checkpoint[key], rows, self.module) for key, rows in saved.items()})
        type(self.module).on_load_checkpoint(self.module, checkpoint)


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
        probes: Probes,
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
        classifier = _classifier(pl_module, self.model)
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

    def _keep(self, module: nn.Module, inputs: Any, logits: Tensor) -> None:
        if module.training:
            self._logits.append(logits.detach())


def _classifier(module: nn.Module, name: str | None) -> nn.Module:
    """The part of a Lightning module that is called `name`, or the module itself."""
    if name is None:
        return module
    found = getattr(module, name, None)
    if not isinstance(found, nn.Module):
        raise ValueError(
            f"model={name!r}: the {type(module).__name__} has no module of that name; "
            "expected the attribute that holds the classifier, or None"
        )
    return found
