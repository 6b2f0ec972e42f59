"""What every study has, whatever its trials are: a name, arms, seeds, and when it is analysed."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import Field, PrivateAttr, field_validator, model_validator

from durm._config import Strict
from durm.errors import InputError
from durm.statistics.sequential import analysis_levels, analysis_sizes, series_level
from durm.statistics.verdict import Plan

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]*$")]
Key = tuple[str, str, str, str, int]
"""data, model, method, arm, seed"""
MOST_SEEDS = 100_000
DEFAULT_MAX_SEEDS = 40

S = TypeVar("S", bound="BaseStudy")


class AnyTrial(Protocol):
    """What a store and an executor ask of a trial."""

    @property
    def id(self) -> str: ...

    @property
    def folder_name(self) -> str: ...

    @property
    def runner(self) -> str: ...

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


class BaseStudy(Strict, ABC):
    """Names, seeds and analyses.

    Attributes:
        name: names the folder in runs/.
        seeds: how many, from 0 on, or a list of them.
        max_seeds: the study goes on until every arm is decided, or so many seeds are used up; `seeds` are then those
            of the interim analyses so far.
        versions: of the components whose defaults count; what is not in there is version 1.
    """

    name: Name = "study"
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    max_seeds: Annotated[int, Field(ge=2, le=MOST_SEEDS)] | None = None
    versions: dict[str, int] = Field(default_factory=dict)

    _given: dict[str, Any] = PrivateAttr(default_factory=dict)

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_or_list(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            if not 1 <= value <= MOST_SEEDS:
                raise ValueError(f"{value}: expected at least 1 and at most {MOST_SEEDS}")
            return tuple(range(value))
        return value

    @field_validator("seeds")
    @classmethod
    def _no_seed_twice(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        check_no_twice(seeds)
        return seeds

    @model_validator(mode="after")
    def _seeds_are_those_of_an_analysis(self: S) -> S:
        sizes = analysis_sizes(self.max_seeds or 0)
        if self.max_seeds and (len(self.seeds) not in sizes or self.seeds != tuple(range(len(self.seeds)))):
            shown = ", ".join(map(str, sizes))
            raise ValueError(
                f"seeds and max_seeds exclude each other: the study is analysed at {shown} seeds by itself"
            )
        return self

    @abstractmethod
    def cells(self) -> Sequence[tuple[Key, Any]]:
        """Every trial, with its place in the study; seed by seed, so that an unfinished study has whole pairs."""

    def trials(self) -> list[Any]:
        """Every trial, in the order of the cells."""
        return [trial for _, trial in self.cells()]

    def runs(self) -> list[Any]:
        """Every trial once: arms that differ in their names alone share a run, which counts for each."""
        return list({trial.id: trial for trial in reversed(self.trials())}.values())[::-1]

    @abstractmethod
    def written(self) -> dict[str, Any]:
        """The whole spec, with every default in it, as it is written to study.yaml."""

    @property
    @abstractmethod
    def code(self) -> list[str]:
        """What it would import or run that is not durm's."""

    @property
    def plan(self) -> Plan | None:
        """The analyses so far, for a study that goes on until decided; one of version 1 keeps its levels."""
        if self.max_seeds is None:
            return None
        sizes = analysis_sizes(self.max_seeds)
        so_far = [[str(seed) for seed in self.seeds[:size]] for size in sizes if size <= len(self.seeds)]
        if self.versions.get("verdict", 1) == 1:
            return Plan(so_far, series_level)
        return Plan(so_far, lambda k, alpha: analysis_levels(sizes, alpha)[k - 1])

    def next_analysis(self: S) -> S | None:
        """The same study with the seeds of its next analysis; None after the last."""
        sizes = [size for size in analysis_sizes(self.max_seeds or 0) if size > len(self.seeds)]
        return self.updated(seeds=sizes[0]) if sizes and self.max_seeds else None

    def updated(self: S, **changes: Any) -> S:
        """The same study with other values; what was left to defaults is resolved again."""
        return self.make({**self._given, **changes})

    @classmethod
    def make(cls: type[S], values: Mapping[str, Any]) -> S:
        """A study from plain values, which it remembers."""
        study = cls.model_validate(values)
        study._given = dict(values)
        return study

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.written() == other.written()


def check_no_twice(names: Sequence[Any]) -> None:
    if twice := sorted({getattr(name, "name", str(name)) for name in names if names.count(name) > 1}):
        raise ValueError(f"{', '.join(twice)} is given twice")


def last_analysis(seeds: object, max_seeds: int | None, *, until_decided: bool) -> int | None:
    """The last analysis of a study that goes on until it is decided; None of one with a fixed number of seeds.

    Raises:
        InputError: if what was asked for does not go together.
    """
    if max_seeds is not None and not until_decided:
        raise InputError(f"`max_seeds` {max_seeds} goes with `until_decided`; `seeds` gives a fixed number")
    if seeds is not None and until_decided:
        raise InputError(f"`seeds` {seeds} and `until_decided` exclude each other; `max_seeds` limits their number")
    return (DEFAULT_MAX_SEEDS if max_seeds is None else max_seeds) if until_decided else None


def default_seeds(max_seeds: Any) -> int:
    """Of a study that does not say: those of the first analysis, or ten."""
    return analysis_sizes(max_seeds)[0] if isinstance(max_seeds, int) and max_seeds > 1 else 10
