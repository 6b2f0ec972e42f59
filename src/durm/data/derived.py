"""Data sets made of others: `longtail:100:cifar10`, `subset:samples=100,classes=10,draw=1:cifar100`.

What is drawn depends on a generator of its own that no trial's seed changes, so that all arms and seeds see the same
samples, and its hash is recorded: results on other draws differ by points. Several draws of a subset tell the effect of
the method from the luck of the subset.
"""

import hashlib
import math
from dataclasses import replace
from typing import Any

import torch

from durm._random import generator
from durm.data import LOADERS, DataOptions, Loader, load, task_of
from durm.data.bundle import DataBundle, Samples, joined, sample_keys, split_by_seed
from durm.errors import InputError

VALIDATION = 100
MANY, FEW = 100, 20
"""Classes with more training samples than the first are the head, with fewer than the second the tail."""

KEYS = ("samples", "classes", "draw")


class LongTail(Loader):
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
    """Class c of C keeps n_c = ⌊n · ratio^(−c/(C − 1))⌋ training samples, where n is the size of the smallest class.

    So the first class has `ratio` times as many as the last (Cui et al., 2019). Validation samples are of those that
    are left; the test set stays as it is.
    """
    every = ordered_by_content(bundle)
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
    groups: dict[str, list[int]] = {}
    for label, count in enumerate(counts):
        groups.setdefault("head" if count > MANY else "tail" if count < FEW else "medium", []).append(label)
    return replace(bundle, train=every.subset(indices), val=every.subset(val), notes=notes, groups=groups)


def class_counts(largest: int, classes: int, ratio: float) -> list[int]:
    """⌊largest · ratio^(−c/(C − 1))⌋ for c = 0 … C − 1, at least 1."""
    exact = [largest * ratio ** (-label / (classes - 1)) for label in range(classes)]
    return [max(1, math.floor(count + 1e-9)) for count in exact]


class Subset(Loader):
    """Part of another data set: subset:samples=N,classes=K,draw=D:NAME; N training samples of each of K classes."""

    takes_path = True
    takes_image_size = True

    def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
        text, _, name = path.partition(":")
        values = _parse(text, name, path)
        bundle = load(name, seed=seed, options=options)
        return subset(bundle, seed=seed, **values)


def subset(
    bundle: DataBundle, *, seed: int, samples: int | None = None, classes: int | None = None, draw: int = 0
) -> DataBundle:
    """`samples` training samples of each of `classes` classes; validation is a tenth of them, by seed.

    Fewer classes are also fewer outputs and test samples. Of segmentation data `samples` counts images, and there is no
    subset of the classes, because each image has many.
    """
    every = ordered_by_content(bundle)
    changed: dict[str, Any] = {"groups": {}}
    if bundle.task == "segmentation":
        if classes is not None:
            raise InputError(
                f"a subset of {classes} classes: an image of segmentation data has many; give samples only"
            )
        if samples is not None and samples > len(every):
            raise InputError(f"a subset of {samples} images: the data have {len(every)} for training")
        learn = every.subset(_drawn(len(every), samples, draw, "samples").sort().values)
        words = f"{len(learn):,} of {len(every):,} training images"
    else:
        if classes is not None and classes > bundle.num_classes:
            raise InputError(f"a subset of {classes} classes: the data have {bundle.num_classes}")
        kept = sorted(_drawn(bundle.num_classes, classes, draw, "classes").tolist())
        names, chosen = [bundle.class_names[label] for label in kept], []
        for label, name in zip(kept, names, strict=True):
            members = (every.labels == label).nonzero().flatten()
            if samples is not None and samples > len(members):
                raise InputError(f"a subset of {samples} samples a class: class {name!r} has {len(members)}")
            chosen.append(members[_drawn(len(members), samples, draw, "samples", label).sort().values])
        learn = _relabelled(every.subset(torch.cat(chosen)), kept)
        test = bundle.test.subset(torch.isin(bundle.test.labels, torch.tensor(kept)).nonzero().flatten())
        changed |= {"test": _relabelled(test, kept), "num_classes": len(kept), "class_names": names}
        words = f"{len(learn):,} training samples of {len(kept)} classes"
    train, val = split_by_seed(learn, 0.1, seed, "val")
    notes = [f"{words}, draw {draw}, sha256 {fingerprint(learn)}", "10 % of them are the validation set, by seed"]
    return replace(bundle, train=train, val=val, notes=notes, **changed)


def _drawn(count: int, wanted: int | None, draw: int, *purpose: str | int) -> torch.Tensor:
    """`wanted` of `count` numbers; the first of a longer list, so that a larger subset holds the smaller one."""
    if wanted is None:
        return torch.arange(count)
    return torch.randperm(count, generator=generator(draw, "subset", *purpose))[:wanted]


def _relabelled(samples: Samples, kept: list[int]) -> Samples:
    places = torch.full((max(kept) + 1,), -1)
    places[torch.tensor(kept)] = torch.arange(len(kept))
    return replace(samples, labels=places[samples.labels])


def _parse(text: str, name: str, path: str) -> dict[str, int]:
    example = "subset:samples=100,classes=10,draw=0:cifar100"
    values: dict[str, int] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in KEYS or not value.isdigit() or not name:
            raise InputError(f"data 'subset:{path}': expected whole numbers for {', '.join(KEYS)}, as in {example}")
        values[key] = int(value)
    if values.get("samples", 2) < 2 or values.get("classes", 2) < 2:
        raise InputError(f"data 'subset:{path}': expected at least 2 samples and 2 classes")
    return values


def ordered_by_content(bundle: DataBundle) -> Samples:
    """Training and validation samples in an order that does not depend on their split: by class, then by content."""
    samples = joined(bundle.train, bundle.val)
    keys, labels = sample_keys(samples), samples.labels.tolist()
    return samples.subset(torch.tensor(sorted(range(len(labels)), key=lambda index: (labels[index], keys[index]))))


def fingerprint(samples: Samples) -> str:
    digest = hashlib.sha256(samples.labels.numpy().tobytes())
    for key in sample_keys(samples):
        digest.update(key)
    return digest.hexdigest()[:16]


LOADERS.register("longtail")(LongTail())
LOADERS.register("subset")(Subset())
