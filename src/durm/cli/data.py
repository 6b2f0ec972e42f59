"""`durm data`: the data sets, and whether one can be read."""

from typing import Annotated

import typer

from durm.cli import options

app = typer.Typer(help="List the data sets, or check one.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_data(json: options.Json = False) -> int:
    """List the data sets that can be named, and what each needs."""
    from durm.cli.display import print_json
    from durm.data import LOADERS

    rows = {}
    for name in LOADERS.names():
        loader = LOADERS[name]
        rows[f"{name}:PATH" if loader.takes_path else name] = (loader.__doc__ or "").strip().splitlines()[0]
    if json:
        print_json(rows)
        return 0
    width = max(map(len, rows))
    for name, line in rows.items():
        typer.echo(f"{name.ljust(width)}  {line}")
    return 0


@app.command("check")
def check(
    name: Annotated[str, typer.Argument(help="A data set, as --data takes it.", show_default=False)],
    data_root: options.DataRoot = None,
    image_size: options.ImageSize = None,
    skip_bad: options.SkipBad = False,
    json: options.Json = False,
) -> int:
    """Read a data set and say what is in it: samples, classes, shape, and what was done to it on the way."""
    from durm.cli.display import print_json
    from durm.data import DataOptions, load

    bundle = load(name, seed=0, options=DataOptions(data_root, image_size, skip_bad))
    facts = {
        "train": len(bundle.train),
        "val": len(bundle.val),
        "test": len(bundle.test),
        "classes": bundle.num_classes,
        "shape": list(bundle.input.shape),
        "fingerprint": bundle.fingerprint,
        "notes": bundle.notes,
    }
    if json:
        print_json(facts)
        return 0
    for key, value in facts.items():
        typer.echo(f"{key}: {'; '.join(value) if isinstance(value, list) and key == 'notes' else value}")
    return 0
