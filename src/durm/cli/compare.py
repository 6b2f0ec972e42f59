"""`durm compare`: from data to a verdict in one command."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from durm.cli import options
from durm.cli.completion import metric_names
from durm.cli.fields import ATTACKS, with_fields
from durm.cli.flags import as_flag, whole_numbers
from durm.errors import InputError

_arms, _verdict, _own = (
    partial(typer.Option, rich_help_panel=panel) for panel in ("Arms and seeds", "Verdict", "Your own program")
)
EXAMPLES = """
durm compare
durm compare --data folder:./my_images --model resnet18 --dummies 0,2 --seeds 10 --epochs 20 --out runs/mine
durm compare --rope 0.3 --until-decided --max-seeds 40
durm compare --dummies 0,2 --arm "smoothing: label_smoothing=0.1" --secondary nll
durm compare --dummies 0,2 --search "lr=1e-3..1e-1 log" --draws 20
durm compare --command "python train.py --seed {seed} --lr {lr}" --arm "base: lr=0.1" --arm "low: lr=0.01"
durm compare --dummies 0,2 --seeds 40 --executor ray --address auto
"""
DEFAULT_DUMMIES = "0,1,2,3"


@with_fields(train="TrainSpec", conditions="Conditions")
def compare(
    conditions: dict[str, Any],
    train: dict[str, Any],
    data: Annotated[list[str], options.DATA_NAME] = ["digits"],  # noqa: B006 (typer reads it, nobody changes it)
    model: Annotated[list[str], options.MODEL_NAME] = ["cnn"],  # noqa: B006
    data_root: options.DataRoot = None,
    dummies: Annotated[
        str | None,
        _arms(
            help="The numbers C_d to compare, with commas; the first is the baseline; default "
            f"{DEFAULT_DUMMIES}, or none with --arm.",
        ),
    ] = None,
    arm: Annotated[
        list[str] | None,
        _arms(
            help='An arm of your own, as "NAME: path=value, …": dummies, method, method.weight, average, model, data, '
            "train.lr, …; without --dummies the first is the baseline.",
            metavar="ARM",
        ),
    ] = None,
    seeds: Annotated[str | None, _arms(help="How many seeds, or which ones, with commas; default 10.")] = None,
    search: Annotated[
        list[str] | None,
        _arms(
            help='Draw a setting at random, as "lr=1e-3..1e-1 log", "batch_size=16..128" or "optimizer=sgd|adamw"; may '
            "be repeated. All arms and seeds have the same draws; of each the best on validation counts.",
            metavar="RANGE",
        ),
    ] = None,
    draws: Annotated[int | None, _arms(help="How many draws of --search; default 20.")] = None,
    metric: Annotated[
        str | None,
        _verdict(
            help="What the verdict is about: accuracy, nll, ece, balanced_accuracy, …; under an attack "
            "robust_pgd_real; with masks miou or macc; default accuracy, or miou with masks.",
            autocompletion=metric_names,
        ),
    ] = None,
    secondary: Annotated[
        str | None,
        _verdict(
            help="Further metrics to judge, with commas, each by its own margin: soft_accuracy, nll, brier, p_true, …",
            autocompletion=metric_names,
        ),
    ] = None,
    rope: Annotated[
        float | None,
        _verdict(
            help="Differences of up to this size do not matter (equivalence margin); default: the metric's, 0.1 points "
            "of accuracy, 0.01 of nll."
        ),
    ] = None,
    until_decided: Annotated[
        bool,
        _verdict("--until-decided", help="Analyse after 6, 10, 16, 25, 40, … seeds; stop once every arm is decided."),
    ] = False,
    max_seeds: Annotated[int | None, _verdict(help="The last analysis of --until-decided; default 40.")] = None,
    null: Annotated[
        bool,
        _verdict("--null", help="Also run every arm against itself, with other dummies or a head changed by 1e-6."),
    ] = False,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help='Attack every model, as in "pgd: eps=8/255, steps=10, through=[real, full]"; may be repeated.',
            metavar="ATTACK",
            rich_help_panel=ATTACKS,
        ),
    ] = None,
    method: Annotated[list[str], options.METHOD] = ["erm"],  # noqa: B006
    command: Annotated[
        str | None,
        _own(
            help="Run this program for each arm and seed in place of durm's training: "
            '"python train.py --seed {seed} --lr {lr}"; {arm}, {folder} and each parameter of --arm are filled in. It '
            "prints a number or a JSON object as its last line, or writes metrics.json into {folder}."
        ),
    ] = None,
    time_limit: Annotated[float | None, _own(help="Seconds after which the program is ended; its run is lost.")] = None,
    accept_new_code: options.AcceptNewCode = False,
    lower_is_better: Annotated[
        bool, _own("--lower-is-better", help="Smaller values of its metric are the better ones.")
    ] = False,
    higher_is_better: Annotated[
        bool, _own("--higher-is-better", help="Larger values of its metric are the better ones.")
    ] = False,
    resolution: Annotated[
        float | None, _own(help="The step in which its metric moves, such as 100/samples; default: found from values.")
    ] = None,
    workers: options.Workers = None,
    loader_workers: options.LoaderWorkers = 0,
    executor: options.Executor = None,
    address: options.Address = None,
    trial_cpus: options.TrialCpus = None,
    trial_gpus: options.TrialGpus = None,
    out: options.Out = None,
    track: options.Track = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> int:
    """Train every arm on the same seeds, judge the paired differences, and write a report.

    Without flags: the embedded digits, a tiny CNN, 0 to 3 dummies, 10 seeds. Several --data, --model or --method:
    each combination is a setting. With --command: your own program, in any language.
    """
    from durm.cli.flags import (
        code_study_from_flags,
        parse_arm,
        parse_attack,
        parse_code_arm,
        parse_method,
        parse_search,
        study_from_flags,
    )
    from durm.cli.run import judge

    if command is None:  # before what takes a while to import
        options.start_workers(model, executor, conditions)
    from durm.statistics.scale import direction
    from durm.study.arm import arms_of
    from durm.study.base import last_analysis

    if draws is not None and not search:
        raise InputError(f'--draws {draws} goes with --search, such as --search "lr=1e-3..1e-1 log"')
    optional: dict[str, Any] = {"metric": metric, "rope": rope, "seeds": None if seeds is None else _seeds(seeds)}
    optional["max_seeds"] = last_analysis(seeds, max_seeds, until_decided=until_decided)
    if secondary is not None:
        optional["secondary"] = [part.strip() for part in secondary.split(",") if part.strip()]
    optional = {name: value for name, value in optional.items() if value is not None}
    own = {
        "time_limit": time_limit,
        "accept_new_code": accept_new_code or None,
        "lower_is_better": lower_is_better or None,
        "higher_is_better": higher_is_better or None,
        "resolution": resolution,
    }
    where = {"executor": executor, "address": address, "trial_cpus": trial_cpus, "trial_gpus": trial_gpus}
    given = [name for name, value in own.items() if value is not None]
    if command is None and given:
        raise InputError(f"{as_flag(given[0])} goes with --command, for a program of your own")
    if command is not None:
        others = {
            "dummies": dummies is not None,
            "data": data != ["digits"],
            "model": model != ["cnn"],
            "method": method != ["erm"],
            "attack": bool(attack),
            "null": null,
            "search": bool(search),
            "loader_workers": bool(loader_workers),
            **dict.fromkeys({**train, **conditions}, True),
        }
        if wrong := [name for name, is_given in others.items() if is_given]:
            raise InputError(f"{as_flag(wrong[0])} is of durm's own training, and --command runs a program of yours")
        better = direction(lower_is_better=lower_is_better, higher_is_better=higher_is_better)
        arms = [parse_code_arm(text) for text in arm or ()]
        if len(arms) < 2:
            raise InputError('--command: to compare takes two arms, such as --arm "base: lr=0.1" --arm "low: lr=0.01"')
        if time_limit is not None and not 0 < time_limit < float("inf"):
            raise InputError(f"--time-limit {time_limit:g}: expected seconds above 0")
        spec = code_study_from_flags(
            {
                "name": _command_name(command),
                "run": {"command": command},
                "arms": arms,
                "higher_is_better": better,
                "resolution": resolution,
                **optional,
            }
        )
        own_run = {"time_limit": time_limit, "accept_new_code": accept_new_code}
        execution = options.execution(spec, workers, 0, None, **where, **own_run)
        return judge(spec, execution, out, track or (), quiet=quiet, verbose=verbose, json=json)
    if dummies is None and not arm:
        dummies = DEFAULT_DUMMIES
    counts = [] if dummies is None else whole_numbers(dummies, "--dummies")
    arms = [*(arms_of(counts) if counts else ()), *(parse_arm(text) for text in arm or ())]
    if len(arms) < 2 and counts:
        raise InputError(f"--dummies {dummies} is one arm; to compare takes two, such as --dummies 0,{counts[0] or 2}")
    if len(arms) < 2:
        raise InputError(
            f"--arm {arms[0]['name']!r} is one arm; to compare takes two: give another --arm, or --dummies 0"
        )
    if search:
        optional["search"] = {**parse_search(search), **({} if draws is None else {"draws": draws})}
    study = study_from_flags(
        {
            "name": _name(data, model),
            "data": data,
            "model": model,
            "method": [parse_method(text) for text in method],
            "arms": arms,
            "attacks": [parse_attack(text) for text in attack or ()],
            "null": null,
            "train": train,
            **conditions,
            **optional,
        },
        executor,
    )
    execution = options.execution(study, workers, loader_workers, data_root, **where)
    return judge(study, execution, out, track or (), quiet=quiet, verbose=verbose, json=json)


def _seeds(text: str) -> int | list[int]:
    """`10` is a number of seeds, `3,5,8` are seeds, and so is `3,`."""
    numbers = whole_numbers(text, "--seeds")
    return numbers if "," in text else numbers[0]


def _command_name(command: str) -> str:
    """`train` of `python train.py --seed {seed}`: the first word that is a script, or the program."""
    from durm.study.command_line import split_command
    from durm.study.reading import readable

    words = split_command(command)
    script = next((word for word in words[1:] if Path(word).suffix and not word.startswith("-")), words[0])
    return readable(Path(script).stem)[:80]


def _name(data: list[str], model: list[str]) -> str:
    """A name for the study's folder, such as `compare-digits-cnn`."""
    from durm.study.reading import readable

    parts = ["compare", *(Path(name.partition(":")[2] or name).name for name in data), *model]
    return readable("-".join(parts))[:80]
