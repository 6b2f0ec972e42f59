"""Importing torchvision beside a CPU-only torch: the cure is needed, it works, and it keeps out of the way."""

import subprocess
import sys

import pytest

from durm import _torchvision

ERROR = "operator torchvision::nms does not exist"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_it_is_needed_exactly_where_the_compiled_operators_do_not_load() -> None:
    bare = run("import torchvision")
    if _torchvision._operators_load():
        assert bare.returncode == 0, bare.stderr
    else:
        assert ERROR in bare.stderr


def test_importing_the_models_cures_it() -> None:
    cured = run("import durm.models, torchvision, timm, segmentation_models_pytorch, torchmetrics; print('fine')")
    assert cured.stdout.strip() == "fine", cured.stderr


def test_importing_an_integration_cures_it() -> None:
    cured = run("import durm.integrations, torchvision; print('fine')")
    assert cured.stdout.strip() == "fine", cured.stderr


@pytest.mark.slow
def test_the_line_that_the_docs_give_comes_before_transformers_and_lightning() -> None:
    first = "from durm.integrations.transformers import DuRMTrainer"
    cured = run(f"{first}; from transformers import Trainer, ViTImageProcessor; import lightning; print('fine')")
    assert cured.stdout.strip() == "fine", cured.stderr


def test_what_needs_a_compiled_operator_still_says_so() -> None:
    code = "import durm.models, torch; from torchvision.ops import nms; nms(torch.zeros(1, 4), torch.zeros(1), 0.5)"
    result = run(code)
    assert (result.returncode == 0) == _torchvision._operators_load()


def test_declaring_twice_does_nothing() -> None:
    _torchvision.declare_operators()


def test_working_operators_are_left_alone(monkeypatch) -> None:
    """Declaring a schema before torchvision's own library loads would break that library."""
    import torch

    declared = []
    monkeypatch.setattr(torch.library, "define", lambda *arguments: declared.append(arguments))
    monkeypatch.setattr(_torchvision, "_declared", lambda: False)
    monkeypatch.setattr(_torchvision, "_operators_load", lambda: True)
    _torchvision.declare_operators()
    assert declared == []
    monkeypatch.setattr(_torchvision, "_operators_load", lambda: False)
    _torchvision.declare_operators()
    assert [name for name, _ in declared] == ["torchvision::nms", "torchvision::qnms"]


def test_without_torchvision_there_is_nothing_to_do(monkeypatch) -> None:
    monkeypatch.setattr(_torchvision, "find_spec", lambda name: None)
    assert _torchvision._operators_load()
