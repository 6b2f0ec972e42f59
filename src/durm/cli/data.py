"""`durm data`: the data sets, whether they are there, and whether one can be read."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from durm.cli import options

if TYPE_CHECKING:
    from durm.data import DataOptions, Published, Stored
    from durm.data.bundle import DataBundle

app = typer.Typer(help="List the data sets, or check one.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_data(data_root: options.DataRoot = None, json: options.Json = False) -> int:
    """List the data sets that can be named, what each needs, and whether its files are in the data root."""
    from durm.cli.display import print_json
    from durm.data import LOADERS, DataOptions, Stored, describe

    rows: dict[str, dict[str, Any]] = {}
    for name in LOADERS.names():
        loader = LOADERS[name]
        found = _is_found(loader, DataOptions(data_root)) if isinstance(loader, Stored) else None
        task = getattr(loader, "task", "classification")
        rows[f"{name}:PATH" if loader.takes_path else name] = {"about": describe(loader), "found": found, "task": task}
    if json:
        print_json(rows)
        return 0
    width = max(map(len, rows))
    words = {None: "", True: "found", False: "not found"}
    for name, row in rows.items():
        typer.echo(f"{name.ljust(width)}  {words[row['found']].ljust(9)}  {row['about']}")
    return 0


def _is_found(loader: "Stored", where: "DataOptions") -> bool:
    from durm.errors import InputError

    try:
        loader.find(where)
    except InputError:
        return False
    return True


@app.command("check")
def check(
    name: Annotated[str, typer.Argument(help="A data set, as --data takes it.", show_default=False)],
    data_root: options.DataRoot = None,
    image_size: options.ImageSize = None,
    skip_bad: options.SkipBad = False,
    download: Annotated[bool, typer.Option("--download", help="Get the files first, into the data root.")] = False,
    json: options.Json = False,
) -> int:
    """Read a data set and say what is in it: samples, classes, shape, and what was done to it on the way.

    Files that are published are compared with what is known of them: checksums, and how much they hold. Of data with
    masks, the pixels of each class are counted in up to 200 masks.
    """
    from durm import data
    from durm.cli.display import print_json

    where = data.DataOptions(data_root, image_size, skip_bad)
    if download:
        data.download(name, where)
    settings = data.settings_of(name, where)
    bundle = data.load(settings[0], seed=0, options=where)
    facts: dict[str, Any] = {
        "train": len(bundle.train),
        "val": len(bundle.val),
        "test": len(bundle.test),
        "classes": bundle.num_classes,
        "shape": list(bundle.input.shape),
        "fingerprint": bundle.fingerprint,
        "notes": bundle.notes,
        "checksums": "none are published",
    }
    if bundle.domain_names:
        facts |= _domains(name, settings, bundle)
    if bundle.task == "segmentation":
        facts |= _pixels(bundle)
    loader, _ = data.parse(name)
    if isinstance(loader, data.Published):
        facts |= _compared(loader, loader.find(where), bundle)
    if json:
        print_json(facts)
        return 0
    if bundle.task == "segmentation":
        facts |= _shares(facts["pixels"], facts["ignored"])
    for key, value in facts.items():
        typer.echo(f"{key}: {_told(value) if key in ('notes', 'domains') else value}")
    return 0


def _told(value: list[str] | dict[str, int]) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items())
    return "; ".join(value)


def _domains(name: str, settings: list[str], bundle: "DataBundle") -> dict[str, Any]:
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


def _pixels(bundle: "DataBundle") -> dict[str, Any]:
    """The pixels of each class, and of none, in some of the training masks."""
    from durm.data.scene_files import count_pixels

    masks = bundle.train.masks
    assert masks is not None
    counts = count_pixels(masks, bundle.num_classes)
    return {
        "task": bundle.task,
        "pixels": dict(zip(bundle.class_names, counts.classes, strict=True)),
        "ignored": counts.ignored,
        "counted": f"in {counts.masks:,} of {len(masks):,} training masks",
    }


def _shares(classes: dict[str, int], ignored: int) -> dict[str, str]:
    """The same in words: shares of the pixels that have a class, and of all."""
    labelled = sum(classes.values())
    told = [f"{name} {count:,} ({100 * count / max(1, labelled):.1f} %)" for name, count in classes.items()]
    share = 100 * ignored / (labelled + ignored)
    return {"pixels": ", ".join(told), "ignored": f"{ignored:,} ({share:.1f} % of all)"}


def _compared(loader: "Published", folder: Path, bundle: "DataBundle") -> dict[str, Any]:
    """The files in the folder and what was read from them, beside what is published."""
    from durm.data import verify

    facts: dict[str, Any] = {}
    if known := loader.checksums(folder):
        wrong = verify(loader, folder)
        facts["checksums"] = f"not those of the published files: {', '.join(wrong)}" if wrong else "right"
        if not wrong:
            facts["checked"] = ", ".join(known)
    counts = (len(bundle.train) + len(bundle.val), len(bundle.test), bundle.num_classes)
    words = ("train and val", "test", "classes")
    odd = [
        f"{word} {count:,} of {published:,}"
        for word, count, published in zip(words, counts, loader.published, strict=True)
        if count != published
    ]
    facts["counts"] = f"not as published: {', '.join(odd)}" if odd else "as published"
    return facts
