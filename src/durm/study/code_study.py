"""A study of code that is not durm's: a Python function or a command, run for each arm and seed.

name: mine
run: {command: "python train.py {seed} {lr}"}    # or {function: "module:name"}, by durm.compare
arms: [{name: base, lr: 0.1}, {name: low, lr: 0.01}]
seeds: 10
metric: accuracy
"""

import math
import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, PrivateAttr, field_validator, model_validator

from durm._config import NotNegative, Strict
from durm.study.arm import BY_ARM
from durm.study.base import AnyTrial, BaseStudy, Key, Name, check_no_twice, default_seeds
from durm.study.command_line import check_command, unused_parameters
from durm.study.fields import newest_versions
from durm.training.trial import Trial, hash_identity, readable_name
from durm.training.trial import describes as describes_training

PLACE = (BY_ARM, BY_ARM, BY_ARM)
"""Its one setting: durm knows neither data nor model."""


class Run(Strict):
    """What makes a trial: `command`, a command line with places for the seed and the parameters of the arm, or
    `function`, a Python function by module and name.
    """

    command: str | None = None
    function: str | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> "Run":
        if (self.command is None) == (self.function is None):
            raise ValueError("run: expected a command or a function, such as {command: python train.py {seed}}")
        return self

    @property
    def kind(self) -> str:
        return "function" if self.command is None else "command"

    @property
    def text(self) -> str:
        return self.command or self.function or ""


class CodeArm(Strict):
    """A name, and the parameters with which the function is called, or which fill the places of the command."""

    name: Name
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, values: Any) -> Any:
        """`{name: low, lr: 0.01}` is short for `{name: low, params: {lr: 0.01}}`."""
        if not isinstance(values, dict) or (
            set(values) <= {"name", "params"} and isinstance(values.get("params"), dict)
        ):
            return values
        if "name" not in values:
            raise ValueError(f"the arm {values} has no name")
        return {"name": values["name"], "params": {key: value for key, value in values.items() if key != "name"}}

    @field_validator("params")
    @classmethod
    def _json(cls, params: dict[str, Any]) -> dict[str, Any]:
        for name, value in params.items():
            if not is_json(value):
                raise ValueError(
                    f"{name}={value!r} is a {type(value).__name__}; parameters of arms are values of JSON: numbers, "
                    "texts, true, false, null, lists and mappings"
                )
        return params


def is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_json, value))
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


class CodeTrial(Strict):
    """One run of the code: an arm, its parameters and a seed."""

    run: Run
    arm: str
    params: dict[str, Any] = Field(default_factory=dict)
    seed: int

    @property
    def runner(self) -> str:
        return self.run.kind

    @cached_property
    def id(self) -> str:
        """16 hex digits of a hash of the function's name or the command, the parameters and the seed."""
        return hash_identity({"run": self.run.model_dump(exclude_none=True), "params": self.params, "seed": self.seed})

    @property
    def folder_name(self) -> str:
        return f"{readable_name(self.arm, f'seed{self.seed}')}-{self.id}"


def describes(text: str | bytes, trial: AnyTrial) -> bool:
    """Whether a trial, as it was written, is that trial."""
    if not isinstance(trial, CodeTrial):
        assert isinstance(trial, Trial)
        return describes_training(text, trial)
    try:
        return CodeTrial.model_validate_json(text).id == trial.id
    except (ValueError, RecursionError):
        return False


class CodeStudy(BaseStudy):
    """A study of a function or a command.

    Attributes:
        run: what makes a trial.
        arms: names and parameters; each arm is compared with the first one.
        metric: what the verdict is about; left out, the only one that the trials give.
        secondary: further metrics that are judged, each by its own margin.
        rope: half the width of the equivalence margin; left out, that of the metric (see `durm.statistics.scale`).
        higher_is_better: left out, that of the metric.
        resolution: the step in which the metric moves; left out, found from the values.
    """

    run: Run
    arms: Annotated[tuple[CodeArm, ...], Field(min_length=1)]
    metric: str | None = None
    secondary: tuple[str, ...] = ()
    rope: NotNegative | None = None
    higher_is_better: bool | None = None
    resolution: NotNegative | None = None

    _function: "SentFunction | None" = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _resolved(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        values.setdefault("seeds", default_seeds(values.get("max_seeds")))
        values.setdefault("versions", {"verdict": newest_versions()["verdict"]})
        if isinstance(values.get("secondary"), str):
            values["secondary"] = (values["secondary"],)
        return values

    @field_validator("arms")
    @classmethod
    def _no_arm_twice(cls, arms: tuple[CodeArm, ...]) -> tuple[CodeArm, ...]:
        check_no_twice([arm.name for arm in arms])
        return arms

    @model_validator(mode="after")
    def _fits(self) -> "CodeStudy":
        if self.metric is not None and self.metric in self.secondary:
            raise ValueError(f"secondary {self.metric!r}: that is the metric of the study itself")
        if self.run.command is not None:
            check_command(self.run.command, self._params())
        return self

    def cells(self) -> list[tuple[Key, CodeTrial]]:
        return [
            ((*PLACE, arm.name, seed), CodeTrial(run=self.run, arm=arm.name, params=arm.params, seed=seed))
            for seed in self.seeds
            for arm in self.arms
        ]

    @property
    def code(self) -> list[str]:
        return [self.run.text]

    @property
    def unused_parameters(self) -> list[str]:
        """Those that no word of the command uses."""
        return [] if self.run.command is None else unused_parameters(self.run.command, self._params())

    def _params(self) -> dict[str, dict[str, Any]]:
        return {arm.name: arm.params for arm in self.arms}

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function itself, which lies in no file; None of a study that was read from one."""
        return None if self._function is None else self._function.function

    def with_function(self, function: Callable[..., Any] | None) -> "CodeStudy":
        study = self.make(self._given)
        study._function = None if function is None else SentFunction(function)
        return study

    def updated(self, **changes: Any) -> "CodeStudy":
        return super().updated(**changes).with_function(self.function)

    def written(self) -> dict[str, Any]:
        values = self.model_dump(mode="json")
        return values | {
            "run": self.run.model_dump(exclude_none=True),
            "arms": [{"name": arm.name, "params": arm.params} for arm in self.arms],
        }


class SentFunction:
    """A function that goes to other processes by value, also one of a notebook; it is never written to disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __reduce__(self) -> tuple[Callable[[bytes], "SentFunction"], tuple[bytes]]:
        import cloudpickle

        return _received, (cloudpickle.dumps(self.function),)


def _received(content: bytes) -> SentFunction:
    return SentFunction(pickle.loads(content))
