"""Checkpoints: everything that the rest of a trial depends on, now and then and when it is interrupted."""

import time
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch

from durm._files import set_aside
from durm._random import derived_seed
from durm._ranks import of_all, of_first, rank, size
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
        self.due = False

    def is_due(self) -> bool:
        """By the clock of the process that writes."""
        is_late = time.perf_counter() - self.last_saved >= self.trainer.context.checkpoint_seconds
        return self.path is not None and is_late

    def on_step(self) -> None:
        self.save_if_due()

    def save_if_due(self, *, finished: bool = False) -> None:
        """Several processes have agreed before whether it is due: all of them save."""
        if self.due if size() > 1 else self.is_due():
            self.save(finished=finished)

    def on_validation(self, entry: dict[str, float]) -> None:
        self.on_step()

    @cached_property
    def fingerprint(self) -> str:
        """Of the data; hashed once, as that takes a while where there are many."""
        return self.trainer.bundle.fingerprint

    def save(self, *, finished: bool = False) -> None:
        """Writes the state of the trial. A finished one keeps the selected weights alone."""
        self.last_saved, self.due = time.perf_counter(), False
        trainer = self.trainer
        own = {one.key: one.state(finished=finished) for one in trainer.callbacks if one.key is not None}
        random_states = of_all(torch.get_rng_state())
        if self.path is None:
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
            "random_state": random_states[0],
            "further_random_states": random_states[1:],
            **own,
        }
        checkpoint.save(self.path, state)

    def resume(self) -> None:
        """Takes up the checkpoint of this trial, if there is one, whatever the number of processes that wrote it.

        The first process reads it for all of them. A damaged one, or one of another trial, is set aside, and the trial
        starts again.

        Raises:
            InputError: if the data are not those that it was trained on.
        """
        path, state = of_first((self.path, self._read()))
        if state is None:
            return
        if (before := state.get("data")) not in (None, self.fingerprint):  # version 1 kept none
            raise InputError(
                f"data {self.trainer.trial.data!r} changed since checkpoint {path} was written: their fingerprint was "
                f"{before} and is now {self.fingerprint}; take another folder with `out`"
            )
        try:
            self._load(state)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            if before is not None:  # it is as it was written, so it is something else that went wrong
                raise
            words = " ".join(str(error).split())[:80]
            raise InputError(
                f"checkpoint {path} is damaged ({words}); {self._set_aside()}, and the trial starts again when "
                "the study is run again"
            ) from None

    def _read(self) -> dict[str, Any] | None:
        """What is in the file, of the process that writes it."""
        if self.path is None or not self.path.exists():
            return None
        try:
            state = checkpoint.load(self.path)
            if not describes(state["trial"], self.trainer.trial):
                raise checkpoint.DamagedCheckpoint(f"checkpoint {self.path} is of another trial")
        except checkpoint.DamagedCheckpoint as error:
            self.trainer.context.warn(f"{error}; {self._set_aside()}, and the trial starts again")
            return None
        return state

    def _set_aside(self) -> str:
        return "it is set aside" if self.path is None else f"it is set aside as {set_aside(self.path).name}"

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
        random_states = [state["random_state"], *state.get("further_random_states", [])]
        if rank() < len(random_states):
            torch.set_rng_state(random_states[rank()])
        else:  # there were fewer processes, and no two are to draw the same
            torch.manual_seed(derived_seed(trainer.trial.seed, "dropout", rank(), trainer.progress.step))
