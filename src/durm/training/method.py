"""What a method's name stands for: an objective, an averager, or both, as in `mixup+ema`."""

from durm.averaging import AVERAGERS
from durm.errors import InputError, unknown
from durm.objectives import OBJECTIVES


def parse_method(name: str) -> tuple[str, str | None]:
    """The names of the objective, erm where none is named, and of the averager, if any.

    Raises:
        InputError: if a part is unknown, or there are two of a kind.
    """
    known = [*OBJECTIVES.names(), *AVERAGERS.names()]
    parts = name.split("+")
    for part in parts:
        if part not in known:
            raise unknown("method", part, known)
    objectives = [part for part in parts if part in OBJECTIVES.names()]
    averagers = [part for part in parts if part in AVERAGERS.names()]
    if len(objectives) > 1 or len(averagers) > 1:
        raise InputError(f"method {name!r} names two of a kind; expected one objective, one averaging, or one of each")
    return objectives[0] if objectives else "erm", averagers[0] if averagers else None
