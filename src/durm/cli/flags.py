"""From the texts of flags to values, and from what is wrong with values back to the words of flags."""

import re
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from durm.errors import InputError

if TYPE_CHECKING:
    from durm.study.code_study import CodeStudy
    from durm.study.config import Study
    from durm.training.trial import AttackSpec


def as_flag(name: str) -> str:
    """`--batch-size` of `batch_size`."""
    return "--" + name.replace("_", "-")


def parse_arm(text: str) -> dict[str, Any]:
    """An arm: `light: method={name: vrex, weight: 1}, train.lr=0.1`."""
    example = '"NAME: path=value, …", such as "smoothing: label_smoothing=0.1"'
    return _parse_named("--arm", text, "name", None, example)


def parse_code_arm(text: str) -> dict[str, Any]:
    """An arm of a command: `low: lr=1e-3`, or a name alone. Values stay as they are written."""
    import json

    name, _, rest = text.partition(":")
    example = '"NAME: parameter=value, …", such as "low: lr=0.01"'
    params = {} if name.strip() and not rest.strip() else _parse_named("--arm", text, "name", None, example)
    written = {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in _split(rest))}
    for key in [key for key in params if key != "name"]:
        try:
            if json.dumps(params[key], ensure_ascii=False) == written[key]:
                continue
        except (TypeError, ValueError):
            pass
        params[key] = params[key] if isinstance(params[key], list | dict) else written[key]
    return {"name": name.strip(), "params": {key: value for key, value in params.items() if key != "name"}}


def parse_method(text: str) -> str | dict[str, Any]:
    """A method: `vrex`, or `vrex: weight=10, anneal=100`."""
    example = '"NAME: key=value, …", such as "vrex: weight=10"'
    return _parse_named("--method", text, "name", None, example) if ":" in text else text


def parse_attack(text: str) -> dict[str, Any]:
    """An attack: `pgd: eps=8/255, steps=10, through=[real, full]`."""
    from durm.training.spec import AttackSpec

    known = [name for name in AttackSpec.model_fields if name != "version"]
    example = '"KIND: key=value, …", such as "pgd: eps=8/255"'
    return _parse_named("--attack", text, "kind", known, example) if ":" in text else {"kind": text.strip()}


def parse_search(texts: Sequence[str]) -> dict[str, Any]:
    """A search: `lr=1e-3..1e-1 log`, `batch_size=16..128`, `optimizer=sgd|adamw`."""
    import yaml

    found: dict[str, Any] = {}
    for text in texts:
        path, sign, domain = (part.strip() for part in text.partition("="))
        choices, (low, dots, high) = domain.split("|"), domain.partition("..")
        if not path or not sign or not (dots or choices[1:]):
            raise InputError(f'--search {text!r}: expected "PATH=LOW..HIGH", "PATH=LOW..HIGH log" or "PATH=ONE|OTHER"')
        if path in found:
            raise InputError(f"--search {text!r}: {path} is given twice")
        try:
            found[path] = {"choices": [yaml.safe_load(one) for one in choices]} if choices[1:] else [low, *high.split()]
        except yaml.YAMLError:
            raise InputError(f"--search {text[:200]!r}: a value in it cannot be read") from None
    return found


def parse_tracker(text: str) -> tuple[str, str | None]:
    """A tracker and where it writes: `tensorboard`, `mlflow:./runs`. It must be installed."""
    from durm.integrations.trackers import check_tracker

    name, colon, where = text.partition(":")
    if colon and not where:
        raise InputError(f"--track {text!r}: expected a folder after the colon, as in {name}:FOLDER")
    try:
        check_tracker(name)
    except InputError as error:
        raise InputError(f"--track {text!r}: {error}") from None
    return name, where or None


