"""Checkpoints: written whole, read without running any code that they may hold."""

import hashlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from durm._files import write_whole
from durm.errors import InputError


def save(path: Path, state: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_whole(path, buffer.getvalue())


def load(path: Path) -> dict[str, Any]:
    """The state in a checkpoint.

    Raises:
        InputError: if there is no such file, or it is no checkpoint of durm's.
    """
    if not path.is_file():
        raise InputError(f"checkpoint {path}: there is no such file")
    try:
        with warnings.catch_warnings():  # of old pickle protocols: what matters is whether it can be read
            warnings.simplefilter("ignore")
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch and pickle raise nearly anything on broken files
        raise InputError(f"checkpoint {path} is damaged, or no checkpoint") from None
    if not isinstance(state, dict) or "trial" not in state or "model" not in state:
        raise InputError(f"checkpoint {path} is not one of durm's")
    return state


def weights_sha256(state: dict[str, Tensor]) -> str:
    """A hash of names, types, shapes and bits: equal for two models only if they are the same."""
    digest = hashlib.sha256()
    for name, value in sorted(state.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        bits = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.ndim else b""
        digest.update(bits)
        digest.update(b"" if value.ndim else str(value.item()).encode())
    return digest.hexdigest()
