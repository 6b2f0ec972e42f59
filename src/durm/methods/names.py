"""From what a user writes to the settings of a method: `vrex`, `{name: vrex, weight: 10}`, `mixup+ema`."""

from collections.abc import Mapping
from typing import Any

from pydantic import SerializeAsAny, ValidationError

from durm._config import Config, Strict
from durm._registry import Registry
from durm.errors import InputError, unknown
from durm.methods.averager import AVERAGERS, AveragerConfig
from durm.methods.objective import OBJECTIVES, ObjectiveConfig
from durm.methods.version1 import with_flat


class Method(Strict):
    """An objective and, if there is one, an averager."""

    objective: SerializeAsAny[ObjectiveConfig]
    average: SerializeAsAny[AveragerConfig] | None = None

    @property
    def name(self) -> str:
        """`erm`, `mixup+ema`; `ema` is short for `erm+ema`."""
        if self.average is None:
            return self.objective.name
        return self.average.name if self.objective.name == "erm" else f"{self.objective.name}+{self.average.name}"

    def written(self) -> Any:
        """As a user would write it, with every setting: `erm`, `{name: vrex, weight: 10.0, anneal: 500}`."""
        settings = self.objective.model_dump(mode="json", exclude={"version"})
        if self.average is not None:
            settings["average"] = self.average.model_dump(mode="json", exclude={"version"})
        return settings["name"] if len(settings) == 1 else settings


Versions = Mapping[str, int]
"""Component → version, as in `{"method.vrex": 2}`; what is not in there is version 1."""


def parse_method(
    value: Any, flat: Mapping[str, Any] | None = None, versions: Versions | None = None, *, override: bool = False
) -> Method:
    """The method that a name or a mapping stands for: `vrex+swad`, `{name: vrex, weight: 10, average: swad}`.

    `flat` are settings as version 1 wrote them; see `durm.methods.version1`. What the value says itself goes first,
    unless they are to override it. Without `versions` the newest ones count. An `InputError` says which part is
    unknown, that there are two of a kind, or which setting is wrong.
    """
    if isinstance(value, Method):
        return value
    if isinstance(value, ObjectiveConfig):
        return Method(objective=value)
    settings = _mapping(value)
    names, average = str(settings.pop("name", "")).split("+"), settings.pop("average", None)
    known = [*OBJECTIVES.names(), *AVERAGERS.names()]
    for name in names:
        if name not in known:
            raise unknown("method", name, known)
    objectives = [name for name in names if name in OBJECTIVES.names()]
    averagers = [*(name for name in names if name in AVERAGERS.names()), *([average] if average is not None else [])]
    if len(objectives) > 1 or len(averagers) > 1:
        shown = "+".join(names)
        raise InputError(f"method {shown!r} names two of a kind; expected one objective, one averaging, or one of each")
    if averagers and not objectives and average is None:  # the settings are those of the averager
        objective, average = {"name": "erm"}, {"name": averagers[0], **settings}
    else:
        objective, average = {"name": (objectives or ["erm"])[0], **settings}, (averagers or [None])[0]
    if average is not None and not isinstance(average, AveragerConfig):
        average = as_averager(with_flat(_mapping(average), flat or {}, override), versions)
    return Method(objective=as_objective(with_flat(objective, flat or {}, override), versions), average=average)


def as_objective(value: Any, versions: Versions | None = None) -> ObjectiveConfig:
    """The settings of an objective, from its name or a mapping."""
    config: ObjectiveConfig = _config("method", ObjectiveConfig, OBJECTIVES, value, versions)
    return config


def as_averager(value: Any, versions: Versions | None = None) -> AveragerConfig:
    """The settings of an averager, from its name or a mapping."""
    config: AveragerConfig = _config("average", AveragerConfig, AVERAGERS, value, versions)
    return config


def with_average(method: Any, average: Any) -> Any:
    """A method, as a user writes it, with an averager, unless it has one of its own or there is none."""
    if average is None or isinstance(method, Method | ObjectiveConfig):
        return method
    return {"average": average, **_mapping(method)}


def newest_versions() -> dict[str, int]:
    """Of every method and averager."""
    return {
        f"{kind}.{name}": registry[name].Config.VERSION
        for kind, registry in (("method", OBJECTIVES), ("average", AVERAGERS))
        for name in registry.names()
    }


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {"name": value}


def _config(kind: str, base: type[Config], registry: Registry[Any], value: Any, versions: Versions | None) -> Any:
    """The settings, checked. What is wrong is said with the name of the component."""
    if isinstance(value, base):
        return value
    settings = _mapping(value)
    if not isinstance(name := settings.get("name"), str):
        raise InputError(f"{kind} {value!r}: expected a name, or a mapping with a name")
    config = registry[name].Config
    pinned = {} if versions is None else {"version": versions.get(f"{kind}.{name}", 1)}
    try:
        return config.model_validate({**pinned, **settings})
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        message = (f"{place}={problem['input']!r}: " if place else "") + message[0].lower() + message[1:]
        if problem["type"] == "extra_forbidden":
            fields = [field for field in config.model_fields if field not in ("name", "version")]
            message = str(unknown("setting", place, fields))
        raise InputError(f"{kind} {name!r}: {message}") from None
