"""`durm run`: run a study from a file, or what is missing of it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from durm.cli import options


def run(
    study: Annotated[Path, typer.Argument(help="A YAML file: see the documentation of studies.", show_default=False)],
    out: options.Out = None,
    workers: options.Workers = None,
    data_root: options.DataRoot = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Run a study. Trials that are done are not run again; one that was cut off goes on from its checkpoint."""
    from durm.study.spec import read_study

    spec = read_study(study)
    device = options.resolve_device(spec.device, f"study {study}: device")
    return execute(spec.model_copy(update={"device": device}), out, workers, data_root, quiet=quiet, json=json)


def execute(
    spec: Any, out: Path | None, workers: int | None, data_root: Path | None, *, quiet: bool, json: bool
) -> int:
    """Runs the study, prints what came out, and returns the exit code."""
    from durm.cli.display import print_json, show
    from durm.study.check import check_study
    from durm.study.executor import Execution, run_study
    from durm.study.store import Store
    from durm.study.summary import summarize

    count = options.whole_workers(workers, spec.device, spec.threads)
    check_study(spec, data_root)
    store = Store.create(out or Path("runs") / spec.name, spec)
    pending = [trial for trial in spec.trials() if not store.is_done(trial)]
    with show(pending, quiet=quiet or json) as display:
        outcome = run_study(store, Execution(count, data_root), display)
    summary = summarize(store)
    if json:
        print_json({**summary, "failed": outcome.failed})
    else:
        print_summary(summary, store.folder)
    if outcome.interrupted:
        typer.echo(f"durm: interrupted; run the same command again to go on ({store.folder})", err=True)
        return 130
    for name, reason in outcome.failed.items():
        typer.echo(f"durm: trial {name} failed: {reason.strip().splitlines()[-1]}", err=True)
    return 1 if outcome.failed else 0


def print_summary(summary: dict[str, Any], folder: Path) -> None:
    from durm.cli.display import print_table

    for setting in summary["settings"]:
        typer.echo(", ".join(f"{key} {value}" for key, value in setting["setting"].items()))
        rows = [
            [arm["arm"], str(arm["n"]), *(_number(arm[key]) for key in ("mean", "std", "nll", "dummy_mass"))]
            for arm in setting["arms"]
        ]
        print_table(["arm", "seeds", "accuracy", "std", "real-class NLL", "dummy mass %"], rows)
    typer.echo(f"{summary['done']} of {summary['trials']} trials are done, kept in {folder}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
