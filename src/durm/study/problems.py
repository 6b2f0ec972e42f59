"""What is wrong with the values of a study, in one sentence: the place, the value, and what would be right."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from durm.errors import InputError
from durm.study.arm import unknown_key
from durm.study.fields import StudyFields
from durm.training.trial import AttackSpec, TrainSpec

KEYS = ("average", "dummies", *(name for name in StudyFields.model_fields if name != "version"))
"""The keys of a study file."""
INNER = {"train": TrainSpec.model_fields, "attacks": AttackSpec.model_fields}


class StudyError(InputError):
    """Values that make no study. `problem` is the first thing that is wrong, as pydantic tells it."""

    def __init__(self, error: ValidationError, source: str | None = None, keys: Sequence[str] = KEYS) -> None:
        self.problem: Any = error.errors()[0]
        text = describe_problem(error, keys)
        super().__init__(f"{source}: {text}" if source else text)


def describe_problem(error: ValidationError, keys: Sequence[str] = KEYS) -> str:
    """The first thing that is wrong, in the words of a study file."""
    problem: Any = error.errors()[0]
    place, message = ".".join(map(str, problem["loc"])), message_of(problem)
    if is_bad_name(problem):
        return f"{place} {problem['input']!r}: {NAME_RULE}"
    if problem["type"] == "extra_forbidden":
        return unknown_setting(problem, keys)
    if problem["type"] == "value_error":
        return f"{place}: {message}" if place else message
    return f"{place}={problem['input']!r}: {message[0].lower()}{message[1:]}"


NAME_RULE = "a name begins with a letter or digit and has those, spaces and . _ + - in it"


def is_bad_name(problem: Any) -> bool:
    return bool(problem["type"] == "string_pattern_mismatch" and problem["loc"][-1] == "name")


def unknown_setting(problem: Any, keys: Sequence[str] = KEYS) -> str:
    """Of a key that does not exist: where it stands, and which one may have been meant."""
    loc = problem["loc"]
    known = INNER.get(str(loc[0]), keys) if len(loc) > 1 else keys
    return unknown_key(str(loc[-1]), [name for name in known if name != "version"], inside=".".join(map(str, loc[:-1])))


def message_of(problem: Any) -> str:
    text: str = problem["msg"].removeprefix("Value error, ").replace("valid tuple", "valid list")
    return text
