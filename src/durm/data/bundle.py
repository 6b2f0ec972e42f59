"""What a data set is to all others: inputs and labels in three parts, and what a model must know of them."""

import hashlib
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.utils import data

from durm._random import generator
from durm.errors import InputError
from durm.metrics.segmentation import IGNORED as IGNORED

ROWS_AT_A_TIME = 256
PADDING = 0
"""The token id that fills a text up."""


class LazyImages(Protocol):
    """Inputs that are too large for memory, read one at a time: `files[i]` is the raw tensor of sample i.

    `key(i)` tells the samples apart without reading them, and is the same on every machine.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Tensor: ...

    def key(self, index: int) -> bytes: ...


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Rows of a tensor that is mapped from a file in `folder`: nothing is in memory twice, whatever rows are chosen.

    They are inputs in memory in every other respect; `rows.take(indices)` is what `tensor[indices]` would be.
    """

    base: Tensor
    indices: Tensor
    folder: Path

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row."""
        return tuple(self.base.shape[1:])

    def __getitem__(self, index: int) -> Tensor:
        return self.base[int(self.indices[index])].clone()

    def take(self, indices: Tensor) -> Tensor:
        return self.base.index_select(0, self.indices[indices])

    def whole(self) -> Tensor:
        return self.base.index_select(0, self.indices)

    def subset(self, indices: Tensor) -> "MappedRows":
        return MappedRows(self.base, self.indices[indices], self.folder)

    def key(self, index: int) -> bytes:
        return hashlib.sha256(self[index].numpy().tobytes()).digest()


@dataclass(frozen=True)
class Samples:
    """Labelled samples: `inputs` of shape (N, …), or files that are read one by one; `labels` of shape (N,).

    `domains`, of shape (N,), numbers the domain of each sample, where the data have domains.

    Segmentation has the labels of the pixels in `masks`: `masks[i]` is uint8 of shape (H, W), as large as `inputs[i]`,
    uint8 of shape (3, H, W), and IGNORED where there is no label. Sizes may differ between samples; `labels` are 0.
    """

    inputs: Tensor | LazyImages
    labels: Tensor
    domains: Tensor | None = None
    masks: LazyImages | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Tensor) -> "Samples":
        def chosen(values: Any) -> Any:
            if values is None:
                return None
            if isinstance(values, MappedRows):
                return values.subset(indices)
            return values[indices] if isinstance(values, Tensor) else FileSubset(values, indices.tolist())

        return Samples(*map(chosen, (self.inputs, self.labels, self.domains, self.masks)))


class FileSubset(data.Subset[Tensor]):
    """Some of the files, in a given order."""

    dataset: Any

    def key(self, index: int) -> bytes:
        return bytes(self.dataset.key(self.indices[index]))


class ConcatDataset(data.ConcatDataset[Tensor]):
    """The files of several parts, one after the other."""

    def key(self, index: int) -> bytes:
        part = bisect_right(self.cumulative_sizes, index)
        files: Any = self.datasets[part]
        return bytes(files.key(index - (self.cumulative_sizes[part - 1] if part else 0)))


@dataclass(frozen=True)
class InputFormat:
    """The shape of one sample, and the mean and standard deviation by which raw values are normalised.

    Text is token ids, of which there are `vocabulary`, and is left as it is; `embedding` are the vectors of the tokens
    that come with the data, (vocabulary, features), if there are any. Raw pixels go from 0 to `pixel_max`; it is None
    where the values have no such range.
    """

    shape: tuple[int, ...]
    mean: Tensor
    std: Tensor
    vocabulary: int | None = None
    embedding: Tensor | None = None
    pixel_max: float | None = None

    def normalise(self, raw: Tensor) -> Tensor:
        if self.vocabulary is not None:
            return raw.long()
        return raw.float().sub(self.mean.to(raw.device)).div_(self.std.to(raw.device))


@dataclass(frozen=True)
class DataBundle:
    """A data set, split for one seed.

    `augment` is the augmentation that suits the data unless a study says otherwise; `notes` says in words what was done
    to it on the way (a split that was made, files that were left out); `fingerprint` tells two versions of it apart.
    `groups` names sets of classes whose accuracy is reported apart, such as the tail of a long-tailed set. For domain
    generalization `domain_names` are the training domains, which `train.domains` and `val.domains` number; the test set
    is then the domain `held_out`. For segmentation `palette` has a colour for each class, and `mask_ids` the number of
    each in mask files, as the benchmark's server expects it; `input.shape` is that of the first training image.
    """

    train: Samples
    val: Samples
    test: Samples
    num_classes: int
    class_names: list[str]
    input: InputFormat
    task: Literal["classification", "segmentation"] = "classification"
    augment: str = "none"
    notes: list[str] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=dict)
    domain_names: list[str] = field(default_factory=list)
    held_out: str | None = None
    palette: list[tuple[int, int, int]] = field(default_factory=list)
    mask_ids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.train.domains is not None:
            counts = torch.bincount(self.train.domains, minlength=len(self.domain_names)).tolist()
            for number, name in enumerate(self.domain_names):
                if not counts[number]:  # as a small subset may leave it
                    raise InputError(f"there are no training samples of the domain {name!r}")

    @property
    def fingerprint(self) -> str:
        """A hash of the labels of all parts, of their domains, and of inputs in memory; of scenes, of their keys."""
        digest = hashlib.sha256()
        for part in (self.train, self.val, self.test):
            for values in (part.labels, part.domains, part.inputs):
                if isinstance(values, Tensor):
                    digest.update(values.contiguous().numpy().tobytes())
                elif isinstance(values, MappedRows):
                    for rows in torch.arange(len(values)).split(ROWS_AT_A_TIME):
                        digest.update(values.take(rows).numpy().tobytes())
            if part.masks is not None:
                for key in sample_keys(part):
                    digest.update(key)
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class ReadData:
    """Samples by the name of their part, the names of their classes, and in words what was done to them.

    `format` is None where it is measured on the training samples; `palette` and `mask_ids` are as in `DataBundle`.
    """

    parts: dict[str, Samples]
    classes: list[str]
    notes: list[str] = field(default_factory=list)
    format: InputFormat | None = None
    palette: list[tuple[int, int, int]] = field(default_factory=list)
    mask_ids: list[int] = field(default_factory=list)


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


def joined(*parts: Samples) -> Samples:
    """The samples of several parts of one data set, one after the other."""

    def together(values: tuple[Any, ...]) -> Any:
        if values[0] is None:
            return None
        if all(isinstance(rows, MappedRows) and rows.base is values[0].base for rows in values):
            return MappedRows(values[0].base, torch.cat([rows.indices for rows in values]), values[0].folder)
        return torch.cat(values) if isinstance(values[0], Tensor) else ConcatDataset(values)

    columns = zip(*((part.inputs, part.labels, part.domains, part.masks) for part in parts), strict=True)
    return Samples(*map(together, columns))


def sample_keys(samples: Samples) -> list[bytes]:
    """What tells the samples apart on every machine: a hash of those in memory, the keys of files.

    Before it stands the domain, if there is one: files of two domains often have the same name. After it stands the key
    of the mask, if there is one.
    """
    inputs = samples.inputs
    if isinstance(inputs, Tensor):
        keys = [hashlib.sha256(row.tobytes()).digest() for row in inputs.contiguous().flatten(1).numpy()]
    else:
        keys = [inputs.key(index) for index in range(len(inputs))]
    if samples.masks is not None:
        keys = [key + b" " + samples.masks.key(index) for index, key in enumerate(keys)]
    if samples.domains is None:
        return keys
    return [f"{domain}/".encode() + key for domain, key in zip(samples.domains.tolist(), keys, strict=True)]


def split_parts(
    parts: dict[str, Samples], seed: int, things: str, validation: float = 0.1
) -> tuple[dict[str, Samples], list[str]]:
    """Training, validation and test parts, and notes of what was split off by seed because it was not there."""
    parts, notes = dict(parts), []
    of_each_class = "" if parts["train"].masks is not None else " of each class"
    if "test" not in parts:
        parts["train"], parts["test"] = split_by_seed(parts["train"], 0.2, seed, "test")
        notes.append(f"20 %{of_each_class or f' of the {things}'} are the test set, by seed")
    if "val" not in parts:
        parts["train"], parts["val"] = split_by_seed(parts["train"], validation, seed, "val")
        notes.append(
            f"{100 * validation:.0f} % of the training {things}{of_each_class} are the validation set, by seed"
        )
    return parts, notes


def measure(inputs: Tensor, pixel_max: float | None = None) -> InputFormat:
    """The format of inputs in memory: mean and standard deviation per channel of images, per feature of flat inputs.

    `pixel_max` is 255 for images of bytes unless it is given, and 1 for images of fractions between 0 and 1.
    """
    axes = (0, 2, 3) if inputs.ndim == 4 else (0,)
    values = inputs.float()
    mean, std = values.mean(axes, keepdim=True)[0], values.std(axes, keepdim=True)[0]
    if pixel_max is None and inputs.ndim == 4:
        fractions = inputs.is_floating_point() and inputs.min() >= 0 and inputs.max() <= 1
        pixel_max = 255.0 if inputs.dtype == torch.uint8 else 1.0 if fractions else None
    return InputFormat(tuple(inputs.shape[1:]), mean, torch.where(std > 0, std, 1.0), pixel_max=pixel_max)
