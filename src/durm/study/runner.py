"""Runs what is missing of a study and judges it; one that goes on until decided adds seeds, and is judged again."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from durm._processes import start_server
from durm._ranks import launched
from durm.errors import InputError
from durm.study.base import AnyTrial, BaseStudy, Key
from durm.study.code_record import record_code
from durm.study.code_study import CodeStudy
from durm.study.config import Study
from durm.study.data_record import record_data
from durm.study.executors import EXECUTORS
from durm.study.jobs import Event, Execution, Job, Send, TransferJob, TrialJob
from durm.study.reading import check_code
from durm.study.records import Summary
from durm.study.robustness import transferred_attack
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from durm.training.result import Result

Follow = Callable[[list[Any]], AbstractContextManager[Send]]
"""Given the trials that are about to run, what takes their events."""


@dataclass
class Outcome:
    """What became of the trials of a study."""

    done: list[Any] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False


@dataclass(frozen=True)
class StudyState:
    """A study as it stands after one analysis."""

    store: Store
    outcome: Outcome
    results: dict[Key, Result]
    summary: Summary
    is_last: bool


def _ignore(event: Event) -> None:
    """For those who do not follow the events."""


def run_study_to_verdict(
    store: Store, execution: Execution, follow: Follow = lambda trials: nullcontext(_ignore)
) -> Iterator[StudyState]:
    """Runs what is missing and judges, once; or, with `max_seeds`, until all arms are decided or the seeds used up.

    A run that is lost does not stop it: the verdict counts it, and it is not tried again before the end. A pending one
    does (killed, out of memory, disk full): the same command goes on from there.
    """
    while True:
        pending = [trial for trial in store.study.runs() if _is_to_run(store, trial, execution)]
        with follow(pending) as on_event:
            outcome = run_study(store, execution, on_event)
        results = read_results(store)
        summary = write_summary(store, results)
        following = store.study.next_analysis()
        stuck = any(not store.is_done(trial) and store.lost(trial) is None for trial in store.study.runs())
        over = outcome.interrupted or stuck or summary.is_decided or following is None
        yield StudyState(store, outcome, results, summary, over)
        if over or following is None:
            return
        store = Store.create(store.folder, following)
        execution = replace(execution, retry=False)


def _is_to_run(store: Store, trial: AnyTrial, execution: Execution) -> bool:
    return not store.is_done(trial) and (execution.retry or store.error(trial) is None)


def start_workers(study: BaseStudy, execution: Execution) -> None:
    """Lets the processes that will run the trials import what they need, while the study is checked."""
    if not execution.workers or execution.executor not in (None, "processes"):
        return
    if isinstance(study, Study) and study.device == "cpu":
        start_server(*study.model)
    elif isinstance(study, CodeStudy) and study.run.function is not None:
        start_server()


def run_study(store: Store, execution: Execution, on_event: Send = _ignore) -> Outcome:
    """Runs what is missing. A trial that fails is reported at the end, with the rest done.

    Ctrl-C, SIGTERM and SIGHUP let every running trial write its checkpoint; running the study again goes on from there.
    A store that was opened, and whose models are code, must have been opened with `trust_code`.

    Raises:
        InputError: if the data are not those that the study was begun with.
    """
    check_code(store.study, f"study {store.folder}", store.trusted_code)
    study_name = store.folder.name

    def warn(sentence: str) -> None:
        on_event({"kind": "warning", "trial": study_name, "message": sentence})

    if isinstance(store.study, CodeStudy):
        record_code(store, accept_new_code=execution.accept_new_code)
        for name in store.study.unused_parameters:
            warn(f"no word of the command uses the parameter {name!r}; the program finds it in DURM_PARAMS only")
    else:
        record_data(store, execution.data_root, warn)
    trials = store.study.runs()
    pending = [trial for trial in trials if not store.is_done(trial)]
    for trial in pending:
        if (damage := store.damage(trial)) is not None:
            message = f"{damage}; it is set aside, and the trial runs again"
            on_event({"kind": "warning", "trial": trial.id, "message": message})
    if execution.retry:
        store.forget_errors()
    said: dict[str, str] = {}

    def follow(event: Event) -> None:
        if event["kind"] == "failed":
            said[event["trial"]] = event["reason"]
        on_event(event)

    interrupted = _execute(store, [TrialJob(trial) for trial in pending], execution, follow)
    left = [trial for trial in pending if not store.is_done(trial)]
    unknown = None if interrupted else "it was not run, because the worker processes died"
    reasons = {trial.folder_name: store.error(trial) or said.get(trial.id, unknown) for trial in left}
    outcome = Outcome(
        done=[trial for trial in trials if store.is_done(trial)],
        failed={name: reason for name, reason in reasons.items() if reason is not None},
        interrupted=interrupted and bool(left),
    )
    if not outcome.interrupted:
        jobs = transfer_jobs(store)
        outcome.interrupted = _execute(store, jobs, execution, on_event)
        errors = {job.trial.folder_name: store.error(job.trial, job.kind) for job in jobs}
        outcome.failed |= {name: reason for name, reason in errors.items() if reason is not None}
    return outcome


def _execute(store: Store, jobs: Sequence[Job], execution: Execution, on_event: Send) -> bool:
    """Whether it was interrupted."""
    if not jobs:
        return False
    alone = not execution.workers or launched() > 1  # the processes of torchrun train one trial after the other
    name = execution.executor or ("inline" if alone else EXECUTOR_OF.get(jobs[0].trial.runner, "processes"))
    if launched() > 1 and name != "inline":
        raise InputError(f"`executor` {name}: under torchrun all processes train one trial; leave it out")
    if name == "threads" and jobs[0].trial.runner != "command":  # they would draw from one random state
        raise InputError("`executor` threads is for commands; expected processes, inline or ray")
    return EXECUTORS[name](store, jobs, execution, on_event)


EXECUTOR_OF = {"command": "threads"}
"""By runner; the others need processes of their own."""


def transfer_jobs(store: Store) -> list[TransferJob]:
    """What is to be measured between each arm and the baseline, of those that are done."""
    study = store.study
    attack = transferred_attack(study.attacks) if isinstance(study, Study) else None
    if attack is None or not isinstance(study, Study):
        return []
    jobs = [
        TransferJob(trial, other, attack) for trial, other in study.pairs() if all(map(store.is_done, (trial, other)))
    ]
    return [job for job in jobs if not job.is_done(store)]


def resolve_device(name: str, source: str = "`device`", executor: str | None = None) -> str:
    """`auto` becomes what this machine has; a device that it does not have is an error, which begins with `source`.

    The trials of `ray` run on other machines.
    """
    if name == "cpu" or (executor == "ray" and name == "cuda"):
        return name
    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        return "cuda" if "cuda" in available else available[-1]
    if name not in available:
        raise InputError(f"{source} {name!r} is not on this machine; it has {', '.join(available)}")
    return name


def default_workers(device: str, threads: int) -> int:
    """One process for each core on a CPU (fewer if each uses several threads), one for each device on GPUs."""
    if device.startswith("cuda"):
        return 1 if ":" in device else max(1, torch.cuda.device_count())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // threads)
