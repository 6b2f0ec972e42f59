"""What a metric is: a name, how it is shown, which way is better, what is too little to matter, and how it is computed.

A metric is registered in the file that computes it:

    @metric("nll", label="NLL", higher_is_better=False, rope=0.01)
    def nll(predictions: Predictions) -> float: ...

It is then measured on the training, validation and test set of every trial, can be judged (`metric: nll`), and has its
label in tables, figures and sentences. Nothing else repeats its name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from durm._registry import import_files
from durm.errors import unknown

Task = Literal["classification", "segmentation"]
PERCENT = "%"


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: as in results and in `metric: NAME`.
        label: in sentences, tables and figures.
        unit: "%" or nothing.
        higher_is_better: whether a larger value is the better one.
        rope: the default half-width of the equivalence margin, in the unit; None if there is none.
        resolution: "sample" if one sample more or less changes it by 100 / samples; None if it is continuous.
        task: what it is measured in.
        per_sample: of a metric that is a mean over samples, the value of each from the outcomes of a run
            (`durm.metrics.outcomes`); its interval is then over test samples too.
        of_confusion: of a metric of segmentation, its value from confusion counts (…, C, C), for the same purpose.
    """

    name: str
    label: str
    unit: str = ""
    higher_is_better: bool = True
    rope: float | None = None
    resolution: Literal["sample"] | None = None
    task: Task = "classification"
    per_sample: Callable[[Mapping[str, Any]], Any] | None = field(default=None, compare=False, repr=False)
    of_confusion: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)

    @property
    def unit_of_differences(self) -> str:
        """Differences of percentages are in points."""
        return "points" if self.unit == PERCENT else self.unit

    @property
    def axis(self) -> str:
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def best(self, values: Mapping[Any, float]) -> Any:
        """The key of the best value, the first of equals."""
        sign = 1 if self.higher_is_better else -1
        return max(values, key=lambda key: sign * values[key])


@dataclass(frozen=True)
class Family:
    """Metrics whose names begin alike, such as one for each class: `describe` makes one from the rest of its name."""

    prefix: str
    task: Task
    describe: Callable[[str], Metric | None]
    compute: Callable[[Any], Mapping[str, float]] | None = None


Compute = Callable[[Any], float | None]
_METRICS: dict[tuple[Task, str], tuple[Metric, Compute]] = {}
_FAMILIES: list[Family] = []


def metric(name: str, **settings: Any) -> Callable[[Compute], Compute]:
    """Registers what computes a metric; the settings are those of `Metric`. None where it is not defined."""

    def keep(compute: Compute) -> Compute:
        made = Metric(name, **settings)
        _METRICS[made.task, name] = made, compute
        return compute

    return keep


def family(one: Family) -> Family:
    """Registers a family of metrics."""
    _FAMILIES.append(one)
    return one


def measure(task: Task, of: Any) -> dict[str, float]:
    """Every metric of the task, by name, in the order in which they are registered; those that are defined."""
    import_files("durm.metrics")
    found = {made.name: compute(of) for made, compute in _METRICS.values() if made.task == task}
    for one in _FAMILIES:
        if one.task == task and one.compute is not None:
            found |= one.compute(of)
    return {name: value for name, value in found.items() if value is not None}


def find_metric(name: str, task: Task | None = None) -> Metric | None:
    """The metric of that name, in that task or in any; None if there is none."""
    import_files("durm.metrics")
    for kind in ("classification", "segmentation") if task is None else (task,):
        if (kind, name) in _METRICS:
            return _METRICS[kind, name][0]
    for one in _FAMILIES:
        if name.startswith(one.prefix) and task in (None, one.task):
            return one.describe(name.removeprefix(one.prefix))
    return None


def get_metric(name: str, task: Task | None = None) -> Metric:
    """The metric of that name.

    Raises:
        InputError: if there is none.
    """
    found = find_metric(name, task)
    if found is None:
        raise unknown("metric", name, metric_names(task))
    return found


def describe_metric(name: str, task: Task | None = None) -> Metric:
    """The metric of that name, or, for a name that is not registered, one of which nothing is known."""
    return find_metric(name, task) or Metric(name, name)


def metric_names(task: Task | None = None) -> list[str]:
    import_files("durm.metrics")
    return list(dict.fromkeys(name for kind, name in _METRICS if task in (None, kind)))
