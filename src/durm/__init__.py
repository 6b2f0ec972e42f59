"""durm: Dummy Risk Minimization for PyTorch.

Give a C-class classifier C + C_d logits, train it with the ordinary cross-entropy on the ordinary labels, and drop the
C_d dummy logits afterwards:

    model = durm.widen(model, dummies=2)  # train as always: C + 2 logits
    model.eval()                          # evaluate as always: C logits
    model = durm.narrow(model)            # the C-class model again

The names below are loaded on first use (PEP 562), so that `import durm` alone does not pay for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from durm import attacks as attacks
    from durm import curvature as curvature
    from durm import probes as probes
    from durm import theory as theory
    from durm.api import compare, verdict
    from durm.exporting import Exported, export
    from durm.heads import dummies, full_logits, narrow, narrow_state_dict, pad_to_multiple, widen
    from durm.losses import CrossEntropyLoss, PushPull, cross_entropy, push_pull
    from durm.scores import dummy_hits, dummy_mass, probabilities
    from durm.study_result import StudyResult

__version__ = "0.1.0.dev0"

__all__ = [
    "CrossEntropyLoss",
    "Exported",
    "PushPull",
    "StudyResult",
    "compare",
    "cross_entropy",
    "dummies",
    "dummy_hits",
    "dummy_mass",
    "export",
    "full_logits",
    "narrow",
    "narrow_state_dict",
    "pad_to_multiple",
    "probabilities",
    "push_pull",
    "verdict",
    "widen",
]

_HOME = {
    **dict.fromkeys(("Exported", "export"), "exporting"),
    **dict.fromkeys(("dummies", "full_logits", "narrow", "narrow_state_dict", "pad_to_multiple", "widen"), "heads"),
    **dict.fromkeys(("CrossEntropyLoss", "PushPull", "cross_entropy", "push_pull"), "losses"),
    **dict.fromkeys(("compare", "verdict"), "api"),
    "StudyResult": "study_result",
    **dict.fromkeys(("dummy_hits", "dummy_mass", "probabilities"), "scores"),
}


_NEEDS_BENCH = ("StudyResult", "compare", "verdict")
_MODULES = ("attacks", "curvature", "flatness", "probes", "theory")
"""Modules that need torch alone, and are loaded when they are named: `durm.probes.watch`."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"durm.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'durm' has no attribute {name!r}")
    try:
        value: object = getattr(import_module(f"durm.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if name not in _NEEDS_BENCH or (error.name or "").startswith("durm"):
            raise
        raise ModuleNotFoundError(
            f"durm.{name} needs {error.name}, which is not installed: pip install 'durm[bench]'", name=error.name
        ) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
