"""What a trial leaves behind, and where it came from."""

import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

import durm


class Result(BaseModel):
    """The outcome of a trial.

    Attributes:
        trial: the id of the trial.
        metrics: of the test set, for the selected weights (see `durm.evaluation.classification`).
        val: the same of the validation set.
        train: the same of the training set without augmentation (of the first 10,000 samples, if there are more).
        robustness: for the clean samples, and for each attack and surface, what `durm.evaluation.robustness` says; the
            accuracies also stand in `metrics`, as `robust_pgd_real`.
        classes: of the test set, values for each class, such as its `accuracy` in percent.
        confusion: of segmentation, for each class (row) how many of its test pixels have each of the C + C_d logits as
            their largest.
        reliability: of the test set: for each of 15 bins of confidence the number of samples, the sum of their
            confidences and the number of right ones, by which several seeds can be pooled.
        samples: how many samples each part has.
        class_names: in the order of the logits.
        held_out: the domain that is the test set, for data with domains.
        selections: for data with domains, the accuracy on the held-out domain under each rule of selecting weights: the
            `last`, the best on the validation parts of the training domains (`best-val`), the best on the held-out
            domain itself (`oracle`, which nobody has in practice), and the `average`, if there is one.
        selected_epoch: the epoch, counted from 1, after which the weights were taken.
        curves: one entry for each validation.
        probes: what each probe saw, with an entry for each validation (see `durm.probes`).
        cost: seconds of training, seconds per step, steps, passes of attacks in training, peak memory in bytes,
            parameters.
        provenance: versions, device, threads, commit, and a fingerprint of the data.
        weights_sha256: a hash of the selected weights, dummies included.
    """

    trial: str
    metrics: dict[str, float]
    val: dict[str, float]
    train: dict[str, float]
    robustness: dict[str, dict[str, Any]] = {}
    classes: dict[str, list[float | None]] = {}
    confusion: list[list[int]] = []
    reliability: dict[str, list[float]]
    samples: dict[str, int]
    class_names: list[str]
    held_out: str | None = None
    selections: dict[str, float] = {}
    selected_epoch: float
    curves: list[dict[str, float]]
    probes: dict[str, dict[str, Any]] = {}
    cost: dict[str, float]
    provenance: dict[str, Any]
    weights_sha256: str


def provenance(device: torch.device, threads: int) -> dict[str, Any]:
    """The versions and the machine, without anything that names the user or his folders."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return {
        "durm": durm.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "device": device.type,
        "device_name": name,
        "threads": threads,
        "commit": _commit(),
    }


def peak_memory(device: torch.device) -> int:
    """The largest memory in bytes: of the device, or of this process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


@cache
def _commit() -> str | None:
    """The commit of the working folder, if it is in a git repository."""
    try:
        answer = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
