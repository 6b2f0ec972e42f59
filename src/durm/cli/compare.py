"""`durm compare`: from data to a verdict in one command."""

from pathlib import Path
from typing import Annotated

import typer

from durm.cli import options
from durm.errors import InputError

_ARMS, _VERDICT = "Arms and seeds", "Verdict"
DEFAULT_MAX_SEEDS = 40


def compare(
    data: Annotated[
        list[str],
        typer.Option(
            help="digits, cifar10, folder:PATH, segmentation:PATH, csv:PATH, …; see `durm data list`. Several times: "
            "several settings.",
            rich_help_panel="Data and model",
            show_default="digits",
        ),
    ] = ["digits"],  # noqa: B006 (typer reads it, nobody changes it)
    data_root: options.DataRoot = None,
    image_size: options.ImageSize = None,
    skip_bad: options.SkipBad = False,
    model: Annotated[
        list[str],
        typer.Option(
            help="cnn, mlp, a timm name; unet-resnet18, … for masks; transformer or hf:NAME; lstm; "
            "package.module:function. Several times as well.",
            rich_help_panel="Data and model",
            show_default="cnn",
        ),
    ] = ["cnn"],  # noqa: B006
    pretrained: options.Pretrained = False,
    dummies: Annotated[
        str,
        typer.Option(help="The numbers C_d to compare, with commas; the first is the baseline.", rich_help_panel=_ARMS),
    ] = "0,1,2,3",
    arm: Annotated[
        list[str] | None,
        typer.Option(
            help='An arm of your own, as "NAME: key=value, …", such as "smoothing: label_smoothing=0.1".',
            rich_help_panel=_ARMS,
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="How many seeds, or which ones, with commas; default 10.", rich_help_panel=_ARMS)
    ] = None,
    rope: Annotated[
        float,
        typer.Option(help="Differences of up to so many points count as none.", rich_help_panel=_VERDICT),
    ] = 0.1,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help="Look at 6, 10, 16, 25, 40, … seeds and stop as soon as every arm is decided.",
            rich_help_panel=_VERDICT,
        ),
    ] = False,
    max_seeds: Annotated[
        int | None,
        typer.Option(help=f"The last look of --until-decided; default {DEFAULT_MAX_SEEDS}.", rich_help_panel=_VERDICT),
    ] = None,
    null: Annotated[
        bool,
        typer.Option(
            "--null",
            help="Also run every arm against itself, with other dummies or a head disturbed by 1e-6.",
            rich_help_panel=_VERDICT,
        ),
    ] = False,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help='Attack every model, as in "pgd: eps=8/255, steps=10, through=[real, full]"; may be repeated.',
            rich_help_panel="Attacks",
        ),
    ] = None,
    attack_samples: Annotated[
        int, typer.Option(help="Test samples to attack.", rich_help_panel="Attacks", show_default=True)
    ] = 1000,
    metric: Annotated[
        str | None,
        typer.Option(
            help="What the verdict is about: accuracy, or under an attack: robust_pgd_real; with masks miou or macc.",
            show_default="accuracy, or miou with masks",
            rich_help_panel=_VERDICT,
        ),
    ] = None,
    method: Annotated[
        list[str],
        typer.Option(help=options.METHODS, rich_help_panel="Training", show_default="erm"),
    ] = ["erm"],  # noqa: B006
    epochs: options.Epochs = None,
    iterations: options.Iterations = None,
    batch_size: options.BatchSize = None,
    lr: options.LearningRate = None,
    optimizer: options.Optimizer = None,
    schedule: options.Schedule = None,
    warmup: options.Warmup = None,
    weight_decay: options.WeightDecay = None,
    label_smoothing: options.LabelSmoothing = None,
    patience: options.Patience = None,
    clip_norm: options.ClipNorm = None,
    augment: options.Augment = None,
    crop: options.Crop = None,
    window: options.Window = None,
    select: options.Select = "last",
    workers: options.Workers = None,
    device: options.Device = "cpu",
    devices: options.Devices = 1,
    precision: options.Precision = "32",
    out: options.Out = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Train every arm on the same seeds, judge the paired differences, and write a page about it.

    Without flags: the embedded digits, a tiny CNN, 0 to 3 dummies, 10 seeds.
    """
    flags = options.shared(locals())
    from durm.cli.run import judge
    from durm.study.spec import arms_of, make_study, parse_arm, parse_attack

    if max_seeds is not None and not until_decided:
        raise InputError(f"--max-seeds {max_seeds} goes with --until-decided; --seeds gives a fixed number")
    if seeds is not None and until_decided:
        raise InputError(f"--seeds {seeds} and --until-decided exclude each other; --max-seeds limits the looks")
    counts = [_whole(part, "--dummies", dummies) for part in dummies.split(",")]
    arms = [*arms_of(counts), *(parse_arm(text) for text in arm or ())]
    if len(arms) < 2:
        raise InputError(f"--dummies {dummies} is one arm; to compare takes two, such as --dummies 0,{counts[0] or 2}")
    study = make_study(
        {
            "name": _name(data, model),
            "data": data,
            "model": model,
            "method": method,
            "arms": arms,
            "attacks": [parse_attack(text) for text in attack or ()],
            "attack_samples": attack_samples,
            **options.given(metric=metric),
            "rope": rope,
            "null": null,
            "max_seeds": (max_seeds if max_seeds is not None else DEFAULT_MAX_SEEDS) if until_decided else None,
            **flags,
            **options.given(seeds=_seeds(seeds)),
        }
    )
    return judge(study, out, workers, data_root, quiet=quiet, json=json)


def _seeds(text: str | None) -> int | list[int] | None:
    """`10` is a number of seeds, `3,5,8` are seeds, and so is `3,`."""
    if text is None:
        return None
    if "," not in text:
        return _whole(text, "--seeds", text)
    return [_whole(part, "--seeds", text) for part in text.rstrip(",").split(",")]


def _whole(part: str, flag: str, text: str) -> int:
    if not part.strip().isdigit():
        raise InputError(f"{flag} {text!r}: {part!r} is not a whole number of at least 0")
    return int(part)


def _name(data: list[str], model: list[str]) -> str:
    """A name for the study's folder, such as `compare-digits-cnn`."""
    from durm.study.spec import readable

    parts = ["compare", *(Path(name.partition(":")[2] or name).name for name in data), *model]
    return readable("-".join(parts))[:80]
