"""Flags that several commands share and that no Config has, in the same words."""

import json
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from durm._processes import start_server
from durm._text import last_line, visible
from durm.cli.completion import data_names, method_names, model_names
from durm.cli.fields import DATA, OUTPUT, RUNNING, TRAINING
from durm.cli.flags import options_as_flags
from durm.errors import InputError

if TYPE_CHECKING:
    from durm.study.base import BaseStudy
    from durm.study.jobs import Execution

DATA_NAME: Any = typer.Option(
    help="digits, cifar10, folder:PATH, segmentation:PATH, csv:PATH, …; see `durm data list`.",
    metavar="NAME",
    autocompletion=data_names,
    rich_help_panel=DATA,
)
MODEL_NAME: Any = typer.Option(
    help="cnn, mlp, a timm name; unet-resnet18, … for masks; transformer or hf:NAME for text; lstm for sound; "
    "package.module:function.",
    metavar="NAME",
    autocompletion=model_names,
    rich_help_panel=DATA,
)
METHOD: Any = typer.Option(
    help="erm, mixup, logit-adjustment, fgsm-at, pgd-at, dann, vrex, rsc, mmd, coral or "
    "groupdro; ema, swa or swad; or one of each, as "
    'in mixup+ema. With settings: "vrex: weight=10".',
    metavar="NAME",
    autocompletion=method_names,
    rich_help_panel=TRAINING,
)
DataRoot = Annotated[
    Path | None, typer.Option(help="The folder above the published data sets; default ./data.", rich_help_panel=DATA)
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Trials at a time; default one for each core or GPU, of all nodes under Ray.", rich_help_panel=RUNNING
    ),
]
LoaderWorkers = Annotated[
    int, typer.Option(help="Processes of each trial that read images from disk.", min=0, rich_help_panel=RUNNING)
]
Executor = Annotated[
    str | None,
    typer.Option(
        help="Where the trials run: processes (the default), threads (for --command), inline, or ray, a cluster.",
        metavar="NAME",
        rich_help_panel=RUNNING,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Of the Ray cluster: auto, or HOST:PORT; default: RAY_ADDRESS, or Ray is started here.",
        rich_help_panel=RUNNING,
    ),
]
TrialCpus = Annotated[
    float | None,
    typer.Option(help="Cores of each trial under Ray; default one for each thread.", rich_help_panel=RUNNING),
]
TrialGpus = Annotated[
    float | None,
    typer.Option(
        help="GPUs of each trial under Ray, such as 0.25; default 1 with --device cuda.", rich_help_panel=RUNNING
    ),
]
TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Import and run a model package.module:function that the file names; only for files that you trust.",
        rich_help_panel=RUNNING,
    ),
]
AcceptNewCode = Annotated[
    bool,
    typer.Option(
        "--accept-new-code",
        help="Go on although the program's files changed since the first trial; the page says so.",
        rich_help_panel="Your own program",
    ),
]
Checkpoint = Annotated[
    Path, typer.Argument(help="A checkpoint.pt, or the folder of a trial that holds one.", show_default=False)
]
Out = Annotated[Path | None, typer.Option(help="Where it is kept; default runs/NAME.", rich_help_panel=OUTPUT)]
Track = Annotated[
    list[str] | None,
    typer.Option(
        help="Also write trials, curves and verdict for tensorboard or mlflow, into the study's folder or "
        "tensorboard:FOLDER, mlflow:FOLDER; may be repeated.",
        metavar="NAME",
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress display.", rich_help_panel=OUTPUT)]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Print everything: reasons, statistics, other metrics, seeds, all warnings.",
        rich_help_panel=OUTPUT,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]


def execution(
    study: "BaseStudy", workers: int | None, loader_workers: int, data_root: Path | None, **others: Any
) -> "Execution":
    """How the study is run, as the flags say; `others` are fields of `Execution`."""
    from durm.study.jobs import Execution
    from durm.study.runner import default_workers

    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers}: expected at least 1")
    device, threads = getattr(study, "device", "cpu"), getattr(study, "threads", 1)
    here = 0 if others.get("executor") == "ray" else default_workers(device, threads)
    return Execution(workers or here, data_root, num_workers=loader_workers, **others)


def start_workers(models: Iterable[str], executor: str | None, conditions: Mapping[str, Any]) -> None:
    """Lets worker processes import what they need while this one does so too, if there will be any on a CPU."""
    if executor in (None, "processes") and conditions.get("device", "cpu") == "cpu":
        start_server(*models)


def import_meanwhile(*modules: str) -> threading.Thread:
    """Imports what will be needed later, while trials run in other processes."""

    def work() -> None:
        with suppress(ImportError):  # which will be met where it is needed
            for name in modules:
                import_module(name)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def say(text: object = "", *, err: bool = False) -> None:
    """Prints one line. Control characters of names in it are made visible, so that no name can forge another line."""
    typer.echo(visible(text), err=err)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False)


def print_json(value: Any) -> None:
    typer.echo(as_json(value))


def checkpoint_file(path: Path) -> Path:
    return path / "checkpoint.pt" if path.is_dir() else path


def exit_code(outcome: Any, folder: Path) -> int:
    """The exit code of a study that was run; what went wrong is said on stderr."""
    if outcome.interrupted:
        say(f"durm: interrupted; run the same command again to go on ({folder})", err=True)
        return 130
    for name, reason in outcome.failed.items():
        say(f"durm: trial {name} failed: {options_as_flags(last_line(reason))}", err=True)
    return 1 if outcome.failed else 0
