"""What is in a data set, and whether it is what was published."""

from collections import Counter
from pathlib import Path
from typing import Any

from durm._text import pluralize
from durm.data import DataOptions, Published, load, parse, settings_of, verify
from durm.data.bundle import DataBundle
from durm.data.manifest import manifest_of
from durm.data.segmentation_files import count_pixels


def facts_of(name: str, options: DataOptions) -> dict[str, Any]:
    """Samples, classes, shape, what was done to them on the way, and how they compare with what is published."""
    settings = settings_of(name, options)
    bundle = load(settings[0], seed=0, options=options)
    facts: dict[str, Any] = {
        "train": len(bundle.train),
        "val": len(bundle.val),
        "test": len(bundle.test),
        "classes": bundle.num_classes,
        "shape": list(bundle.input.shape),
        "fingerprint": bundle.fingerprint,
        **_content(settings[0], options),
        "notes": bundle.notes,
        "checksums": "none are published",
    }
    if bundle.domain_names:
        facts |= _domains(name, settings, bundle)
    if bundle.task == "segmentation":
        facts |= _pixels(bundle)
    loader, _ = parse(name)
    if isinstance(loader, Published):
        facts |= _compared(loader, loader.find(options), bundle)
    return facts


def in_words(facts: dict[str, Any]) -> dict[str, Any]:
    """The same for people: lists as text, and pixels as shares of those that have a class, and of all."""
    words = {**facts, "notes": "; ".join(facts["notes"])}
    if "domains" in facts:
        words["domains"] = ", ".join(f"{domain} {count}" for domain, count in facts["domains"].items())
    if "pixels" in facts:
        classes, ignored = facts["pixels"], facts["ignored"]
        labelled = sum(classes.values())
        shares = [f"{name} {count:,} ({100 * count / max(1, labelled):.1f} %)" for name, count in classes.items()]
        words["pixels"] = ", ".join(shares)
        words["ignored"] = f"{ignored:,} ({100 * ignored / (labelled + ignored):.1f} % of all)"
    return words


def _content(name: str, options: DataOptions) -> dict[str, Any]:
    """The hash of the content of all files, by which a study knows its data, and how much that is."""
    manifest = manifest_of(name, options)
    amount = f"{manifest.bytes:,} bytes"
    return {
        "manifest": manifest.sha256,
        "content": f"{pluralize(manifest.files, 'file')}, {amount}" if manifest.files else f"in memory, {amount}",
    }


def _domains(name: str, settings: list[str], bundle: DataBundle) -> dict[str, Any]:
    """The training and validation samples of each training domain, and which one is held out.

    A name without a domain stands for all of them: the first was read.
    """
    counts = Counter[int]()
    for part in (bundle.train, bundle.val):
        assert part.domains is not None
        counts.update(part.domains.tolist())
    domains = {domain: counts[number] for number, domain in enumerate(bundle.domain_names)}
    facts: dict[str, Any] = {"domains": domains, "held_out": bundle.held_out}
    if len(settings) > 1:
        facts["notes"] = [f"{name} stands for {', '.join(settings)}, of which the first was read", *bundle.notes]
    return facts


def _pixels(bundle: DataBundle) -> dict[str, Any]:
    """The pixels of each class, and of none, in some of the training masks."""
    masks = bundle.train.masks
    assert masks is not None
    counts = count_pixels(masks, bundle.num_classes)
    return {
        "task": bundle.task,
        "pixels": dict(zip(bundle.class_names, counts.classes, strict=True)),
        "ignored": counts.ignored,
        "counted": f"in {counts.masks:,} of {len(masks):,} training masks",
    }


def _compared(loader: Published, folder: Path, bundle: DataBundle) -> dict[str, Any]:
    """The files in the folder and what was read from them, against what is published."""
    facts: dict[str, Any] = {}
    if known := loader.checksums(folder):
        wrong = verify(loader, folder)
        facts["checksums"] = f"not those of the published files: {', '.join(wrong)}" if wrong else "right"
        if not wrong:
            facts["checked"] = ", ".join(known)
    counts = (len(bundle.train) + len(bundle.val), len(bundle.test), bundle.num_classes)
    parts = zip(("train and val", "test", "classes"), counts, loader.published, strict=True)
    odd = [f"{word} {count:,} of {published:,}" for word, count, published in parts if count != published]
    facts["counts"] = f"not as published: {', '.join(odd)}" if odd else "as published"
    return facts
