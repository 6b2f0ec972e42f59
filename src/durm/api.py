"""The front door: compare training code, or numbers that exist, and get a verdict.

result = durm.compare(train, arms={"base": {}, "smooth": {"smoothing": 0.1}}, seeds=10)
result = durm.compare(data="digits", model="cnn", dummies=[0, 2], seeds=10)
result = durm.verdict({"base": [93.1, 92.8], "trick": [93.4, 93.0]})
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from durm._text import last_line
from durm.errors import InputError
from durm.statistics.scale import direction
from durm.study.arm import unknown_key
from durm.study.base import BaseStudy, last_analysis
from durm.study.check import check_study, expanded
from durm.study.code_study import CodeStudy
from durm.study.csv_input import make_table, read_table
from durm.study.jobs import Execution, Send
from durm.study.problems import KEYS
from durm.study.reading import make_code_study, make_study, readable
from durm.study.run_table import RunTable, judge_table
from durm.study.runner import StudyState, default_workers, resolve_device, run_study_to_verdict, start_workers
from durm.study.store import Store
from durm.study_result import StudyResult
from durm.training.spec import TrainSpec

if TYPE_CHECKING:
    import pandas as pd

Arms = Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any]]
Number = float | int
Values = Mapping[str, Sequence[Number]] | Mapping[str, Mapping[Any, Number]]


def compare(
    function: Callable[..., Any] | None = None,
    arms: Arms | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    command: str | None = None,
    metric: str | None = None,
    secondary: Sequence[str] = (),
    rope: float | None = None,
    lower_is_better: bool = False,
    higher_is_better: bool = False,
    resolution: float | None = None,
    until_decided: bool = False,
    max_seeds: int | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    loader_workers: int = 0,
    data_root: str | Path | None = None,
    time_limit: float | None = None,
    accept_new_code: bool = False,
    executor: str | None = None,
    address: str | None = None,
    trial_cpus: float | None = None,
    trial_gpus: float | None = None,
    quiet: bool = False,
    **study: Any,
) -> StudyResult:
    """Runs every arm on the same seeds, and says whether each arm is better or worse than the first one, or equal.

    There are three ways to say what a trial is. Give one of them:

    - `function`: your Python function, `train(seed, **parameters_of_the_arm)`. It trains once and returns a number, or
      a dict of numbers such as `{"accuracy": 93.1, "nll": 0.21}`.
    - `command`: a command line, such as `"python train.py {seed} {lr}"`. Its last line of output is the
      result.
    - neither: durm's own training loop, with `data=`, `model=`, `dummies=`, `epochs=` and so on.

    Let d_s be the metric of an arm minus that of the baseline at seed s. The verdict comes from the confidence interval
    of the mean of d_s: *better* or *worse* if it lies beyond the equivalence margin ±rope, *equal* if it lies within,
    else *undecided*. It takes six seeds or more (docs/concepts/verdict.md).

    In a script, call it below `if __name__ == "__main__":`, because the trials run in processes that import the script.

    Args:
        function: called as `function(seed, **parameters)`. It must use the seed for everything that is random.
        arms: name → parameters; the first arm is the baseline. For a function and a command, what they take:
            `{"base": {}, "smooth": {"smoothing": 0.1}}`. For durm's own loop, the settings that an arm changes:
            `{"base": {}, "smooth": {"label_smoothing": 0.1}}`.
        seeds: how many (0, 1, 2, …), or a list of them; default 10.
        command: a command line in place of a function; `{seed}` and `{parameter}` are filled in.
        metric: the metric that is judged; default: the only one there is, or accuracy.
        secondary: further metrics to judge, each with its own margin.
        rope: the equivalence margin, in the unit of the metric; default: that of the metric, 0.1 points for accuracy.
        lower_is_better: smaller values are better. For a metric that durm does not know.
        higher_is_better: larger values are better. Needed if the name of the metric sounds like a loss.
        resolution: the smallest step of the metric; default: found from the values.
        until_decided: analyse after 6, 10, 16, 25, 40, … seeds, and stop when every arm is decided.
        max_seeds: the last analysis of `until_decided`; default 40.
        out: the folder of the study. If the study is already there, it is resumed. Default: `runs/NAME` for durm's own
            loop and commands, a temporary folder for a function.
        workers: how many trials run at a time; 0 runs them in this process, for a debugger. Default: one for each core
            (under Ray: of all nodes).
        loader_workers: processes of each trial that read images from disk. The results are the same for any number.
        data_root: the folder of downloaded data sets; default `./data`.
        time_limit: seconds after which a command is stopped; its run is lost.
        accept_new_code: resume although the function or the command has changed since the first trial.
        executor: where the trials run: `processes` (the default), `threads` (for commands), `inline`, or `ray`.
        address: of a Ray cluster, `auto` or `HOST:PORT`; default: that in RAY_ADDRESS, or Ray is started here. If the
            caller has started Ray, that one is used.
        trial_cpus: cores of each trial under Ray; default: one for each thread.
        trial_gpus: GPUs of each trial under Ray, such as 0.25; default: 1 on device cuda, else none.
        quiet: no progress bar.
        **study: for durm's own loop, every key of a study (`data`, `model`, `method`, `dummies`, `search`, …) and every
            training setting (`epochs`, `lr`, `batch_size`, …): see docs/reference/study-file.md.

    Returns:
        A `StudyResult`: `verdicts`, `table()`, `runs()`, `figure()`, `report()`. A notebook shows the figure.

    Raises:
        InputError: if something does not fit together. The message says what would be right.
        KeyboardInterrupt: on Ctrl-C. The same call resumes the study.

    Examples:
        >>> def train(seed, bonus=0.0):  # in real life: train with this seed, and return the test accuracy
        ...     return 90 + seed % 3 + bonus + 0.01 * seed * bonus
        >>> arms = {"base": {}, "trick": {"bonus": 1.0}}
        >>> compare(train, arms, seeds=6, metric="accuracy", workers=0, quiet=True).verdicts
        {'trick': 'better'}
    """
    last = last_analysis(seeds, max_seeds, until_decided=until_decided)
    if loader_workers < 0:
        raise InputError(f"`loader_workers` {loader_workers}: expected 0 or more")
    if loader_workers and (function is not None or command is not None):
        raise InputError(f"`loader_workers` {loader_workers}: it is for durm's own training loop")
    given = {
        "seeds": seeds if seeds is None or isinstance(seeds, int) else list(seeds),
        "max_seeds": last,
        "metric": metric,
        "secondary": list(secondary) if not isinstance(secondary, str) else [secondary],
        "rope": rope,
    }
    values = {key: value for key, value in given.items() if value is not None}
    if function is None and command is None:
        spec: BaseStudy = _training_study({**values, **study}, arms, executor)
    else:
        better = direction(lower_is_better=lower_is_better, higher_is_better=higher_is_better)
        judged = {"higher_is_better": better, "resolution": resolution, **values}
        spec = _code_study(function, command, arms, judged, study)
    if workers is None:
        workers = 0 if executor == "ray" else _workers(spec)
    execution = Execution(
        workers=workers,
        num_workers=loader_workers,
        data_root=None if data_root is None else Path(data_root),
        time_limit=time_limit,
        accept_new_code=accept_new_code,
        executor=executor,
        address=address,
        trial_cpus=trial_cpus,
        trial_gpus=trial_gpus,
    )
    start_workers(spec, execution)
    if not isinstance(spec, CodeStudy):
        spec = expanded(spec, execution.data_root)  # type: ignore[arg-type]
        check_study(spec, execution.data_root, None if out is None else Path(out))
    state = _run(Store.create(_folder(out, spec), spec), execution, quiet=quiet)
    return StudyResult(state.summary, state.store, state.results, state.outcome.failed)


def verdict(
    runs: "Values | pd.DataFrame | str | Path",
    *,
    arm: str | None = None,
    seed: str | None = None,
    value: str | None = None,
    baseline: str | None = None,
    metric: str | None = None,
    rope: float | None = None,
    lower_is_better: bool = False,
    higher_is_better: bool = False,
    resolution: float | None = None,
) -> StudyResult:
    """Judges numbers that you already have: is each arm better, worse or equal, or are these runs undecided?

    The verdict is that of `compare`: the confidence interval of the mean paired difference against the equivalence
    margin ±rope. Six pairs are the fewest that can give one.

    Args:
        runs: arm → its values, the baseline first. Lists and arrays pair by position; dicts and pandas Series pair by
            their keys, the seeds; arrays of shape seeds × test samples give an interval over samples too. Or a data
            frame, or the path of a CSV file: long, with a row for each run, or wide, with a column for each arm.
        arm: the name of the column of arms, if it cannot be guessed.
        seed: the name of the column of seeds.
        value: the name of the column of values.
        baseline: the arm to compare with; default: the first.
        metric: the name of the metric; default: that of the column of values.
        rope: the equivalence margin; default: that of the metric, 0.1 for percent, 0.001 for shares.
        lower_is_better: smaller values are better. For a metric that durm does not know.
        higher_is_better: larger values are better. Needed if the name of the metric sounds like a loss.
        resolution: the smallest step of the metric; default: found from the values.

    Returns:
        A `StudyResult`: `verdicts`, `table()`, `figure()`, `report()`.

    Raises:
        InputError: if there is nothing to compare. The message says what would be right.

    Examples:
        >>> base, trick = [93.1, 92.8, 93.4, 93.0, 92.9, 93.3], [93.6, 93.4, 93.9, 93.7, 93.4, 93.8]
        >>> verdict({"base": base, "trick": trick}).verdicts
        {'trick': 'better'}
        >>> verdict({"base": base[:3], "trick": trick[:3]}).verdicts  # three pairs cannot decide
        {'trick': 'undecided'}
    """
    columns = {"arm": arm, "seed": seed, "value": value}
    if isinstance(runs, str | Path):
        table = read_table(Path(runs), **columns)
    elif hasattr(runs, "columns") and hasattr(runs, "itertuples"):
        table = _frame_table(runs, columns)
    elif isinstance(runs, Mapping):
        table = _mapping_table(runs)
    else:
        raise InputError(
            f"`runs` is a {type(runs).__name__}; expected arm → values, a data frame, or the path of a CSV file"
        )
    summary = judge_table(
        table,
        baseline=baseline,
        rope=rope,
        higher_is_better=direction(lower_is_better=lower_is_better, higher_is_better=higher_is_better),
        metric=metric,
        resolution=resolution,
    )
    return StudyResult(summary)


def _listed(arms: Arms | None) -> list[dict[str, Any]] | None:
    if arms is None:
        return None
    if isinstance(arms, Mapping):
        return [{"name": str(name), "params": dict(params or {})} for name, params in arms.items()]
    return [dict(arm) for arm in arms]


def _training_study(values: dict[str, Any], arms: Arms | None, executor: str | None) -> BaseStudy:
    of_train = [key for key in TrainSpec.model_fields if key != "version"]
    if unknown := [key for key in values if key not in (*KEYS, *of_train)]:
        raise InputError(unknown_key(unknown[0], [*KEYS, *of_train]))
    train = {key: values.pop(key) for key in list(values) if key in of_train}
    values["train"] = {**dict(values.get("train") or {}), **train}
    if (listed := _listed(arms)) is not None:
        values["arms"] = [{"name": arm["name"], **arm.get("params", arm)} for arm in listed]
    elif "dummies" not in values:
        values["dummies"] = [0, 1, 2, 3]
    values["device"] = resolve_device(values.get("device", "cpu"), executor=executor)
    if "name" not in values:
        names = [values.get("data", "digits"), values.get("model", "cnn")]
        parts = [one for part in names for one in ([part] if isinstance(part, str) else part)]
        values["name"] = readable("-".join(["compare", *(Path(str(part)).name for part in parts)]))[:80]
    return make_study(values)


def _code_study(
    function: Callable[..., Any] | None,
    command: str | None,
    arms: Arms | None,
    values: dict[str, Any],
    others: dict[str, Any],
) -> CodeStudy:
    if function is not None and command is not None:
        raise InputError("`function` and `command` exclude each other: give one of them")
    if unknown := [key for key in others if key != "name"]:
        raise InputError(f"`{unknown[0]}` is for durm's own training loop; give what your code takes in `arms`")
    listed = _listed(arms)
    if listed is None or len(listed) < 2:
        raise InputError('`arms`: to compare takes two, such as arms={"base": {}, "trick": {"smoothing": 0.1}}')
    if function is None:
        return make_code_study({"name": "command", **others, "run": {"command": command}, "arms": listed, **values})
    if not callable(function):
        raise InputError(f"`function` is a {type(function).__name__}; expected a function of a seed")
    inner = inspect.unwrap(function) if inspect.isfunction(function) else function
    title = getattr(inner, "__qualname__", type(inner).__qualname__)
    name = f"{getattr(inner, '__module__', '__main__')}:{title}"
    study = make_code_study({"name": readable(title), **others, "run": {"function": name}, "arms": listed, **values})
    for arm in study.arms:
        _check_call(function, title, arm.name, arm.params)
    return study.with_function(function)


def _check_call(function: Callable[..., Any], title: str, arm: str, params: Mapping[str, Any]) -> None:
    """Refuses parameters that the function does not take, before anything runs."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(0, **params)
    except TypeError as error:
        call = f"{title}{signature} cannot be called with a seed and {dict(params)}"
        raise InputError(f"arm {arm!r}: {call}: {error}") from None


