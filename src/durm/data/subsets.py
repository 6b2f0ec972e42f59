"""Parts of data sets: `subset:samples=100,classes=10,draw=1:cifar100`.

What is drawn depends on `draw` alone and on no trial's seed, so that all arms and seeds see the same subset; several
draws tell the effect of the method from the luck of the subset. Fewer classes are also fewer outputs and test samples.
Of segmentation data `samples` counts images, and there is no subset of the classes, because each image has many.
"""

from dataclasses import replace

import torch

from durm._random import generator
from durm.data import LOADERS, DataOptions, load
from durm.data.bundle import DataBundle, Samples, joined, split_by_seed
from durm.data.longtail import content_order, fingerprint
from durm.errors import InputError

KEYS = ("samples", "classes", "draw")


class Subset:
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
    """`samples` training samples of each of `classes` classes; validation is a tenth of them, by seed."""
    if bundle.task == "segmentation":
        return _scenes(bundle, seed, samples, classes, draw)
    every = joined(bundle.train, bundle.val)
    every = every.subset(content_order(every))
    kept = sorted(_drawn(bundle.num_classes, classes, draw, "classes").tolist())
    if classes is not None and classes > bundle.num_classes:
        raise InputError(f"a subset of {classes} classes: the data have {bundle.num_classes}")
    chosen = []
    for label in kept:
        members = (every.labels == label).nonzero().flatten()
        if samples is not None and samples > len(members):
            name = bundle.class_names[label]
            raise InputError(f"a subset of {samples} samples a class: class {name!r} has {len(members)}")
        chosen.append(members[_drawn(len(members), samples, draw, "samples", label).sort().values])
    learn = _relabelled(every.subset(torch.cat(chosen)), kept)
    train, val = split_by_seed(learn, 0.1, seed, "val")
    test = bundle.test.subset(torch.isin(bundle.test.labels, torch.tensor(kept)).nonzero().flatten())
    notes = [
        f"{len(learn):,} training samples of {len(kept)} classes, draw {draw}, sha256 {fingerprint(learn)}",
        "10 % of them are the validation set, by seed",
    ]
    names = [bundle.class_names[label] for label in kept]
    return DataBundle(
        train, val, _relabelled(test, kept), len(kept), names, bundle.input,
        augment=bundle.augment, notes=notes, domain_names=bundle.domain_names, held_out=bundle.held_out,
    )  # fmt: skip


def _scenes(bundle: DataBundle, seed: int, samples: int | None, classes: int | None, draw: int) -> DataBundle:
    """So many images for training; validation is a tenth of them, by seed."""
    if classes is not None:
        raise InputError(f"a subset of {classes} classes: an image of segmentation data has many; give samples only")
    every = joined(bundle.train, bundle.val)
    every = every.subset(content_order(every))
    if samples is not None and samples > len(every):
        raise InputError(f"a subset of {samples} images: the data have {len(every)} for training")
    learn = every.subset(_drawn(len(every), samples, draw, "samples").sort().values)
    train, val = split_by_seed(learn, 0.1, seed, "val")
    notes = [
        f"{len(learn):,} of {len(every):,} training images, draw {draw}, sha256 {fingerprint(learn)}",
        "10 % of them are the validation set, by seed",
    ]
    return replace(bundle, train=train, val=val, notes=notes)


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


LOADERS.register("subset")(Subset())
