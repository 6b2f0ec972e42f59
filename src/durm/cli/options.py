"""Flags that several commands share, in the same words."""

from pathlib import Path
from typing import Annotated, Any

import typer

from durm.errors import InputError

_DATA, _TRAINING, _RUNNING, _OUTPUT = "Data and model", "Training", "Running", "Output"

Data = Annotated[
    str,
    typer.Option(
        help="digits, cifar10, folder:PATH, segmentation:PATH, csv:PATH, …; see `durm data list`.",
        rich_help_panel=_DATA,
    ),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(help="The folder above the published data sets; default ./data.", rich_help_panel=_DATA),
]
ImageSize = Annotated[
    int | None,
    typer.Option(
        help="Side of the images in pixels; default: as they are, or 224 for photographs of different sizes.",
        rich_help_panel=_DATA,
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out files that cannot be read.", rich_help_panel=_DATA)
]
Model = Annotated[
    str,
    typer.Option(
        help="cnn, mlp, a timm name; unet-resnet18, … for masks; transformer or hf:NAME for text; lstm for sound; "
        "package.module:function.",
        rich_help_panel=_DATA,
    ),
]
Pretrained = Annotated[
    bool, typer.Option("--pretrained", help="Start from pretrained weights (downloads them).", rich_help_panel=_DATA)
]
METHODS = (
    "erm, mixup, logit-adjustment, fgsm-at, pgd-at, dann, vrex, rsc or mmd; ema, swa or swad; or one of each, as in "
    "mixup+ema."
)
Method = Annotated[str, typer.Option(help=METHODS, rich_help_panel=_TRAINING)]
Epochs = Annotated[int | None, typer.Option(help="Passes over the data; default 20.", rich_help_panel=_TRAINING)]
Iterations = Annotated[int | None, typer.Option(help="Optimizer steps, instead of epochs.", rich_help_panel=_TRAINING)]
BatchSize = Annotated[
    int | None, typer.Option(help="Samples in a step, or of each domain; default 64.", rich_help_panel=_TRAINING)
]
LearningRate = Annotated[
    float | None, typer.Option("--lr", help="Learning rate; default 0.05.", rich_help_panel=_TRAINING)
]
Optimizer = Annotated[str | None, typer.Option(help="sgd, adam or adamw; default sgd.", rich_help_panel=_TRAINING)]
Schedule = Annotated[
    str | None, typer.Option(help="constant, step, cosine or poly; default cosine.", rich_help_panel=_TRAINING)
]
Warmup = Annotated[int | None, typer.Option(help="Steps of linear warm-up; default 0.", rich_help_panel=_TRAINING)]
WeightDecay = Annotated[float | None, typer.Option(help="Default 5e-4.", rich_help_panel=_TRAINING)]
LabelSmoothing = Annotated[
    float | None, typer.Option(help="Over the real classes; default 0.", rich_help_panel=_TRAINING)
]
Patience = Annotated[
    int | None,
    typer.Option(
        help="Stop after so many validations without a better accuracy (or mean IoU), and take the best weights.",
        rich_help_panel=_TRAINING,
    ),
]
ClipNorm = Annotated[
    float | None, typer.Option(help="Largest norm of the gradient; default: none.", rich_help_panel=_TRAINING)
]
Augment = Annotated[
    str | None,
    typer.Option(
        help="none, flip, crop-flip or randaugment; with masks none, flip, scene or scene-jitter; default: as suits.",
        rich_help_panel=_TRAINING,
    ),
]
Crop = Annotated[
    str | None,
    typer.Option(
        help="Height and width of the crops of images with masks, as in 512,1024; default: the first image's.",
        metavar="HEIGHT,WIDTH",
        rich_help_panel=_TRAINING,
    ),
]
Window = Annotated[
    str | None,
    typer.Option(
        help="Segment test images through a window of this height and width; default: as a whole.",
        metavar="HEIGHT,WIDTH",
        rich_help_panel=_TRAINING,
    ),
]
Select = Annotated[str, typer.Option(help="The weights that count: last or best-val.", rich_help_panel=_TRAINING)]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.", rich_help_panel=_RUNNING)]
Devices = Annotated[int, typer.Option(help="How many of them train one model.", rich_help_panel=_RUNNING)]
Precision = Annotated[str, typer.Option(help="32, bf16-mixed, 16-mixed, bf16-true or 64.", rich_help_panel=_RUNNING)]
Workers = Annotated[
    int | None,
    typer.Option(help="Trials at a time; default one for each core or GPU.", rich_help_panel=_RUNNING),
]
Out = Annotated[Path | None, typer.Option(help="Where it is kept; default runs/NAME.", rich_help_panel=_OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress display.", rich_help_panel=_OUTPUT)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=_OUTPUT)]


def given(**values: Any) -> dict[str, Any]:
    """The values that were given; what is left out keeps its default elsewhere."""
    return {name: value for name, value in values.items() if value is not None}


_RECIPE = (
    *("epochs", "iterations", "batch_size", "lr", "optimizer", "schedule", "warmup", "weight_decay"),
    *("label_smoothing", "patience", "clip_norm", "augment"),
)
_CONDITIONS = ("pretrained", "image_size", "skip_bad", "select", "devices", "precision")


def shared(flags: dict[str, Any]) -> dict[str, Any]:
    """Of all flags of a command, given by name, what every study is told alike: how to train, and where."""
    return {
        "train": given(**{name: flags[name] for name in _RECIPE}, crop=_size("--crop", flags["crop"])),
        **{name: flags[name] for name in _CONDITIONS},
        "window": _size("--window", flags["window"]),
        "device": resolve_device(flags["device"]),
    }


def _size(flag: str, text: str | None) -> list[int] | None:
    """`512,1024` as a height and a width."""
    if text is None:
        return None
    sides = [side.strip() for side in text.split(",")]
    if len(sides) != 2 or not all(side.isdecimal() and int(side) for side in sides):
        raise InputError(f"{flag} {text!r}: expected a height and a width in pixels, as in {flag} 512,1024")
    return [int(side) for side in sides]


def resolve_device(name: str, source: str = "--device") -> str:
    """`auto` becomes what this machine has; a device that it has not is refused, in the words of its source."""
    if name == "cpu":
        return name
    import torch

    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        return "cuda" if "cuda" in available else "mps" if "mps" in available else "cpu"
    if name not in available:
        raise InputError(f"{source} {name!r} is not on this machine; it has {', '.join(available)}")
    return name


def exit_code(outcome: Any, folder: Path) -> int:
    """The exit code of a study that was run; what went wrong is told on stderr."""
    if outcome.interrupted:
        typer.echo(f"durm: interrupted; run the same command again to go on ({folder})", err=True)
        return 130
    for name, reason in outcome.failed.items():
        typer.echo(f"durm: trial {name} failed: {reason.strip().splitlines()[-1]}", err=True)
    return 1 if outcome.failed else 0


def whole_workers(workers: int | None, device: str, threads: int) -> int:
    """The number of workers, checked."""
    from durm.study.executor import default_workers

    if workers is None:
        return default_workers(device, threads)
    if workers < 1:
        raise InputError(f"--workers {workers}: expected at least 1")
    return workers