def _workers(study: BaseStudy) -> int:
    trials = len(study.runs())
    device = "cuda" if isinstance(study, CodeStudy) and torch.cuda.is_available() else getattr(study, "device", "cpu")
    threads = getattr(study, "threads", 1)
    return min(trials, default_workers(device, threads))


def _folder(out: str | Path | None, study: BaseStudy) -> Path:
    if out is not None:
        return Path(out)
    if isinstance(study, CodeStudy) and study.run.function is not None:
        return Path(mkdtemp(prefix="durm-")) / study.name
    return Path("runs") / study.name


def _run(store: Store, execution: Execution, *, quiet: bool) -> StudyState:
    from durm.report.progress import show

    def follow(trials: list[Any]) -> AbstractContextManager[Send]:
        return show(trials, quiet=quiet)

    *_, state = run_study_to_verdict(store, execution, follow)
    if state.outcome.interrupted:
        raise KeyboardInterrupt(f"interrupted; the same call goes on from there ({store.folder})")
    if not state.results:
        name, reason = next(iter(state.outcome.failed.items()))
        raise InputError(f"all {len(state.outcome.failed)} trials failed; {name}: {last_line(reason)}")
    return state


def _frame_table(frame: Any, columns: Mapping[str, str | None]) -> RunTable:
    """Of a pandas data frame; an index that has a name, or that is no plain count, is a column as well."""
    index = frame.index
    if index.name is not None or getattr(index, "nlevels", 1) > 1:
        frame = frame.reset_index()
    names = [str(name) for name in frame.columns]
    if len({*names}) < len(names):
        raise InputError(f"`runs`: the column {next(name for name in names if names.count(name) > 1)!r} is there twice")
    rows = [
        (f"row {place}", dict(zip(names, row, strict=True)))
        for place, row in enumerate(frame.itertuples(index=False, name=None))
    ]
    return make_table(names, rows, "the data frame", **columns)


