"""What a trial leaves behind, and where it came from."""

import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field

import durm
from durm.metrics import describe_metric

SCHEMA_VERSION = 2


class Record(BaseModel):
    """Frozen; names that it does not know, of a later version, are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Attacked(Record):
    """What a model makes of attacked inputs, or of clean ones.

    Attributes:
        accuracy: over the real logits, in percent.
        into_dummies: the share of samples whose largest logit of all is a dummy, in percent.
        samples: how many there are.
        eps: the radius; None without an attack.
        curve: pairs of radius and accuracy, if they were asked for.
        warnings: why the accuracy may be too high, in sentences.
        right: of each sample, whether the model is right; kept with the outcomes, not in the result.
    """

    accuracy: float
    into_dummies: float
    samples: int
    eps: float | None = None
    curve: list[tuple[float, float]] = []
    warnings: list[str] = []
    right: tuple[bool, ...] = Field(default=(), exclude=True, repr=False)


class Reliability(Record):
    """For each bin of confidence: the samples, the sum of their confidences, how many are right."""

    count: list[float] = []
    confidence: list[float] = []
    correct: list[float] = []


class SampleCounts(Record):
    """How many samples each part has."""

    train: int = 0
    val: int = 0
    test: int = 0


class Cost(Record):
    """What a trial took: seconds of training, steps, passes of attacks in training, memory in bytes, parameters.

    Of code that is not durm's: seconds of wall clock and of CPU, and memory.
    """

    seconds: float
    cpu_seconds: float = 0
    seconds_per_step: float = 0
    steps: float = 0
    attack_passes: float = 0
    peak_memory: float
    parameters: float = 0


class Provenance(Record):
    """Where a trial ran, and on which data, without anything that names the user or their folders.

    `data` is a fingerprint of the samples of all parts; it covers labels only of images that are read from disk in
    training. `data_sha256` is the hash of the content of all files (see `durm.data.manifest`), which a study records.
    `threads` are those of each of the `processes` that trained the model together.
    `code_sha256` is that of the function or of the files of a command, in a study of code that is not durm's.
    """

    durm: str | None = None
    torch: str | None = None
    python: str | None = None
    system: str | None = None
    device: str | None = None
    device_name: str | None = None
    threads: int | None = None
    processes: int | None = None
    commit: str | None = None
    data: str | None = None
    data_sha256: str | None = None
    code_sha256: str | None = None
    data_notes: list[str] = []


class Result(Record):
    """The outcome of a trial: the content of result.json.

    `schema_version` goes up when a name disappears or changes its meaning; names that are added do not change it. A
    function or a command gives `metrics` and `cost` only.

    Attributes:
        schema_version: of this format.
        trial: the id of the trial.
        metrics: of the test set, for the selected weights (see `durm.metrics`).
        val: the same of the validation set.
        train: the same of the training set without augmentation (of the first 10,000 samples, if there are more).
        robustness: for the clean samples, and for each attack and surface; the accuracies also stand in `metrics`, as
            `robust_pgd_real`.
        classes: of the test set, values for each class, such as its `accuracy` in percent.
        confusion: of segmentation, for each class (row) how many of its test pixels have each of the C + C_d logits as
            their largest.
        reliability: of the test set, in 15 bins, by which several seeds can be pooled.
        samples: how many samples each part has.
        class_names: in the order of the logits.
        held_out: the domain that is the test set, for data with domains.
        selections: for data with domains, the accuracy on the held-out domain under each rule of selecting weights: the
            `last`, the best on the validation parts of the training domains (`best-val`), the best on the held-out
            domain itself (`oracle`, which nobody has in practice), and the `average`, if there is one.
        averaging: of methods that average weights, the steps from `start` to `end` whose weights were averaged, and of
            how many `models`.
        warnings: settings of this run that had no effect, and averages of nothing or of everything.
        selected_epoch: the epoch, counted from 1, after which the weights were taken.
        curves: one entry for each validation: `epoch`, `step`, `lr`, `train_loss`, and every metric as `val_NAME`.
        probes: what each probe saw, with an entry for each validation (see `durm.probes`).
        cost: time, memory and size.
        provenance: versions, device, threads, commit, and a fingerprint of the data.
        weights_sha256: a hash of the selected weights, dummies included.
        test_sha256: a hash of the test samples in their order; runs with the same one can be paired sample by sample.
        outcomes: what the model made of each test sample, as the content of outcomes.npz, which is a file of its own.
        outcomes_sha256: a hash of that file.
        transfer: the accuracy on inputs that were attacked on the baseline's model, and the other way round; it is
            measured after all trials, and kept in a file of its own.
        sha256: a hash of all the rest of result.json, as canonical JSON; None for results that were written without.
    """

    schema_version: int = 1
    trial: str
    metrics: dict[str, float]
    val: dict[str, float] = {}
    train: dict[str, float] = {}
    robustness: dict[str, Attacked] = {}
    classes: dict[str, list[float | None]] = {}
    confusion: list[list[int]] = []
    reliability: Reliability = Reliability()
    samples: SampleCounts = SampleCounts()
    class_names: list[str] = []
    held_out: str | None = None
    selections: dict[str, float] = {}
    averaging: dict[str, int] = {}
    warnings: list[str] = []
    selected_epoch: float = 0
    curves: list[dict[str, float]] = []
    probes: dict[str, dict[str, Any]] = {}
    cost: Cost
    provenance: Provenance
    weights_sha256: str = ""
    test_sha256: str | None = None
    outcomes: bytes = Field(default=b"", exclude=True, repr=False)
    outcomes_sha256: str | None = None
    transfer: dict[str, float] = {}
    sha256: str | None = None

    def samples_of(self, metric: str) -> int:
        """How many samples a metric counts: those that were attacked, labelled pixels, or the test set."""
        if metric.startswith("robust_") and "clean" in self.robustness:
            return self.robustness["clean"].samples
        return sum(map(sum, self.confusion)) or self.samples.test

    def best_validation(self, metric: str) -> int:
        """The place of the validation that is best by that metric among the curves, the first of equals."""
        values = {place: entry[f"val_{metric}"] for place, entry in enumerate(self.curves)}
        best: int = describe_metric(metric).best(values)
        return best


def provenance(
    device: torch.device, threads: int, data: str | None = None, notes: list[str] | None = None, processes: int = 1
) -> Provenance:
    """The versions and the machine; the fingerprint of the data, and what is to be known about them."""
    own: dict[str, Any] = {"device": device.type, "threads": threads, "data": data, "data_notes": notes or []}
    if processes > 1:
        own["processes"] = processes
    if device.type == "cuda":
        own["device_name"] = torch.cuda.get_device_name(device)
    return machine().model_copy(update={"torch": torch.__version__, **own})


def machine() -> Provenance:
    """What is the same for every trial that runs here."""
    return Provenance(
        durm=durm.__version__,
        python=platform.python_version(),
        system=platform.system(),
        device_name=_processor(),
        commit=_commit(),
    )


def peak_memory(device: torch.device) -> int:
    """The largest memory in bytes: of the device, or of this process on a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_memory_of_process()


def peak_memory_of_process() -> int:
    """Since its start, in bytes."""
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
