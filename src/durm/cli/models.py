"""`durm models`: the names of models."""

from typing import Annotated

import typer

from durm.cli import options

EXAMPLES = """
durm models 'resnet*'
"""


def models(
    pattern: Annotated[str, typer.Argument(help="A part of a name, or a pattern with * and ?.")] = "",
    json: options.Json = False,
) -> None:
    """List the models that can be named: cnn, mlp, those of timm and segmentation models, as `durm models unet`."""
    from durm.errors import unknown
    from durm.models import names
    from durm.models.segmentation import architectures

    found = names(pattern)
    if not found:
        raise unknown("model", pattern, [*names(), *architectures()], "`durm models`")
    if json:
        options.print_json(found)
    else:
        typer.echo("\n".join(found))
