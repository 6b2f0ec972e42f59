"""The outcomes of a run, as they are kept: outcomes.npz, and a hash of the test samples that they are of."""

import hashlib
import io
from collections.abc import Mapping

import numpy as np

from durm.data.bundle import Samples, sample_keys
from durm.data.npz import read_npz


def pack_outcomes(outcomes: Mapping[str, np.ndarray]) -> bytes:
    """The same arrays give the same bytes."""
    file = io.BytesIO()
    np.savez(file, **outcomes)  # type: ignore[arg-type]  # its stub takes the names for those of options
    return file.getvalue()


def unpack_outcomes(content: bytes) -> dict[str, np.ndarray]:
    """Never runs code.

    Raises:
        ValueError: if it is damaged, or holds Python objects.
    """
    return read_npz(content)


def samples_sha256(samples: Samples) -> str:
    """A hash of the samples in their order, and of their labels."""
    digest = hashlib.sha256(samples.labels.numpy().tobytes())
    for key in sample_keys(samples):
        digest.update(key)
    return digest.hexdigest()
