"""Whether a study can be believed: ids, checksums, pairing, data, code versions, and that the summary follows.

What a reviewer runs on somebody's runs. A study with its trial folders is checked file by file, and its summary is made
again from the results. One that was published without them (study.yaml, results.csv, summary.json) is checked from the
ids of study.yaml over the rows of results.csv to the comparisons of the summary.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from durm._files import read_text
from durm.errors import InputError
from durm.metrics import Metric, describe_metric
from durm.statistics.intervals import SampleVariance
from durm.statistics.sequential import series_level
from durm.statistics.verdict import Comparison, compare_family
from durm.study.base import AnyTrial, BaseStudy, Key
from durm.study.code_study import PLACE, describes
from durm.study.config import Study
from durm.study.data_record import DataChanged, compare_data, read_data_record
from durm.study.pairing import runs_on_other_data
from durm.study.reading import read_any_study
from durm.study.records import ArmValues, Setting, Summary
from durm.study.search import draw_name
from durm.study.store import Store, read_summary
from durm.study.summary import read_results, summarize_store
from durm.training import checkpoint
from durm.training.result import Result

TOLERANCE = 1e-9
JUDGED = ("n", "difference", "ci", "ci_samples", "ci_family", "p", "p_holm", "wins", "ties", "losses", "verdict")
"""What must follow from the values, of every comparison."""
VOLATILE = ("warnings", "looked_at", "cost", "provenance")
"""Of a summary: what does not follow from the results alone."""

Values = Mapping[str, Mapping[str, float]]
"""arm → seed → value"""
Rows = Mapping[tuple[str, str, str], Mapping[str, str]]
"""(setting, arm, seed) → a row of results.csv"""


@dataclass
class Verification:
    """What was found: `findings` speak against the study, `notes` a reader should know. `checked` counts runs."""

    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    checked: int = 0


def verify_study(folder: Path, data_root: Path | None = None) -> Verification:
    """Checks the study in a folder; published data sets are looked for in `data_root`.

    Raises:
        InputError: if the folder holds no study.
    """
    if not (folder / "study.yaml").is_file():
        raise InputError(f"{folder} is not the folder of a study: it has no study.yaml")
    found = Verification()
    if (folder / "trials").is_dir():
        _check_trials(Store.open(folder), data_root, found)
    else:
        found.notes.append("there are no trial folders: checked from study.yaml over results.csv to summary.json")
        _check_published(folder, read_any_study(folder / "study.yaml", of_folder=True), found)
    return found


def _check_trials(store: Store, data_root: Path | None, found: Verification) -> None:
    """Every file of every trial, then the data, then the summary, made again."""
    results: dict[Key, Result] = {}
    unsealed = 0
    for key, trial in store.study.cells():
        problems = _problems(store, trial)
        found.findings += [f"{trial.folder_name}: {problem}" for problem in problems]
        result = None if problems else store.result(trial)
        if result is None:
            continue
        results[key] = result
        unsealed += not store.is_sealed(trial)
    found.checked = len(results)
    if isinstance(store.study, Study):
        for data, model, method, arm, seed in runs_on_other_data(store.study, results):
            where = f"{data} {model} {method}, {arm}, seed {seed}"
            found.findings.append(f"{where}: it ran on other data than its baseline")
        _check_data(store, data_root, found)
    if unsealed:
        found.notes.append(f"{unsealed} results are unsealed: an earlier version wrote them without a checksum")
    versions = {result.provenance.commit or result.provenance.durm for result in results.values()}
    if len(versions) > 1:
        found.notes.append(f"the runs come from {len(versions)} versions of the code")
    path = store.folder / "summary.json"
    if not path.is_file():
        found.notes.append("there is no summary.json: `durm report` makes one")
        return
    kept = read_summary(path)
    if not found.findings:  # or the results that are not believed would make another summary
        draws = kept.search.draws_looked_at if kept.search else ()
        made = summarize_store(store, read_results(store), kept.looked_at, draws)
        found.findings += _differences(kept.as_json(), made.as_json())


def _check_data(store: Store, data_root: Path | None, found: Verification) -> None:
    """The data, if they are here, are those that the study was begun with."""
    if read_data_record(store.folder) is None:
        found.notes.append("the content of the data was not recorded: an earlier version began this study")
        return
    try:
        compare_data(store.folder, store.study.runs(), data_root)
    except DataChanged as error:
        found.findings.append(str(error))
    except InputError as error:
        found.notes.append(f"the data cannot be compared: {error}")


def _problems(store: Store, trial: AnyTrial) -> list[str]:
    """What is wrong with the files of a trial: its result, its outcomes, its description, its checkpoint."""
    folder = store.trial_folder(trial)
    found = [damage] if (damage := store.damage(trial)) is not None else []
    description = folder / "trial.json"
    if description.is_file() and not describes(read_text(description), trial):
        found.append("trial.json describes another trial")
    if (folder / "checkpoint.pt").is_file():
        try:
            state = checkpoint.load(folder / "checkpoint.pt")
        except InputError as error:
            return [*found, f"checkpoint.pt is damaged: {error}"]
        if not describes(str(state.get("trial")), trial):
            found.append("checkpoint.pt is of another trial")
    return found


def _check_published(folder: Path, study: BaseStudy, found: Verification) -> None:
    rows = _read_rows(folder / "results.csv")
    summary = read_summary(folder / "summary.json")
    ids = {(_place_name(key[:3]), key[3], str(key[4])): trial.id for key, trial in study.cells()}
    name, runs = "results.csv", rows
    if isinstance(study, Study) and study.search is not None:
        name, runs = "draws.csv", _read_rows(folder / "draws.csv")
        found.findings += _check_selection(study, rows, runs)
    for key, row in runs.items():
        where = f"{name}, {', '.join(key)}"
        if key not in ids:
            found.findings.append(f"{where}: study.yaml has no such trial")
        elif row.get("trial") != ids[key]:
            found.findings.append(f"{where}: trial {row.get('trial')} is not that of study.yaml, {ids[key]}")
    found.checked = len(runs)
    if summary.done != len({row.get("trial") for row in runs.values()}):
        found.findings.append(f"summary.json counts {summary.done} finished trials, {name} has {len(runs)}")
    for setting in summary.settings:
        found.findings += _check_setting(setting, summary, study, rows, [setting.key])
    for average in summary.averages:
        places = [(f"{average.key[0]}:{domain}", *average.key[1:]) for domain in average.domains or ()]
        found.findings += _check_setting(average, summary, study, rows, places)


def _check_selection(study: Study, rows: Rows, draws: Rows) -> Iterator[str]:
    """Every run that counts is the draw that is best on validation."""
    assert study.search is not None
    column = f"val_{study.validation_metric}"
    for (setting, arm, seed), row in rows.items():
        found = {k: draws.get((setting, draw_name(arm, k), seed), {}) for k in study.search.numbers}
        values = {k: float(text) for k, one in found.items() if (text := one.get(column))}
        best = found[describe_metric(study.validation_metric).best(values)] if values else {}
        if any(row.get(name) != value for name, value in best.items() if name != "arm") or not best:
            yield f"results.csv, {setting}, {arm}, {seed}: it is not the draw that is best on validation in draws.csv"


def _check_setting(
    setting: Setting, summary: Summary, study: BaseStudy, rows: Rows, places: Sequence[tuple[str, str, str]]
) -> Iterator[str]:
    where = " ".join(setting.names)
    parts: list[tuple[str, str, Sequence[ArmValues], Sequence[Comparison], float]] = [
        ("", summary.metric, setting.arms, setting.comparisons, summary.rope),
        ("null control ", summary.metric, setting.null_control.arms, [], summary.rope),
        *((f"{one.metric} ", one.metric, one.arms, one.comparisons, one.rope) for one in setting.secondary),
    ]
    if setting.domains is None:  # attacks are not averaged over domains
        attacked = ((e.attack, f"robust_{e.attack}", e.arms, e.comparisons, summary.rope) for e in setting.robustness)
        parts += [(f"{attack} ", metric, arms, compared, rope) for attack, metric, arms, compared, rope in attacked]
    for what, metric, arms, comparisons, rope in parts:
        values = {arm.arm: _values(rows, places, arm.arm, metric) for arm in arms}
        for arm in arms:
            if not _close(values[arm.arm], arm.values):
                yield f"{where}: {what}values of {arm.arm} in summary.json are not those of results.csv"
            elif arm.n != len(arm.values) or not _close(arm.mean, _mean(arm.values)):
                yield f"{where}: {what}mean or n of {arm.arm} in summary.json does not follow from its values"
        if setting.domains is None:
            yield from _check_step(f"{where}: {what}", comparisons, values, describe_metric(metric))
        yield from _check_comparisons(
            f"{where}: {what}", comparisons, values, describe_metric(metric), rope, summary, study
        )


def _check_step(where: str, comparisons: Sequence[Comparison], values: Values, metric: Metric) -> Iterator[str]:
    """The values are multiples of the step; a metric that counts samples has one."""
    step = comparisons[0].step if comparisons else 0.0
    for arm, of in values.items():
        off = [value for value in of.values() if step and abs(value / step - round(value / step)) > 1e-6]
        if off or (comparisons and of and metric.resolution == "sample" and not step):
            yield f"{where}the step {step:g} is not that of the values of {arm}"


def _check_comparisons(
    where: str,
    comparisons: Sequence[Comparison],
    values: Values,
    metric: Metric,
    rope: float,
    summary: Summary,
    study: BaseStudy,
) -> Iterator[str]:
    """The comparisons follow from the values, with the step and the variance of samples that the summary has."""
    if not comparisons:
        return
    stored = {one.arm: one for one in comparisons}

    def variance(arm: str, baseline: str, seeds: Sequence[str]) -> SampleVariance | None:
        one = stored[arm]
        if one.samples is None or one.variance_samples is None or one.variance_residual is None or one.looks:
            return None
        return SampleVariance(one.samples, one.variance_samples, one.variance_residual)

    analyses = summary.analyses
    made = compare_family(
        [(one.arm, one.baseline) for one in comparisons],
        values,
        rope=rope,
        level=series_level(analyses) if analyses > 1 and summary.max_seeds is None else None,
        higher_is_better=summary.higher_is_better if metric.name == summary.metric else metric.higher_is_better,
        step=comparisons[0].step,
        samples=variance,
        plan=study.plan,
    )
    for one in made:
        kept, again = asdict(stored[one.arm]), asdict(one)
        skipped = ("ci_samples", "ci_family", "verdict") if (kept["looks"] and kept["samples"]) or kept["lost"] else ()
        wrong = [name for name in JUDGED if name not in skipped and not _close(kept[name], again[name])]
        if wrong:
            name = wrong[0]
            given = f"is {_shown(kept[name])}; the values give {_shown(again[name])}"
            yield f"{where}{name} of {one.arm} in summary.json {given}"


def _values(rows: Rows, places: Sequence[tuple[str, str, str]], arm: str, metric: str) -> dict[str, float]:
    """By seed; over several places the mean, of seeds that have all."""
    by_place = []
    for place in places:
        setting = _place_name(place)
        found = {seed: row.get(metric) for (name, of, seed), row in rows.items() if (name, of) == (setting, arm)}
        by_place.append({seed: float(text) for seed, text in found.items() if text not in (None, "")})
    common = [seed for seed in (by_place[0] if by_place else ()) if all(seed in values for values in by_place)]
    return {seed: math.fsum(values[seed] for values in by_place) / len(by_place) for seed in common}


def _place_name(place: tuple[str, str, str]) -> str:
    """As it stands in results.csv: nothing for code that is not durm's, which has one setting."""
    return "" if place == PLACE else " ".join(place)


