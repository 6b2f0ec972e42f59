"""A study: a grid of settings (data × model × method) × arms × seeds, read from YAML or flags, and checked.

name: digits
data: digits                  # or a list
model: [cnn, mlp]             # or a list
dummies: [0, 1, 2]            # or arms: [{name: erm}, {name: smoothing, label_smoothing: 0.1}]
seeds: 10                     # 0 … 9, or a list
train: {epochs: 20, lr: 0.05}
"""

import re
from collections.abc import Container
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from durm.errors import InputError
from durm.study.rules import ROPE, look_sizes
from durm.training.trial import MOST_DUMMIES, AttackSpec, Conditions, NotNegative, Strict, TrainSpec, Trial

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]*$")]
MOST_SEEDS = 100_000
OVERRIDES = {"dummies", "dummy_seed", "head_noise", *TrainSpec.model_fields}
DERIVED = "durm-val"
"""The derived arm: of all arms that are plain DuRM, for each seed the one with the best validation accuracy."""
ACCURACY = "accuracy"
SEGMENTATION_METRICS = ("miou", "macc", ACCURACY)
"""What a study of segmentation may be judged by, the usual one first."""
HEAD_NOISE = 1e-6
"""By how much a null control disturbs the initial head of an arm without dummies."""


class Arm(Strict):
    """A name and a set of overrides: `dummies`, `dummy_seed`, `head_noise`, and anything of `train`."""

    name: Name
    overrides: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, values: Any) -> Any:
        """`{name: smoothing, label_smoothing: 0.1}` is how an arm is written."""
        if isinstance(values, dict) and "name" not in values:
            raise ValueError(f"the arm {values} has no name")
        if isinstance(values, dict) and not isinstance(values.get("overrides"), dict):
            return {"name": values.get("name"), "overrides": {k: v for k, v in values.items() if k != "name"}}
        return values

    @field_validator("overrides")
    @classmethod
    def _known(cls, overrides: dict[str, Any]) -> dict[str, Any]:
        for key in overrides:
            if key not in OVERRIDES:
                raise ValueError(_unknown_key(key, OVERRIDES))
        return overrides

    @model_validator(mode="after")
    def _whole_dummies(self) -> "Arm":
        dummies = self.overrides.get("dummies", 0)
        if isinstance(dummies, bool) or not isinstance(dummies, int) or not 0 <= dummies <= MOST_DUMMIES:
            raise ValueError(f"arm {self.name!r}: dummies={dummies!r}: expected an integer from 0 to {MOST_DUMMIES}")
        return self

    @property
    def dummies(self) -> int:
        count: int = self.overrides.get("dummies", 0)
        return count

    @property
    def counts_dummies_only(self) -> bool:
        """Whether it is plain DuRM: some dummies, and nothing else changed."""
        return self.dummies > 0 and set(self.overrides) == {"dummies"}

    def null(self) -> "Arm":
        """The same arm, changed in a way that should not matter: other dummies, or a head that is disturbed."""
        change = {"dummy_seed": 1 + self.overrides.get("dummy_seed", 0)} if self.dummies else {"head_noise": HEAD_NOISE}
        return Arm(name=f"{self.name} null", overrides={**self.overrides, **change})

    def written(self) -> dict[str, Any]:
        return {"name": self.name, **self.overrides}


