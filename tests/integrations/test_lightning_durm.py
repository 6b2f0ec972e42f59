"""The DuRM callback widens before the optimizer is made, and leaves C-class models and checkpoints behind."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import durm
from durm.integrations.lightning import DuRM, lightning

callbacks = lightning.pytorch.callbacks
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.widths: list[tuple[str, int]] = []

    def training_step(self, batch: Any, index: int) -> Tensor:
        inputs, targets = batch
        logits = self.model(inputs)
        self.widths.append(("train", logits.shape[1]))
        return durm.cross_entropy(logits, targets, num_classes=3, label_smoothing=0.1)

    def validation_step(self, batch: Any, index: int) -> None:
        logits = self.model(batch[0])
        self.widths.append(("val", logits.shape[1]))
        self.log("val_loss", nn.functional.cross_entropy(logits, batch[1]))

    def test_step(self, batch: Any, index: int) -> None:
        self.log("test_loss", nn.functional.cross_entropy(self.model(batch[0]), batch[1]))

    def predict_step(self, batch: Any, index: int) -> Tensor:
        return self.model(batch[0])

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["mine"] = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def batches() -> "DataLoader[Any]":
    random = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(12, 4, generator=random), torch.randint(3, (12,), generator=random)
    return DataLoader(TensorDataset(inputs, targets), batch_size=4)


def fit(folder: Path, *extra: Any, epochs: int = 2, durm_callback: DuRM | None = None, **options: Any) -> Any:
    every = [durm_callback or DuRM(dummies=2), *extra]
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=every, default_root_dir=folder, **QUIET)
    module = Module()
    trainer.fit(module, batches(), batches(), **options)
    return trainer, module


def by_hand(epochs: int = 2, dummies: int = 2) -> nn.Module:
    model = durm.widen(Module().model, dummies)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(epochs):
        for inputs, targets in batches():
            optimizer.zero_grad()
            durm.cross_entropy(model(inputs), targets, 3, label_smoothing=0.1).backward()
            optimizer.step()
    return model


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_it_trains_as_a_plain_loop_does_and_gives_the_module_back_narrow(tmp_path: Path) -> None:
    trainer, module = fit(tmp_path)
    expected = by_hand()
    assert {*module.widths} == {("train", 5), ("val", 3)}
    assert durm.dummies(module) == 0
    assert same(module.model.state_dict(), durm.narrow_state_dict(expected.state_dict()))
    assert 0 < trainer.callback_metrics["dummy_mass"] < 1
    assert 0 <= trainer.callback_metrics["dummy_hits"] <= 1
    assert trainer.predict(module, batches())[0].shape == (4, 3)
    assert trainer.test(module, batches(), ckpt_path="best", verbose=False)[0]["test_loss"] > 0
    assert "on_save_checkpoint" not in vars(module)


def test_the_logged_mass_is_the_mean_over_the_samples_of_an_epoch(tmp_path: Path) -> None:
    trainer, _ = fit(tmp_path, epochs=1)
    model, masses = durm.widen(Module().model, 2), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for inputs, targets in batches():
        optimizer.zero_grad()
        logits = model(inputs)
        masses.append(logits.softmax(1)[:, 3:].sum(1))
        durm.cross_entropy(logits, targets, 3, label_smoothing=0.1).backward()
        optimizer.step()
    torch.testing.assert_close(trainer.callback_metrics["dummy_mass"], torch.cat(masses).mean())


@pytest.mark.parametrize("weights_only", [False, True])
def test_a_checkpoint_is_that_of_the_module_without_dummies(weights_only: bool, tmp_path: Path) -> None:
    saving = callbacks.ModelCheckpoint(tmp_path, save_weights_only=weights_only)
    fit(tmp_path, saving)
    checkpoint = torch.load(saving.best_model_path, weights_only=True)
    assert checkpoint["mine"]
    plain = Module.load_from_checkpoint(saving.best_model_path, weights_only=True)
    assert same(plain.model.state_dict(), durm.narrow_state_dict(by_hand().state_dict()))


def test_it_goes_on_from_a_checkpoint_with_its_dummies(tmp_path: Path) -> None:
    saving = callbacks.ModelCheckpoint(tmp_path)
    fit(tmp_path, saving, epochs=1)
    options = {"durm_callback": DuRM(2, seed=7, keep=True), "ckpt_path": saving.best_model_path, "weights_only": False}
    _, module = fit(tmp_path, **options)
    assert same(module.model.state_dict(), by_hand().state_dict())
    for dummies in (0, 1):
        options["durm_callback"] = DuRM(dummies)
        with pytest.raises(
            ValueError, match=f"this checkpoint is of a model with 2 dummies, and this one has {dummies}"
        ):
            fit(tmp_path, **options)


@pytest.mark.parametrize("kind", ["ema", "swa"])
def test_averages_hold_the_dummies_and_are_saved_without(kind: str, tmp_path: Path) -> None:
    def averaging() -> Any:
        if kind == "swa":
            return callbacks.StochasticWeightAveraging(swa_lrs=0.1, swa_epoch_start=1)
        return callbacks.EMAWeightAveraging(decay=0.5)

    saving = callbacks.ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}")
    stopping = callbacks.EarlyStopping("val_loss", patience=9)
    _, module = fit(tmp_path, averaging(), saving, stopping, epochs=3)
    assert durm.dummies(module) == 0
    assert Module.load_from_checkpoint(tmp_path / "epoch=1.ckpt", weights_only=True).model[2].out_features == 3
    _, again = fit(tmp_path, averaging(), epochs=3, ckpt_path=tmp_path / "epoch=1.ckpt", weights_only=False)
    assert same(again.state_dict(), module.state_dict())
    with pytest.raises(ValueError, match=r"callbacks: \w+Averaging.*put DuRM before it"):
        lightning.Trainer(callbacks=[averaging(), DuRM(2)], **QUIET).fit(Module(), batches())


def test_no_dummies_trains_as_without_the_callback(tmp_path: Path) -> None:
    trainer, module = fit(tmp_path, durm_callback=DuRM(0))
    assert same(module.model.state_dict(), by_hand(dummies=0).state_dict())
    assert "dummy_mass" not in trainer.callback_metrics


def test_what_it_cannot_widen_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="model='net': the Module has no module of that name"):
        fit(tmp_path, durm_callback=DuRM(2, model="net"))
    module = Module()
    durm.widen(module.model, 1)
    with pytest.raises(ValueError, match="dummies=2: the classifier has 1 already"):
        lightning.Trainer(callbacks=[DuRM(2)], **QUIET).fit(module, batches())


PROCESSES = """
import sys
from tests.integrations.test_lightning_durm import *
trainer = lightning.Trainer(max_epochs=2, callbacks=[DuRM(2, keep=True)], devices=2, strategy="ddp",
                            use_distributed_sampler=False, default_root_dir=sys.argv[1], **QUIET)
module = Module()
trainer.fit(module, batches(), batches())
if trainer.is_global_zero:
    mass = trainer.callback_metrics["dummy_mass"]
    torch.save({"model": module.model.state_dict(), "mass": mass}, sys.argv[1] + "/out.pt")
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    """Both see the same batches here, so that the mean of their gradients is that of one process."""
    script = tmp_path / "train.py"
    script.write_text(PROCESSES)
    command = [sys.executable, str(script), str(tmp_path)]
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path), "OMP_NUM_THREADS": "1", "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    found = torch.load(tmp_path / "out.pt")
    for name, value in by_hand().state_dict().items():
        torch.testing.assert_close(found["model"][name], value)
    trainer, _ = fit(tmp_path / "one")
    torch.testing.assert_close(found["mass"], trainer.callback_metrics["dummy_mass"])
    (checkpoint,) = (tmp_path / "checkpoints").glob("*.ckpt")
    assert Module.load_from_checkpoint(checkpoint, weights_only=True).model[2].out_features == 3
