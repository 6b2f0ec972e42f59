"""An arm: a name, and a set of overrides at any path of a trial.

{name: durm-2, dummies: 2}
{name: frozen, dummies: 2, kind: frozen}
{name: smoothing, train.label_smoothing: 0.1}          # `label_smoothing` alone means the same
{name: light, method: {name: vrex, weight: 1}}         # or method: vrex, method.weight: 1
{name: mixed, method: mixup, average: ema, model: mlp}
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from durm._config import Strict
from durm.errors import did_you_mean
from durm.methods import Method, Versions, as_averager, as_objective, parse_method
from durm.methods.version1 import FLAT
from durm.study.base import Name
from durm.training.trial import MOST_DUMMIES, TrainSpec

AXES = ("data", "model", "method")
"""What a study may have several values of."""
BY_ARM = "by arm"
"""What stands in a key for an axis that an arm overrides: it is no property of the setting then."""
TRAIN = [name for name in TrainSpec.model_fields if name != "version"]
PATHS = [
    *("dummies", "kind", "dummy_seed", "head_noise", "data", "model", "method", "average"),
    *(f"train.{name}" for name in TRAIN),
]
HEAD_NOISE = 1e-6
"""By how much a null control disturbs the initial head of an arm without dummies."""


class Arm(Strict):
    """A name and overrides, by their paths; `method.weight` applies after `method`."""

    name: Name
    overrides: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, values: Any) -> Any:
        """`{name: smoothing, label_smoothing: 0.1}` is how an arm is written."""
        if not isinstance(values, dict):
            return values
        if "name" not in values:
            raise ValueError(f"the arm {values} has no name")
        if not isinstance(values.get("overrides"), dict):
            values = {"name": values.get("name"), "overrides": {k: v for k, v in values.items() if k != "name"}}
        overrides = {canonical_path(path): value for path, value in values["overrides"].items()}
        return {**values, "overrides": overrides}

    @model_validator(mode="after")
    def _known(self) -> "Arm":
        for path in self.overrides:
            if path not in PATHS and path not in FLAT and not path.startswith(("method.", "average.")):
                raise ValueError(unknown_key(path, [*PATHS, *TRAIN]))
        dummies = self.overrides.get("dummies", 0)
        if isinstance(dummies, bool) or not isinstance(dummies, int) or not 0 <= dummies <= MOST_DUMMIES:
            raise ValueError(f"arm {self.name!r}: dummies={dummies!r}: expected an integer from 0 to {MOST_DUMMIES}")
        for axis in ("data", "model"):
            if not isinstance(self.overrides.get(axis, ""), str):
                raise ValueError(f"arm {self.name!r}: {axis}={self.overrides[axis]!r}: expected a name")
        return self

    @property
    def dummies(self) -> int:
        count: int = self.overrides.get("dummies", 0)
        return count

    @property
    def counts_dummies_only(self) -> bool:
        """Whether it is plain DuRM: some dummies, and nothing else changed."""
        return self.dummies > 0 and set(self.overrides) == {"dummies"}

    def label(self, method: Method) -> str:
        """What it is called: arms that only count dummies are named after the objective, others as they were named."""
        default = {"name": default_name(self.dummies), "dummies": self.dummies}
        if {"dummies": 0, **self.written()} != default or method.objective.name == "erm":
            return self.name
        return method.objective.name + (f"+{self.dummies}" if self.dummies else "")

    def overrides_axis(self, axis: str) -> bool:
        return any(path == axis or path.startswith(f"{axis}.") for path in self.overrides)

    def apply(self, data: str, model: str, method: Method, train: TrainSpec, versions: Versions) -> dict[str, Any]:
        """The values of a trial of this arm, without those that all arms share."""
        chosen = self._method(method, versions)
        return {
            "data": self.overrides.get("data", data),
            "model": self.overrides.get("model", model),
            "method": chosen.objective,
            "average": chosen.average,
            "dummies": self.dummies,
            "kind": self.overrides.get("kind", "learned"),
            "dummy_seed": self.overrides.get("dummy_seed", 0),
            "head_noise": self.overrides.get("head_noise", 0.0),
            "train": self._train(train),
        }

    def _train(self, train: TrainSpec) -> TrainSpec:
        overrides = _inside(self.overrides, "train")
        values = {**train.model_dump(exclude_unset=True), **overrides}
        if "iterations" in overrides or "epochs" in overrides:  # an override of one length replaces the other
            values = {k: v for k, v in values.items() if k not in ("epochs", "iterations") or k in overrides}
        return TrainSpec.model_validate(values)

    def _method(self, method: Method, versions: Versions) -> Method:
        overrides = self.overrides
        if flat := {key: value for key, value in overrides.items() if key in FLAT}:
            method = parse_method(method.written(), flat, versions, override=True)
        objective, average = method.objective, method.average
        if "method" in overrides:
            chosen = parse_method(overrides["method"], None, versions)
            objective, average = chosen.objective, chosen.average or average
        if "average" in overrides:
            average = None if overrides["average"] is None else as_averager(overrides["average"], versions)
        if changes := _inside(overrides, "method"):
            objective = as_objective({**objective.model_dump(), **changes})
        if changes := _inside(overrides, "average"):
            if average is None:
                raise ValueError(f"average.{next(iter(changes))}: the arm has no averaging")
            average = as_averager({**average.model_dump(), **changes})
        return Method(objective=objective, average=average)

    def sets(self, path: str) -> bool:
        """Whether it overrides that path, alone or within a method or an averager that it brings."""
        part, _, name = path.partition(".")
        whole = self.overrides.get(part)
        brought = self.overrides.get("method")
        if part == "average" and whole is None and isinstance(brought, Mapping):
            whole = brought.get("average")
        return path in self.overrides or (isinstance(whole, Mapping) and name in whole)

    def drawn(self, draw: Mapping[str, Any], method: Method, versions: Versions) -> "Arm":
        """The same arm with the values of a draw; settings of a method or an averager only if its own has them."""
        own = self._method(method, versions)
        known = {f"method.{name}" for name in type(own.objective).model_fields}
        known |= {f"average.{name}" for name in (type(own.average).model_fields if own.average else ())}
        taken = {k: v for k, v in draw.items() if k in known or not k.startswith(("method.", "average."))}
        return Arm(name=self.name, overrides={**self.overrides, **taken})

    def null(self) -> "Arm":
        """The same arm, changed in a way that should not matter: other dummies, or a head that is disturbed."""
        drawn = self.dummies and self.overrides.get("kind") != "constant"
        change = {"dummy_seed": 1 + self.overrides.get("dummy_seed", 0)} if drawn else {"head_noise": HEAD_NOISE}
        return Arm(name=f"{self.name} null", overrides={**self.overrides, **change})

    def written(self) -> dict[str, Any]:
        return {"name": self.name, **self.overrides}


def canonical_path(path: str) -> str:
    """`train.lr` of `lr`."""
    return f"train.{path}" if path in TRAIN else path


def _inside(overrides: Mapping[str, Any], part: str) -> dict[str, Any]:
    """What is overridden within a part: `weight` of `method.weight`."""
    return {path.partition(".")[2]: value for path, value in overrides.items() if path.startswith(f"{part}.")}


def default_name(dummies: int) -> str:
    return "erm" if dummies == 0 else f"durm-{dummies}"


def arms_of(dummies: Any) -> list[dict[str, Any]]:
    """The arms that a list of C_d stands for: `erm` for 0, `durm-k` for k."""
    counts = [dummies] if isinstance(dummies, int) else dummies
    if not isinstance(counts, list | tuple) or not counts:
        raise ValueError(f"dummies={dummies!r}: expected numbers such as [0, 1, 2]")
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"dummies={dummies!r}: {count!r} is not a whole number of at least 0")
    return [{"name": default_name(count), "dummies": count} for count in counts]


def unknown_key(key: str, known: Any, inside: str = "") -> str:
    """What is wrong with a key, and which one may have been meant."""
    return f"unknown key {key!r}{f' in {inside}' if inside else ''}: {did_you_mean(key, sorted(known))}"
