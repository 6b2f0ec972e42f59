"""Settings as frozen records: strict, versioned, and with one canonical form of what they say.

A component (a training recipe, a method, an attack) owns its settings in one `Config` with defaults. Two rules keep the
identity of a finished run through upgrades:

- A new option has a default that does what was done before. `changed` leaves out defaults, so no identity changes.
- A default that must change makes a new version of that component: `VERSION` goes up, `EARLIER` keeps the old default,
  and a study that was begun before keeps the old version.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Positive = Annotated[int, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]


def _fraction(value: Any) -> Any:
    """`8/255` as a number, which is how ε is written."""
    if isinstance(value, str) and re.fullmatch(r"\s*[\d.]+\s*(/\s*[\d.]+\s*)?", value):
        over, _, under = value.partition("/")
        return float(over) / float(under or 1) if float(under or 1) else value
    return value


Epsilon = Annotated[float, BeforeValidator(_fraction), Field(ge=0, allow_inf_nan=False)]
StepSize = Annotated[float, BeforeValidator(_fraction), Field(gt=0, allow_inf_nan=False)]


class Strict(BaseModel):
    """A record that cannot be changed and that takes no key it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Config(Strict):
    """The settings of one component. Values that are not given are the defaults of its version, the newest one unless
    `version` says otherwise.

    Class attributes:
        VERSION: the newest version.
        EARLIER: version → those of its defaults that the next version changed.
        TAG: the field that tells components of one kind apart.
    """

    VERSION: ClassVar[int] = 1
    EARLIER: ClassVar[Mapping[int, Mapping[str, Any]]] = {}
    TAG: ClassVar[str | None] = None

    version: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_its_version(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        version = values.get("version", cls.VERSION)
        if not isinstance(version, int) or not 1 <= version <= cls.VERSION:
            raise ValueError(f"version {version!r}: expected 1 to {cls.VERSION}")
        return {**cls._earlier(version), **values, "version": version}

    @classmethod
    def _earlier(cls, version: int) -> dict[str, Any]:
        """The defaults of that version that the newest one does not have."""
        found: dict[str, Any] = {}
        for one in range(cls.VERSION - 1, version - 1, -1):
            found |= cls.EARLIER.get(one, {})
        return found

    def defaults(self) -> dict[str, Any]:
        """The defaults of this version. A field that must be given has none."""
        newest = {
            name: field.get_default(call_default_factory=True)
            for name, field in type(self).model_fields.items()
            if not field.is_required()
        }
        return newest | self._earlier(self.version)

    def changed(self) -> dict[str, Any]:
        """What differs from the defaults, as plain values of JSON; of components inside it, what differs from theirs.

        What must be given, and what tells components of one kind apart (`TAG`), is always in it; so is a version
        above 1.
        """
        defaults, found = self.defaults(), {}
        for name, value in self:
            default = defaults.get(name)
            if name == "version":
                if value > 1:
                    found[name] = value
            elif name == self.TAG or name not in defaults:
                found[name] = _plain(value)
            elif isinstance(value, Config) and isinstance(default, Config):
                if (inner := value.changed()) != default.tagged():
                    found[name] = inner
            elif value != default:
                found[name] = _plain(value)
        return found

    def tagged(self) -> dict[str, Any]:
        """What `changed` says of a component of this kind whose settings are all defaults of version 1."""
        return {} if self.TAG is None else {self.TAG: getattr(self, self.TAG)}


def _plain(value: Any) -> Any:
    if isinstance(value, Config):
        return value.changed()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value
