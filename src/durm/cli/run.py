"""`durm run`: run a study from a file, or what is missing of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from durm.cli import options

if TYPE_CHECKING:
    from durm.study.base import BaseStudy
    from durm.study.jobs import Execution

NEEDED_TO_DRAW = ("scipy.special", "jinja2", *(f"matplotlib.backends.backend_{kind}" for kind in ("svg", "agg", "pdf")))
EXAMPLES = """
durm run digits.yaml
durm run digits.yaml --out runs/digits --workers 2 > log.txt 2>&1
durm run digits.yaml --executor ray --address auto
"""


def run(
    study: Annotated[Path, typer.Argument(help="A YAML file: see the documentation of studies.", show_default=False)],
    data_root: options.DataRoot = None,
    workers: options.Workers = None,
    loader_workers: options.LoaderWorkers = 0,
    executor: options.Executor = None,
    address: options.Address = None,
    trial_cpus: options.TrialCpus = None,
    trial_gpus: options.TrialGpus = None,
    trust_code: options.TrustCode = False,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which a program of your own is ended; its run is lost.")
    ] = None,
    accept_new_code: options.AcceptNewCode = False,
    out: options.Out = None,
    track: options.Track = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> int:
    """Run a study and judge it. Trials that are done are not run again; an interrupted study is resumed."""
    from durm.study.config import Study
    from durm.study.reading import read_any_study
    from durm.study.runner import resolve_device

    spec = read_any_study(study, trust_code=trust_code)
    if isinstance(spec, Study):
        spec = spec.updated(device=resolve_device(spec.device, f"study {study}: device", executor))
    where = {"executor": executor, "address": address, "trial_cpus": trial_cpus, "trial_gpus": trial_gpus}
    own = {"time_limit": time_limit, "accept_new_code": accept_new_code}
    execution = options.execution(spec, workers, loader_workers, data_root, **where, **own)
    return judge(spec, execution, out, track or (), quiet=quiet, verbose=verbose, json=json)


def judge(
    spec: "BaseStudy",
    execution: "Execution",
    out: Path | None,
    tracked: Sequence[str] = (),
    *,
    quiet: bool,
    verbose: bool,
    json: bool,
) -> int:
    """Runs the study, prints the verdict, writes the page, and returns the exit code."""
    from durm.cli.flags import parse_tracker
    from durm.integrations.trackers import track
    from durm.report.progress import show
    from durm.report.terminal import print_verdict
    from durm.study.check import check_study, expanded
    from durm.study.config import Study
    from durm.study.runner import run_study_to_verdict, start_workers
    from durm.study.store import Store

    trackers = [parse_tracker(text) for text in tracked]
    folder = out or Path("runs") / spec.name
    start_workers(spec, execution)
    if isinstance(spec, Study):
        spec = expanded(spec, execution.data_root)
        check_study(spec, execution.data_root, folder)
    store = Store.create(folder, spec)
    silent = quiet or json
    drawing = options.import_meanwhile(*NEEDED_TO_DRAW)
    for judged in run_study_to_verdict(store, execution, lambda trials: show(trials, quiet=silent)):
        if not judged.is_last and not silent:
            options.say(f"undecided after {len(judged.store.study.seeds)} seeds; adding more", err=True)
    page = None
    if not judged.outcome.interrupted:
        drawing.join()
        from durm.report.page import write_report

        page = write_report(
            judged.store.folder,
            judged.summary,
            store=judged.store,
            results=judged.results,
            data_root=execution.data_root,
        )
    if json:
        options.print_json({**judged.summary.as_json(), "failed": judged.outcome.failed})
    else:
        print_verdict(judged.summary, verbose=verbose, more="--verbose")
        options.say()
        options.say(f"{judged.summary.done} of {judged.summary.trials} trials are done, kept in {store.folder}")
        if page is not None:
            options.say(f"the page: {page}")
    for name, where in trackers if page is not None else ():
        place = track(judged.store, name, where)
        if not json:
            options.say(f"{name}: {place}")
    return options.exit_code(judged.outcome, store.folder)
