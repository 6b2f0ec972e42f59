"""A file in which a run of attacks keeps what it has found, to go on from there if it is interrupted."""

import hashlib
import io
import json
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from durm._files import atomic_write, read_bytes
from durm.data.bundle import Samples
from durm.errors import InputError
from durm.training.checkpoint import weights_sha256
from durm.training.outcomes import samples_sha256
from durm.training.robustness import Attempts
from durm.training.spec import AttackSpec

SECONDS = 30.0
"""The shortest time between two writes."""


class AttemptsFile:
    """`found` is what the file has of these attacks on this model and these samples: nothing, if there is no file.

    Raises:
        InputError: if the file is of something else, or damaged.
    """

    def __init__(
        self, path: Path, model: nn.Module, samples: Samples, attacks: Sequence[AttackSpec], limit: int, seed: int
    ) -> None:
        self.path = path
        about = [weights_sha256(model.state_dict()), samples_sha256(samples), limit, seed]
        text = json.dumps([*about, *(attack.changed() for attack in attacks)], sort_keys=True)
        self.subject = hashlib.sha256(text.encode()).hexdigest()
        self.found = self._read()
        self.written = time.perf_counter()

    def _read(self) -> Attempts:
        content = read_bytes(self.path)
        if content is None:
            return {}
        try:
            state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            subject, found = state["subject"], state["attempts"]
        except Exception:  # torch and pickle raise nearly anything on broken files
            raise InputError(f"`resume` {self.path} is damaged, or no file of attacks; take another name") from None
        if subject != self.subject:
            raise InputError(f"`resume` {self.path} is of another model, attack or test set; take another name")
        return dict(found)

    def write(self) -> None:
        buffer = io.BytesIO()
        torch.save({"subject": self.subject, "attempts": self.found}, buffer)
        atomic_write(self.path, buffer.getbuffer())
        self.written = time.perf_counter()

    def write_if_due(self) -> None:
        if time.perf_counter() - self.written >= SECONDS:
            self.write()
