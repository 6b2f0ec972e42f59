"""How version 1 wrote the settings of methods: as flat keys among those of training, such as `vrex_weight`.

They are still read, in studies, in arms and in the descriptions of finished trials.
"""

from collections.abc import Mapping
from typing import Any

_FIELDS = {
    ("mixup",): ("alpha",),
    ("ema",): ("decay",),
    ("swa",): ("start",),
    ("swad",): ("converge", "tolerance", "ratio"),
    ("dann",): ("weight", "lr_scale"),
    ("vrex",): ("weight", "anneal"),
    ("rsc",): ("features", "batch"),
    ("mmd",): ("weight",),
    ("fgsm-at", "pgd-at"): ("eps", "norm", "steps", "step_size", "through", "clean"),
}
FLAT: Mapping[str, tuple[tuple[str, ...], str]] = {
    f"{methods[0].rpartition('-')[2]}_{field}": (methods, field)
    for methods, fields in _FIELDS.items()
    for field in fields
}
"""Flat key → the methods that it is a setting of, and its name there: `at_eps` is `eps` of both."""


def split_flat(settings: Any) -> tuple[Any, dict[str, Any]]:
    """The settings of training without the flat keys of methods, and these."""
    if not isinstance(settings, Mapping):
        return settings, {}
    flat = {key: value for key, value in settings.items() if key in FLAT}
    return {key: value for key, value in settings.items() if key not in FLAT}, flat


def with_flat(settings: Mapping[str, Any], flat: Mapping[str, Any], override: bool) -> dict[str, Any]:
    """The settings of an objective or averager with those flat keys that are its own, which may override them."""
    own = {FLAT[key][1]: value for key, value in flat.items() if settings.get("name") in FLAT[key][0]}
    return {**settings, **own} if override else {**own, **settings}
