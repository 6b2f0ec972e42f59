"""Arrays of one's own, in an .npz file."""

from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import MAGIC_PREFIX

from durm.data import LOADERS, DataOptions
from durm.data.bundle import Samples
from durm.data.npz import read_npz
from durm.data.reading import FileLoader, ReadData
from durm.errors import InputError

LARGEST_LABEL = 10**6


class Arrays(FileLoader):
    """Arrays x_train, y_train, x_test, y_test (and x_val, y_val if there are any) in an .npz file."""

    takes_path = True
    things = "samples"

    def read(self, source: Path, options: DataOptions) -> ReadData:
        where, arrays = f"data 'arrays:{source}'", _load(source)
        parts = {}
        for part in ("train", "val", "test"):
            names = {f"x_{part}", f"y_{part}"}
            if part == "val" and not names & arrays.keys():
                continue
            if missing := names - arrays.keys():
                held = ", ".join(sorted(arrays)) or "nothing"
                raise InputError(f"{where} lacks {' and '.join(sorted(missing))}; it holds {held}")
            parts[part] = _samples(where, part, arrays[f"x_{part}"], arrays[f"y_{part}"])
        shapes = {tuple(part.inputs[0].shape) for part in parts.values()}
        if len(shapes) > 1:
            raise InputError(f"{where} has samples of different shapes: {sorted(shapes)}")
        classes = 1 + max(int(part.labels.max()) for part in parts.values())
        _check_classes(where, parts, classes)
        return ReadData(parts, [str(label) for label in range(classes)])


def _load(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise InputError(f"data 'arrays:{path}': there is no such file")
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
                return {}  # an .npy file, of one array without a name
        return read_npz(path)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"data 'arrays:{path}' cannot be read as an .npz file: {reason}") from None


def _check_classes(where: str, parts: dict[str, Samples], classes: int) -> None:
    """Every class needs a training sample, and one more if the validation set is to be split off."""
    counts = torch.bincount(parts["train"].labels, minlength=classes)
    if (counts > 0).sum() < 2:
        raise InputError(f"{where} has one class only in y_train; a classifier needs at least two")
    for label, count in enumerate(counts.tolist()):
        if count == 0:
            raise InputError(f"{where}: class {label} has no sample in y_train; labels count from 0 without gaps")
        if count == 1 and "val" not in parts:
            raise InputError(
                f"{where}: class {label} has 1 sample in y_train; expected at least 2, because the validation set is "
                "split off the training samples (or give x_val and y_val)"
            )


def _samples(where: str, part: str, x: np.ndarray, y: np.ndarray) -> Samples:
    if x.dtype.kind not in "uifb" or y.dtype.kind not in "ui":
        raise InputError(f"{where}: x_{part} must hold numbers and y_{part} integers, not {x.dtype} and {y.dtype}")
    if y.ndim != 1 or x.ndim not in (2, 3, 4) or len(x) != len(y) or x.size == 0:
        raise InputError(
            f"{where}: x_{part} of shape {x.shape} and y_{part} of shape {y.shape}; expected (N, features), "
            "(N, height, width) or (N, channels, height, width), and (N,)"
        )
    if y.min() < 0:
        raise InputError(f"{where}: y_{part} holds the label {y.min()}; labels count from 0")
    if y.max() > LARGEST_LABEL:
        raise InputError(f"{where}: y_{part} holds the label {y.max()}; expected at most {LARGEST_LABEL}")
    with np.errstate(over="ignore"):
        inputs = torch.from_numpy(x if x.dtype == np.uint8 else x.astype(np.float32))
    if not inputs.isfinite().all():
        raise InputError(f"{where}: x_{part} holds NaN or infinite values (in 32 bit)")
    return Samples(inputs[:, None] if inputs.ndim == 3 else inputs, torch.from_numpy(y.astype(np.int64)))


LOADERS.register("arrays")(Arrays())
