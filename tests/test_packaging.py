"""The wheel and the source distribution hold what durm needs, and durm runs from them outside the checkout."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "durm"
pytestmark = pytest.mark.slow


def build(project: Path, out: Path, *targets: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *(f"-t{target}" for target in targets)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {*archive.namelist()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build(ROOT, out, "wheel", "sdist")
    return out


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    present = {path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {f"durm/{path.relative_to(SOURCE)}" for path in present} == {
        name for name in names(wheel) if name.startswith("durm/")
    }
    assert {path.suffix for path in present} == {".py", ".typed", ".json", ".yaml", ".jinja"}


def test_it_requires_torch_alone_and_offers_the_extras(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    (metadata,) = (name for name in names(wheel) if name.endswith("METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    required = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", text, re.MULTILINE)
    assert required == ["torch"]
    assert {"bench", "transformers", "lightning", "skorch"} <= {
        *re.findall(r"^Provides-Extra: (\w+)", text, re.MULTILINE)
    }


def test_the_source_distribution_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (project,) = tmp_path.iterdir()
    build(project, tmp_path / "dist", "wheel")
    (ours,), (theirs,) = built.glob("*.whl"), (tmp_path / "dist").glob("*.whl")
    assert names(ours) == names(theirs)


def test_durm_runs_from_the_wheel_outside_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "OMP_NUM_THREADS": "1"}

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert str(tmp_path / "installed") in run("-c", "import durm; print(durm.__file__)")
    small = ["--model", "mlp", "--epochs", "1", "--seeds", "2", "--dummies", "0,1", "--workers", "1", "--quiet"]
    run("-m", "durm", "compare", *small, "--out", "study")
    assert "<html" in (tmp_path / "study" / "report.html").read_text()
    assert "longtail" in run("-m", "durm", "reproduce")
