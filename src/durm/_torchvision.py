"""Lets torchvision be imported with a CPU-only torch.

Import this before torchvision, timm, segmentation_models_pytorch, transformers, lightning or torchmetrics, which all
import it. `durm.models` and `durm.integrations` do so.

torchvision's wheel on PyPI is built for CUDA. With a CPU-only torch its compiled operators cannot be loaded, and the
import then dies with "operator torchvision::nms does not exist", because torchvision registers a shape rule for an
operator that nobody declared. Declaring the schemas is enough: models, data sets and transforms need no such operator.

Where the operators do load, or torchvision is absent, this module does nothing.
"""

from importlib.util import find_spec
from pathlib import Path

import torch

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def _declared() -> bool:
    return hasattr(torch.ops.torchvision, "nms")


def _operators_load() -> bool:
    """Whether torchvision's compiled operators can be loaded (or there is no torchvision that would want them)."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return True
    for library in Path(spec.origin).parent.glob("_C*"):
        try:
            torch.ops.load_library(library)
        except OSError:
            continue
        return True
    return False


def declare_operators() -> None:
    """Declares `torchvision::nms` and `torchvision::qnms` if nothing else does."""
    if _declared() or _operators_load():
        return
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", _SCHEMA)


declare_operators()