def _parse_named(flag: str, text: str, tag: str, known: Container[str] | None, example: str) -> dict[str, Any]:
    """`name: key=value, key=[value, value]`; without `known`, whether a key exists is checked later."""
    import yaml

    from durm.study.arm import unknown_key

    name, _, rest = text.partition(":")
    parts = [part.partition("=") for part in _split(rest)]
    values = {key.strip(): value for key, _, value in parts}
    if not name.strip() or not all(sign and key.strip() for key, sign, _ in parts):
        raise InputError(f"{flag} {text!r}: expected {example}")
    if tag in values:
        raise InputError(f"{flag} {text!r}: the {tag} stands before the colon; expected {example}")
    if len(values) < len(parts):
        twice = next(key for key in values if sum(part[0].strip() == key for part in parts) > 1)
        raise InputError(f"{flag} {text!r}: {twice} is given twice")
    for key in values:
        if known is not None and key not in known:
            raise InputError(f"{flag} {text!r}: {unknown_key(key, known)}")
    try:
        return {tag: name.strip(), **{key: yaml.safe_load(value) for key, value in values.items()}}
    except (yaml.YAMLError, RecursionError):
        raise InputError(f"{flag} {text[:200]!r}: a value in it cannot be read") from None


def _split(text: str) -> Iterator[str]:
    """At the commas that are not inside [] or {}."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def whole_numbers(text: str, flag: str) -> list[int]:
    """`3,5,8`; a comma at the end is allowed, so that `3,` is a list of one."""
    parts = text.rstrip(",").split(",")
    for part in parts:
        if not part.strip().isdecimal() or not part.strip().isascii():
            raise InputError(f"{flag} {text!r}: {part!r} is not a whole number of at least 0")
    return [int(part) for part in parts]


def study_from_flags(values: dict[str, Any], executor: str | None = None) -> "Study":
    """A study for that executor. What is wrong with it is said in the words of flags: `--lr`, not `train.lr`."""
    from durm.study.problems import StudyError
    from durm.study.reading import make_study
    from durm.study.runner import resolve_device

    try:
        return make_study({**values, "device": resolve_device(values.get("device", "cpu"), executor=executor)})
    except StudyError as error:
        raise InputError(in_flags(error.problem)) from None


def code_study_from_flags(values: dict[str, Any]) -> "CodeStudy":
    """A study of a program of the user's."""
    from durm.study.problems import StudyError
    from durm.study.reading import make_code_study

    try:
        return make_code_study(values)
    except StudyError as error:
        raise InputError(in_flags(error.problem)) from None


def attack_from_flags(values: dict[str, Any]) -> "AttackSpec":
    """An attack from the values of flags."""
    from pydantic import ValidationError

    from durm.study.problems import message_of
    from durm.training.spec import AttackSpec

    try:
        return AttackSpec.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        text = in_flags(problem) if problem["loc"] else f"--{message_of(problem)}"
        raise InputError(text.replace("--kind", "--attack")) from None


def in_flags(problem: Any) -> str:
    """The first thing that is wrong with a study, in the words of flags."""
    from durm.study.problems import KEYS, NAME_RULE, is_bad_name, message_of, unknown_setting
    from durm.training.spec import TrainSpec

    message, loc = message_of(problem), problem["loc"]
    if is_bad_name(problem):
        return f"--arm {problem['input']!r}: {NAME_RULE}"
    if problem["type"] == "extra_forbidden":
        return unknown_setting(problem)
    flag = ""
    if loc:
        name = [part for part in loc if isinstance(part, str)][-1]
        flag = f"--attack: {name}" if loc[0] == "attacks" else as_flag(name)
    if problem["type"] != "value_error":
        return f"{flag} {problem['input']!r}: {message[0].lower()}{message[1:]}"
    if message.startswith(("arm ", "search")):
        return f"--{message}"
    if flag and flag != "--train":
        return f"{flag.replace('--arms', '--arm or --dummies')} {message}"
    field = re.compile(rf"\b({'|'.join([*TrainSpec.model_fields, *KEYS])})\b(?!\.)")
    return field.sub(lambda found: as_flag(found[0]), message)


def options_as_flags(message: str) -> str:
    """A message in which options stand in backquotes, in the words of flags: `skip_bad` is --skip-bad."""
    return re.sub(r"`([a-z_]+)`", lambda found: as_flag(found[1]), message)
