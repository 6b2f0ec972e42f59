"""A trial: the whole description of one run, validated, hashable, and nothing that does not bear on its numbers."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, SerializeAsAny, model_validator

from durm._config import Config, NotNegative
from durm.heads.init import Kind
from durm.methods import (
    AveragerConfig,
    Method,
    ObjectiveConfig,
    as_averager,
    as_objective,
    newest_versions,
    parse_method,
    with_average,
)
from durm.methods.version1 import split_flat
from durm.training.spec import AttackSpec as AttackSpec
from durm.training.spec import Conditions as Conditions
from durm.training.spec import TrainSpec as TrainSpec

MOST_DUMMIES = 10_000
"""Far beyond any use; a slip of the keyboard should not fill the memory."""


class Trial(Conditions):
    """One run: data, model and method, an arm (its name, its dummies, its way of training) and a seed.

    `kind` says what the dummies are: `learned`, or one of the controls of `durm.widen`.
    `dummy_seed` draws other dummies under the same seed; `head_noise` disturbs the real rows of the initial head by
    normal noise of that size. Both are for null controls: they change a run in a way that should not matter.
    """

    data: str
    model: str
    method: SerializeAsAny[ObjectiveConfig] = Field(default_factory=lambda: as_objective("erm"))
    average: SerializeAsAny[AveragerConfig] | None = None
    arm: str = "erm"
    dummies: Annotated[int, Field(ge=0, le=MOST_DUMMIES)] = 0
    kind: Kind = "learned"
    dummy_seed: Annotated[int, Field(ge=0)] = 0
    head_noise: NotNegative = 0.0
    seed: Annotated[int, Field(ge=0)] = 0
    train: TrainSpec = Field(default_factory=TrainSpec)

    @model_validator(mode="before")
    @classmethod
    def _method(cls, values: Any) -> Any:
        """`mixup+ema` stands for both, and flat settings of version 1 are those of the method."""
        if not isinstance(values, dict):
            return values
        train, flat = split_flat(values.get("train", {}))
        average = values.get("average")
        method = parse_method(with_average(values.get("method", "erm"), average), flat)
        average = method.average if method.average is not None else average and as_averager(average)
        return {**values, "train": train, "method": method.objective, "average": average}

    @model_validator(mode="after")
    def _kind_of_some(self) -> "Trial":
        if self.kind != "learned" and not self.dummies:
            raise ValueError(f"kind {self.kind!r} needs dummies, as in dummies=2, kind={self.kind}")
        return self

    @property
    def method_name(self) -> str:
        """`erm`, `mixup+ema`."""
        return Method(objective=self.method, average=self.average).name

    @cached_property
    def id(self) -> str:
        """16 hex digits of a hash of all that the run depends on: see `durm._config` for what survives an upgrade."""
        return hash_identity(self.identity())

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> "Trial":
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("id", None)
        return copied

    def identity(self) -> dict[str, Any]:
        """What is hashed: everything that differs from a default, but neither the arm's name nor where it runs."""
        found = {name: value for name, value in self.changed().items() if name not in NOT_HASHED}
        if self.probes:
            found["probes"] = [{"name": name} for name in self.probes]  # as a probe with settings will be written
        return found

    @property
    def readable_name(self) -> str:
        """What its folder is called before the id: `digits-cnn-erm-durm-2-seed3`."""
        words = [self.data.rsplit("/", 1)[-1], self.model, self.method_name, self.arm, f"seed{self.seed}"]
        return readable_name(*words)

    @property
    def folder_name(self) -> str:
        return f"{self.readable_name}-{self.id}"

    @property
    def runner(self) -> str:
        """The name of what runs it, in `durm.study.runners`."""
        return "training"


def hash_identity(identity: Mapping[str, Any]) -> str:
    """16 hex digits of the SHA-256 of what a run depends on, as canonical JSON."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def readable_name(*words: str) -> str:
    """The words as part of the name of a folder."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in "-".join(words))[:80]


def read_trial(text: str | bytes) -> Trial:
    """A trial as it was written, by this version or an earlier one.

    One that says nothing of versions was written by version 1: what it lacks has the defaults of that.

    Raises:
        ValueError: if it describes no trial.
    """
    try:
        values = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply to be a trial") from None
    if isinstance(values, dict) and "version" not in values:
        train, flat = split_flat(values.get("train", {}))
        method = parse_method(values.get("method", "erm"), flat, versions={})
        attacks = [{"version": 1, **attack} for attack in values.get("attacks", [])]
        values |= {"version": 1, "attacks": attacks, "method": method.objective, "average": method.average}
        values["train"] = {"version": 1, **train}
    return Trial.model_validate(values)


def describes(text: str | bytes, trial: Trial) -> bool:
    """Whether a trial, as it was written, is that trial."""
    try:
        return read_trial(text).id == trial.id
    except (ValueError, TypeError, RecursionError):
        return False


NOT_HASHED = ("arm", "devices")
"""The name of an arm says nothing about the run, and the number of devices only where it runs."""


def newest_component_versions() -> dict[str, int]:
    """The newest version of every component that has settings, of those that have come beyond the first."""
    kinds: dict[str, type[Config]] = {"trial": Trial, "train": TrainSpec, "attack": AttackSpec}
    every = {name: kind.VERSION for name, kind in kinds.items()} | newest_versions()
    return {name: version for name, version in every.items() if version > 1}
