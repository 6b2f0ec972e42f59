"""The keys of a study, with their defaults and checks."""

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from durm._config import NotNegative
from durm.data import task_of
from durm.errors import InputError, did_you_mean
from durm.methods import Method, parse_method, with_average
from durm.methods.version1 import split_flat
from durm.metrics import Task, describe_metric, find_metric, metric_names
from durm.study.arm import Arm, arms_of
from durm.study.base import BaseStudy, check_no_twice, default_seeds
from durm.study.search import Search
from durm.training.trial import Conditions, TrainSpec, newest_component_versions

ACCURACY = "accuracy"
VERDICT_VERSION = 2
"""Of the levels of interim analyses; a study keeps those that it was begun with."""


def newest_versions() -> dict[str, int]:
    """Of every component, and of the rules of the verdict."""
    return {**newest_component_versions(), "verdict": VERDICT_VERSION}


class StudyFields(BaseStudy, Conditions):
    """What a study file says, checked key by key.

    Attributes:
        data: one data set or several; each with each model and each method is a setting.
        model: one model or several.
        method: one method or several.
        arms: what is compared, each with the first one; `dummies`, a list of C_d, stands for arms before the others.
        train: how every arm is trained.
        metric: what the verdict is about: accuracy, or miou of segmentation, unless another one is named (see
            `durm.metrics`); under one of the attacks it is such as robust_pgd_real.
        secondary: further metrics that are judged, each by its own margin; they never enter the headline.
        rope: half the width of the equivalence margin, in the unit of the metric; left out, that of the metric.
        null: whether there is a null control.
        search: a random search, such as `{draws: 20, lr: [1e-3, 1e-1, log]}`: every arm runs every draw on every seed,
            and the best on validation counts (see `durm.study.search`).
    """

    data: tuple[str, ...] = ("digits",)
    model: tuple[str, ...] = ("cnn",)
    method: tuple[Method, ...] = Field(default_factory=lambda: (parse_method("erm"),))
    arms: Annotated[tuple[Arm, ...], Field(min_length=1)]
    train: TrainSpec = Field(default_factory=TrainSpec)
    metric: str = ACCURACY
    secondary: tuple[str, ...] = ()
    rope: NotNegative
    null: bool = False
    search: Search | None = None
    versions: dict[str, int] = Field(default_factory=newest_versions)

    @field_validator("data", "model", "secondary", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("data", "model", "method", "arms", "secondary")
    @classmethod
    def _no_twice(cls, values: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        if not values and info.field_name != "secondary":
            raise ValueError("expected at least one")
        check_no_twice([value.name if isinstance(value, Arm) else value for value in values])
        return values

    @model_validator(mode="before")
    @classmethod
    def _resolved(cls, values: Any) -> Any:
        """With the defaults that depend on other keys; `dummies` are short for arms; methods from names, mappings and
        flat keys; every component with the version that the study pins.
        """
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if "metric" not in values:
            values["metric"] = "miou" if segments(values.get("data")) else ACCURACY
        if values.get("rope") is None:
            values["rope"] = describe_metric(str(values["metric"])).rope or 0.0
        given, dummies = values.get("arms"), values.pop("dummies", None)
        if given is None or dummies is not None:
            counted = arms_of([0, 1, 2, 3] if dummies is None else dummies)
            values["arms"] = [*counted, *(given if isinstance(given, list | tuple) else ())]
        values.setdefault("seeds", default_seeds(values.get("max_seeds")))
        versions = values.setdefault("versions", newest_versions())
        if not isinstance(versions, dict):
            raise ValueError(f"versions={versions!r}: expected components and their versions")
        train, flat = split_flat(values.get("train", {}))
        method, average = values.get("method", "erm"), values.pop("average", None)
        methods = [with_average(one, average) for one in (method if isinstance(method, list | tuple) else [method])]
        if not methods:
            raise ValueError("method: expected at least one")
        values["method"] = tuple(parse_method(one, flat, versions) for one in methods)
        values["version"] = versions.get("trial", 1)
        if isinstance(train, dict):
            values["train"] = {"version": versions.get("train", 1), **train}
        if isinstance(attacks := values.get("attacks"), list | tuple):
            pinned = {"version": versions.get("attack", 1)}
            values["attacks"] = [{**pinned, **one} if isinstance(one, dict) else one for one in attacks]
        return values

    @model_validator(mode="after")
    def _fields_go_together(self) -> "StudyFields":
        robust = [f"robust_{key}" for attack in self.attacks for key in attack.keys if not key.endswith("_dummy")]
        for key, metric in (("metric", self.metric), *(("secondary", one) for one in self.secondary)):
            self._check_metric(key, metric, robust)
        if self.metric in self.secondary:
            raise ValueError(f"secondary {self.metric!r}: that is the metric of the study itself")
        return self

    def _check_metric(self, key: str, metric: str, robust: list[str]) -> None:
        is_known = find_metric(metric, self.task) is not None and not metric.startswith("robust_")
        if metric in robust or is_known:
            return
        known = [*metric_names(self.task), *robust]
        hint = did_you_mean(metric, known)
        if (other := find_metric(metric)) is not None and other.task != self.task:
            kind = "images with masks" if other.task == "segmentation" else "samples with one label"
            hint = f"it is for {kind}; expected one of {', '.join(known)}"
        raise ValueError(f"{key} {metric!r}: {hint}")

    @property
    def task(self) -> Task:
        return "segmentation" if segments(self.data) else "classification"


def segments(data: Any) -> bool:
    """Whether the data have a label for each pixel. What is no data at all is refused elsewhere."""
    names = [data] if isinstance(data, str) else data if isinstance(data, list | tuple) else []
    try:
        tasks = {task_of(name) for name in names}
    except (InputError, AttributeError):
        return False
    if len(tasks) > 1:
        raise ValueError("data: labels of samples and labels of pixels are two studies, not one")
    return tasks == {"segmentation"}
