"""What was set: the difference from the defaults, which can be read, and the whole of it, which can be run again."""

import datetime
from collections.abc import Mapping
from typing import Any

import yaml

from durm._files import stamp
from durm.study.records import Summary
from durm.study.store import Store

ALWAYS = ("name", "data", "model", "arms", "seeds", "metric", "rope")
"""Shown even if they have their default: what a study is about."""


def changed_settings(study: Any) -> dict[str, Any]:
    """What differs from the defaults, nested settings too: a shorter spec of the same study."""
    written = study.written()
    optional = {name: field for name, field in type(study).model_fields.items() if not field.is_required()}
    defaults = {name: field.get_default(call_default_factory=True) for name, field in optional.items()}
    default = study.model_copy(update=defaults).written()
    changed: dict[str, Any] = {}
    for name, value in written.items():
        other = default.get(name) if name in optional else None
        if isinstance(value, dict) and isinstance(other, dict):
            value = {key: inner for key, inner in value.items() if key not in other or other[key] != inner}
            if value:
                changed[name] = value
        elif name in ALWAYS or name not in optional or value != other:
            changed[name] = (
                value[0] if isinstance(value, list) and len(value) == 1 and name in ("data", "model") else value
            )
    seeds = changed.get("seeds")
    return {**changed, "seeds": len(seeds)} if seeds and seeds == [*range(len(seeds))] else changed


def as_yaml(values: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True, width=100, default_flow_style=None)


def arms_of(summary: Summary, study: Any | None) -> dict[str, str]:
    """What each arm overrides, or how many dummies it has; nothing of arms of which only the name is known."""
    written = study.written().get("arms", []) if study is not None else []
    named = written.items() if isinstance(written, dict) else ((arm["name"], arm) for arm in written)
    overrides = {name: arm.get("params", {key: arm[key] for key in arm if key != "name"}) for name, arm in named}
    found: dict[str, str] = {}
    for setting in summary.settings:
        for arm in setting.arms:
            changes = overrides.get(arm.arm) or ({} if arm.dummies is None else {"dummies": arm.dummies})
            text = ", ".join(f"{key} = {value}" for key, value in changes.items())
            baseline = "the baseline" if arm.arm == setting.arms[0].arm else ""
            if text or study is not None:
                found.setdefault(arm.arm, "; ".join(part for part in (baseline, text) if part) or "nothing changed")
    return found


def last_day(store: Store | None) -> str:
    """When the last trial was finished; without trials, today."""
    stamps = map(stamp, store.folder.glob("trials/*/result.json")) if store is not None else ()
    times = [found[1] / 1e9 for found in stamps if found is not None]
    day = datetime.datetime.fromtimestamp(max(times), datetime.timezone.utc) if times else None
    return f"{day.date() if day else datetime.datetime.now(datetime.timezone.utc).date()}"
