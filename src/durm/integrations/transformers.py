"""Hugging Face's Trainer for widened models: `DuRMTrainer(model=durm.widen(model, dummies=2), args=…, …)`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from durm.integrations import need

need("transformers", "transformers", "accelerate")

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from durm.heads import dummies
from durm.heads.dummy_state import check_rows, dummy_rows, with_rows
from durm.heads.huggingface import check_problem_type
from durm.losses import cross_entropy
from durm.scores import dummy_hits, dummy_mass

import transformers  # isort: skip

DUMMIES_NAME = "dummies.pt"
"""The file of a checkpoint with the rows of the dummies. The weights next to it are those of the C-class model."""


class DuRMTrainer(transformers.Trainer):
    """`transformers.Trainer` for a widened model: sequence, token and image classification, semantic segmentation.

    It takes the arguments of `transformers.Trainer`. What it does differently:

    - The loss is Eq. (2) on C + C_d logits. `label_smoothing_factor` smooths over the C real classes; labels of -100 do
      not count, nor pixels of `config.semantic_loss_ignore_index`. Pixels are compared at the size of the labels, to
      which logits are interpolated, as in SegFormer's own loss. A `compute_loss_func` of your own takes its place.
    - `dummy_mass` and `dummy_hits`, the means of p_D and of the samples where a dummy is largest, are logged with the
      training loss. They are of the main process.
    - Checkpoints hold the weights of the C-class model, which `from_pretrained` loads without durm, and the rows of the
      dummies in an extra file, so that `resume_from_checkpoint` and `load_best_model_at_end` go on with both.

    With a model that was not widened it is `transformers.Trainer`: C_d = 0.

    Examples:
        >>> model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=3)  # doctest: +SKIP
        >>> trainer = DuRMTrainer(model=durm.widen(model, dummies=2), args=args, train_dataset=data)  # doctest: +SKIP
        >>> trainer.train()  # doctest: +SKIP
        >>> trainer.save_model("three-classes")  # doctest: +SKIP
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise ValueError(
                "fsdp, deepspeed: DuRMTrainer trains whole copies of the model; expected DDP or one process"
            )
        trained: Any = self.model
        if dummies(trained):
            check_problem_type(trained)
        if self.compute_loss_func is None:
            self.compute_loss_func = self._durm_loss
        self._seen: list[Tensor] = []

    def _durm_loss(self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """The summed loss of this batch divided by the labels that count, of all accumulated batches together.

        An ignored pixel counts in `num_items_in_batch`, which knows -100 alone, so this batch's mean is weighted by its
        share of that number.
        """
        config: Any = self._plain_model().config
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        pixels = logits.ndim == 4
        _check(config, labels, pixels)
        if pixels:
            logits = F.interpolate(logits, size=labels.shape[-2:], mode="bilinear", align_corners=False)
        dim, ignored = (1, config.semantic_loss_ignore_index) if pixels else (-1, -100)
        labels = labels.view(logits.shape[:1]) if logits.ndim == 2 else labels
        options: Any = {"label_smoothing": self.args.label_smoothing_factor, "ignore_index": ignored, "dim": dim}
        total = cross_entropy(logits.float(), labels, config.num_labels, reduction="sum", **options)
        if torch.is_grad_enabled():
            self._look_at(logits.detach().movedim(dim, -1)[labels != ignored], config.num_labels)
        loss = total / labels.ne(ignored).sum().clamp(min=1)
        return loss if num_items_in_batch is None else loss * (labels.ne(-100).sum() / num_items_in_batch)

    def _look_at(self, logits: Tensor, classes: int) -> None:
        if logits.shape[-1] > classes:
            scores = dummy_mass(logits, classes).float().sum(), dummy_hits(logits, classes).float().sum()
            self._seen.append(torch.stack([*scores, torch.full_like(scores[0], len(logits))]))

    def log(self, logs: dict[str, float], *args: Any, **options: Any) -> None:
        if "loss" in logs and self._seen:
            mass, hits, samples = torch.stack(self._seen).sum(0).tolist()
            logs = {**logs, "dummy_mass": mass / max(samples, 1), "dummy_hits": hits / max(samples, 1)}
            self._seen.clear()
        super().log(logs, *args, **options)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        super().save_model(output_dir, _internal_call)
        rows = dummy_rows(self._plain_model())
        if _internal_call and rows and self.args.should_save:  # a checkpoint, from which training may go on
            assert output_dir is not None
            torch.save(rows, Path(output_dir, DUMMIES_NAME))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        with _loading_dummies(self._plain_model(), Path(resume_from_checkpoint)):
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        with _loading_dummies(self._plain_model(), Path(self.state.best_model_checkpoint or "")):
            super()._load_best_model()

    def _plain_model(self) -> nn.Module:
        model: Any = self.accelerator.unwrap_model(self.model)
        plain: nn.Module = getattr(model, "_orig_mod", model)  # of torch.compile
        return plain


def _check(config: Any, labels: Tensor, pixels: bool) -> None:
    if labels.is_floating_point():
        raise ValueError(
            f"labels of {labels.dtype}: expected class indices (int64); floats mean multi-label classification or "
            "regression, which have no softmax for dummies to take part in"
        )
    if pixels and getattr(config, "use_auxiliary_head", False):
        raise ValueError("config.use_auxiliary_head=True: its loss is computed inside the model only; expected False")


@contextmanager
def _loading_dummies(model: Any, folder: Path) -> Iterator[None]:
    """Within this context the C rows of a checkpoint are completed by its dummies before they are loaded."""
    file = folder / DUMMIES_NAME
    rows: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True) if file.is_file() else {}
    check_rows(rows, model, str(folder))

    def complete(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
        state.update(with_rows(state, rows, model, prefix))

    handle = model.register_load_state_dict_pre_hook(complete)
    try:
        yield
    finally:
        handle.remove()