def _read_rows(path: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    rows = {}
    for row in csv.DictReader(read_text(path).splitlines()):
        try:
            rows[row.get("setting", ""), row["arm"], row["seed"]] = row
        except KeyError as error:
            raise InputError(f"{path}: no column {error}; expected setting, arm, seed, value, trial") from None
    return rows


def _differences(kept: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
    for path, old, new in _walk(kept, made):
        yield f"summary.json: {path} is {_shown(old)}; the results give {_shown(new)}"


def _walk(kept: Any, made: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two values differ; what only the newer one has was added by a later version."""
    if isinstance(kept, dict) and isinstance(made, dict):
        for key, value in kept.items():
            if key not in VOLATILE or path:
                yield from _walk(value, made.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(kept, list) and isinstance(made, list) and len(kept) == len(made):
        for place, (old, new) in enumerate(zip(kept, made, strict=True)):
            yield from _walk(old, new, f"{path}[{place}]")
    elif not _close(kept, made):
        yield path, kept, made


def _close(old: Any, new: Any) -> bool:
    """Equal but for the last bits of numbers."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(_close(old[key], new[key]) for key in old)
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(_close, old, new))
    if isinstance(old, float | int) and isinstance(new, float | int):
        return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(old == new)


def _mean(values: Mapping[str, float]) -> float | None:
    return math.fsum(values.values()) / len(values) if values else None


def _shown(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