class Study(Conditions):
    """A validated study. `trials()` lists what it stands for.

    Attributes:
        name: names the folder in runs/.
        data: one data set or several; each with each model and each method is a setting.
        model: one model or several.
        method: one method or several.
        arms: what is compared, each with the first one; `dummies`, a list of C_d, is short for them.
        seeds: how many, from 0 on, or a list of them.
        train: how every arm is trained.
        metric: what the verdict is about: accuracy, or that under one of the attacks, such as robust_pgd_real; of
            segmentation miou (the default), macc, or accuracy, which is that of pixels.
        rope: half the width of the region of practical equivalence, in the unit of the metric.
        max_seeds: the study goes on until every arm is decided, or so many seeds are used up; `seeds` are then those
            of the looks so far.
        null: whether there is a null control.
    """

    name: Name = "study"
    data: tuple[str, ...] = ("digits",)
    model: tuple[str, ...] = ("cnn",)
    method: tuple[str, ...] = ("erm",)
    arms: Annotated[tuple[Arm, ...], Field(min_length=1)]
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    train: TrainSpec = Field(default_factory=TrainSpec)
    metric: str = ACCURACY
    rope: NotNegative = ROPE
    max_seeds: Annotated[int, Field(ge=2, le=MOST_SEEDS)] | None = None
    null: bool = False

    @field_validator("data", "model", "method", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("data", "model", "method", "seeds", "arms")
    @classmethod
    def _no_twice(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values:
            raise ValueError("expected at least one")
        names = [value.name if isinstance(value, Arm) else value for value in values]
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} stands there twice")
        return values

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_or_list(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            if not 1 <= value <= MOST_SEEDS:
                raise ValueError(f"{value}: expected at least 1 and at most {MOST_SEEDS}")
            return tuple(range(value))
        return value

    @model_validator(mode="before")
    @classmethod
    def _dummies_are_short_for_arms(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if "dummies" in values and "arms" in values:
            raise ValueError("dummies and arms exclude each other: dummies is short for arms")
        if "metric" not in values:
            values["metric"] = SEGMENTATION_METRICS[0] if segments(values.get("data")) else ACCURACY
        if "arms" not in values:
            values["arms"] = arms_of(values.pop("dummies", [0, 1, 2, 3]))
        most = values.get("max_seeds")
        values.setdefault("seeds", look_sizes(most)[0] if isinstance(most, int) and most > 1 else 10)
        return values

    @model_validator(mode="after")
    def _seeds_are_those_of_a_look(self) -> "Study":
        if self.max_seeds is None:
            return self
        sizes = look_sizes(self.max_seeds)
        if len(self.seeds) not in sizes or self.seeds != tuple(range(len(self.seeds))):
            shown = ", ".join(map(str, sizes))
            raise ValueError(f"seeds and max_seeds exclude each other: the study looks at {shown} seeds by itself")
        return self

    @model_validator(mode="after")
    def _metric_is_measured(self) -> "Study":
        keys = [key for attack in self.attacks for key in attack.keys if not key.endswith("_dummy")]
        robust = [f"robust_{key}" for key in keys]
        if self.metric not in (*SEGMENTATION_METRICS, *robust):  # that these fit the data is seen when the data are
            known = SEGMENTATION_METRICS if segments(self.data) else (ACCURACY, *robust)
            raise ValueError(f"metric {self.metric!r}: this study measures {', '.join(known)}")
        return self

    @model_validator(mode="after")
    def _arms_can_be_trained(self) -> "Study":
        if clash := {*self.arm_names} & {DERIVED, *(arm.name for arm in self.null_arms)}:
            raise ValueError(f"arm {min(clash)!r}: durm gives that name to an arm of its own; choose another")
        for arm in self.arms:
            try:
                self._trial(*self.settings[0], arm, self._recipe(arm), 0)
            except ValidationError as error:
                raise ValueError(f"arm {arm.name!r}: {_first_problem(error, flags=False)}") from None
        return self

    def trials(self) -> list[Trial]:
        """Every trial, seed by seed, so that an unfinished study has whole pairs."""
        arms = [(arm, self._recipe(arm)) for arm in (*self.arms, *self.null_arms)]
        settings = self.settings
        return [self._trial(*s, arm, recipe, seed) for seed in self.seeds for s in settings for arm, recipe in arms]

    @property
    def settings(self) -> list[tuple[str, str, str]]:
        """Every (data, model, method)."""
        return list(product(self.data, self.model, self.method))

    @property
    def validation_metric(self) -> str:
        """By which epochs and C_d are chosen. Attacks are on the test set alone, so there it is the clean accuracy."""
        return ACCURACY if self.metric.startswith("robust_") else self.metric

    @property
    def arm_names(self) -> list[str]:
        return [arm.name for arm in self.arms]

    @property
    def null_arms(self) -> list[Arm]:
        """The arms of the null control, each to be compared with the arm that it was made from, in the same order."""
        return [arm.null() for arm in self.arms] if self.null else []

    @property
    def looks(self) -> list[tuple[int, ...]]:
        """The seeds of each look so far, for a study that goes on until decided."""
        if self.max_seeds is None:
            return []
        return [self.seeds[:size] for size in look_sizes(self.max_seeds) if size <= len(self.seeds)]

    def next_look(self) -> "Study | None":
        """The same study with the seeds of its next look; None after the last."""
        sizes = [size for size in look_sizes(self.max_seeds or 0) if size > len(self.seeds)]
        return self.model_copy(update={"seeds": tuple(range(sizes[0]))}) if sizes and self.max_seeds else None

    def _trial(self, data: str, model: str, method: str, arm: Arm, recipe: TrainSpec, seed: int) -> Trial:
        return Trial(
            data=data,
            model=model,
            method=method,
            arm=arm.name,
            dummies=arm.dummies,
            dummy_seed=arm.overrides.get("dummy_seed", 0),
            head_noise=arm.overrides.get("head_noise", 0.0),
            seed=seed,
            train=recipe,
            **{name: getattr(self, name) for name in Conditions.model_fields},
        )

    def _recipe(self, arm: Arm) -> TrainSpec:
        overrides = {key: value for key, value in arm.overrides.items() if key in TrainSpec.model_fields}
        train = {**self.train.model_dump(exclude_unset=True), **overrides}
        if "iterations" in overrides or "epochs" in overrides:  # an override of one length replaces the other
            train = {k: v for k, v in train.items() if k not in ("epochs", "iterations") or k in overrides}
        return TrainSpec.model_validate(train)

    def written(self) -> dict[str, Any]:
        """The whole spec, with every default in it, as it is written to study.yaml."""
        values = self.model_dump(mode="json") | {"arms": [arm.written() for arm in self.arms]}
        return {key: values[key] for key in sorted(values, key=lambda key: key in Conditions.model_fields)}


def segments(data: Any) -> bool:
    """Whether the data have a label for each pixel. What is no data at all is told elsewhere."""
    from durm.data import task_of  # which takes torch

    names = [data] if isinstance(data, str) else data if isinstance(data, list | tuple) else []
    tasks = set()
    for name in names:
        try:
            tasks.add(task_of(name))
        except (InputError, AttributeError):
            return False
    if len(tasks) > 1:
        raise ValueError("data with labels of samples and data with labels of pixels are two studies")
    return tasks == {"segmentation"}


def arms_of(dummies: Any) -> list[dict[str, Any]]:
    """The arms that a list of C_d stands for: `erm` for 0, `durm-k` for k."""
    counts = [dummies] if isinstance(dummies, int) else dummies
    if not isinstance(counts, list | tuple) or not counts:
        raise ValueError(f"dummies={dummies!r}: expected numbers such as [0, 1, 2]")
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"dummies={dummies!r}: {count!r} is not a whole number of at least 0")
    return [{"name": "erm" if count == 0 else f"durm-{count}", "dummies": count} for count in counts]


def parse_arm(text: str) -> dict[str, Any]:
    """An arm as it is written in a flag: `smoothing: label_smoothing=0.1, lr=0.1`."""
    name, _, rest = text.partition(":")
    example = '"NAME: key=value, …", such as "smoothing: label_smoothing=0.1"'
    if not name.strip():
        raise InputError(f"--arm {text!r}: expected {example}")
    return {"name": name.strip(), **_parse_values(f"--arm {text!r}", rest, OVERRIDES, example)}


def _parse_values(flag: str, text: str, known: Container[str], example: str) -> dict[str, Any]:
    """`key=value, key=[value, value]`."""
    parts = [part.partition("=") for part in re.split(r",(?![^\[]*\])", text)]  # not at the commas of a list
    keys = [key.strip() for key, _, _ in parts]
    if not all(sign for _, sign, _ in parts):
        raise InputError(f"{flag}: expected {example}")
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{flag}: {key} stands there twice")
        if key not in known:
            raise InputError(f"{flag}: {_unknown_key(key, known)}")
    try:
        return {key: yaml.safe_load(value) for key, (_, _, value) in zip(keys, parts, strict=True)}
    except yaml.YAMLError:
        raise InputError(f"{flag}: a value in it cannot be read") from None


def parse_attack(text: str) -> dict[str, Any]:
    """An attack as it is written in a flag: `pgd: eps=8/255, steps=10, through=[real, full]`."""
    kind, colon, rest = text.partition(":")
    example = '"KIND: key=value, …", such as "pgd: eps=8/255"'
    values = _parse_values(f"--attack {text!r}", rest, AttackSpec.model_fields, example) if colon else {}
    return {"kind": kind.strip(), **values}


def make_attack(values: dict[str, Any]) -> AttackSpec:
    """An attack from the values of flags."""
    try:
        return AttackSpec.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        message = problem["msg"].removeprefix("Value error, ")
        if not problem["loc"]:
            raise InputError(f"--{message}") from None
        flag = {"kind": "attack"}.get(str(problem["loc"][0]), str(problem["loc"][0]))
        raise InputError(f"--{flag} {problem['input']!r}: {message[0].lower()}{message[1:]}") from None


def readable(text: str) -> str:
    """The text as a name: what is neither letter nor digit becomes a hyphen."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-._+") or "study"


def make_study(values: dict[str, Any], source: str | None = None) -> Study:
    """A study from plain values. What is wrong with them is told in one sentence, which names the source.

    Without a source the values come from flags: the sentence then speaks of `--lr`, not of `train.lr`.
    """
    try:
        study = Study.model_validate(values)
    except ValidationError as error:
        problem = _first_problem(error, flags=source is None)
        raise InputError(problem if source is None else f"{source}: {problem}") from None
    return study


def read_study(path: Path) -> Study:
    """The study in a YAML file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"study {path} cannot be read: {getattr(error, 'strerror', None) or 'not a text'}") from None
    try:
        values = yaml.load(text, _UniqueKeys)
    except yaml.YAMLError as error:
        raise InputError(f"study {path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        kind = "nothing" if values is None else f"a {type(values).__name__}"
        raise InputError(f"study {path} holds {kind}; expected keys such as data, model, dummies, seeds")
    return make_study({"name": readable(path.stem), **values}, f"study {path}")


class _UniqueKeys(yaml.SafeLoader):
    """Safe YAML in which a key that stands twice is an error, instead of the last one winning unseen."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _first_problem(error: ValidationError, *, flags: bool) -> str:
    """The first thing that is wrong, with the place, the value, and what would be right."""
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "string_pattern_mismatch" and problem["loc"][-1] == "name":
        what = "--arm" if flags else place
        return (
            f"{what} {problem['input']!r}: a name begins with a letter or digit and has those, spaces and . _ + - in it"
        )
    if flags and problem["loc"]:
        place = "--" + str([part for part in problem["loc"] if isinstance(part, str)][-1]).replace("_", "-")
        place = f"--attack: {place[2:]}" if problem["loc"][0] == "attacks" else place
    if problem["type"] == "extra_forbidden":
        inner = {"train": TrainSpec.model_fields, "attacks": AttackSpec.model_fields}
        known = inner.get(str(problem["loc"][0]), _KEYS) if len(problem["loc"]) > 1 else _KEYS
        return _unknown_key(str(problem["loc"][-1]), known, inside=".".join(map(str, problem["loc"][:-1])))
    message = problem["msg"].removeprefix("Value error, ").replace("valid tuple", "valid list")
    if problem["type"] == "value_error":
        if flags and message.startswith("arm "):
            return f"--{message}"
        if flags and place and place != "--train":
            return f"{place.replace('--arms', '--arm or --dummies')} {message}"
        if flags:
            return _FIELD.sub(lambda field: "--" + field[0].replace("_", "-"), message)
        return f"{place}: {message}" if place else message
    return f"{place}{' ' if flags else '='}{problem['input']!r}: {message[0].lower()}{message[1:]}"


_KEYS = {*Study.model_fields, "dummies"}
_FIELD = re.compile(rf"\b({'|'.join([*TrainSpec.model_fields, *_KEYS])})\b")


def _unknown_key(key: str, known: Any, inside: str = "") -> str:
    close = get_close_matches(key, list(known), n=2)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"expected one of {', '.join(sorted(known))}"
    return f"unknown key {key!r}{f' in {inside}' if inside else ''}: {hint}"
