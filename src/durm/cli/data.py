"""`durm data`: the data sets, whether they are there, and whether one can be read."""

from typing import Annotated, Any

import typer

from durm.cli import options
from durm.cli.fields import Command, with_fields
from durm.cli.help import PlainGroup
from durm.errors import InputError

app = typer.Typer(help="List the data sets, or check one.", cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)

EXAMPLES = """
durm data check folder:./my_images
durm data check cifar10 --download --data-root data
"""


@app.command("list", cls=Command, epilog="durm data list --data-root ~/datasets")
def list_data(data_root: options.DataRoot = None, json: options.Json = False) -> None:
    """List the data sets that can be named, what each needs, and whether its files are in the data root."""
    from durm.data import LOADERS, DataOptions, Stored, describe

    rows: dict[str, dict[str, Any]] = {}
    for name in LOADERS.names():
        loader = LOADERS[name]
        try:
            found = bool(loader.find(DataOptions(data_root))) if isinstance(loader, Stored) else None
        except InputError:
            found = False
        task = getattr(loader, "task", "classification")
        rows[f"{name}:PATH" if loader.takes_path else name] = {"about": describe(loader), "found": found, "task": task}
    if json:
        options.print_json(rows)
        return
    width = max(map(len, rows))
    words = {None: "", True: "found", False: "not found"}
    for name, row in rows.items():
        options.say(f"{name.ljust(width)}  {words[row['found']].ljust(9)}  {row['about']}")


@app.command("check", cls=Command, epilog=EXAMPLES)
@with_fields(given="Conditions", only=("image_size", "skip_bad"))
def check(
    given: dict[str, Any],
    name: Annotated[str, typer.Argument(help="A data set, as --data takes it.", show_default=False)],
    data_root: options.DataRoot = None,
    download: Annotated[bool, typer.Option("--download", help="Get the files first, into the data root.")] = False,
    json: options.Json = False,
) -> None:
    """Read a data set and say what is in it: samples, classes, shape, and how it was prepared.

    Published files are compared with their known checksums and sizes. With masks, the pixels of each class are counted
    in up to 200 of them.
    """
    from durm import data
    from durm.data.facts import facts_of, in_words

    where = data.DataOptions(data_root, **given)
    if download:
        data.download(name, where)
    facts = facts_of(name, where)
    if json:
        options.print_json(facts)
    else:
        for key, value in in_words(facts).items():
            options.say(f"{key}: {value}")
