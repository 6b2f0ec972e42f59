"""Studies from plain values and from YAML files."""

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from durm._files import read_text
from durm._user_code import Trust, check_trusted, is_trusted
from durm.errors import InputError
from durm.study.base import BaseStudy
from durm.study.code_study import CodeStudy
from durm.study.config import Study
from durm.study.problems import StudyError


def make_study(values: dict[str, Any], source: str | None = None) -> Study:
    """A study of durm's own training loop from plain values.

    Raises:
        StudyError: with what is wrong in one sentence, which names the source.
    """
    try:
        return Study.make(values)
    except ValidationError as error:
        raise StudyError(error, source) from None


def make_code_study(values: dict[str, Any], source: str | None = None) -> CodeStudy:
    """A study of a function or a command from plain values; the same errors."""
    try:
        return CodeStudy.make(values)
    except ValidationError as error:
        raise StudyError(error, source, tuple(CodeStudy.model_fields)) from None


def read_any_study(path: Path, *, of_folder: bool = False, trust_code: bool = False) -> BaseStudy:
    """The study in a YAML file, to run it. That of a folder with runs in it pins its versions, or is version 1
    throughout; it is read and not run, which the store of the folder sees to.

    Raises:
        InputError: if it is no study, or names a command or a model `package.module:function`, which is code, without
            `trust_code`.
    """
    try:
        values = yaml.load(read_text(path, "study "), _UniqueKeys)
    except RecursionError:
        raise InputError(f"study {path} is nested too deeply to be a study") from None
    except (yaml.YAMLError, ValueError) as error:  # such as dates that do not exist
        if isinstance(error, InputError):
            raise
        raise InputError(f"study {path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        kind = "nothing" if values is None else f"a {type(values).__name__}"
        raise InputError(f"study {path} holds {kind}; expected keys such as data, model, dummies, seeds")
    pinned: dict[str, Any] = {"versions": {}} if of_folder else {}
    make = make_code_study if "run" in values else make_study
    study = make({"name": readable(path.stem), **pinned, **values}, f"study {path}")
    if not of_folder:
        check_code(study, f"study {path}", trust_code)
    return study


def read_study(path: Path, *, of_folder: bool = False) -> Study:
    """The same for a study of durm's own training loop, without code of the user's."""
    study = read_any_study(path, of_folder=of_folder)
    if not isinstance(study, Study):
        raise InputError(f"study {path} runs code that is not durm's; expected one of durm's own training loop")
    return study


def check_code(study: BaseStudy, source: str, trust_code: Trust) -> None:
    """Refuses a study that runs code which is not durm's, unless that is trusted. `source` is where it was read."""
    for name in study.code:
        if isinstance(study, CodeStudy) and not is_trusted(name, trust_code):
            raise InputError(f"{source} would run the {study.run.kind} {name!r}; if you trust it, give `trust_code`")
        check_trusted(name, source, trust_code)


def readable(text: str) -> str:
    """The text as a name: what is neither letter nor digit becomes a hyphen."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-._+") or "study"


class _UniqueKeys(yaml.SafeLoader):
    """Safe YAML in which a key that stands twice is an error, instead of the last one winning unseen."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)
