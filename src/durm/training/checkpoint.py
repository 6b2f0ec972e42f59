"""Checkpoints: written whole, sealed by a checksum, read without running any code that they may hold.

    the bytes of torch.save(state) | SEAL | SHA-256 of those bytes, 64 hex digits | newline

`torch.load` passes over what stands behind its own bytes. The state has the description of its `trial` and the
fingerprint of its `data`; one that has a fingerprint and no seal has lost it. Version 1 wrote neither.
"""

import hashlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from durm._files import atomic_write, read_bytes
from durm.errors import InputError

SEAL = b"\ndurm sha256 "
_SEALED = len(SEAL) + 64 + 1
"""How many bytes stand behind those of torch."""


class DamagedCheckpoint(InputError):
    """The file is there, and it is no whole checkpoint of durm's."""


def save(path: Path, state: dict[str, Any]) -> None:
    """`state["data"]` is the fingerprint of the data."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.write(SEAL + hashlib.sha256(buffer.getbuffer()).hexdigest().encode() + b"\n")
    atomic_write(path, buffer.getbuffer())


def load(path: Path) -> dict[str, Any]:
    """The state in a checkpoint.

    Raises:
        InputError: if there is no such file.
        DamagedCheckpoint: if it is no checkpoint of durm's, or not as it was written.
    """
    if path.is_dir():
        raise DamagedCheckpoint(f"checkpoint {path} is a folder; expected a file")
    content = read_bytes(path)
    if content is None:
        raise InputError(f"checkpoint {path}: there is no such file")
    sealed = _is_sealed(path, content)
    try:
        with warnings.catch_warnings():  # of old pickle protocols: what matters is whether it can be read
            warnings.simplefilter("ignore")
            state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # torch and pickle raise nearly anything on broken files
        raise DamagedCheckpoint(f"checkpoint {path} is damaged, or no checkpoint") from None
    if not isinstance(state, dict) or "trial" not in state or "model" not in state:
        raise DamagedCheckpoint(f"checkpoint {path} is not one of durm's")
    if "data" in state and not sealed:
        raise DamagedCheckpoint(f"checkpoint {path} is damaged: it has lost its checksum")
    return state


def _is_sealed(path: Path, content: bytes) -> bool:
    """False for one of version 1, or whose seal is damaged."""
    seal = content[-_SEALED:]
    if not seal.startswith(SEAL):
        return False
    digest = hashlib.sha256(memoryview(content)[:-_SEALED]).hexdigest()
    if seal != SEAL + digest.encode() + b"\n":
        raise DamagedCheckpoint(f"checkpoint {path} is damaged: its checksum is another")
    return True


def weights_sha256(state: dict[str, Tensor]) -> str:
    """A hash of names, types, shapes and bits: equal for two models only if they are the same."""
    digest = hashlib.sha256()
    for name, value in sorted(state.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        bits = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        digest.update(bits if value.ndim else str(value.item()).encode())
    return digest.hexdigest()
