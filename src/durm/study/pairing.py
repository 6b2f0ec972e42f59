"""Which runs are no pairs, because they saw other data."""

from collections.abc import Mapping

from durm.study.base import Key
from durm.study.config import Study
from durm.training.result import Provenance, Result


def runs_on_other_data(study: Study, results: Mapping[Key, Result]) -> list[Key]:
    """The runs whose data are not those of the baseline under the same seed, or of the first arm that is done.

    The content of their files is compared where both runs have its hash, and the fingerprints of their samples. An arm
    that brings a model of its own may cut texts into other tokens, so its fingerprint may differ; an arm that brings
    data of its own is not compared.
    """
    if any(arm.overrides_axis("data") for arm in study.arms):
        return []
    tokens_differ = any(arm.overrides_axis("model") for arm in study.arms)
    apart: list[Key] = []
    first: dict[tuple[str | int, ...], Provenance] = {}  # of each setting and seed; the baseline comes first
    for key in (key for key, _ in study.cells() if key in results):
        ours = results[key].provenance
        theirs = first.setdefault((*key[:3], key[4]), ours)
        if _differ(ours.data_sha256, theirs.data_sha256) or (not tokens_differ and _differ(ours.data, theirs.data)):
            apart.append(key)
    return apart


def without_record(results: Mapping[Key, Result]) -> int:
    """How many runs have no hash of the content of their data, if others have one."""
    lacking = sum(result.provenance.data_sha256 is None for result in results.values())
    return 0 if lacking == len(results) else lacking


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
