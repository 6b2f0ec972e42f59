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
    """Run a study and judge it. Trials that are done are not run again; one that was cut off goes on from there."""
    from durm.study.spec import read_study

    spec = read_study(study)
    device = options.resolve_device(spec.device, f"study {study}: device")
    return judge(spec.model_copy(update={"device": device}), out, workers, data_root, quiet=quiet, json=json)


def judge(spec: Any, out: Path | None, workers: int | None, data_root: Path | None, *, quiet: bool, json: bool) -> int:
    """Runs the study, prints the verdict, writes the page, and returns the exit code."""
    from durm.cli.display import print_json, print_verdict, show
    from durm.report.page import write_report
    from durm.study.check import check_study, expanded
    from durm.study.executor import Execution
    from durm.study.judging import run_and_judge
    from durm.study.store import Store

    count = options.whole_workers(workers, spec.device, spec.threads)
    spec = expanded(spec, data_root)
    check_study(spec, data_root)
    store = Store.create(out or Path("runs") / spec.name, spec)
    silent = quiet or json
    for judged in run_and_judge(
        store, Execution(count, data_root), lambda trials: show(trials, spec.arm_names, spec.metric, quiet=silent)
    ):
        if not judged.is_last and not silent:
            typer.echo(f"undecided after {len(judged.store.study.seeds)} seeds; looking further", err=True)
    page = None
    if not judged.outcome.interrupted:
        page = write_report(judged.store, judged.results, judged.summary, data_root)
    if json:
        print_json({**judged.summary, "failed": judged.outcome.failed})
    else:
        print_verdict(judged.summary)
        typer.echo(f"{judged.summary['done']} of {judged.summary['trials']} trials are done, kept in {store.folder}")
        if page is not None:
            typer.echo(f"the page: {page}")
    return options.exit_code(judged.outcome, store.folder)
