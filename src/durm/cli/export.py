"""`durm export`: a saved model as a file for other programs."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from durm.cli import options
from durm.cli.fields import OUTPUT

if TYPE_CHECKING:
    from durm.data.bundle import DataBundle

EXAMPLES = """
durm export runs/train --to onnx --out model.onnx
durm export checkpoint.pt --to torch.export --dummy-mass
"""


def export(
    checkpoint: options.Checkpoint,
    to: Annotated[str, typer.Option(help="The format: onnx, torch.export or safetensors.")] = "onnx",
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file; default model.onnx, .pt2 or .safetensors in the folder of the checkpoint.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    dummy_mass: Annotated[
        bool, typer.Option("--dummy-mass", help="Also output the probability of the dummies, a score of uncertainty.")
    ] = False,
    data_root: options.DataRoot = None,
    trust_code: options.TrustCode = False,
    json: options.Json = False,
) -> None:
    """Export a saved model, without its dummies, as ONNX, by torch.export, or its weights as safetensors.

    The file is read back and run: it counts only if its outputs equal those of the model to 1e-5 of the largest logit.
    It takes batches of any size, of inputs that are normalised as in training.
    """
    from durm.exporting import SUFFIXES, check_format
    from durm.exporting import export as write
    from durm.training.inference import load_model

    form = check_format(to)
    path = options.checkpoint_file(checkpoint)
    model, _, bundle = load_model(path, data_root, trust_code=trust_code)
    suffix = next(suffix for suffix, name in SUFFIXES.items() if name == form)
    file = out or path.with_name(f"model{suffix}")
    found = write(model, _inputs(bundle), file, to=form, dummy_mass=dummy_mass)
    normalised = _normalisation(bundle)
    if json:
        options.print_json({**asdict(found), "path": str(found.path), **normalised, "class_names": bundle.class_names})
        return
    shapes = ", ".join(f"{name} (N, {', '.join(map(str, shape[1:]))})" for name, shape in found.inputs.items())
    options.say(f"{found.path}: {shapes} → {', '.join(found.outputs)}, {bundle.num_classes} classes")
    if normalised:
        mean, std = (_numbers(normalised[key]) for key in ("mean", "std"))
        options.say(f"inputs are normalised: (x − mean) / std, mean {mean}, std {std}")
    options.say(f"checked: the largest difference from the model is {found.difference:.1g}")


def _inputs(bundle: "DataBundle") -> Any:
    """Three samples, as the model takes them; of images with masks, whose sizes differ, noise as large as the first."""
    import torch

    from durm._random import generator
    from durm.training.inference import fixed_samples

    if bundle.task == "segmentation":
        return torch.randn(3, *bundle.input.shape, generator=generator(0, "export"))
    return fixed_samples(bundle, "test", 3)[0]


def _normalisation(bundle: "DataBundle") -> dict[str, list[float]]:
    """Of text there is none. Values for each pixel or feature are too many to print."""
    form = bundle.input
    if form.vocabulary is not None or form.mean.numel() > 64:
        return {}
    return {"mean": form.mean.flatten().tolist(), "std": form.std.flatten().tolist()}


def _numbers(values: list[float]) -> str:
    return "[" + ", ".join(f"{value:.4g}" for value in values) + "]"
