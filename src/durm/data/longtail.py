"""Long-tailed versions of balanced data sets: `longtail:100:cifar10`.

Class c of C keeps n_c = ⌊n · ratio^(−c/(C − 1))⌋ training samples, where n is the size of the smallest class, so the
first class has `ratio` times as many as the last (Cui et al., 2019). Which ones is drawn once, from a generator of its
own that no trial's seed changes, and its hash is recorded: results on other draws differ by points.
"""

import hashlib
import math

import torch
from torch import Tensor

from durm._random import generator
from durm.data import LOADERS, DataOptions, load, task_of
from durm.data.bundle import DataBundle, Samples, joined, sample_keys
from durm.errors import InputError

VALIDATION = 100
MANY, FEW = 100, 20
"""Classes with more training samples than the first are the head, with fewer than the second the tail."""


class LongTail:
    """A long-tailed version of another data set: longtail:RATIO:NAME, such as longtail:100:cifar10."""

    takes_path = True
    takes_image_size = True

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        text, _, name = path.partition(":")
        try:
            ratio = float(text)
        except ValueError:
            ratio = math.nan
        if not ratio >= 1 or math.isinf(ratio) or not name:
            raise InputError(f"data 'longtail:{path}': expected longtail:RATIO:NAME, such as longtail:100:cifar10")
        if task_of(name) == "segmentation":
            raise InputError(f"data 'longtail:{path}': an image of {name} has many classes, and no tail can be cut off")
        return long_tailed(load(name, seed=seed, options=options), ratio)


def long_tailed(bundle: DataBundle, ratio: float, draw: int = 0) -> DataBundle:
    """Training samples by the formula; validation from those that are left; the test set as it is."""
    every = joined(bundle.train, bundle.val)
    order = content_order(every)
    every = every.subset(order)
    chosen, left = [], []
    smallest = int(torch.bincount(every.labels, minlength=bundle.num_classes).min())
    counts = class_counts(smallest, bundle.num_classes, ratio)
    for label, count in enumerate(counts):
        members = (every.labels == label).nonzero().flatten()
        shuffled = members[torch.randperm(len(members), generator=generator(draw, "longtail", label))]
        chosen.append(shuffled[:count].sort().values)
        left.append(shuffled[count : count + VALIDATION].sort().values)
    indices, val = torch.cat(chosen), torch.cat(left)
    notes = [
        f"long tail of ratio {ratio:g}: {len(indices):,} of {len(every):,} training samples, "
        f"{counts[0]:,} of the first class to {counts[-1]:,} of the last",
        f"the sha256 of the chosen samples is {fingerprint(every.subset(indices))}",
        f"validation: up to {VALIDATION} of the samples of each class that were not chosen",
    ]
    groups = {
        "head": [label for label, count in enumerate(counts) if count > MANY],
        "medium": [label for label, count in enumerate(counts) if FEW <= count <= MANY],
        "tail": [label for label, count in enumerate(counts) if count < FEW],
    }
    return DataBundle(
        every.subset(indices), every.subset(val), bundle.test, bundle.num_classes, bundle.class_names, bundle.input,
        augment=bundle.augment, notes=notes, groups={name: labels for name, labels in groups.items() if labels},
        domain_names=bundle.domain_names, held_out=bundle.held_out,
    )  # fmt: skip


def class_counts(largest: int, classes: int, ratio: float) -> list[int]:
    """⌊largest · ratio^(−c/(C − 1))⌋ for c = 0 … C − 1, at least 1."""
    exact = [largest * ratio ** (-label / (classes - 1)) for label in range(classes)]
    return [max(1, math.floor(count + 1e-9)) for count in exact]


def content_order(samples: Samples) -> Tensor:
    """An order of the samples that does not depend on how they were split: by class, and by content within it."""
    keys, labels = sample_keys(samples), samples.labels.tolist()
    return torch.tensor(sorted(range(len(labels)), key=lambda index: (labels[index], keys[index])))


def fingerprint(samples: Samples) -> str:
    digest = hashlib.sha256(samples.labels.numpy().tobytes())
    for key in sample_keys(samples):
        digest.update(key)
    return digest.hexdigest()[:16]


LOADERS.register("longtail")(LongTail())
