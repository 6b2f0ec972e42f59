"""Arrays of one's own, in an .npz file; with domains for `durm.data.domains`."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import MAGIC_PREFIX

from durm.data import LOADERS, DataOptions
from durm.data.bundle import Samples, joined
from durm.data.npz import read_npz
from durm.data.reading import FileLoader, ReadData
from durm.errors import InputError

LARGEST_LABEL = 10**6


class Arrays(FileLoader):
    """Arrays x_train, y_train, x_test, y_test (and x_val, y_val if there are any) in an .npz file."""

    takes_path = True
    things = "samples"

    def read(self, source: Path, options: DataOptions) -> ReadData:
        where = f"data 'arrays:{source}'"
        arrays = _load(where, source)
        parts = {
            part: _samples(where, arrays, f"_{part}")
            for part in ("train", "val", "test")
            if part != "val" or {"x_val", "y_val"} & arrays.keys()
        }
        classes = _count_classes(where, parts.values())
        _check_classes(where, parts, classes)
        unused = [name for name in sorted(arrays) if name == "domain" or name.startswith("domain_")]
        notes = [f"not used: {', '.join(unused)}; domains:{source} holds out one domain after the other"]
        return ReadData(parts, [str(label) for label in range(classes)], notes if unused else [])


def arrays_by_domain(where: str, path: Path) -> ReadData:
    """The samples of each domain, in arrays x, y and domain, or in x_train, y_train, domain_train, x_test, …, as one.

    Domains are whole numbers or texts.
    """
    arrays = _load(where, path)
    suffixes = [each for each in ("_train", "_val", "_test") if {f"x{each}", f"y{each}"} & arrays.keys()] or [""]
    every = [_samples(where, arrays, suffix, "domain") for suffix in suffixes]
    domains = np.concatenate([_domains(where, arrays, suffix) for suffix in suffixes])
    classes = _count_classes(where, every)
    together = joined(*every)
    if len({*together.labels.tolist()}) < 2:
        raise InputError(f"{where} has one class only, {int(together.labels[0])}; a classifier needs at least two")
    parts = {
        str(name): together.subset(torch.from_numpy(np.flatnonzero(domains == name))) for name in np.unique(domains)
    }
    used = " and ".join(f"x{suffix}" for suffix in suffixes)
    notes = [f"{used} are taken together: the held-out domain is the test set"] if len(suffixes) > 1 else []
    return ReadData(parts, [str(label) for label in range(classes)], notes)


def _load(where: str, path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise InputError(f"{where}: there is no such file")
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX:
                return {}  # an .npy file, of one array without a name
        return read_npz(path)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{where} cannot be read as an .npz file: {reason}") from None


def _count_classes(where: str, parts: Iterable[Samples]) -> int:
    shapes = {tuple(part.inputs[0].shape) for part in parts}
    if len(shapes) > 1:
        raise InputError(f"{where} has samples of different shapes: {sorted(shapes)}")
    return 1 + max(int(part.labels.max()) for part in parts)


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


def _samples(where: str, arrays: dict[str, np.ndarray], suffix: str, *others: str) -> Samples:
    """What the arrays x and y with that suffix hold; the others must be there too."""
    names = [f"{name}{suffix}" for name in ("x", "y", *others)]
    if missing := {*names} - arrays.keys():
        held = ", ".join(sorted(arrays)) or "nothing"
        raise InputError(f"{where} lacks {' and '.join(sorted(missing))}; it holds {held}")
    (x_name, x), (y_name, y) = ((name, arrays[name]) for name in names[:2])
    if x.dtype.kind not in "uifb" or y.dtype.kind not in "ui":
        raise InputError(f"{where}: {x_name} must hold numbers and {y_name} integers, not {x.dtype} and {y.dtype}")
    if y.ndim != 1 or x.ndim not in (2, 3, 4) or len(x) != len(y) or x.size == 0:
        raise InputError(
            f"{where}: {x_name} of shape {x.shape} and {y_name} of shape {y.shape}; expected (N, features), "
            "(N, height, width) or (N, channels, height, width), and (N,)"
        )
    if y.min() < 0:
        raise InputError(f"{where}: {y_name} holds the label {y.min()}; labels count from 0")
    if y.max() > LARGEST_LABEL:
        raise InputError(f"{where}: {y_name} holds the label {y.max()}; expected at most {LARGEST_LABEL}")
    with np.errstate(over="ignore"):
        inputs = torch.from_numpy(x if x.dtype == np.uint8 else x.astype(np.float32))
    if not inputs.isfinite().all():
        raise InputError(f"{where}: {x_name} holds NaN or infinite values (in 32 bit)")
    return Samples(inputs[:, None] if inputs.ndim == 3 else inputs, torch.from_numpy(y.astype(np.int64)))


def _domains(where: str, arrays: dict[str, np.ndarray], suffix: str) -> np.ndarray:
    """The domain of each sample."""
    domains, expected = arrays[f"domain{suffix}"], arrays[f"y{suffix}"].shape
    if domains.dtype.kind not in "uiU" or domains.shape != expected:
        raise InputError(
            f"{where}: domain{suffix} holds {domains.dtype} of shape {domains.shape}; expected integers or text of "
            f"shape {expected}"
        )
    return domains


LOADERS.register("arrays")(Arrays())
