"""Arrays of one's own, in an .npz file."""

import zlib
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from durm.data import LOADERS, DataOptions
from durm.data.bundle import DataBundle, Samples, measure, split_by_seed
from durm.errors import InputError

LARGEST_LABEL = 10**6


class Arrays:
    """Arrays x_train, y_train, x_test, y_test (and x_val, y_val if there are any) in an .npz file."""

    takes_path = True
    takes_image_size = False

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        parts = _read(Path(path).expanduser())
        notes = []
        if "val" not in parts:
            parts["train"], parts["val"] = split_by_seed(parts["train"], 0.1, seed, "val")
            notes.append("10 % of the training samples are the validation set, by seed")
        classes = 1 + max(int(part.labels.max()) for part in parts.values())
        inputs = parts["train"].inputs
        assert isinstance(inputs, Tensor)
        names = [str(label) for label in range(classes)]
        return DataBundle(parts["train"], parts["val"], parts["test"], classes, names, measure(inputs), notes=notes)


@lru_cache(maxsize=2)
def _load(path: Path, changed: float) -> dict[str, np.ndarray]:
    try:
        file = np.load(path, allow_pickle=False)
        return dict(file.items()) if isinstance(file, np.lib.npyio.NpzFile) else {}
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"data 'arrays:{path}' cannot be read as an .npz file: {reason}") from None


def _read(path: Path) -> dict[str, Samples]:
    if not path.is_file():
        raise InputError(f"data 'arrays:{path}': there is no such file")
    arrays = _load(path, path.stat().st_mtime)
    parts = {}
    for part in ("train", "val", "test"):
        names = {f"x_{part}", f"y_{part}"}
        if part == "val" and not names & arrays.keys():
            continue
        if missing := names - arrays.keys():
            held = ", ".join(sorted(arrays)) or "nothing"
            raise InputError(f"data 'arrays:{path}' lacks {' and '.join(sorted(missing))}; it holds {held}")
        parts[part] = _samples(path, part, arrays[f"x_{part}"], arrays[f"y_{part}"])
    shapes = {tuple(part.inputs.shape[1:]) for part in parts.values() if isinstance(part.inputs, Tensor)}
    if len(shapes) > 1:
        raise InputError(f"data 'arrays:{path}' has samples of different shapes: {sorted(shapes)}")
    _check_classes(path, parts)
    return parts


def _check_classes(path: Path, parts: dict[str, Samples]) -> None:
    """Every class needs a training sample, and one more if the validation set is to be split off."""
    where = f"data 'arrays:{path}'"
    counts = torch.bincount(parts["train"].labels, minlength=1 + max(int(part.labels.max()) for part in parts.values()))
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


def _samples(path: Path, part: str, x: np.ndarray, y: np.ndarray) -> Samples:
    where = f"data 'arrays:{path}'"
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
