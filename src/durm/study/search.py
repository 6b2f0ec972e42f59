"""Random search of hyper-parameters: which values, and what each draw of them is.

search: {draws: 20, lr: [1e-3, 1e-1, log], batch_size: [16, 128], optimizer: {choices: [sgd, adamw]}}

Draw k of a path is a function of the path, its range and k alone: all arms and seeds have the same draws, and adding
draws keeps the earlier ones. Why at random, and not on a grid: Bergstra and Bengio, 2012.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field, model_validator

from durm._config import Strict
from durm._random import derived_seed
from durm.methods import AVERAGERS, OBJECTIVES
from durm.study.arm import TRAIN, canonical_path, unknown_key
from durm.training.trial import TrainSpec, Trial

DRAWS, MOST_DRAWS = 20, 1000
"""By default, as in DomainBed; and at the most."""
SYNTAX = "expected [low, high], [low, high, log] or {choices: [...]}"
OF_TRIAL = ("dummies", "kind", "dummy_seed", "head_noise")
REGISTRIES: Mapping[str, Any] = {"method": OBJECTIVES, "average": AVERAGERS}


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included, uniform or uniform in their logarithm; `whole` ones for counts.

    Others are rounded to six digits, so that a draw can be written by hand.
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def at(self, share: float) -> float:
        """The value below which that share of the draws lies, 0 ≤ share < 1."""
        low, high = self.low, self.high + self.whole
        value = low * (high / low) ** share if self.log else low + share * (high - low)
        value = math.floor(value) if self.whole else float(f"{value:.6g}")
        return min(max(value, self.low), self.high)

    def place(self, value: float) -> float:
        """Where a value lies in the range, from 0 to 1, on the scale of the draws."""
        low, high, value = map(math.log, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return (value - low) / (high - low)

    def written(self) -> list[Any]:
        return [self.low, self.high, *(["log"] if self.log else [])]

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{', log-uniform' if self.log else ''}"


@dataclass(frozen=True)
class Choices:
    """One of several values, all as likely."""

    choices: tuple[Any, ...]

    def at(self, share: float) -> Any:
        return self.choices[int(share * len(self.choices))]

    def written(self) -> dict[str, Any]:
        return {"choices": list(self.choices)}

    def __str__(self) -> str:
        return " or ".join(map(str, self.choices))


class Search(Strict):
    """How many draws, and from where: path → range or choices."""

    draws: Annotated[int, Field(ge=1, le=MOST_DRAWS)] = DRAWS
    space: dict[str, Range | Choices]

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, values: Any) -> Any:
        """`{draws: 20, lr: [1e-3, 1e-1, log]}` is how a search is written."""
        if not isinstance(values, Mapping):
            raise ValueError(f"{values!r}: expected such as {{draws: 20, lr: [1e-3, 1e-1, log]}}")
        space: dict[str, Range | Choices] = {}
        for written, domain in values.items():
            if written == "draws":
                continue
            if (path := canonical_path(str(written))) in space:
                raise ValueError(f"{short(path)} is given twice")
            space[path] = _parse(path, domain)
        if not space:
            raise ValueError("there is nothing to search; expected such as lr: [1e-3, 1e-1, log]")
        return {"space": space, **({"draws": values["draws"]} if "draws" in values else {})}

    @property
    def numbers(self) -> range:
        """Of the draws, from 1 on."""
        return range(1, self.draws + 1)

    def draw(self, number: int) -> dict[str, Any]:
        """The values of a draw by their paths."""
        return {path: domain.at(derived_seed(number, "search", path) / 2**56) for path, domain in self.space.items()}

    def written(self) -> dict[str, Any]:
        return {"draws": self.draws, **{path: domain.written() for path, domain in self.space.items()}}


def short(path: str) -> str:
    """As users write it: `lr` of `train.lr`."""
    return path.removeprefix("train.")


def draw_name(arm: str, number: int) -> str:
    """What the runs of a draw are called."""
    return f"{arm} draw {number}"


def _parse(path: str, domain: Any) -> Range | Choices:
    annotations = list(_annotations(path))
    if not annotations:
        if path in REGISTRIES or path in ("data", "model"):
            raise ValueError(f"{path} cannot be searched; give several, or an arm for each")
        raise ValueError(unknown_key(short(path), [*OF_TRIAL, *TRAIN, *_inner_paths()]))
    if isinstance(domain, Mapping):
        choices = domain.get("choices")
        if set(domain) != {"choices"} or not isinstance(choices, list | tuple) or len(choices) < 2:
            raise ValueError(f"{short(path)}={domain!r}: expected two choices or more, as in {{choices: [1, 2]}}")
        if any(one in choices[:place] for place, one in enumerate(choices)):
            raise ValueError(f"{short(path)}={domain!r}: a choice is given twice")
        return Choices(tuple(choices))
    if (
        not isinstance(domain, list | tuple)
        or len(domain) not in (2, 3)
        or domain[2:] not in ([], (), ["log"], ("log",))
    ):
        raise ValueError(f"{short(path)}={domain!r}: {SYNTAX}")
    types = set().union(*map(_types, annotations))
    if not types & {int, float}:
        raise ValueError(f"{short(path)}={domain!r}: it is no number; expected {{choices: [...]}}")
    return _range(path, domain, whole=float not in types)


def _range(path: str, domain: Any, *, whole: bool) -> Range:
    low, high = (_number(value) for value in domain[:2])
    what = f"{short(path)}={list(domain)!r}"
    if low is None or high is None:
        raise ValueError(f"{what}: {SYNTAX}")
    if not low < high:
        raise ValueError(f"{what}: expected the smaller number first")
    if len(domain) == 3 and low <= 0:
        raise ValueError(f"{what}: a logarithm needs numbers above 0")
    if whole:
        if low != int(low) or high != int(high):
            raise ValueError(f"{what}: expected whole numbers")
        low, high = int(low), int(high)
    return Range(low, high, len(domain) == 3, whole)


def _number(value: Any) -> float | None:
    """YAML reads 1e-3 as a text."""
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return number if number is not None and math.isfinite(number) else None


def _annotations(path: str) -> Iterator[Any]:
    """The types of what has that path: one, or those of all methods that have it. None for a path that is not there."""
    part, _, name = path.partition(".")
    if part == "train" and name in TRAIN:
        yield TrainSpec.model_fields[name].annotation
    elif path in OF_TRIAL:
        yield Trial.model_fields[path].annotation
    elif part in REGISTRIES and name not in ("", "name", "version"):
        for component in map(REGISTRIES[part].__getitem__, REGISTRIES[part].names()):
            if name in component.Config.model_fields:
                yield component.Config.model_fields[name].annotation


def _inner_paths() -> set[str]:
    return {
        f"{part}.{name}"
        for part, registry in REGISTRIES.items()
        for component in registry.names()
        for name in registry[component].Config.model_fields
        if name not in ("name", "version")
    }


def _types(annotation: Any) -> set[Any]:
    """What a field takes, without constraints and None; of lists and fixed words nothing."""
    if get_origin(annotation) in (tuple, Literal):
        return set()
    inner = get_args(annotation)
    return set().union(*map(_types, inner)) if inner else {annotation} if isinstance(annotation, type) else set()
