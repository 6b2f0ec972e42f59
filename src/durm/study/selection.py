"""Of the draws of a search, the one that counts: for each setting, arm and seed the best on validation.

For data with domains that is the validation part of the training domains, as in DomainBed (Gulrajani and Lopez-Paz,
2021). The test set takes no part.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from durm.metrics import describe_metric
from durm.study.base import Key
from durm.study.config import Study
from durm.study.records import ArmSummary, SearchSummary, Summary
from durm.study.search import Range, draw_name, short
from durm.training.result import Result

EDGE = 0.1
"""The share of a range, on the scale of its draws, that is its edge."""


@dataclass(frozen=True)
class Selection:
    """By setting, arm and seed: the result that counts and the number of its draw, or why all draws are lost."""

    results: dict[Key, Result]
    lost: dict[Key, str]
    draws: dict[Key, int] = field(default_factory=dict)

    def run_of(self, key: Key) -> Key:
        """The run that stands for an arm and a seed."""
        return draw_key(key, self.draws[key]) if key in self.draws else key


def select_draws(study: Study, results: Mapping[Key, Result], lost: Mapping[Key, str]) -> Selection:
    """Without a search all runs. A seed of an arm counts once each of its draws is done or failed for good.

    A draw that failed is not selected; of equals it is the first.
    """
    if study.search is None:
        return Selection(dict(results), dict(lost))
    selection = Selection({}, {})
    metric = study.validation_metric
    for setting in study.setting_names:
        for arm in (*study.arms_of(setting), *study.null_arms_of(setting)):
            for key in [(*setting, arm, seed) for seed in study.seeds]:
                runs = {number: draw_key(key, number) for number in study.search.numbers}
                done = {number: results[run].val[metric] for number, run in runs.items() if run in results}
                if any(run not in results and run not in lost for run in runs.values()):
                    continue
                if done:
                    selection.draws[key] = best = describe_metric(metric).best(done)
                    selection.results[key] = results[runs[best]]
                else:
                    selection.lost[key] = lost[runs[1]]
    return selection


def draw_key(key: Key, number: int) -> Key:
    data, model, method, arm, seed = key
    return data, model, method, draw_name(arm, number), seed


def runs_that_count(summary: Summary, results: Mapping[Key, Result]) -> Mapping[Key, Result]:
    """The results by setting, arm and seed; of a search those of the selected draws."""
    if summary.search is None:
        return results
    return {key: results[run] for key, run in _selected(summary).items() if run in results}


def runs_judged(summary: Summary, results: Mapping[Key, Result]) -> Collection[Key]:
    """The runs that count, by their own names."""
    return results.keys() if summary.search is None else {*_selected(summary).values()}


def _selected(summary: Summary) -> dict[Key, Key]:
    return {
        (*setting.key, arm.arm, int(seed)): (*setting.key, name, int(seed))
        for setting in summary.settings
        for arm in (*setting.arms, *setting.null_control.arms)
        for seed, name in arm.chosen.items()
    }


def search_summary(study: Study, draws_looked_at: list[int]) -> SearchSummary | None:
    if study.search is None:
        return None
    space = {short(path): str(domain) for path, domain in study.search.space.items()}
    return SearchSummary(draws=study.search.draws, space=space, draws_looked_at=draws_looked_at)


def searched_values(study: Study, arm: str, setting: tuple[str, str, str], draws: Mapping[str, int]) -> dict[str, Any]:
    """What was selected: path → seed → value, of the paths that the arm has."""
    assert study.search is not None
    own, method = study.arms_of(setting)[study.null_arms_of(setting).get(arm, arm)], study.method_called(setting[2])
    found: dict[str, dict[str, Any]] = {}
    for seed, number in draws.items():
        taken = study.drawn(own, method, number).overrides
        for path in study.search.space:
            if path in taken:
                found.setdefault(short(path), {})[seed] = taken[path]
    return found


def at_an_edge(study: Study, summary: Summary) -> Iterator[str]:
    """Warns where more than half of the selected values of an arm lie in the outer tenth of their range."""
    for setting in summary.settings if study.search else ():
        where = f" ({', '.join(setting.names)})" if len(summary.settings) > 1 else ""
        for arm in setting.arms:
            yield from (f"{arm.arm}{where}: {text}" for text in _at_an_edge(study, arm))


def _at_an_edge(study: Study, arm: ArmSummary) -> Iterator[str]:
    assert study.search is not None
    for path, domain in study.search.space.items():
        values = [*arm.searched.get(short(path), {}).values()]
        if not isinstance(domain, Range) or len(values) < 2:
            continue
        places = [domain.place(value) for value in values]
        for edge, count in (
            (domain.low, sum(place <= EDGE for place in places)),
            (domain.high, sum(place >= 1 - EDGE for place in places)),
        ):
            if 2 * count > len(values):
                yield (
                    f"{count} of {len(values)} selected values of {short(path)} lie at the edge {edge:g} of its range "
                    f"({domain}). The best value may lie beyond; a wider range would tell."
                )
