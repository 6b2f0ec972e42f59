"""What a data set is to the rest of the house: inputs and labels in three parts, and what a model must know of them."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from durm._random import generator


class Files(Protocol):
    """Inputs that are too large for memory, read one at a time: `files[i]` is the raw tensor of sample i."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Tensor: ...


@dataclass(frozen=True)
class Samples:
    """Labelled samples: `inputs` of shape (N, …), or files that are read one by one; `labels` of shape (N,)."""

    inputs: Tensor | Files
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Tensor) -> "Samples":
        inputs = self.inputs[indices] if isinstance(self.inputs, Tensor) else FileSubset(self.inputs, indices.tolist())
        return Samples(inputs, self.labels[indices])


@dataclass(frozen=True)
class FileSubset:
    """Some of the files, in a given order."""

    files: Files
    indices: list[int]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Tensor:
        return self.files[self.indices[index]]


@dataclass(frozen=True)
class InputFormat:
    """The shape of one sample, and the mean and standard deviation by which raw values are normalised."""

    shape: tuple[int, ...]
    mean: Tensor
    std: Tensor

    def normalise(self, raw: Tensor) -> Tensor:
        return raw.float().sub(self.mean.to(raw.device)).div_(self.std.to(raw.device))


@dataclass(frozen=True)
class DataBundle:
    """A data set, split for one seed.

    `augment` is the augmentation that suits the data unless a study says otherwise; `notes` says in words what was done
    to it on the way (a split that was made, files that were left out); `fingerprint` tells two versions of it apart.
    """

    train: Samples
    val: Samples
    test: Samples
    num_classes: int
    class_names: list[str]
    input: InputFormat
    task: Literal["classification"] = "classification"
    augment: str = "none"
    notes: list[str] = field(default_factory=list)

    @property
    def fingerprint(self) -> str:
        """A hash of the labels of all parts and of inputs that are in memory."""
        digest = hashlib.sha256()
        for part in (self.train, self.val, self.test):
            digest.update(part.labels.numpy().tobytes())
            if isinstance(part.inputs, Tensor):
                digest.update(part.inputs.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


def stratified_split(labels: Tensor, share: float, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Indices of (the rest, the share), each in ascending order, the share taken of every class alike.

    Every class keeps at least one sample in the rest, and gives one to the share if it has two or more.
    """
    taken = []
    for label in labels.unique().tolist():
        members = (labels == label).nonzero().flatten()
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        taken.append(members[torch.randperm(len(members), generator=random)[:count]])
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[torch.cat(taken)] = True
    return (~chosen).nonzero().flatten(), chosen.nonzero().flatten()


def split_by_seed(samples: Samples, share: float, seed: int, purpose: str) -> tuple[Samples, Samples]:
    """(the rest, the share) of `samples`, a function of the seed and the purpose."""
    rest, part = stratified_split(samples.labels, share, generator(seed, "split", purpose))
    return samples.subset(rest), samples.subset(part)


def measure(inputs: Tensor) -> InputFormat:
    """The format of inputs in memory: mean and standard deviation per channel of images, per feature of flat inputs."""
    axes = (0, 2, 3) if inputs.ndim == 4 else (0,)
    values = inputs.float()
    mean, std = values.mean(axes, keepdim=True)[0], values.std(axes, keepdim=True)[0]
    return InputFormat(tuple(inputs.shape[1:]), mean, torch.where(std > 0, std, 1.0))
