"""Code runs if the user asks for it, and only then; what fails in it is shown by its own lines."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import durm
from durm.errors import InputError
from durm.study.jobs import Execution
from durm.study.reading import make_study, read_study
from durm.study.runner import run_study
from durm.study.scenes import collect_scenes
from durm.study.store import Store
from durm.training.inference import load_model
from durm.training.trial import Trial
from tests.cli.calling import call, refusal
from tests.study import synthetic

SHADOWS = ("yaml", "torch", "numpy", "typer", "pydantic", "timm", "PIL", "pickle", "struct", "multiprocessing")
NETWORK = "from torch import nn\ndef make(num_classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, {}))\n"
COST = ("--epochs", "1", "--quiet")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def durm_in_a_process(*arguments: object, **options: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(durm.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", **options}
    command = [sys.executable, "-m", "durm", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


def evil(folder: Path, name: str = "evil") -> Path:
    """A module that leaves a file when it is imported. Returns that file."""
    ran = folder / f"{name}-ran"
    (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'w').close()\n" + NETWORK.format("num_classes"))
    return ran


def checkpoint(folder: Path, model: str, data: str = "digits") -> Path:
    path = folder / "checkpoint.pt"
    torch.save({"trial": Trial(data=data, model=model).model_dump_json(), "model": {}}, path)
    return path


# The current folder.


@pytest.mark.parametrize(
    "command",
    ["status .", pytest.param("data list", marks=pytest.mark.slow), pytest.param("models cn*", marks=pytest.mark.slow)],
)
def test_modules_in_the_current_folder_do_not_run(command: str, here: Path) -> None:
    for name in SHADOWS:
        evil(here, name)
    done = durm_in_a_process(*command.split())
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(here.glob("*-ran")) == []


def test_modules_in_the_current_folder_do_not_run_in_workers(here: Path) -> None:
    for name in SHADOWS:
        evil(here, name)
    done = durm_in_a_process("train", *COST, "--out", here / "out")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in here.glob("*-ran")] == []
    again = durm_in_a_process("status", here / "out")
    assert again.returncode == 0
    assert "done" in again.stdout


def test_a_model_of_ones_own_is_found_in_the_current_folder_and_installed_modules_stay_first(here: Path) -> None:
    """In the workers too."""
    shadows = [evil(here, name) for name in SHADOWS]
    ran = evil(here, "network")
    done = durm_in_a_process("train", *COST, "--model", "network:make", "--out", here / "out")
    assert done.returncode == 0, done.stderr
    assert ran.exists()
    assert [path.name for path in shadows if path.exists()] == []


def test_a_model_that_is_called_like_an_installed_module_is_the_installed_one(here: Path) -> None:
    ran = evil(here, "yaml")
    line = refusal(call("train", "--model", "yaml:make"))
    assert "'yaml:make'" in line
    assert "no function 'make'" in line
    assert not ran.exists()


# Files that name code.


@pytest.mark.parametrize("command", ["evaluate", "curvature", "probe", "evaluate --attack fgsm"])
def test_a_checkpoint_that_names_code_does_not_run_it(command: str, here: Path) -> None:
    ran = evil(here)
    path = checkpoint(here, "evil:make")
    first, *flags = command.split()
    line = refusal(call(first, path, *flags))
    for fragment in ("'evil'", "'evil:make'", str(path), "--trust-code"):
        assert fragment in line
    assert not ran.exists()
    assert "evil" not in sys.modules
    assert here.as_posix() not in sys.path
    assert "weights" in refusal(call(first, path, *flags, "--trust-code"))  # the checkpoint has none
    assert ran.exists()


def test_a_second_checkpoint_that_names_code_does_not_run_it_either(here: Path) -> None:
    ran = evil(here)
    own = here / "own"
    assert call("train", *COST, "--out", own).code == 0
    (ours,) = own.glob("trials/*/checkpoint.pt")
    line = refusal(call("evaluate", ours, "--attack", "fgsm", "--transfer-from", checkpoint(here, "evil:make")))
    assert "--trust-code" in line
    assert not ran.exists()


@pytest.mark.parametrize("text", ["model: evil:make", "arms: [{name: a}, {name: b, model: 'evil:make'}]"])
def test_a_study_that_names_code_does_not_run_it(text: str, here: Path) -> None:
    ran = evil(here)
    path = here / "study.yaml"
    path.write_text(f"{text}\nseeds: 1\ntrain: {{epochs: 1}}\n")
    line = refusal(call("run", path))
    for fragment in ("'evil'", "'evil:make'", str(path), "--trust-code"):
        assert fragment in line
    with pytest.raises(InputError, match="trust_code"):
        read_study(path)
    assert not ran.exists()


@pytest.mark.slow
def test_a_trusted_study_runs_and_is_opened_and_resumed(here: Path) -> None:
    ran = evil(here)
    path, out = here / "study.yaml", here / "out"
    path.write_text("model: evil:make\nseeds: 1\ndummies: [0, 1]\ntrain: {epochs: 1}\n")
    done = durm_in_a_process("run", path, "--trust-code", "--quiet", "--workers", "1", "--out", out)
    assert done.returncode == 0, done.stderr
    ran.unlink()
    assert call("status", out).code == 0
    assert call("report", out, "--quiet").code == 0  # reads results, and needs no model
    assert not ran.exists()
    store = Store.open(out)
    with pytest.raises(InputError, match=r"evil:make.*trust_code"):
        run_study(store, Execution(workers=0))
    assert not ran.exists()
    assert run_study(Store.open(out, trust_code=True), Execution(workers=0)).failed == {}


def test_a_study_of_ones_own_does_not_trust_what_its_checkpoints_name(here: Path) -> None:
    """To go on in a folder that came from others runs the models that were asked for, and no more."""
    ran = evil(here)
    store = Store.create(here / "out", make_study({"model": "mlp", "seeds": 1}))
    assert store.trusted_code == set()
    with pytest.raises(InputError, match="evil:make"):
        load_model(checkpoint(here, "evil:make"), trust_code=store.trusted_code)
    assert not ran.exists()


def test_a_report_that_would_draw_scenes_by_code_is_refused(here: Path) -> None:
    ran = evil(here)
    study = {"model": "evil:make", "data": "segmentation:scenes", "dummies": [0, 1], "seeds": 1}
    store = synthetic.store(here / "out", lambda trial: 90.0, **study)
    setting = SimpleNamespace(key=store.study.setting_names[0])
    opened = Store.open(here / "out")
    assert collect_scenes(opened, setting) is None  # without checkpoints there is nothing to import
    for trial in store.study.trials():
        (store.trial_folder(trial) / "checkpoint.pt").write_bytes(b"")
    with pytest.raises(InputError, match=r"evil:make.*'evil'.*trust_code"):
        collect_scenes(opened, setting)
    assert not ran.exists()


def test_hugging_face_never_runs_code_that_comes_with_a_model(here: Path) -> None:
    pytest.importorskip("transformers")
    from durm.models.text import huggingface

    folder, ran = here / "remote", here / "remote-ran"
    folder.mkdir()
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w')\n")
    names = '{"AutoConfig": "code.Config", "AutoModelForSequenceClassification": "code.Model"}'
    (folder / "config.json").write_text(f'{{"model_type": "unheard-of", "auto_map": {names}}}')
    for pretrained in (False, True):
        with pytest.raises(InputError, match="hf:"):
            huggingface(str(folder), 2, 100, pretrained=pretrained)
    assert not ran.exists()


# Errors in it.

BROKEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "while it is imported": ("x = 1\ny = 1 / 0\n", ("ZeroDivisionError", "net.py, line 2")),
    "syntax": ("def make(num_classes):\n    return (\n", ("SyntaxError", "net.py, line 2")),
    "ends the program": ("import sys\nsys.exit(3)\n", ("SystemExit: 3", "net.py, line 2")),
    "while it is made": (
        "def make(num_classes):\n    return helper(num_classes)\n"
        "def helper(n):\n    raise KeyError('wide\\x1b[31m\\nx')\n",
        ("KeyError", "net.py, line 2, in make; net.py, line 4, in helper"),
    ),
    "out of the library": (
        "from torch import nn\ndef make(num_classes):\n    return nn.Linear(-3, num_classes)\n",
        ("RuntimeError", "net.py, line 3, in make"),
    ),
    "forward": (
        "from torch import nn\nclass Net(nn.Sequential):\n"
        "    def forward(self, x):\n        raise IndexError('too far')\n"
        "def make(num_classes):\n    return Net(nn.Linear(64, num_classes))\n",
        ("IndexError: too far", "net.py, line 4, in forward"),
    ),
    "forward in training alone": (
        "from torch import nn\nclass Net(nn.Sequential):\n    def forward(self, x):\n        if self.training:\n"
        "            raise IndexError('too far')\n        return super().forward(x.flatten(1))\n"
        "def make(num_classes):\n    return Net(nn.Linear(64, num_classes))\n",
        ("IndexError: too far", "net.py, line 5, in forward"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_an_error_in_the_users_code_is_shown_by_its_own_lines(name: str, here: Path) -> None:
    text, fragments = BROKEN[name]
    (here / "net.py").write_text(text)
    line = refusal(call("train", *COST, "--model", "net:make"))
    for fragment in fragments:
        assert fragment in line, line
    assert "site-packages" not in line
    assert "\x1b" not in line
    assert "inference.py" not in line
    assert "check.py" not in line


@pytest.mark.slow
def test_an_error_in_a_trial_is_shown_by_the_users_own_lines(here: Path) -> None:
    """Which the check before the first trial does not see."""
    (here / "net.py").write_text(
        "from torch import nn\nclass Net(nn.Sequential):\n    calls = 0\n    def forward(self, x):\n"
        "        Net.calls += 1\n        if Net.calls > 5:\n            raise IndexError('too\\nfar')\n"
        "        return super().forward(x.flatten(1))\n"
        "def make(num_classes):\n    return Net(nn.Linear(64, num_classes))\n"
    )
    done = durm_in_a_process("train", "--epochs", "2", "--quiet", "--model", "net:make", "--out", here / "out")
    assert done.returncode == 1, done.stderr
    shown = done.stderr.splitlines()
    assert len(shown) == 2  # as it happened, and at the end
    for line in shown:
        assert "IndexError: too far (net.py, line 7, in forward)" in line
    (error,) = (here / "out").glob("trials/*/error.txt")
    assert "Traceback" in error.read_text()  # the whole of it is kept
