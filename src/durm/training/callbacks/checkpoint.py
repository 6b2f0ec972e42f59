"""Checkpoints: everything that the rest of a trial depends on, now and then and when it is interrupted."""

import time
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch

from durm._files import set_aside
from durm.errors import InputError
from durm.training import checkpoint
from durm.training.callbacks.callback import Callback
from durm.training.trial import describes


class CheckpointCallback(Callback):
    """Comes last, so that it saves what the others have done in a step."""

    def setup(self) -> None:
        folder = self.trainer.context.folder
        self.path = None if folder is None else folder / "checkpoint.pt"
        self.last_saved = time.perf_counter()

    def on_step(self) -> None:
        self.save_if_due()

    def save_if_due(self, *, finished: bool = False) -> None:
        if time.perf_counter() - self.last_saved >= self.trainer.context.checkpoint_seconds:
            self.save(finished=finished)

    def on_validation(self, entry: dict[str, float]) -> None:
        self.on_step()

    @cached_property
    def fingerprint(self) -> str:
        """Of the data; hashed once, as that takes a while where there are many."""
        return self.trainer.bundle.fingerprint

    def save(self, *, finished: bool = False) -> None:
        """Writes the state of the trial. A finished one keeps the selected weights alone."""
        self.last_saved = time.perf_counter()
        trainer = self.trainer
        if self.path is None or trainer.engine.global_rank > 0:
            return
        extra = trainer.extra_module
        state: dict[str, Any] = {
            "trial": trainer.trial.model_dump_json(),
            "data": self.fingerprint,
            "num_classes": trainer.bundle.num_classes,
            "model": trainer.plain_model.state_dict(),
            "optimizer": None if finished else trainer.optimizer.state_dict(),
            "extra_module": None if finished or extra is None else extra.state_dict(),
            "objective": None if finished else trainer.objective.state_dict(),
            "progress": asdict(trainer.progress),
            "random_state": torch.get_rng_state(),
            **{one.key: one.state(finished=finished) for one in trainer.callbacks if one.key is not None},
        }
        checkpoint.save(self.path, state)

    def resume(self) -> None:
        """Takes up the checkpoint of this trial, if there is one.

        A damaged one, or one of another trial, is set aside, and the trial starts again.

        Raises:
            InputError: if the data are not those that it was trained on.
        """
        if self.path is None or not self.path.exists():
            return
        trainer = self.trainer
        try:
            state = checkpoint.load(self.path)
            if not describes(state["trial"], trainer.trial):
                raise checkpoint.DamagedCheckpoint(f"checkpoint {self.path} is of another trial")
        except checkpoint.DamagedCheckpoint as error:
            trainer.context.warn(f"{error}; {self._set_aside()}, and the trial starts again")
            return
        if (before := state.get("data")) not in (None, self.fingerprint):  # version 1 kept none
            raise InputError(
                f"data {trainer.trial.data!r} changed since checkpoint {self.path} was written: their fingerprint was "
                f"{before} and is now {self.fingerprint}; take another folder with `out`"
            )
        try:
            self._load(state)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            if before is not None:  # it is as it was written, so it is something else that went wrong
                raise
            words = " ".join(str(error).split())[:80]
            raise InputError(
                f"checkpoint {self.path} is damaged ({words}); {self._set_aside()}, and the trial starts again when "
                "the study is run again"
            ) from None

    def _set_aside(self) -> str:
        """Done by the first process of a trial, for all of them."""
        if self.path is not None and self.trainer.engine.global_rank == 0:
            return f"it is set aside as {set_aside(self.path).name}"
        return "it is set aside"

    def _load(self, state: dict[str, Any]) -> None:
        trainer = self.trainer
        trainer.plain_model.load_state_dict(state["model"])
        if state["optimizer"] is not None:
            trainer.optimizer.load_state_dict(state["optimizer"])
        extra = state.get("extra_module", state.get("beside"))  # which is what version 1 called it
        if trainer.extra_module is not None and extra is not None:
            trainer.extra_module.load_state_dict(extra)
        if (objective := state.get("objective")) is not None:
            trainer.objective.load_state_dict(objective)
        trainer.progress = type(trainer.progress)(**state["progress"])
        for one in trainer.callbacks:
            one.load_state(state.get(one.key) if one.key is not None else None)
        torch.set_rng_state(state["random_state"])
