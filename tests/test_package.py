"""The package as a newcomer meets it: what it exports, what it imports, and its version."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import durm


def test_every_public_name_is_there_and_documented() -> None:
    for name in durm.__all__:
        assert getattr(durm, name).__doc__, name
        assert name in dir(durm)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'durm' has no attribute 'widden'"):
        durm.widden  # noqa: B018


def test_importing_durm_does_not_import_torch() -> None:
    code = "import sys, durm; assert 'torch' not in sys.modules; durm.widen; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_core_needs_nothing_but_torch() -> None:
    """torch's own requirements are allowed; what `durm[bench]` adds is not."""
    code = (
        "import sys\n"
        "class Wall:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'numpy', 'scipy', 'sklearn', 'timm', 'torchvision', 'pydantic'}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Wall())\n"
        "import torch, durm\n"
        "model = durm.widen(torch.nn.Linear(8, 5), 2)\n"
        "durm.cross_entropy(model(torch.zeros(1, 8)), torch.tensor([1]), 5, label_smoothing=0.1).backward()\n"
        "durm.narrow(model)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_commands_without_their_libraries_say_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; from durm.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "'typer'" in done.stderr
    assert "durm[bench]" in done.stderr


@pytest.mark.parametrize(
    ("module", "missing"),
    [("transformers", "transformers"), ("transformers", "accelerate"), ("lightning", "lightning"), ("skorch", "numpy")],
)
def test_integrations_without_their_libraries_say_what_to_install(module: str, missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import durm.integrations.{module}"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert f"durm.integrations.{module} needs {missing}" in last
    assert f"pip install 'durm[{module}]'" in last


def test_version() -> None:
    assert version("durm") == durm.__version__


def test_the_changelog_and_the_citation_name_the_version() -> None:
    """That of the release which a development version leads to."""
    release = durm.__version__.partition(".dev")[0]
    root = Path(__file__).parents[1]
    headings = [line for line in (root / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0] == f"## {release}"
    assert f"\nversion: {release}\n" in (root / "CITATION.cff").read_text()


@pytest.mark.parametrize(
    ("module", "name"),
    [("attacks", "Attack"), ("flatness", "measure"), ("probes", "watch"), ("theory", "minimum_probability")],
)
def test_modules_are_loaded_when_they_are_named(module: str, name: str) -> None:
    assert module in dir(durm)
    code = f"import sys, durm; assert 'torch' not in sys.modules; durm.{module}.{name}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_name_of_version_1_for_curvature_still_works() -> None:
    import durm.curvature
    import durm.flatness

    assert durm.flatness.measure is durm.curvature.measure
    assert {*durm.flatness.__all__} == {*durm.curvature.__all__}