def _mapping_table(runs: Mapping[Any, Any]) -> RunTable:
    table, by_place = RunTable(settings={"": {}}), {}
    for arm, given in runs.items():
        name = str(arm)
        if isinstance(given, Mapping) or hasattr(given, "items"):
            values = {str(seed): _finite(value, name, seed) for seed, value in given.items()}
        else:
            array = np.asarray(given, dtype=float) if not isinstance(given, str) else np.empty(())
            if array.ndim not in (1, 2) or array.size == 0:
                raise InputError(f"`runs`: the values of {name!r} are {given!r:.60}; expected a list of numbers")
            values = {str(seed): _finite(row.mean(), name, seed) for seed, row in enumerate(array)}
            by_place[name] = len(array)
            if array.ndim == 2:
                for seed, row in enumerate(array):
                    table.samples["", name, str(seed)] = {str(sample): float(one) for sample, one in enumerate(row)}
        table.settings[""][name] = values
    if len({*by_place.values()}) > 1:  # lists of different lengths have no pairs
        table.samples.clear()
        for name in by_place:
            table.settings[""][name] = {f"{name} {seed}": one for seed, one in table.settings[""][name].items()}
    if not table.settings[""]:
        raise InputError("`runs` is empty; expected arm → values")
    return table


def _finite(value: Any, arm: str, seed: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not np.isfinite(number):
        raise InputError(f"`runs`: {arm!r}, seed {seed}: {value!r} is not a finite number; leave it out")
    return number
