"""Every metric of a classifier, from all of its logits at once."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from durm.metrics import measure
from durm.metrics.classification import predictions_of


def classification_metrics(
    logits: Tensor, targets: Tensor, num_classes: int, groups: Mapping[str, Sequence[int]] | None = None
) -> dict[str, float]:
    return measure("classification", predictions_of(lambda: (logits,), targets, num_classes, groups))
