"""What is minimised and which weights are kept: objectives and averagers, one file each.

A method is `vrex`, or `{name: vrex, weight: 10}`; an averager stands in `average`, or behind a plus: `mixup+ema`. Each
file has the class, its `Config` with the defaults, and the equation. Nothing else repeats a name or a default of it.
"""

from durm.methods.averager import AVERAGERS, Averager, AveragerConfig, Length
from durm.methods.names import Method, Versions, as_averager, as_objective, newest_versions, parse_method, with_average
from durm.methods.objective import NO_TARGET, OBJECTIVES, Batch, Objective, ObjectiveConfig, ObjectiveContext, risk

__all__ = [
    "AVERAGERS",
    "NO_TARGET",
    "OBJECTIVES",
    "Averager",
    "AveragerConfig",
    "Batch",
    "Length",
    "Method",
    "Objective",
    "ObjectiveConfig",
    "ObjectiveContext",
    "Versions",
    "as_averager",
    "as_objective",
    "newest_versions",
    "parse_method",
    "risk",
    "with_average",
]
