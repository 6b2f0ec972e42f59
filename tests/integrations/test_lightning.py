"""A Lightning training is watched as a plain loop is."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import durm
from durm.integrations.lightning import Watching, lightning
from durm.probes import watch

PROBES = ["gradient_norm", "gradient_variance", "dummy_mass", "distance"]


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = classifier()

    def training_step(self, batch: Any, index: int) -> Tensor:
        inputs, targets = batch
        return durm.cross_entropy(self.model(inputs), targets, num_classes=3)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def classifier() -> nn.Module:
    torch.manual_seed(0)
    return durm.widen(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), dummies=2)


def batches() -> "DataLoader[Any]":
    random = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(12, 4, generator=random), torch.randint(3, (12,), generator=random)
    return DataLoader(TensorDataset(inputs, targets), batch_size=4)


def fit(callback: Watching, folder: Path, epochs: int = 2, **options: Any) -> lightning.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[callback], default_root_dir=folder, **{**quiet, **options}
    )
    trainer.fit(Module(), batches())
    return trainer


def by_hand() -> dict[str, dict[str, Any]]:
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, PROBES) as watching:
        for _ in range(2):
            for inputs, targets in batches():
                optimizer.zero_grad()
                logits = model(inputs)
                durm.cross_entropy(logits, targets, num_classes=3).backward()
                watching.step(logits, targets)
                optimizer.step()
            watching.epoch()
    return watching.results()


def test_the_callback_sees_what_a_plain_loop_sees(tmp_path: Path) -> None:
    callback = Watching(PROBES)
    assert callback.results() == {}
    fit(callback, tmp_path, enable_checkpointing=False)
    assert callback.results() == by_hand()


def test_it_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    first = Watching(PROBES)
    fit(first, tmp_path, epochs=1, enable_checkpointing=False).save_checkpoint(tmp_path / "half.ckpt")
    second = Watching(PROBES)
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", callbacks=[second], logger=False, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(Module(), batches(), ckpt_path=tmp_path / "half.ckpt")
    assert second.results() == by_hand()


def test_what_it_cannot_watch_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="accumulate_grad_batches=2"):
        fit(Watching(PROBES), tmp_path, accumulate_grad_batches=2)
    with pytest.raises(ValueError, match="model='net': the Module has no module of that name"):
        fit(Watching(PROBES, model="net"), tmp_path)
