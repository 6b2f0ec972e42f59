"""Other people's training loops: Hugging Face transformers, Lightning, scikit-learn.

Import the one you need before transformers, lightning or torchvision: it lets torchvision be imported with a CPU torch.
"""

from importlib.util import find_spec

from durm import _torchvision as _torchvision


def need(extra: str, *modules: str) -> None:
    """Says what to install, where a library is missing that the integration is for."""
    for name in modules:
        if find_spec(name) is None:
            raise ModuleNotFoundError(
                f"durm.integrations.{extra} needs {name}, which is not installed: pip install 'durm[{extra}]'",
                name=name,
            )
